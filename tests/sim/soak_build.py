"""A copy of the package, in build/soak, with all compiled that long runs spend their time in.

    python -m tests.sim.soak_build
    PYTHONPATH=build/soak python -m tests.sim.soak_elastic

The same sources, the same results: ``--digest`` shows it.  What users install has only the engine
compiled: this form cannot be debugged, subclassed or have bugs put in, and some of what a node had
is never given back, so whoever runs many must start new processes.

It takes some minutes; nothing is done when the sources are those of the last time.
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "soak"
STAMP = FOLDER / ".built"

# Beside the engine.  Not those with Structs: mypyc drops what stands behind the base of a class.
MODULES = {
    "causal": "context matrix",
    "client": "application attendance away bucket council driver elastic events exchange flow "
    "flushing handing handover hearsay hub ledger lobby newcomer reception recovery roster shelf "
    "spool suspicion tracing waiters waiting",
    "link": "cookie datagram fragment reliable rtt",
    "sim": "elastic elastic_life elastic_node node pipes stage",
    "wire": "codec frame",
}


def sources() -> list[str]:
    """What is compiled, relative to the folder that the package is in."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = [name.removeprefix("src/") for name in settings["tool"]["thence"]["compiled"]]
    for package, names in MODULES.items():
        found += [f"thence/{package}/{name}.py" for name in names.split()]
    return found


def build() -> None:
    """Copy and compile."""
    package = ROOT / "src" / "thence"
    files = {path.relative_to(package.parent): path for path in sorted(package.rglob("*.py"))}
    stamp = b"".join(path.read_bytes() for path in (*files.values(), Path(__file__)))
    if STAMP.exists() and STAMP.read_bytes() == stamp:
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, path in files.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, FOLDER / name)
    os.chdir(FOLDER)
    os.environ["MYPYPATH"] = str(FOLDER)
    options = ["--config-file=", "--explicit-package-bases", "--ignore-missing-imports"]
    options += ["--follow-imports=silent", "--cache-dir", str(ROOT / "build" / "soak_cache")]
    modules = mypycify(
        options + sources(), opt_level="2", debug_level="0", target_dir="c", group_name="soak"
    )
    setup(
        name="soak", packages=[], ext_modules=modules,
        script_args=["--quiet", "build_ext", "--inplace"],
    )  # fmt: skip
    STAMP.write_bytes(stamp)


if __name__ == "__main__":
    sys.exit(build())
