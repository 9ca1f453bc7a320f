"""The architecture is tested: layers, types, lint, and what an import may load.

``make lint`` runs the same tools; here they also guard a plain run of the tests (mypy shares its
cache, so the second run costs little).
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tracked import ROOT

LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

TOOLS = {
    "ruff check": ["-m", "ruff", "check", "--output-format", "concise", "."],
    "ruff format": ["-m", "ruff", "format", "--check", "--output-format", "concise", "."],
    "mypy --strict": ["-m", "mypy", "--strict", "src"],
    "import-linter": ["-c", LINT_IMPORTS],
}


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tree_passes(tool: str):
    done = subprocess.run(
        [sys.executable, *TOOLS[tool]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def loaded_by(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_importing_thence_loads_no_loop_and_no_extra():
    """A Spark executor that needs one checker must not pay for a network stack."""
    assert not loaded_by("import thence") & {"asyncio", "numpy", "pyarrow", "cyclopts", "rich"}


def test_engines_and_wire_need_msgspec_alone():
    loaded = loaded_by("import thence.engine.registry, thence.wire.codec")
    assert not loaded & {"asyncio", "numpy", "pyarrow", "cyclopts", "rich", "socket"}


def test_every_engine_is_in_the_contract_that_keeps_engines_apart():
    from thence.engine.registry import ENGINES

    (contract,) = (
        contract
        for contract in SETTINGS["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == ["thence.engine"]
    )
    listed = {name.strip(" ()") for layer in contract["layers"] for name in layer.split("|")}
    # An engine may share the file of its plain variant: cbcast-e2e lives in cbcast.
    families = {spec.make.__module__.rpartition(".")[2] for spec in ENGINES.values()}
    assert families <= listed


def test_one_list_of_compiled_modules():
    """setup.py and the Makefile read the list of pyproject.toml, the program that of forms."""
    from thence.forms import COMPILED

    names = SETTINGS["tool"]["thence"]["compiled"]
    assert not [name for name in names if not Path(ROOT, name).is_file()]
    assert [f"src/{module.replace('.', '/')}.py" for module in COMPILED] == names
