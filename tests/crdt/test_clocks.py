"""A batch carries the clock of its sender only if one of its operations asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from thence.crdt import batch
from thence.crdt.counter_pn import CounterPn
from thence.crdt.keyspace import KEYS
from thence.crdt.map_uw import MapUw
from thence.crdt.register_counter import RegisterCounter
from thence.crdt.sequence import Sequence
from thence.crdt.set_aw import SetAw


@pytest.mark.parametrize(
    ("items", "asks"),
    [
        (["k", SetAw.CODE, (0, "milk")], False),
        (["k", CounterPn.CODE, (0, 1)], False),
        (["k", Sequence.CODE, (2,)], False),
        (["k", RegisterCounter.CODE, (1, 5)], False),
        (["k", RegisterCounter.CODE, (0, 5)], True),
        (["k", MapUw.CODE, (1, "field")], False),
        (["k", MapUw.CODE, (0, "field", RegisterCounter.CODE, (1, 5))], False),
        (["k", MapUw.CODE, (0, "field", RegisterCounter.CODE, (0, 5))], True),
        (["k", KEYS, (0,)], False),
        (["k", KEYS, (0,), "k", RegisterCounter.CODE, (0, 5)], True),
    ],
)
def test_a_batch_asks_for_the_clock_if_one_of_its_operations_does(
    items: list[Any], asks: bool
) -> None:
    assert batch.asks_clock(items) is asks
