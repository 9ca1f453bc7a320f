"""Compile the flagship with mypyc when that is possible; install it as pure Python when it is not.

Everything declarative is in pyproject.toml; this file holds only the decision to compile:

    nothing set         compile if mypyc and a C compiler are there, else one line says why not
    THENCE_PURE=1       never compile
    THENCE_COMPILE=1    compile or fail (what CI sets, so that the fallback cannot hide a mistake)
    THENCE_OPT=0        what the C compiler does for speed, 0 to 3 (3 unless it is set): tests of
                        the packaging ask for 0, which compiles in a fifth of the time

The .py of a compiled module is installed too: the interpreted form stays loadable beside it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
PURE = os.environ.get("THENCE_PURE") == "1"
REQUIRED = os.environ.get("THENCE_COMPILE") == "1"
OPT = os.environ.get("THENCE_OPT") or "3"
# Commands that need the extensions; metadata and sdist must not pay for (or need) mypyc.
BUILDS = {"bdist_wheel", "build", "build_ext", "editable_wheel", "install"}


def notice(why: str) -> None:
    """Say in one line that the pure form is being installed, or stop when that is not wanted."""
    if REQUIRED:
        raise SystemExit(f"thence: THENCE_COMPILE=1 but {why}")
    print(f"thence: installing the pure Python form ({why})", file=sys.stderr)


def sources() -> list[str]:
    """The modules to compile, relative to the root, in the order of pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [name for name in settings["tool"]["thence"]["compiled"] if (ROOT / name).is_file()]


def compiler_works() -> bool:
    """Whether a C file that needs Python's headers compiles here."""
    from setuptools._distutils.ccompiler import new_compiler
    from setuptools._distutils.sysconfig import customize_compiler, get_python_inc

    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder, "probe.c")
        probe.write_text("#include <Python.h>\nint main(void) { return 0; }\n", encoding="ascii")
        try:
            compiler = new_compiler()
            customize_compiler(compiler)
            compiler.compile([str(probe)], output_dir=folder, include_dirs=[get_python_inc()])
        except Exception:  # every platform has its own error for a missing compiler
            return False
    return True


def extensions() -> list[Extension]:
    """What mypyc makes of the flagship; empty when this build is to be pure."""
    if not BUILDS.intersection(sys.argv) or not sources():
        return []
    if PURE:
        notice("THENCE_PURE=1")
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        notice("mypyc is not installed")
        return []
    if not compiler_works():
        notice("no working C compiler with Python's headers")
        return []
    try:
        # Complaints about modules that are only imported are the business of make lint.
        options = ["--cache-dir", "build/mypy_cache", "--follow-imports", "silent"]
        return list(
            mypycify(
                options + sources(),
                opt_level=OPT,
                strip_asserts=False,
                target_dir="build/mypyc",
                group_name="thence",
            )
        )
    except (Exception, SystemExit) as error:  # mypyc prints its report, then exits
        notice(f"mypyc failed: {type(error).__name__} {error}")
        return []


class OptionalBuildExt(build_ext):
    """build_ext whose failure leaves an installable pure package, with no half-built module."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            for output in self._built():
                output.unlink(missing_ok=True)
            self.extensions = []
            self.distribution.ext_modules = []
            notice(f"the C compiler failed: {error}")

    def _built(self) -> list[Path]:
        full_path: Callable[[str], Any] = self.get_ext_fullpath
        return [Path(full_path(extension.name)) for extension in self.extensions]


os.chdir(ROOT)
setup(ext_modules=extensions(), cmdclass={"build_ext": OptionalBuildExt})
