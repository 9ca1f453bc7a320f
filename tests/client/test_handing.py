"""Callbacks get what ``take`` would give, in the same order and with the same effects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.fakes import Wire, driver_of, hub_of
from thence.client.driver import Driver
from thence.client.events import Delivered, Stable
from thence.client.handing import hand_over
from thence.engine.base import EngineOptions
from thence.engine.bursts import Callbacks

NAMES = ("a", "b")


def pair(names: tuple[str, ...] = NAMES, **more: Any) -> tuple[Driver, Driver, Wire]:
    """Two members of a group, connected, with nothing to say."""
    drivers = [driver_of(name, names, **more) for name in NAMES]
    wire = Wire(*(hub_of(driver.name, driver) for driver in drivers))
    wire.connect("a", "b")
    wire.run()
    for driver in drivers:
        hand_over(driver, 0.0, Callbacks(), _must_not_fail)
    wire.run()
    return drivers[0], drivers[1], wire


def _must_not_fail(error: Exception) -> None:
    raise error


def by_take(driver: Driver, deliver: Any, stable: Any) -> None:
    """The same one event at a time."""
    while (event := driver.take(0.0)) is not None:
        if isinstance(event, Delivered):
            deliver(event.tag)
        elif isinstance(event, Stable):
            stable(event.tag)


def calls_of(deliver: Any, stable: Any = None, many: bool = False) -> Callbacks:
    calls = Callbacks()
    calls.deliver, calls.stable = deliver, stable
    calls.deliver_many = calls.stable_many = many
    return calls


def by_callbacks(driver: Driver, deliver: Any, stable: Any) -> None:
    hand_over(driver, 0.0, calls_of(deliver, stable), _must_not_fail)


def conversation(hand: Any) -> tuple[list[str], dict[str, int], tuple[int, ...]]:
    """What b is told when a talks and b answers in its callbacks; its counters; what is left."""
    a, b, wire = pair()
    told: list[str] = []

    def deliver(tag: Any) -> None:
        told.append(f"deliver {tag}")
        if tag.payload == b"question":
            answer = b.broadcast(b"answer", 0.0)
            told.append(f"answer after {answer.context}")

    def stable(tag: Any) -> None:
        told.append(f"stable {tag}")
        if tag.payload == b"question":
            thanks = b.broadcast(b"thanks", 0.0)
            told.append(f"{tag < thanks} {tag.gone >= 0}")

    for payload in (b"one", b"question", b"two"):
        a.broadcast(payload, 0.0)
    for now in (0.0, 1.0, 2.0, 3.0):
        for driver in (a, b):
            driver.flush(now)
            driver.announce(now)
        wire.run(now)
        hand(b, deliver, stable)
        by_take(a, lambda tag: None, lambda tag: None)
    flow = b.exchange.flows[0]
    return told, dict(b.counts), (flow.held, flow.held_bytes, len(b.client.past.window))


def test_callbacks_are_told_what_take_gives():
    assert conversation(by_callbacks) == conversation(by_take)
    told, counts, left = conversation(by_callbacks)
    assert told[:4] == ["deliver a:1", "deliver a:2", "answer after (Dot(node='a', seq=2),)",
                        "deliver a:3"]  # fmt: skip
    assert counts["delivered"] == 3
    assert left[:2] == (0, 0)


def test_a_broadcast_of_a_stable_callback_confirms_the_event_first():
    told, _, _ = conversation(by_callbacks)
    assert "True True" in told


def test_a_callback_that_fails_is_reported_and_the_next_is_called():
    a, b, wire = pair()
    for payload in (b"x", b"y"):
        a.broadcast(payload, 0.0)
    wire.run()
    failures: list[Exception] = []
    seen: list[bytes] = []

    def deliver(tag: Any) -> None:
        seen.append(tag.payload)
        raise ValueError(tag.payload)

    hand_over(b, 0.0, calls_of(deliver), failures.append)
    assert seen == [b"x", b"y"]
    assert [str(failure) for failure in failures] == ["b'x'", "b'y'"]
    assert b.exchange.flows[0].held == 0


def test_what_a_callback_leaves_is_confirmed_at_the_end():
    a, b, wire = pair()
    a.broadcast(b"x", 0.0)
    wire.run()
    assert hand_over(b, 0.0, calls_of(lambda tag: None), _must_not_fail)
    assert b.unsaid
    assert not hand_over(b, 0.0, calls_of(lambda tag: None), _must_not_fail)


def test_without_stability_nothing_is_announced():
    a, b, wire = pair(options=EngineOptions(stability=False))
    a.broadcast(b"x", 0.0)
    wire.run()
    seen: list[Any] = []
    hand_over(b, 0.0, calls_of(seen.append), _must_not_fail)
    assert len(seen) == 1
    assert not b.unsaid


@pytest.mark.parametrize("to", [["b"], ["c"]])
def test_messages_for_some_are_handed_over_only_to_those(to: list[str]):
    a, b, wire = pair(("a", "b", "c"))
    a.broadcast(b"all", 0.0)
    a.broadcast(b"some", 0.0, to=to)
    a.broadcast(b"more", 0.0)
    wire.run()
    seen: list[bytes] = []
    hand_over(b, 0.0, calls_of(lambda tag: seen.append(tag.payload)), _must_not_fail)
    assert seen == [b"all", *([b"some"] if "b" in to else []), b"more"]
    assert b.exchange.flows[0].held == 0
