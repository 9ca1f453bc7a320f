"""Groups with engines of their own, joined by bridges: causal over all of them."""

from __future__ import annotations

import pytest

from tests.seeds import seeds
from thence.client.bridge import Forwarded
from thence.engine.fifo import SPEC as FIFO
from thence.engine.registry import ENGINES
from thence.errors import LocalProtocolError
from thence.sim.bridge_walk import BridgeWalk, Joined

PAIRS = [
    ("tagged", "tagged"), ("tagged", "matrix"), ("vector", "compressed"),
    ("cbcast", "compressed-broadcast"), ("graph", "synchronous"),
]  # fmt: skip


def two(one: str, other: str) -> list[Joined]:
    return [
        Joined("left", ENGINES[one], ("a", "b", "hub")),
        Joined("right", ENGINES[other], ("hub", "x", "y")),
    ]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_groups_are_causal_across_their_bridge(one: str, other: str):
    for seed in seeds(40):
        orders = BridgeWalk(two(one, other), seed).go()
        assert orders.violations("causal") == [], f"seed {seed}"
        assert orders.missing() == [], f"seed {seed}"


def test_three_groups_in_a_row_and_two_leaders_with_a_group_of_their_own():
    groups = [
        Joined("left", ENGINES["tagged"], ("a", "b", "p")),
        Joined("leaders", ENGINES["matrix"], ("p", "q")),
        Joined("right", ENGINES["vector"], ("q", "x", "y")),
    ]
    for seed in seeds(40):
        orders = BridgeWalk(groups, seed).go()
        assert orders.violations("causal") == [], f"seed {seed}"
        assert orders.missing() == [], f"seed {seed}"


class Careless(BridgeWalk):
    """A bridge that now and then sends a message on after a later one."""

    kept: Forwarded | None = None

    def forward(self, name: str, at: int, message: Forwarded) -> None:
        if self.kept is None and self.messages and self.rng.random() < 0.5:
            self.kept, self.place = message, at
            return
        super().forward(name, at, message)
        if self.kept is not None:
            late, self.kept = self.kept, None
            super().forward(name, self.place, late)


def test_a_bridge_that_changes_the_order_is_found_out():
    assert any(
        Careless(two("tagged", "tagged"), seed).go().violations("causal") for seed in range(50)
    )


def test_a_group_that_is_not_causal_cannot_be_joined():
    groups = [*two("tagged", "tagged")[:1], Joined("right", FIFO, ("hub", "x"))]
    with pytest.raises(LocalProtocolError, match="group right keeps the order fifo"):
        BridgeWalk(groups, 1)
