"""Groups on connections, nonsense, lost journals, dialling, silence, the end of a turn."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.fakes import (
    TIMING,
    FakeConnection,
    Wire,
    driver_of,
    hub_of,
    payloads,
    taken,
    turn,
)
from tests.client.greetings import array, greeted, opening, refusal
from thence.client.events import Connected, Disconnected
from thence.client.hub import Hub
from thence.client.links import GROUPS_PER_PEER_MAX, SILENT_HEARTBEATS
from thence.engine.base import EngineOptions
from thence.errors import JournalError
from thence.journal.memory import Fault, MemoryDisk
from thence.message import Message, Phantom
from thence.wire import codec, talk
from thence.wire.frame import frame


@pytest.fixture
def hub() -> Hub:
    return hub_of("a", driver_of())


# ---- groups


def test_a_group_is_live_when_both_have_opened_it(hub: Hub):
    driver = hub.drivers["g"]
    connection = greeted(hub)
    assert driver.connected == []
    hub.received(connection, [opening()], 0.0)
    assert driver.connected == ["b"]
    assert [type(event) for event in taken(driver)] == [Connected]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"members": ("a", "b")}, "group g differs: members ('a', 'b') there and"),
        ({"members": ("b", "a", "c")}, "members"),
        ({"engine": "graph"}, "group g differs: engine graph there and tagged here"),
        ({"stability": False}, "group g differs: stability False there and True here"),
    ],
)
def test_a_group_that_differs_is_refused(hub: Hub, changed: dict[str, Any], sentence: str):
    connection = greeted(hub)
    hub.received(connection, [opening(**changed)], 0.0)
    code, why = refusal(connection)
    assert code == talk.DIFFERENT_GROUP
    assert sentence in why
    assert hub.drivers["g"].connected == []
    assert not hub.drivers["g"].failed


def test_a_group_that_the_peer_is_no_member_of_is_refused():
    hub = hub_of("a", driver_of(), driver_of(names=("a", "c"), group="h"))
    connection = greeted(hub)
    hub.received(connection, [opening(group="h", members=("a", "b"))], 0.0)
    assert refusal(connection) == (talk.NOT_A_MEMBER, "b is no member of h")


def test_a_group_that_comes_later_is_live_then(hub: Hub):
    connection = greeted(hub)
    hub.received(connection, [opening(), opening(7, "late", ("a", "b"))], 0.0)
    connection.said()
    late = driver_of(names=("a", "b"), group="late")
    hub.add(late)
    assert late.connected == ["b"]
    ((kind, body),) = connection.said()
    assert kind == talk.OPEN
    assert talk.read(body, talk.Open).group == "late"
    late.broadcast(b"x", 0.0)
    turn(hub)
    assert talk.DATA in [kind for kind, _ in connection.said()]


def test_groups_that_nobody_here_has_are_limited(hub: Hub):
    connection = greeted(hub)
    many = [opening(at, f"g{at}") for at in range(GROUPS_PER_PEER_MAX)]
    hub.received(connection, many, 0.0)
    assert connection.closed is None
    hub.received(connection, [opening(60_000, "one more")], 0.0)
    assert refusal(connection)[0] == talk.NONSENSE


@pytest.mark.parametrize("again", [opening(), opening(9), opening(0, "other")])
def test_a_group_or_a_channel_is_opened_once(hub: Hub, again: tuple[int, bytes]):
    connection = greeted(hub)
    hub.received(connection, [opening(), opening(3, "early")], 0.0)
    hub.received(connection, [opening(3, "early")], 0.0)
    assert refusal(connection)[0] == talk.NONSENSE
    connection = greeted(hub)
    hub.received(connection, [opening(), again], 0.0)
    if again != opening(9):
        assert refusal(connection) == (
            talk.NONSENSE,
            f"group {'other' if again == opening(0, 'other') else 'g'} is opened twice",
        )


def test_groups_share_a_connection_and_may_be_a_part_of_them():
    """a has both groups, b one, c both."""
    wide = {name: driver_of(name) for name in "abc"}
    narrow = {name: driver_of(name, ("a", "c"), group="h") for name in "ac"}
    wire = Wire(
        hub_of("a", wide["a"], narrow["a"]),
        hub_of("b", wide["b"]),
        hub_of("c", narrow["c"], wide["c"]),
    )
    for one, other in ("ab", "cb", "ac"):
        wire.connect(one, other)
    wire.run()
    assert wide["a"].connected == ["b", "c"]
    assert narrow["c"].connected == ["a"]
    wide["a"].broadcast(b"wide", 0.0)
    narrow["a"].broadcast(b"narrow", 0.0)
    wire.run()
    assert [payloads(wide[name]) for name in "bc"] == [[b"wide"], [b"wide"]]
    assert payloads(narrow["c"]) == [b"narrow"]
    assert not wire.refusals
    assert len(wire.ends) == 6


def test_a_group_can_be_left(hub: Hub):
    connection = greeted(hub)
    hub.received(connection, [opening()], 0.0)
    hub.remove("g")
    assert not hub.drivers
    assert not hub.by_peer["b"].channels


# ---- nonsense


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ((talk.DATA, bytes(10)), "data of 10 bytes has no messages"),
        ((talk.DATA, bytes(30)), "not a batch"),
        ((talk.DATA, b"\x00\x09" + bytes(20)), "channel 9 is not open"),
        ((talk.ACK, bytes(8)), "an acknowledgement of 8 bytes"),
        ((talk.ACK, b"\x00\x00" + b"\x7f" * 24), "acknowledged"),
        ((talk.NEWS, b"\x00\x00" + codec.encode(Phantom(2, 1, ()))), "a phantom of slot 2"),
        ((talk.NEWS, b"\x00\x00" + codec.encode(Message(1, 1, (), b""))), "not a phantom"),
        ((talk.NEWS, b"\x00\x09" + codec.encode(Phantom(1, 1, ()))), "channel 9 is not open"),
        ((talk.PING, b"\x00"), "a token of 1 bytes"),
        ((talk.OPEN, b"\x00"), "not a open"),
        ((talk.BYE, b"\x00"), "not a refuse"),
    ],
)
def test_nonsense_ends_the_connection_and_nothing_else(
    hub: Hub, said: tuple[int, bytes], sentence: str
):
    connection, other = greeted(hub), greeted(hub, "c")
    hub.received(connection, [opening()], 0.0)
    hub.received(other, [opening()], 0.0)
    hub.received(connection, [said], 0.0)
    code, why = refusal(connection)
    assert code == talk.NONSENSE
    assert sentence in why
    assert hub.drivers["g"].connected == ["c"]
    assert not hub.drivers["g"].failed


def test_frames_after_nonsense_are_not_looked_at(hub: Hub):
    connection = greeted(hub)
    data = b"\x00\x00" + (1).to_bytes(8, "big")
    data += b"".join(codec.join_batch([codec.encode(Message(1, 1, (), b"x"))]))
    hub.received(connection, [opening(), (talk.PING, b""), (talk.DATA, data)], 0.0)
    assert payloads(hub.drivers["g"]) == []


def test_kinds_that_nobody_knows_are_ignored(hub: Hub):
    connection = greeted(hub)
    hub.received(connection, [(200, b"from the future"), opening(), (0, b"")], 0.0)
    assert connection.closed is None
    assert hub.drivers["g"].connected == ["b"]


def test_frames_of_a_connection_that_is_gone_are_ignored(hub: Hub):
    connection = greeted(hub)
    hub.closed(connection, "it broke", 0.0)
    hub.received(connection, [opening()], 0.0)
    hub.closed(connection, "again", 0.0)
    assert hub.drivers["g"].connected == []


# ---- lost journals


def test_a_peer_that_forgot_what_it_had_acknowledged_is_refused():
    driver = driver_of()
    hub = hub_of("a", driver)
    driver.broadcast(b"x", 0.0)
    for name in "bc":
        connection = greeted(hub, name)
        hub.received(connection, [opening()], 0.0)
        turn(hub)
        hub.received(connection, [(talk.ACK, talk.ack(0, 1, 100, 1 << 30)[5:])], 0.0)
        hub.closed(connection, "it broke", 0.0)
    assert len(driver.exchange.outbox) == 0
    connection = greeted(hub)
    hub.received(connection, [opening(have=0)], 0.0)
    code, sentence = refusal(connection)
    assert code == talk.YOUR_JOURNAL
    assert sentence == (
        "b has 0 messages of a and had acknowledged 1: the journal of b was lost or is too old"
    )
    assert not driver.failed


def test_a_node_that_forgot_what_it_had_acknowledged_stops_and_says_why(hub: Hub):
    driver = hub.drivers["g"]
    connection = greeted(hub)
    said = (talk.YOUR_JOURNAL, "a has lost its journal")
    other = (talk.REFUSE, talk.refuse(*said, "another group")[5:])
    hub.received(connection, [other], 0.0)
    assert not driver.failed
    connection = greeted(hub)
    hub.received(connection, [(talk.REFUSE, talk.refuse(*said, "g")[5:])], 0.0)
    assert connection.closed is not None
    with pytest.raises(JournalError, match=r"b knows of messages that a had taken .* was lost"):
        driver.broadcast(b"x", 0.0)


def test_a_node_that_forgot_what_it_sent_stops_and_says_why(hub: Hub):
    driver = hub.drivers["g"]
    connection = greeted(hub)
    hub.received(connection, [opening(have=3)], 0.0)
    code, sentence = refusal(connection)
    assert code == talk.LOST_JOURNAL
    assert "b has 3 messages of a, which remembers 0: the journal of a was lost" in sentence
    with pytest.raises(JournalError, match="remembers 0"):
        driver.broadcast(b"x", 0.0)
    with pytest.raises(JournalError, match="remembers 0"):
        driver.take(0.0)
    turn(hub)


# ---- time


def test_silence_is_asked_about_and_then_ends_the_connection(hub: Hub):
    connection = greeted(hub, now=10.0)
    hub.received(connection, [opening()], 10.0)
    connection.said()
    hub.tick(10.5)
    assert connection.said() == []
    hub.tick(11.0)
    assert [kind for kind, _ in connection.said()] == [talk.PING]
    hub.tick(11.5)
    assert connection.said() == []
    hub.tick(10.0 + SILENT_HEARTBEATS * TIMING.heartbeat_s)
    assert connection.closed == "nothing from b for 3.0 s"
    assert hub.drivers["g"].connected == []


def test_anything_that_is_heard_ends_the_silence(hub: Hub):
    connection = greeted(hub, now=10.0)
    for now in (11.0, 12.0, 13.0, 14.0):
        hub.tick(now)
        hub.received(connection, [(99, b"")], now)
    assert connection.closed is None


def test_a_ping_is_answered_and_an_answer_measures_the_way(hub: Hub):
    connection = greeted(hub, now=10.0)
    hub.received(connection, [opening()], 10.0)
    connection.said()
    hub.received(connection, [(talk.PING, talk.ping(77)[5:])], 10.0)
    assert connection.said() == [(talk.PONG, talk.pong(77)[5:])]
    hub.tick(11.0)
    ((_, token),) = connection.said()
    hub.received(connection, [(talk.PONG, talk.pong(5)[5:])], 11.1)
    assert hub.by_peer["b"].rtt_s == 0.0
    hub.received(connection, [(talk.PONG, token)], 11.25)
    assert hub.by_peer["b"].rtt_s == pytest.approx(0.25)
    assert hub.drivers["g"].rtt_s == pytest.approx(0.25)


def test_a_peer_is_dialled_and_again_later_each_time():
    hub = hub_of("a", driver_of())
    hub.know("b", "fake://b", 0.0)
    now, waits = 0.0, []
    for _ in range(6):
        assert hub.dials(now) == [("b", "fake://b")]
        assert hub.dials(now) == []
        hub.unreachable("b", "nobody answers", now)
        due = hub.addresses["b"].due
        waits.append(due - now)
        assert hub.dials(due - 0.001) == []
        now = due
    for wait, longest in zip(waits, (0.1, 0.2, 0.4, 0.8, 1.0, 1.0), strict=True):
        assert longest / 2 <= wait <= longest


def test_a_peer_that_is_connected_is_not_dialled():
    hub = hub_of("a", driver_of())
    hub.know("b", "fake://b", 0.0)
    connection = greeted(hub)
    assert hub.dials(1.0) == []
    hub.closed(connection, "it broke", 1.0)
    assert hub.dials(2.0) == [("b", "fake://b")]


@pytest.mark.parametrize("code", [talk.DIFFERENT_GROUP, talk.REPLACED])
def test_who_was_refused_waits_long_before_it_asks_again(code: int):
    hub = hub_of("a", driver_of())
    hub.know("b", "fake://b", 0.0)
    hub.dials(0.0)
    connection = FakeConnection(dialled=True)
    hub.connected(connection, "b", 0.0)
    hub.received(connection, [(talk.REFUSE, array(code, "no"))], 0.0)
    assert connection.closed == "b refused: no"
    assert hub.addresses["b"].due >= TIMING.reconnect_ms_max / 2000


def test_goodbye_ends_a_connection(hub: Hub):
    connection = greeted(hub)
    hub.received(connection, [opening(), (talk.BYE, array(talk.STOPPING, "it stops"))], 0.0)
    assert connection.closed == "b said goodbye: it stops"
    events = taken(hub.drivers["g"])
    assert [type(event) for event in events] == [Disconnected]
    assert events[0].reason == "b said goodbye: it stops"


def test_a_node_that_stops_says_goodbye_to_everybody(hub: Hub):
    connections = [greeted(hub, name) for name in "bc"]
    hub.stop("it stops", 0.0)
    for connection in connections:
        assert connection.said()[-1][0] == talk.BYE
        assert connection.closed is not None
    assert not hub.links


# ---- the end of a turn


def test_a_journal_that_fails_silences_its_group_only():
    disks = MemoryDisk(), MemoryDisk()
    bad, good = driver_of(disk=disks[0]), driver_of(disk=disks[1], group="h")
    notes: list[tuple[str, str, str]] = []
    hub = hub_of("a", bad, good, notice=lambda *said: notes.append(said))
    connection = greeted(hub)
    hub.received(connection, [opening(0), opening(1, "h")], 0.0)
    connection.said()
    disks[0].fault = Fault(disks[0].operations + 2, "fail")
    bad.broadcast(b"x", 0.0)
    good.broadcast(b"y", 0.0)
    turn(hub)
    channels = [body[:2] for kind, body in connection.said() if kind == talk.DATA]
    assert channels == [(1).to_bytes(2, "big")]
    assert ("journal", "g") in [note[:2] for note in notes]
    with pytest.raises(JournalError):
        bad.broadcast(b"x", 0.0)
    good.broadcast(b"z", 0.0)


def test_a_congested_connection_gets_no_messages_until_it_is_drained(hub: Hub):
    connection = greeted(hub)
    hub.received(connection, [opening()], 0.0)
    connection.said()
    connection.backlog_bytes = 1 << 30
    hub.drivers["g"].broadcast(b"x", 0.0)
    turn(hub)
    assert talk.DATA not in [kind for kind, _ in connection.said()]
    connection.backlog_bytes = 0
    turn(hub)
    assert talk.DATA in [kind for kind, _ in connection.said()]


def test_options_of_a_group_may_be_without_stability():
    driver = driver_of(options=EngineOptions(stability=False))
    hub = hub_of("a", driver)
    connection = greeted(hub)
    hub.received(connection, [opening(stability=False)], 0.0)
    assert driver.connected == ["b"]
    assert frame(talk.NEWS) not in connection.said()
