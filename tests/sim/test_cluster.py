"""The primitive steps of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.naive import naive
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.registry import ENGINES
from thence.engine.reject import TOO_FAR_AHEAD, Reject
from thence.message import Control, WireMessage
from thence.sim.cluster import Cluster, Watcher

NAMES = ["a", "b", "c"]


class Log(Watcher):
    """Remembers the order of what happened."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, Any]] = []

    def sent(self, node: int, tag: Any, after: Any) -> None:
        self.events.append(("sent", node, tag.seq))

    def wired(self, node: int, message: Any) -> None:
        self.events.append(("wired", node, message.seq))

    def ready(self, node: int, tag: Any) -> None:
        self.events.append(("ready", node, (tag.origin, tag.seq)))

    def consumed(self, node: int, tag: Any) -> None:
        self.events.append(("consumed", node, (tag.origin, tag.seq)))

    def rejected(self, node: int, reject: Reject) -> None:
        self.events.append(("rejected", node, reject.reason))


def test_a_message_goes_through_every_queue_one_step_at_a_time():
    log = Log()
    cluster = Cluster(naive(), NAMES, watchers=[log])
    cluster.client_broadcast(0)
    assert cluster.in_flight == []
    assert cluster.middleware_step(0)
    assert [(i, j) for i, j, _ in cluster.in_flight] == [(0, 1), (0, 2)]
    cluster.deliver_in_flight(1)
    assert cluster.client_take(2)
    assert log.events == [
        ("sent", 0, 1),
        ("wired", 0, 1),
        ("ready", 2, (0, 1)),
        ("consumed", 2, (0, 1)),
    ]


def test_steps_of_empty_queues_say_so():
    cluster = Cluster(naive(), NAMES)
    assert not cluster.middleware_step(0)
    assert not cluster.client_take(0)
    assert cluster.choices() == []


def test_choices_lists_every_possible_step_and_perform_does_it():
    cluster = Cluster(naive(), NAMES)
    cluster.client_broadcast(1)
    assert cluster.choices() == [("middleware", 1)]
    cluster.perform(("middleware", 1))
    assert cluster.choices() == [("network", 0), ("network", 1)]
    cluster.perform(("network", 0))
    assert cluster.choices() == [("take", 0), ("network", 0)]
    cluster.perform(("take", 0))
    assert cluster.choices() == [("network", 0)]


def test_quiesce_ends_with_everything_consumed():
    log = Log()
    cluster = Cluster(naive(), NAMES, watchers=[log])
    for node in (0, 1, 2, 0):
        cluster.client_broadcast(node)
    cluster.quiesce()
    assert sum(kind == "consumed" for kind, _, _ in log.events) == 8
    assert cluster.choices() == []


def test_a_duplicate_is_told_to_the_watchers():
    log = Log()
    cluster = Cluster(naive(), NAMES, watchers=[log])
    cluster.client_broadcast(0)
    cluster.middleware_step(0)
    flight = cluster.in_flight[0]
    cluster.network_deliver(*flight)
    assert cluster.network_deliver(*flight)
    assert ("rejected", 1, "duplicate") in log.events


@pytest.mark.parametrize("name", ENGINES)
def test_messages_survive_the_codec(name: str):
    log = Log()
    cluster = Cluster(ENGINES[name], NAMES, through_codec=True)
    del log
    for node in (0, 1, 2):
        cluster.client_broadcast(node, b"payload")
    for _ in range(3):
        cluster.middleware_step(0)
    while isinstance(cluster.in_flight[0][2], Control):  # it asks first
        cluster.deliver_in_flight(0)
    _, _, message = cluster.in_flight[0]
    assert message.payload == b"payload"  # type: ignore[union-attr]
    cluster.quiesce()


class Picky:
    """Refuses everything twice, as a full buffer would."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.refusals = 2

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        if self.refusals:
            self.refusals -= 1
            out.reject.append(Reject(peer, TOO_FAR_AHEAD, "later, please", retry=True))
        else:
            self.engine.receive(peer, message, out)


def test_what_is_refused_for_now_is_offered_again():
    cluster = Cluster(naive(), ["a", "b"])
    cluster.engines[1] = Picky(cluster.engines[1])
    cluster.client_broadcast(0)
    cluster.middleware_step(0)
    cluster.deliver_in_flight(0)
    assert len(cluster.in_flight) == 1
    cluster.deliver_in_flight(0)
    assert len(cluster.in_flight) == 1
    cluster.deliver_in_flight(0)
    assert cluster.in_flight == []
    assert cluster.client_take(1)


def test_what_is_refused_for_ever_does_not_hang_the_run():
    cluster = Cluster(naive(), ["a", "b"])
    picky = Picky(cluster.engines[1])
    picky.refusals = 10**9
    cluster.engines[1] = picky
    cluster.client_broadcast(0)
    with pytest.raises(RuntimeError, match="refused for ever"):
        cluster.quiesce()


def test_waiting_names_what_is_held_back_and_one_thing_it_lacks():
    cluster = Cluster(ENGINES["tagged"], ["a", "b"], EngineOptions())
    cluster.client_broadcast(0)
    cluster.client_broadcast(0)
    cluster.middleware_step(0)
    cluster.middleware_step(0)
    cluster.deliver_in_flight(1)
    assert cluster.waiting(1) == [((0, "", 2), (0, "", 1))]
    cluster.deliver_in_flight(0)
    assert cluster.waiting(1) == []
