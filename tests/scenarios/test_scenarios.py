"""The diagrams of the seeds as scripts: each goes as it says, under every engine that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from thence.sim.scene import play
from thence.sim.script import read_script

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
CASES = [(path, engine) for path in SCRIPTS for engine in read_script(path).engines]


@pytest.mark.parametrize(
    ("path", "engine"), CASES, ids=[f"{path.stem}-{engine}" for path, engine in CASES]
)
def test_it_goes_as_the_script_says(path: Path, engine: str):
    play(read_script(path), engine)
