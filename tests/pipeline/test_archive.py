"""The archive that Spark starts from: where it is, when it is made, when it is not used."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from thence.pipeline import archive as module
from thence.pipeline.archive import (
    ARCHIVES_MAX,
    ATTEMPT_S,
    SWITCH,
    WITHOUT_ARCHIVE,
    Archive,
    archive_for,
    damaged,
    install,
    joined,
    make_later,
)
from thence.pipeline.jvm import Java

JAVA_17 = Java(Path("/jdk-17"), "17.0.15", None)
JAVA_25 = Java(Path("/jdk-25"), "25.0.2", None)


@pytest.fixture
def spark_folder(tmp_path: Path) -> Path:
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    for name in ("a.jar", "b.jar"):
        (tmp_path / "spark" / "jars" / name).write_bytes(b"classes")
    return tmp_path / "spark"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "cache" / "spark-4-java-25-0.aot", aot=True)


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were started, instead of starting them."""
    commands: list[list[str]] = []

    def spawn(path: str, command: list[str], env: object, **rest: object) -> int:
        commands.append(command)
        return 1

    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(os, "posix_spawn", spawn)
    return commands


def make(archive: Archive, content: bytes = b"archive") -> None:
    folder = archive.path.parent / "making"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "part").write_bytes(content)
    install(archive, folder / "part")


def found(java: Java, spark_folder: Path, **environ: str) -> Archive | None:
    return archive_for(java, spark_folder, "4.3.0", environ)


def test_each_java_and_each_spark_has_its_own(spark_folder: Path, tmp_path: Path):
    def name(java: Java) -> str:
        there = found(java, spark_folder, HOME=str(tmp_path))
        assert there is not None
        assert there.path.parent == tmp_path / ".cache" / "thence"
        return there.path.name

    names = [name(JAVA_17), name(JAVA_25), name(Java(Path("/other"), "25.0.2", None))]
    (spark_folder / "jars" / "b.jar").write_bytes(b"other classes")
    names.append(name(JAVA_25))
    (spark_folder / "jars" / "b.jar").touch()  # installed again: Java looks at the time too
    os.utime(spark_folder / "jars" / "b.jar", ns=(1, 1))
    names.append(name(JAVA_25))
    assert len(set(names)) == 5
    assert names[-1] == name(JAVA_25)


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "/no/such/folder"}, {SWITCH: "0"}])
def test_none_is_kept_without_a_home_or_when_switched_off(
    environ: dict[str, str], spark_folder: Path, tmp_path: Path
):
    if SWITCH in environ:
        environ = {**environ, "HOME": str(tmp_path)}
    assert found(JAVA_25, spark_folder, **environ) is None


def test_the_quick_compiler_is_used_unless_an_aot_cache_makes_up_for_it(tmp_path: Path):
    aot, shared = Archive(tmp_path / "a.aot", aot=True), Archive(tmp_path / "a.jsa", aot=False)
    assert aot.options() == shared.options() == WITHOUT_ARCHIVE
    make(aot)
    make(shared)
    assert f"-XX:AOTCache={aot.path}" in aot.options()
    assert "-XX:TieredStopAtLevel=1" not in aot.options()
    assert f"-XX:SharedArchiveFile={shared.path}" in shared.options()
    assert "-XX:TieredStopAtLevel=1" in shared.options()
    for each in (aot, shared):
        assert "-XX:+VerifySharedSpaces" in each.options()


def test_options_survive_spaces_and_quotes():
    assert joined(("-XX:A=/a b/c", "-Dit=it's")) == """'-XX:A=/a b/c' '-Dit=it'"'"'s'"""


def test_an_archive_that_was_cut_short_is_none(archive: Archive):
    make(archive, b"0123456789")
    assert archive.exists
    archive.path.write_bytes(b"01234")
    assert not archive.exists
    assert archive.options() == WITHOUT_ARCHIVE


