"""One group of one node: the application's events, when its context moves, limits, timers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.fakes import TIGHT, TIMING, Wire, driver_of, hub_of, payloads, taken
from tests.client.test_ledger import OPEN, opened, receive, theirs
from thence.causal.dot import pack
from thence.client.application import FLUSH_S_PER_MESSAGE
from thence.client.driver import Driver
from thence.client.events import Blocked, Connected, Delivered, Disconnected, Known, Stable
from thence.config.node import FlowConfig
from thence.engine.base import EngineOptions
from thence.errors import Full, WireError
from thence.journal.memory import MemoryDisk
from thence.message import Message, Phantom
from thence.wire import talk


def names(dots: Any) -> list[str]:
    return sorted(map(str, dots))


def wired(*members: str, **more: Any) -> tuple[Wire, list[Driver]]:
    """All members of a group, connected."""
    drivers = [driver_of(name, members, **more) for name in members]
    wire = Wire(*[hub_of(driver.name, driver) for driver in drivers])
    for at, one in enumerate(members):
        for other in members[at + 1 :]:
            wire.connect(one, other)
    wire.run()
    for driver in drivers:
        taken(driver)
    return wire, drivers


# ---- the context


def test_the_context_moves_when_the_application_takes_an_event():
    driver = opened(driver_of())
    receive(driver, 1, theirs(1))
    assert driver.broadcast(b"before", 0.0).context == ()
    assert [type(event) for event in taken(driver)] == [Connected, Connected, Delivered]
    assert names(driver.broadcast(b"after", 0.0).context) == ["a:1", "b:1"]


def test_events_come_in_causal_order():
    driver = opened(driver_of())
    receive(driver, 1, theirs(1, slot=2, context=(pack(1, 1),)))
    assert payloads(driver) == []
    receive(driver, 1, theirs(1, text=b"first"))
    assert payloads(driver) == [b"first", b"y"]


def test_events_are_numbered_and_confirm_all_before_them():
    driver = opened(driver_of(disk=MemoryDisk()))
    driver.auto_confirm = False
    receive(driver, 1, theirs(1), theirs(2), theirs(3))
    events = taken(driver)
    assert [event.number for event in events] == [1, 2, 3, 4, 5]
    events[3].confirm()
    assert [number for number, *_ in driver._open_events] == [5]
    events[2].confirm()
    assert [number for number, *_ in driver._open_events] == [5]


def test_taking_the_next_event_confirms_the_last_by_default():
    driver = opened(driver_of(disk=MemoryDisk()), 1)
    receive(driver, 1, theirs(1), theirs(2))
    driver.take(0.0)
    driver.take(0.0)
    driver.take(0.0)
    assert len(driver._open_events) == 1
    driver.take(0.0)
    assert not driver._open_events


def test_a_broadcast_confirms_what_was_taken():
    driver = opened(driver_of(disk=MemoryDisk()), 1)
    driver.auto_confirm = False
    receive(driver, 1, theirs(1))
    taken(driver)
    driver.broadcast(b"x", 0.0)
    assert not driver._open_events


# ---- stability and phantoms


def test_everything_is_told_stable_in_the_end_by_phantoms_alone():
    wire, drivers = wired("a", "b", "c")
    tag = drivers[0].broadcast(b"x", 0.0)
    now = 0.0
    told: dict[str, list[str]] = {driver.name: [] for driver in drivers}
    for _ in range(40):
        now += 0.05
        wire.run(now)
        for driver in drivers:
            told[driver.name] += [
                str(event.tag) for event in taken(driver, now) if isinstance(event, Stable)
            ]
    assert told == {"a": ["a:1"], "b": ["a:1"], "c": ["a:1"]}
    assert drivers[0].is_stable(tag)
    assert [driver.unstable for driver in drivers] == [0, 0, 0]


def test_a_phantom_waits_a_little_for_something_to_send():
    driver = opened(driver_of(), 1)
    taken(driver)
    driver.tick(0.0)
    driver.frames(1, 0, False, 0.0)
    receive(driver, 1, theirs(1))
    taken(driver, 1.0)
    driver.tick(1.0)
    assert driver._phantom_at == pytest.approx(1.0 + TIMING.phantom_ms_min / 1000)
    driver.broadcast(b"x", 1.01)
    driver.tick(2.0)
    assert driver.exchange._said is None or driver.exchange._said.context == ()


def test_a_message_on_a_stream_does_not_stand_for_a_phantom():
    driver = opened(driver_of(), 1)
    receive(driver, 1, theirs(1))
    taken(driver)
    driver.broadcast(b"x", 0.0, stream="s")
    driver.tick(0.0)
    driver.tick(1.0)
    assert driver.exchange._said is not None
    assert driver.exchange._said.context == (pack(1, 1),)


def test_phantoms_speak_for_what_is_confirmed():
    driver = opened(driver_of(disk=MemoryDisk()), 1)
    driver.auto_confirm = False
    receive(driver, 1, theirs(1), theirs(2))
    delivered = [event for event in taken(driver) if isinstance(event, Delivered)]
    delivered[0].confirm()
    driver.announce(0.0)
    driver.tick(0.0)
    assert driver.exchange._said is not None
    assert driver.exchange._said.context == (pack(1, 1),)


def test_a_phantom_waits_as_long_as_the_way_is():
    driver = opened(driver_of(), 1)
    taken(driver)
    driver.tick(0.0)
    driver.rtt_s = 0.3
    receive(driver, 1, theirs(1))
    taken(driver)
    driver.tick(0.0)
    assert driver._phantom_at == pytest.approx(0.3)


def test_known_events_come_before_stable_ones():
    wire, drivers = wired("a", "b", options=EngineOptions(k=2))
    drivers[0].broadcast(b"x", 0.0)
    now, events = 0.0, []
    for _ in range(20):
        now += 0.05
        wire.run(now)
        taken(drivers[1], now)
        events += taken(drivers[0], now)
    assert [type(event) for event in events] == [Known, Stable]


def test_a_phantom_of_another_is_nonsense():
    driver = opened(driver_of())
    with pytest.raises(WireError, match="a phantom of slot 2 from slot 1"):
        driver.news(1, Phantom(2, 1, ()), 0.0)


# ---- limits


def test_a_full_outbox_says_who_is_behind_and_when_there_is_room():
    driver = opened(driver_of(flow=TIGHT))
    called: list[str] = []
    driver.on_room = lambda: called.append("room")
    for _ in range(3):
        assert driver.has_room
        driver.broadcast(b"x", 0.0)
    assert not driver.has_room
    driver.frames(1, 0, False, 0.0)
    driver.acknowledged(1, talk.Ack(0, 2, 99, 1 << 30))
    with pytest.raises(Full, match="3 messages are not acknowledged and 3 not stable; c has"):
        driver.broadcast(b"x", 0.0)
    (event,) = [event for event in taken(driver) if isinstance(event, Blocked)]
    assert event.waiting_for == ("c",)
    driver.frames(2, 0, False, 0.0)
    assert called == []
    driver.acknowledged(2, talk.Ack(0, 1, 99, 1 << 30))
    assert called == ["room"]
    driver.broadcast(b"x", 0.0)


def test_too_many_unstable_messages_block_too():
    driver = opened(driver_of(flow=FlowConfig(unstable_messages_max=2)))
    for _ in range(2):
        driver.broadcast(b"x", 0.0)
    with pytest.raises(Full, match="2 not stable"):
        driver.broadcast(b"x", 0.0)


def test_a_refused_broadcast_leaves_no_trace():
    driver = opened(driver_of(flow=TIGHT))
    for _ in range(3):
        driver.broadcast(b"x", 0.0)
    with pytest.raises(Full):
        driver.broadcast(b"y", 0.0)
    assert driver.client.sent == 3
    assert driver.exchange.outbox.last == 3


def test_a_slow_application_stops_the_senders():
    wire, drivers = wired("a", "b", flow=FlowConfig(outbox_messages_max=3, credit_messages=2))
    sent = 0
    for _ in range(20):
        try:
            drivers[0].broadcast(b"%d" % sent, 0.0)
            sent += 1
        except Full:
            pass
        wire.run(sent * 0.1)
    # Two are held by b, three wait in the outbox of a.
    assert sent == 5
    assert drivers[1].exchange.flows[0].held == 2
    found, now = [], 0.6
    while len(found) < 5 and now < 5.0:
        found += payloads(drivers[1], now)
        now += 0.1
        wire.run(now)
    assert found == [b"0", b"1", b"2", b"3", b"4"]


def test_the_largest_message_arrives_whatever_the_credit():
    wire, drivers = wired("a", "b", flow=FlowConfig(credit_bytes=1024, outbox_bytes_max=1024))
    drivers[0].broadcast(bytes(1 << 24), 0.0)
    wire.run()
    assert [len(payload) for payload in payloads(drivers[1])] == [1 << 24]


def test_credit_is_not_more_than_the_engine_holds_back():
    driver = driver_of(options=EngineOptions(pending_per_origin_max=10))
    driver.open(1, 0)
    assert driver.exchange.flows[1].told_limit == 10


# ---- connections


def test_what_was_sent_without_connections_arrives_later():
    a, b = driver_of("a", ("a", "b")), driver_of("b", ("a", "b"))
    a.broadcast(b"early", 0.0)
    wire = Wire(hub_of("a", a), hub_of("b", b))
    wire.run()
    wire.connect("b", "a")
    wire.run()
    assert payloads(b) == [b"early"]


def test_connections_that_come_and_go_are_one_event_for_each_peer():
    driver = opened(driver_of(), 1)
    driver.closed(1, "it broke")
    driver.opened(1, OPEN, 0.0)
    driver.closed(1, "it broke again")
    (event,) = taken(driver)
    assert isinstance(event, Disconnected)
    assert (event.member, event.reason) == ("b", "it broke again")
    driver.closed(1, "twice")
    assert taken(driver) == []


def test_data_of_a_connection_that_is_gone_is_ignored():
    driver = opened(driver_of(), 1)
    driver.closed(1, "it broke")
    receive(driver, 1, theirs(1))
    assert driver.exchange.flows[1].have == 0


def test_a_message_that_names_what_was_never_sent_is_nonsense():
    driver = opened(driver_of())
    with pytest.raises(WireError, match="context-names-unsent-own-dot"):
        receive(driver, 1, theirs(1, context=(pack(0, 9),)))
    assert driver.counts["rejected"] == 1
    assert driver.exchange.flows[1].held == 0


def test_a_message_that_comes_with_two_numbers_is_delivered_once():
    driver = opened(driver_of())
    receive(driver, 1, theirs(1))
    receive(driver, 2, theirs(1))
    assert payloads(driver) == [b"y"]
    assert driver.exchange.flows[1].held == 0


def test_a_message_for_others_is_ordered_and_not_told():
    wire, (a, b, c) = wired("a", "b", "c")
    a.broadcast(b"secret", 0.0, to=["b"])
    a.broadcast(b"public", 0.0)
    wire.run()
    assert payloads(b) == [b"secret", b"public"]
    assert payloads(c) == [b"public"]
    assert [driver.exchange.flows[0].held for driver in (b, c)] == [0, 0]


def test_a_group_of_one_works():
    driver = driver_of("a", ("a",))
    tag = driver.broadcast(b"x", 0.0)
    driver.commit(0.0)
    driver.flush(1.0)
    assert [type(event) for event in taken(driver)] == [Stable]
    assert driver.is_stable(tag)
    assert driver.known_by(tag) == 1


def test_the_more_is_unstable_the_rarer_it_is_looked_through():
    """A look costs what is unstable, and nothing is stable while somebody lacks it."""
    few, many = driver_of(), driver_of()
    few.broadcast(b"", 1.0)
    many.broadcast_many([b""] * 50_000, 1.0)
    for driver in (few, many):
        opened(driver)
        driver.tick(1.0)
        driver.news(1, Phantom(1, 1, ()), 1.0)
    assert few.deadline() == 1.0 + TIMING.idle_flush_ms / 1000
    assert many.deadline() == 1.0 + 50_000 * FLUSH_S_PER_MESSAGE


@pytest.mark.parametrize("engine", ["vector", "graph", "cbcast", "cbcast-e2e"])
def test_other_engines_run_without_a_journal(engine: str):
    wire, (a, b) = wired("a", "b", engine=engine)
    a.broadcast(b"one", 0.0)
    wire.run()
    assert payloads(b) == [b"one"]
    b.broadcast(b"two", 0.0)
    wire.run()
    assert payloads(a) == [b"two"]


def test_counts_tell_what_happened():
    driver = opened(driver_of())
    receive(driver, 1, theirs(1), theirs(2))
    taken(driver)
    driver.broadcast(b"x", 0.0)
    driver.news(1, Phantom(1, 3, ()), 0.0)
    assert driver.counts == {"sent": 1, "delivered": 2, "stable": 0, "rejected": 0, "phantoms": 1}


def test_nothing_is_due_when_nothing_happened():
    assert driver_of().deadline() is None


def test_a_message_of_nobody_here_is_refused():
    driver = opened(driver_of())
    with pytest.raises(WireError, match="from slot 1"):
        receive_from(driver, 1, Message(2, 1, (), b"x"))


def receive_from(driver: Driver, slot: int, message: Message) -> None:
    from thence.wire import codec

    batch = b"".join(codec.join_batch([codec.encode(message)]))
    driver.data(slot, 1, memoryview(batch), 0.0)


def test_a_peer_that_came_back_is_told_again_what_was_consumed():
    driver = opened(driver_of(), 1)
    receive(driver, 1, theirs(1))
    taken(driver)
    for now in (0.0, 1.0):
        driver.tick(now)
    driver.frames(1, 0, False, 1.0)
    driver.closed(1, "it broke")
    opened(driver, 1)
    driver.tick(2.0)
    news = [frame for frame in driver.frames(1, 0, False, 2.0) if frame[4] == talk.NEWS]
    assert news == [talk.news(0, Phantom(0, 1, (pack(1, 1),)))]
