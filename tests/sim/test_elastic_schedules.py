"""Schedules that chance hardly finds, for rules of elastic groups that nothing else shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.sim.node_mutants import Mutant, plant
from thence.sim.elastic import ElasticWorld
from thence.sim.elastic_node import ElasticNode
from thence.sim.elastic_options import ElasticOptions
from thence.sim.node_view import Broken

Delays = dict[tuple[str, str], Callable[[float], float]]
"""By sender and receiver: how much longer something travels that is sent at that time."""


class Scripted(ElasticWorld):
    """Nobody sends by itself; what happens when is written down."""

    def __init__(
        self, script: list[tuple[float, Callable[[Any], object]]], delays: Delays, contact: str
    ) -> None:
        super().__init__(
            ElasticOptions(
                nodes=3, joins=1, talkers=0, interval_s=0.003, latency_s=0.002, stability_batch=1
            )
        )
        self._script = script
        self._delays = delays
        self._contact = contact

    def latency(self, a: str = "", b: str = "") -> float:
        more = self._delays.get((a, b))
        return 0.002 + (0.0 if more is None else more(self.now))

    def contacts(self, name: str) -> list[str]:
        return [self._contact]

    def _plan(self) -> None:
        for at, action in self._script:
            self.at(at, action, self)


def send(name: str) -> Callable[[Any], object]:
    return lambda world: world.nodes[name].turn(world.nodes[name].send)


def join(world: Any) -> None:
    node: ElasticNode = world.nodes["d"]
    node.join()


def until(moment: float, since: float = 0.0) -> Callable[[float], float]:
    """What is sent before that moment, and not before ``since``, arrives then."""
    return lambda now: max(0.0, moment - now) if now >= since else 0.0


def later_view() -> Scripted:
    """c learns late that d joined.  What b took after that must not make c think that everybody
    has c:1: the state that d took over from b does not contain it."""
    return Scripted(
        [(0.15, send("c")), (0.17, send("a")), (0.2, join), (0.5, send("b"))],
        {
            ("c", "b"): lambda now: until(0.45 if now < 0.152 else 0.65, since=0.149)(now),
            ("b", "c"): until(0.53, since=0.18),
            ("a", "c"): until(1.2, since=0.18),
            ("d", "c"): until(0.7),
        },
        "b",
    )


MUTANTS = (
    Mutant(
        "messages of a later view go to those who are not there yet", "elastic:Elastic._entered",
        "self.exchange.enter(change.view.num)", "pass", "",
    ),
)  # fmt: skip


def test_what_a_newcomer_lacks_is_not_stable_anywhere():
    world = later_view().run()
    assert len(world.views) == 2


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_put_in_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch, mutant)
    with pytest.raises(Broken):
        later_view().run()
