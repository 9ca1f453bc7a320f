"""The members file, as lines and as TOML."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thence.config.members import FILE_BYTES_MAX, read_members
from thence.errors import UnusableInputError


def written(folder: Path, text: str | bytes, name: str = "members.txt") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def refusal(file: Path) -> str:
    with pytest.raises(UnusableInputError) as raised:
        read_members(file)
    return str(raised.value).replace(str(file), "FILE")


def test_lines_and_comments(tmp_path: Path):
    text = "# three\n\n a\ttcp://h:1  # the first\r\nc tcp://h:3\nb udp://[::1]:2"
    members = read_members(written(tmp_path, text))
    assert list(members.items()) == [("a", "tcp://h:1"), ("c", "tcp://h:3"), ("b", "udp://[::1]:2")]


def test_toml(tmp_path: Path):
    text = '[members]\na = "tcp://h:1"\n"b c" = "mem://b"\n'
    file = written(tmp_path, text, "members.toml")
    assert read_members(file) == {"a": "tcp://h:1", "b c": "mem://b"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a", "FILE:1: 'a'; expected: name address"),
        ("\na tcp://h:1 x", "FILE:2: 'a tcp://h:1 x'; expected: name address"),
        ("a tcp://h:1\na tcp://h:2", "FILE:2: 'a' is there a second time"),
        (
            "a h:1",
            "FILE:1: member.a is 'h:1'; expected an address such as tcp://host:port",
        ),
        ("# nobody", "FILE: names no members; expected lines of: name address"),
        (b"a tcp://\xff", "FILE: not UTF-8 at byte 8"),
        (b"#" * (FILE_BYTES_MAX + 1), "FILE: larger than 1,048,576 bytes"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str | bytes, sentence: str):
    assert refusal(written(tmp_path, text)) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "FILE: holds nothing; expected one table [members]"),
        ('a = "tcp://h:1"', "FILE: holds a; expected one table [members]"),
        (
            "[members]\na = 7",
            "FILE: members.a is 7; expected an address such as tcp://host:port",
        ),
        (
            "members = 7",
            "FILE: members is 7; expected NAME = an address such as tcp://host:port",
        ),
        ("[members]", "FILE: names no members; expected lines of: name address"),
    ],
)
def test_wrong_toml_is_named(tmp_path: Path, text: str, sentence: str):
    assert refusal(written(tmp_path, text, "m.toml")) == sentence


def test_a_missing_file_is_named(tmp_path: Path):
    assert refusal(tmp_path / "nosuch") == "FILE: No such file or directory"
    with pytest.raises(UnusableInputError):
        read_members("a\0b")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60), st.sampled_from(["m.txt", "m.toml"]))
def test_any_bytes_are_members_or_refused(tmp_path: Path, data: bytes, name: str):
    file = written(tmp_path, data, name)
    try:
        members = read_members(file)
    except UnusableInputError as error:
        assert str(file) in str(error)
    else:
        assert members
