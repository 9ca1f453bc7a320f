"""The language of scripts: what is read, and what is refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracked import ROOT
from thence.errors import UnusableInputError
from thence.sim.script import FORMS, parse_script, read_script

HEAD = "engine fifo, tagged\nnodes a b c\n"
SCENARIOS = ROOT / "tests" / "scenarios"


def test_a_line_becomes_its_parts():
    script = parse_script(HEAD + '[fifo]  a  sends m1 to b c "a # b" # why\n')
    assert script.engines == ("fifo", "tagged")
    assert script.nodes == ("a", "b", "c")
    line = script.lines[0]
    assert (line.number, line.kind, line.only) == (3, "send", ("fifo",))
    assert (line.node, line.message, line.nodes) == ("a", "m1", ("b", "c"))
    assert line.said == "a # b"


def test_a_list_may_be_empty():
    script = parse_script(HEAD + "a sends m\nexpect order at b: nothing\nexpect stable at b: m")
    assert [line.names for line in script.lines] == [(), (), ("m",)]


@pytest.mark.parametrize(
    ("text", "number", "what"),
    [
        ("nodes a b", 1, "begins with its engines"),
        ("engine fife", 1, "no engine 'fife'; there are unordered, tagged"),
        ("engine fifo\na sends m", 2, "after the engines come the nodes"),
        ("engine fifo\nnodes a", 2, "at least two"),
        ("engine fifo\nnodes a a", 2, "'a' cannot be the name of one node"),
        ("engine fifo\nnodes a all", 2, "'all' cannot be the name of one node"),
        (HEAD, 2, "nothing happens"),
        (HEAD + "a shouts m", 3, "not an event or expectation: a shouts m"),
        (HEAD + "nodes d e", 3, "not an event or expectation"),
        (HEAD + "d sends m", 3, "no node 'd'; there are a b c"),
        (HEAD + "a sends m to b d", 3, "no node 'd'"),
        (HEAD + "a sends m to a", 3, "a is sent nothing of its own"),
        (HEAD + "a sends nothing", 3, "'nothing' cannot be the name of a message"),
        (HEAD + "a sends m\n\n# a comment\nb sends m", 6, "'m' is sent in line 3 already"),
        (HEAD + "network brings m to b", 3, "nobody has sent 'm' yet"),
        (HEAD + "a sends m\nexpect m before n", 4, "nobody has sent 'n' yet"),
        (HEAD + "a sends m\nexpect order at b: m n", 4, "nobody has sent 'n' yet"),
        (HEAD + "a sends m\nexpect violation fast", 4, "not an event or expectation"),
        (HEAD + "[vector] a sends m", 3, "vector is not among the engines of this script"),
        (HEAD + "[vect] a sends m", 3, "no engine 'vect'"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(text: str, number: int, what: str):
    with pytest.raises(UnusableInputError) as caught:
        parse_script(text, "dir/some.txt")
    assert str(caught.value).startswith(f"dir/some.txt:{number}: ")
    assert what in str(caught.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path):
    with pytest.raises(UnusableInputError, match=r"none\.txt cannot be read"):
        read_script(tmp_path / "none.txt")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(UnusableInputError, match=r"bytes\.txt cannot be read"):
        read_script(tmp_path / "bytes.txt")


def test_the_reference_has_every_form():
    page = (ROOT / "docs/reference/simulator.md").read_text(encoding="utf-8")
    assert [form for form in FORMS.values() if f"`{form}`" not in page] == []