def test_one_attempt_a_day(archive: Archive, spawned: list[list[str]]):
    """Whether it is under way, has failed, or has made one that Java does not take."""
    assert make_later(archive)
    assert not make_later(archive)
    command = [sys.executable, "-m", "thence.pipeline.train", str(archive.path)]
    assert spawned == [command]
    (mark,) = archive.path.parent.iterdir()
    long_ago = time.time() - ATTEMPT_S - 60
    os.utime(mark, (long_ago, long_ago))
    assert make_later(archive)
    make(archive)
    os.utime(mark, (long_ago, long_ago))
    assert not make_later(archive), "there is one"
    assert len(spawned) == 2


def test_none_is_made_in_ci_nor_where_nothing_can_be_written(
    tmp_path: Path, archive: Archive, spawned: list[list[str]], monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").touch()
    assert not make_later(Archive(tmp_path / "file" / "a.aot", aot=True))
    monkeypatch.setattr(module, "FREE_BYTES_MIN", 1 << 70)
    assert not make_later(archive)
    monkeypatch.undo()
    monkeypatch.setenv("CI", "true")
    assert not make_later(archive)
    assert not spawned


def test_the_least_recently_used_archive_goes(tmp_path: Path):
    archives = [Archive(tmp_path / f"spark-{n}.aot", aot=True) for n in range(ARCHIVES_MAX + 1)]
    for age, each in enumerate(archives[:-1]):
        make(each)
        os.utime(each.path, (age, age))
    archives[0].used()
    make(archives[-1])
    assert [each.exists for each in archives] == [True, False, *[True] * (ARCHIVES_MAX - 1)]
    assert not list(tmp_path.glob("spark-1*"))


@pytest.mark.parametrize(
    "line",
    [
        "[0.443s][warning][cds,dynamic] Unable to use archive. The top archive failed to load",
        "[0.407s][warning][aot] Checksum verification failed.",
        "[0.004s][warning][aot] Header checksum verification failed.",
        "[0.007s][warning][aot] The AOT cache has been truncated.",
        "[0.004s][warning][aot                ] Unable to read the file header.",
    ],
)
def test_what_java_says_of_a_damaged_archive_is_understood(line: str):
    assert damaged(["WARNING: Using incubator modules", line])


def test_what_java_says_otherwise_is_no_damage():
    said = "[0.6s][warning][aot] Failed to link AdapterHandlerEntry (fp=L) to its code"
    assert not damaged([said, "checksum", "[0.1s][warning][os] truncated"])


@pytest.mark.soak  # half a minute of CPU time, a gigabyte of memory
@pytest.mark.timeout(1200)
def test_an_archive_is_made_used_and_given_up_when_damaged(tmp_path: Path):
    environ = {k: v for k, v in os.environ.items() if k != "CI"}
    environ |= {"XDG_CACHE_HOME": str(tmp_path / "a cache"), SWITCH: "1"}

    def run(*words: str) -> str:
        command = [sys.executable, *words]
        done = subprocess.run(
            command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout

    session = """
from thence.pipeline.session import spark_session
session = spark_session("local[1]")
assert session.range(10).count() == 10
name = "java.lang.management.ManagementFactory"
bean = getattr(session._jvm, name).getRuntimeMXBean()
print(*bean.getInputArguments(), sep="\\n")
"""
    run("-m", "thence.pipeline.train")
    folder = tmp_path / "a cache" / "thence"
    (made,) = (path for path in folder.iterdir() if path.suffix in (".aot", ".jsa"))
    assert str(made) in run("-c", session)
    (folder / f"{made.name}.attempt").touch()  # or the damaged one would be made again
    made.chmod(0o644)
    with made.open("r+b") as file:
        file.seek(made.stat().st_size // 2)
        file.write(os.urandom(1 << 20))
    assert str(made) in run("-c", session), "it starts with it, and without its help"
    assert not made.exists(), "the next one starts without it"
