"""The diagrams of the seeds as scripts: each goes as it says, under every engine that it names.

And each line says something: with any one expectation turned into its contrary the script fails at
that line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from thence.sim.scene import SceneFailure, play
from thence.sim.script import Line, Script, read_script

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
CASES = [(path, engine) for path in SCRIPTS for engine in read_script(path).engines]

each_case = pytest.mark.parametrize(
    ("path", "engine"), CASES, ids=[f"{path.stem}-{engine}" for path, engine in CASES]
)

DIAGRAMS = """
    out-of-order-unicast out-of-order-multicast garg-12.1
    thesis-14 thesis-15 thesis-16 thesis-17 thesis-19 thesis-23 thesis-24
"""

CONTRARY = {
    "expect_before": "expect_concurrent",
    "expect_concurrent": "expect_before",
    "expect_sees_before": "expect_sees_concurrent",
    "expect_sees_concurrent": "expect_sees_before",
    "expect_violation": "expect_no_violation",
    "expect_no_violation": "expect_violation",
}


def contrary(line: Line, script: Script) -> Line:
    """What cannot hold if the line does."""
    if line.kind in CONTRARY:
        return msgspec.structs.replace(line, kind=CONTRARY[line.kind])
    if line.kind == "expect_held":  # its sender has it
        sender = next(each for each in script.lines if each.message == line.message)
        return msgspec.structs.replace(line, node=sender.node)
    if line.kind == "expect_vector":
        return msgspec.structs.replace(line, numbers=(*line.numbers, 1))
    return msgspec.structs.replace(line, names=(*line.names, "another"))


def turned(script: Script, engine: str) -> Iterator[tuple[Line, Script]]:
    """The script with one of the expectations on this engine turned, each in turn."""
    for at, line in enumerate(script.lines):
        if line.kind.startswith("expect") and (not line.only or engine in line.only):
            lines = (*script.lines[:at], contrary(line, script), *script.lines[at + 1 :])
            yield line, msgspec.structs.replace(script, lines=lines)


def test_every_diagram_is_there():
    assert set(DIAGRAMS.split()) <= {path.stem for path in SCRIPTS}


@each_case
def test_it_goes_as_the_script_says(path: Path, engine: str):
    play(read_script(path), engine)


@each_case
def test_no_expectation_holds_whatever_happens(path: Path, engine: str):
    asked = 0
    for line, script in turned(read_script(path), engine):
        asked += 1
        with pytest.raises(SceneFailure) as caught:
            play(script, engine)
        assert str(caught.value).startswith(f"{path}:{line.number}: under {engine}: ")
    assert asked, "a script expects something of every engine that it names"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_it_says_what_it_shows_and_how_it_was_read(path: Path):
    text = path.read_text(encoding="utf-8")
    opening = text[: text.index("\nengine ")]
    assert "(seed" in opening
    assert "How it is read" in opening
