"""Wheel and sdist, built from a clean copy and installed in fresh environments.

Needs a package index and minutes, so only CI runs it (marker ``packaging``).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.tracked import ROOT, copy_tree

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]

WHERE = "import thence, thence.engine.tagged as t; print(t.__file__)"
SECONDS_MAX = 500


def run(*command: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run outside the repository, so that only what was installed can be imported."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("THENCE_", "PYTHON"))}
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**inherited, "THENCE_OPT": "0", **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind: str, folder: Path, **env: str) -> Path:
    """Build ``--wheel`` or ``--sdist`` in isolation, from a copy without anything built."""
    copy_tree(folder / "tree")
    ok(run(sys.executable, "-m", "build", kind, folder / "tree", cwd=folder, **env))
    (built,) = (folder / "tree" / "dist").iterdir()
    return built


def fresh(folder: Path, name: str = "env") -> Path:
    """The bin folder of a new environment."""
    venv.create(folder / name, with_pip=True)
    return folder / name / "bin"


def has_compiler() -> bool:
    return os.environ.get("THENCE_COMPILE") == "1"


def install(bin_: Path, *names: object, **env: str) -> None:
    ok(run(bin_ / "python", "-m", "pip", "install", "--quiet", *names, cwd=bin_, **env))


def flagship(bin_: Path, **env: str) -> str:
    """The file that an import of the flagship loads."""
    return ok(run(bin_ / "python", "-c", WHERE, cwd=bin_, **env)).strip()


def check_core(bin_: Path) -> None:
    """What must hold without extras."""
    installed = ok(run(bin_ / "python", "-m", "pip", "freeze", cwd=bin_))
    assert {line.partition("==")[0].partition(" ")[0] for line in installed.splitlines()} <= {
        "thence",
        "msgspec",
        "setuptools",  # environments of Python 3.11 bring it
    }, "the core needs msgspec alone"
    ok(run(bin_ / "thence", "--help", cwd=bin_))
    bare = run(bin_ / "thence", "engines", cwd=bin_)
    assert bare.returncode == 2
    assert "pip install 'thence[all]'" in bare.stderr
    assert flagship(bin_, THENCE_PURE="1").endswith("tagged.py"), "both forms stay loadable"


def check_command_line(bin_: Path) -> None:
    """What must hold with the extra ``cli``."""
    assert "tagged" in ok(run(bin_ / "thence", "engines", cwd=bin_))
    assert ok(run(bin_ / "python", "-m", "thence", "--version", cwd=bin_)).startswith("thence ")


def test_the_wheel_holds_both_forms_and_works(tmp_path: Path):
    env = {"THENCE_COMPILE": "1"} if has_compiler() else {}
    wheel = build("--wheel", tmp_path, **env)
    names = zipfile.ZipFile(wheel).namelist()
    assert "thence/py.typed" in names
    assert "thence/engine/tagged.py" in names
    assert not [name for name in names if name.endswith((".c", ".h")) or "tests/" in name]
    binaries = [name for name in names if name.endswith(".so")]
    if has_compiler():
        assert any(name.startswith("thence/engine/tagged.") for name in binaries)
        assert any(name.startswith("thence__mypyc.") for name in binaries)
    else:
        assert not binaries
        assert wheel.name.endswith("-py3-none-any.whl")
    bin_ = fresh(tmp_path)
    install(bin_, wheel)
    assert flagship(bin_).endswith(".so") == has_compiler()
    check_core(bin_)
    install(bin_, f"{wheel}[cli]")
    check_command_line(bin_)


def test_the_sdist_holds_the_sources_and_installs(tmp_path: Path):
    sdist = build("--sdist", tmp_path)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "setup.py"} <= names
    assert {"src/thence/py.typed", "src/thence/engine/tagged.py"} <= names
    assert not [name for name in names if name.endswith((".so", ".c"))]
    bin_ = fresh(tmp_path)
    install(bin_, f"{sdist}[cli]")
    assert flagship(bin_).endswith(".so") == has_compiler()
    check_command_line(bin_)

    without_compiler = fresh(tmp_path, "without-compiler")
    install(without_compiler, sdist, CC="/bin/false")
    assert flagship(without_compiler).endswith("tagged.py")
    check_core(without_compiler)


def test_a_compiler_that_must_work_and_does_not_is_an_error():
    done = run(
        sys.executable,
        "setup.py",
        "--quiet",
        "build_ext",
        cwd=ROOT,
        CC="/bin/false",
        THENCE_COMPILE="1",
    )
    assert done.returncode != 0
    assert "THENCE_COMPILE=1" in done.stderr
