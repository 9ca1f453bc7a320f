"""How large batches are said to be, and how their pieces come together."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.crdt.calls import CALLS, NODES, prepared
from tests.seeds import seeds
from thence.crdt import batch
from thence.crdt.registry import CRDTS
from thence.errors import LocalProtocolError

LARGE: list[tuple[Any, Any]] = [
    (b"k", (0, b"x" * 1000)),
    ("\u00e9" * 1000, (0, "\U0001f600" * 1000)),
    (b"k" * 1000, (0,)),
    (2**62, (0, *[2**62 + number for number in range(1000)])),
    (b"k", (0, 0, [2**62 + number for number in range(1000)])),
    (b"k", (0, 0, [0.1] * 1000)),
    (b"k", (0, "f", 3, (0, "g", 3, (0, "h", 10, (0, b"x" * 1000))))),
    (b"k", (0, "f", 4, (0, 0, ["x" * 100] * 100))),
]


def encoded(key: Any, op: Any) -> int:
    return sum(map(len, batch.encode(0, [key, 1, op], 2**30)))


@pytest.mark.parametrize(("key", "op"), LARGE)
def test_no_operation_is_larger_than_it_is_said_to_be(key: Any, op: Any):
    said = batch.size_of(key, op)
    assert encoded(key, op) <= said <= 10 * encoded(key, op)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("name", CRDTS)
def test_no_random_operation_is_larger_than_it_is_said_to_be(name: str, seed: int):
    draw = random.Random(seed)
    call = CALLS[name](draw)
    for _ in range(20):
        one = CRDTS[name]()
        try:
            op = prepared(one, call(draw, one, NODES[0]), NODES[0])
        except LocalProtocolError:  # it has no rights to that
            continue
        assert encoded("key", op) <= batch.size_of("key", op)
