"""What peers send: ``check`` never raises, and what it lets through does no harm."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.crdt.calls import CALLS, NODES, prepared
from tests.crdt.world import VectorStamp, details, through_bytes
from thence.crdt.base import Crdt
from thence.crdt.children import NESTING_MAX, UPDATE
from thence.crdt.registry import CRDTS
from thence.errors import LocalProtocolError

KINDS = pytest.mark.parametrize("kind", CRDTS.values(), ids=lambda kind: kind.NAME)
NUMBERS = st.integers(-3, 20)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    NUMBERS,
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.sampled_from(["", "\ud800", "x" * 300, NODES[0], "1e999", "9" * 300]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(NUMBERS, inner)
        | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=12,
)


ANYTHING = st.lists(VALUES, max_size=5)


def almost(kind: type[Crdt]) -> st.SearchStrategy[Any]:
    """An operation that makes sense but for one part of it."""
    return st.builds(spoil, st.just(kind.NAME), st.integers(0, 9999), SCALARS | VALUES)


def spoil(name: str, seed: int, junk: Any) -> Any:
    draw = random.Random(seed)
    kind = CRDTS[name]
    op: Any = None
    while op is None:
        with contextlib.suppress(LocalProtocolError):  # it has no rights to that
            op = prepared(kind(), CALLS[name](draw)(draw, None, NODES[0]), NODES[0])
    op = inner = listed(op)
    while isinstance(inner[-1], list) and draw.random() < 0.7:
        inner = inner[-1]
    at = draw.randrange(len(inner) + 1)
    inner[at : at + draw.choice((0, 1, 1, 1))] = [junk]
    return op


def listed(op: Any) -> Any:
    return [listed(part) for part in op] if isinstance(op, tuple | list) else op


@KINDS
@settings(max_examples=80)
@given(drawn=st.data())
def test_check_never_raises_and_what_it_accepts_is_carried_out(
    kind: type[Crdt], drawn: st.DataObject
):
    op = plain(drawn.draw(st.one_of(almost(kind), almost(kind), ANYTHING)))
    fault = kind.check(op)
    assert isinstance(fault, str)
    if fault:
        return
    one, other = kind(), kind()
    stamps = [VectorStamp(NODES[at], 1, 1, {}) for at in range(2)]
    for by in stamps:
        one.effect(op, by)
    for by in reversed(stamps):
        other.effect(op, by)
    value = details(one.value())
    assert details(other.value()) == value
    loaded = kind.load(
        through_bytes(one.export()), lambda node, seq, clock_ms: stamps[NODES.index(node)]
    )
    assert details(loaded.value()) == value
    for made in (one, loaded):
        made.stabilise(dict.fromkeys(stamps))
        assert details(made.value()) == value
        assert made.stamps() == []


def plain(op: Any) -> Any:
    """As a peer's operation comes from its bytes; half characters cannot, but calls have them."""
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(op))
    except UnicodeEncodeError:
        return op


@KINDS
@pytest.mark.parametrize("op", [[], ["add"], [None], [True], [1.0], [[]], [99], [-1], [0] * 50])
def test_nonsense_is_rejected(kind: type[Crdt], op: list[Any]):
    if kind.NAME in ("set_aw", "set_rw", "set_g", "set_2p") and op == [0] * 50:
        assert kind.check(op) == ""  # the element 0, again and again
    else:
        assert kind.check(op)


@KINDS
@settings(max_examples=20)
@given(name=st.text(max_size=5), arguments=st.lists(VALUES, max_size=4))
def test_calls_that_make_no_sense_say_so(kind: type[Crdt], name: str, arguments: list[Any]):
    for called in (name, *kind.OPS):
        try:
            op = kind().prepare(called, *arguments)
        except LocalProtocolError as error:
            assert str(error)
        else:
            assert kind.check(op) == ""
            through_bytes(op)


def maps(codes: tuple[int, ...], levels: int) -> Any:
    op: Any = [0, 1]
    code = 7
    for level in range(levels):
        op = [UPDATE, "f", code, op]
        code = codes[level % len(codes)]
    return op


@pytest.mark.parametrize("name", ["map_rw", "map_uw"])
def test_maps_are_in_maps_up_to_a_limit(name: str):
    codes = (3, 16)
    for levels in range(1, NESTING_MAX + 1):
        op = maps(codes, levels)
        one = CRDTS[name]()
        assert CRDTS[name].check(op) == ""
        one.effect(op, VectorStamp("na", 1, 0, {}))
        assert str(one.value()).count("{") == levels
    assert "at most 16 maps" in CRDTS[name].check(maps(codes, NESTING_MAX + 1))


def test_what_is_nested_deeper_than_python_calls_is_rejected():
    assert "at most 16 maps" in CRDTS["map_uw"].check(maps((3,), 100_000))
    deep: Any = []
    for _ in range(sys.getrecursionlimit() * 5):
        deep = [deep]
    for kind in CRDTS.values():
        for op in ([0, deep], [0, "f", deep, [0]], [0, "f", 1, deep], deep, [0, "f", 1, [0, deep]]):
            assert kind.check(op)


@pytest.mark.parametrize("name", ["counter_bounded", "counter_pn", "counter_ranged", "set_2p"])
def test_what_cannot_be_reset_is_in_no_map(name: str):
    kind = CRDTS[name]
    with pytest.raises(LocalProtocolError, match="cannot be reset"):
        kind().reset(VectorStamp("na", 1, 0, {}))
    for of in ("map_uw", "map_rw"):
        assert "cannot be reset" in CRDTS[of].check([UPDATE, "f", kind.CODE, [0, 1]])
        with pytest.raises(LocalProtocolError, match="cannot be reset"):
            CRDTS[of]().prepare("update", "f", name, ("inc", 1))
