"""The archive that Spark starts from: its classes, loaded and verified before.

Most of Spark's start is Java reading some 10,000 classes.  Java can keep them in a file that it
maps the next time: class data sharing (Java 17 and later), the AOT cache (Java 25 and later, the
larger gain).  Making one takes a session of its own (see ``train``) and some 40 s of CPU time;
docs/howto/spark.md has what it saves.  So it is made once for each Java and Spark, after a session
has ended, by a process of low priority that nobody waits for.  Nothing depends on it: without an
archive, or with one that Java rejects, Spark starts as before.

``THENCE_SPARK_ARCHIVE=0`` turns this off: none is made, none is used.  Where ``CI`` is set none is
made: such machines are gone before it would help.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from thence.pipeline.jvm import Java

SWITCH: Final = "THENCE_SPARK_ARCHIVE"
JAVA_AOT_MIN: Final = 25
"""The first Java whose AOT cache is made in one step; older ones share class data."""
ARCHIVES_MAX: Final = 3
"""Kept for other versions of Java and Spark; the least recently used goes first."""
ATTEMPT_S: Final = 24 * 3600
"""After an attempt, the next one that long after it: one that fails will fail again."""
FREE_BYTES_MIN: Final = 1 << 30
"""An archive takes some 200 MB, and nobody wants it on a full disk."""
# Serial: a heap of a few GB that holds little; collectors with more threads take more to start.
COLLECTOR: Final = ("-XX:+UseSerialGC",)
# Most of a short session is start-up, which the quick compiler alone halves; long ones want the
# thorough one.  With an AOT cache both start as fast, unless the cache was made with the thorough
# compiler: then it starts by compiling what was hot before.
QUICK: Final = ("-XX:TieredStopAtLevel=1",)
WITHOUT_ARCHIVE: Final = COLLECTOR + QUICK
_DAMAGED: Final = re.compile(
    r"\[(?:cds|aot)[\w, ]*\].*(?:[Cc]hecksum|truncated|file header|top archive failed)"
)


class Archive(msgspec.Struct, frozen=True):
    """Where the archive for one Java and one Spark is, whether or not it is there."""

    path: Path
    aot: bool

    @property
    def exists(self) -> bool:
        """Whether it is there, and whole: some Javas crash on one that was cut short."""
        try:
            return self.path.stat().st_size == int(_beside(self, "size").read_text())
        except (OSError, ValueError):
            return False

    def options(self) -> tuple[str, ...]:
        """Of the JVM, to start with the archive if it is there."""
        if not self.exists:
            return WITHOUT_ARCHIVE
        # Verify: a file that was damaged since is rejected instead of crashing the JVM later.
        name = "AOTCache" if self.aot else "SharedArchiveFile"
        use = (f"-XX:{name}={self.path}", "-XX:+VerifySharedSpaces")
        return COLLECTOR + (() if self.aot else QUICK) + use

    def options_to_make(self, part: Path) -> tuple[str, ...]:
        """Of the JVM, to write an archive to ``part`` when it ends."""
        name = "AOTCacheOutput" if self.aot else "ArchiveClassesAtExit"
        return COLLECTOR + QUICK + (f"-XX:{name}={part}", "-Xlog:disable")

    def used(self) -> None:
        """Note that it was, so that another one goes first."""
        with contextlib.suppress(OSError):
            os.utime(self.path)

    def drop(self) -> None:
        for path in (self.path, _beside(self, "size")):
            with contextlib.suppress(OSError):
                path.unlink()


def archive_for(
    java: Java, spark_home: Path, spark_version: str, environ: Mapping[str, str] = os.environ
) -> Archive | None:
    """The archive for this Java and this Spark; None if there shall be none.

    Only in a cache folder of the user's: a temporary folder is no place for 200 MB.
    """
    if environ.get(SWITCH) == "0":
        return None
    cache = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        home = environ.get("HOME", "")
        if not os.path.isabs(home) or not os.path.isdir(home):
            return None
        cache = os.path.join(home, ".cache")
    what = [os.path.realpath(java.home), java.version, os.path.realpath(spark_home)]
    # Java takes an archive only for the very files it was made of, and so does the name.
    for jar in sorted(os.scandir(spark_home / "jars"), key=lambda jar: jar.name):
        what.append(f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}")
    key = hashlib.sha256("\0".join(what).encode()).hexdigest()[:12]
    aot = java.feature >= JAVA_AOT_MIN
    name = f"spark-{spark_version}-java-{java.feature}-{key}.{'aot' if aot else 'jsa'}"
    return Archive(Path(cache, "thence", name), aot)


def damaged(printed: Iterable[str]) -> bool:
    """Whether a JVM said, while it started, that the archive it was given is not what was made."""
    return any(_DAMAGED.search(line) for line in printed)


def joined(options: tuple[str, ...]) -> str:
    """Options as Spark takes them: one text, quoted as in a shell."""
    return shlex.join(options)


def make_later(archive: Archive) -> bool:
    """Start a process that makes the archive, if it is time to; it outlives this one.

    Whether it was started.  To be called when this process has nothing more to do.
    """
    if "CI" in os.environ or not sys.executable or archive.exists or not _claim(archive):
        return False
    quiet = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    quiet += [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    command = [sys.executable, "-m", "thence.pipeline.train", os.fspath(archive.path)]
    try:
        os.posix_spawn(sys.executable, command, os.environ, file_actions=quiet, setsid=True)
    except (OSError, NotImplementedError):
        return False
    return True


def _claim(archive: Archive) -> bool:
    """Take the one attempt of the day; False if another process has, or there is no room."""
    mark = _beside(archive, "attempt")
    try:
        archive.path.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(archive.path.parent).free < FREE_BYTES_MIN:
            return False
        with contextlib.suppress(FileNotFoundError):
            if time.time() - mark.stat().st_mtime > ATTEMPT_S:
                mark.unlink()
        mark.touch(exist_ok=False)
    except OSError:
        return False
    return True


def install(archive: Archive, part: Path) -> None:
    """Put what was made in its place, whole, and let old archives go."""
    size = part.with_name("size")
    size.write_text(str(part.stat().st_size))
    archive.drop()
    os.replace(part, archive.path)
    os.replace(size, _beside(archive, "size"))
    folder = archive.path.parent
    there = [path for path in folder.glob("spark-*") if path.suffix in (".aot", ".jsa")]
    there.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in there[ARCHIVES_MAX:]:
        Archive(path, aot=False).drop()


def _beside(archive: Archive, what: str) -> Path:
    return archive.path.with_name(f"{archive.path.name}.{what}")
