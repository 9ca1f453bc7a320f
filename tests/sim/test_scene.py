"""Scripts as they are played: what does not hold is told with file, line and engine."""

from __future__ import annotations

from typing import Any

import pytest

from thence.engine import fifo
from thence.engine.registry import ENGINES
from thence.message import Phantom
from thence.sim.orders import Orders
from thence.sim.scene import Scene, SceneFailure, play
from thence.sim.script import SCRIPT_ENGINES, parse_script

QUESTION = """\
engine unordered, fifo, tagged, graph, vector, cbcast
nodes a b c
a sends m1
network brings m1 to b
b takes m1
b sends m2
network brings m2 to c
"""


def fails(engine: str, *lines: str) -> str:
    """What is said of the last line, which must be the one that fails."""
    text = QUESTION + "\n".join(lines)
    with pytest.raises(SceneFailure) as caught:
        play(parse_script(text, "dir/some.txt"), engine)
    where = f"dir/some.txt:{len(text.splitlines())}: under {engine}: {lines[-1]}: "
    assert str(caught.value).startswith(where)
    return str(caught.value).removeprefix(where)


@pytest.mark.parametrize(
    ("engine", "lines", "what"),
    [
        ("fifo", ["expect c holds back m2"], "it does not: it took [] and holds back []"),
        ("tagged", ["expect c holds back m1"], "it does not: it took [] and holds back ['m2']"),
        ("tagged", ["expect c holds back m2 for m2"], "it waits for m1"),
        ("tagged", ["c takes m2"], "nothing is ready for c"),
        ("fifo", ["network brings m1 to c", "c takes m1"], "m2 is next for c"),
        ("fifo", ["c takes all", "expect order at c: nothing"], "it is m2"),
        ("tagged", ["c takes all", "expect order at c: m2"], "it is nothing"),
        ("tagged", ["expect m2 before m1"], "m2 is after m1"),
        ("fifo", ["expect m1 concurrent m2"], "m1 is before m2"),
        ("tagged", ["expect b sees m1 concurrent m2"], "m1 is before m2"),
        ("graph", ["expect b sees m2 before m1"], "m2 is after m1"),
        ("vector", ["expect b sees m1 concurrent m2"], "m1 is before m2"),
        ("tagged", ["expect c sees m1 before m2"], "c has no m1"),
        ("fifo", ["expect b sees m1 before m2"], "this engine gives applications no tags"),
        ("tagged", ["expect stable at b: m1"], "it is nothing"),
        ("tagged", ["expect context of m2: m2"], "it is m1"),
        ("vector", ["expect context of m2: m1"], "this engine tags with vectors"),
        ("vector", ["expect vector of m2: 0 1 0"], "it is 1 1 0"),
        ("graph", ["expect vector of m2: 1 1 0"], "this engine tags with dots"),
        ("fifo", ["expect violation fifo"], "there is none"),
        ("tagged", ["c takes all", "expect violation causal"], "there is none"),
        ("fifo", ["c takes all", "expect no violation causal"], "c took m2 before m1"),
        ("fifo", ["network brings m2 to c"], "it is not on its way to c"),
        ("tagged", ["b passes on m2"], "its middleware has no such request to take"),
        ("vector", ["b announces"], "this engine has no phantoms"),
        ("vector", ["b sends m3 to c"], "this engine sends to everyone only"),
    ],
)
def test_a_wrong_line_fails_with_file_line_and_engine(engine: str, lines: list[str], what: str):
    assert fails(engine, *lines).startswith(what)


def test_an_engine_that_breaks_its_word_fails_though_the_script_does_not_mind(
    monkeypatch: pytest.MonkeyPatch,
):
    """The oracle judges at the end what no line asked for."""

    def careless(members: Any, slot: int, options: Any) -> Any:
        return SCRIPT_ENGINES["unordered"].make(members, slot, options)

    text = "engine fifo\nnodes a b\na sends m1\na sends m2\nnetwork brings m2 to b\nb takes all\n"
    script = parse_script(text, "some.txt")
    assert play(script, "fifo").took == [[], ["m1", "m2"]]
    changed = {field: getattr(fifo.SPEC, field) for field in fifo.SPEC.__struct_fields__}
    changed["make"] = careless
    monkeypatch.setitem(SCRIPT_ENGINES, "fifo", type(fifo.SPEC)(**changed))
    with pytest.raises(SceneFailure, match=r"some\.txt:6: under fifo: .*b took m2 before m1"):
        play(script, "fifo")


def test_what_never_arrives_is_missing_at_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Orders, "missing", lambda self: ["b never took a:1"])
    text = "engine fifo\nnodes a b\na sends m1\n"
    with pytest.raises(SceneFailure, match=r"at the end: b never took m1"):
        play(parse_script(text), "fifo")


def test_without_fifo_links_an_engine_that_needs_them_is_not_judged():
    text = "engine unordered\nnodes a b\na sends m1\na sends m2\nnetwork brings m2 to b\n"
    scene = play(parse_script(text), "unordered")
    assert scene.overtaken
    assert scene.took[1] == ["m2", "m1"]
    in_order = play(parse_script(text.replace("m2 to b", "m1 to b")), "unordered")
    assert not in_order.overtaken


def test_a_message_that_comes_once_more_is_not_held_back():
    text = "engine fifo\nnodes a b\na sends m1\nnetwork brings m1 to b\nb takes m1\n"
    script = parse_script(text)
    scene = Scene(script, "fifo")
    scene.step(script.lines[0])
    again = scene.cluster.in_flight[0]
    for line in script.lines[1:]:
        scene.step(line)
    scene.cluster.network_deliver(*again)
    assert scene.here[1] == set()
    assert scene.took[1] == ["m1"]


def test_what_a_node_refuses_fails_the_line():
    script = parse_script("engine fifo\nnodes a b\na sends m1\n")
    scene = Scene(script, "fifo")
    scene.step(script.lines[0])
    with pytest.raises(SceneFailure, match=r"script:3: under fifo: .*b refused it: wrong-kind"):
        scene.cluster.network_deliver(0, 1, Phantom(0, 1, ()))


def test_phantoms_make_messages_stable_without_more_messages():
    text = """\
engine tagged, graph
nodes a b c
a sends m1
network brings m1 to b c
b takes m1
c takes m1
b announces
c announces
network brings the phantom of b to a
a takes all
expect stable at a: nothing
network brings the phantom of c to a
a takes all
expect stable at a: m1
"""
    script = parse_script(text)
    for engine in script.engines:
        play(script, engine)


def test_a_script_may_name_every_engine():
    assert list(SCRIPT_ENGINES) == ["unordered", *ENGINES]
    for engine in SCRIPT_ENGINES:
        text = f"engine {engine}\nnodes a b c\na sends m1\nb sends m2\nnetwork brings the rest\n"
        scene = play(parse_script(text), engine)
        assert sorted(scene.took[2]) == ["m1", "m2"]
