"""Members that come and go while an exchange runs: views, catching up, falling back."""

from __future__ import annotations

import pytest

from tests.client.fakes import driver_of
from tests.client.test_exchange import (
    LARGE,
    batch,
    chained,
    exchange_of,
    items,
    opened,
    own,
    said,
    send,
    theirs,
)
from tests.client.test_ledger import opened as driver_open
from thence.causal.dot import pack
from thence.client.exchange import Exchange
from thence.client.flow import NO_CEILING
from thence.config.node import FlowConfig
from thence.engine.outgoing import message_of
from thence.errors import Full
from thence.message import Aside, Chain, Message, Phantom
from thence.wire import talk

NEWS = Phantom(0, 1, ())


def sent(exchange: Exchange, *seqs: int) -> None:
    send(exchange, *[own(seq, b"%d" % seq) for seq in seqs])


def acknowledge(exchange: Exchange, slot: int, have: int) -> None:
    said(exchange, slot)
    exchange.acknowledged(slot, talk.Ack(0, have, 100, LARGE))


def link(before: int, seq: int) -> Message:
    """Right after a message of this node."""
    return Message(0, seq, (pack(0, before),), b"%d" % seq)


# ---- add and remove


def test_a_new_member_is_in_the_next_slot_and_not_settled():
    exchange = exchange_of()
    flow = exchange.add("d")
    assert (flow.slot, flow.name, flow.is_settled, flow.is_open) == (3, "d", False, False)
    assert exchange.flows[3] is flow
    assert [each.name for each in exchange.peers] == ["b", "c", "d"]


def test_a_new_member_gets_and_gives_messages_like_any_other():
    exchange = exchange_of()
    exchange.add("d")
    opened(exchange, 3)
    sent(exchange, 1)
    assert said(exchange, 3) == [("data", 1, [b"1"])]
    exchange.arrived(3, 1, batch(theirs(1, slot=3)), 0.0)
    exchange.written()
    assert said(exchange, 3, 1.0)[0][:2] == ("ack", 1)


def test_a_removed_member_is_sent_nothing_and_nobody_waits_for_it():
    exchange = exchange_of()
    opened(exchange, 1, 2)
    sent(exchange, 1, 2)
    acknowledge(exchange, 1, 2)
    exchange.say(NEWS)
    assert len(exchange.outbox) == 2
    exchange.remove(2)
    assert len(exchange.outbox) == 0
    assert [flow.name for flow in exchange.peers] == exchange.behind() == ["b"]
    assert [flow.name for flow in exchange.flows] == ["a", "b", "c"]
    assert said(exchange, 2) == []
    assert not exchange.owes(2, 99.0)
    assert exchange.add("d").slot == 3


def test_of_former_members_nothing_is_kept_or_awaited():
    exchange = exchange_of()
    exchange.retain({0, 2})
    assert [each.name for each in exchange.peers] == ["c"]
    assert len(exchange.flows) == 3
    opened(exchange, 2)
    sent(exchange, 1)
    acknowledge(exchange, 2, 1)
    assert len(exchange.outbox) == 0
    exchange.retain({0})
    sent(exchange, 2)
    assert len(exchange.outbox) == 0


def test_a_node_that_is_left_alone_keeps_nothing_and_keeps_again_for_who_comes():
    exchange = exchange_of(("a", "b"))
    opened(exchange, 1)
    sent(exchange, 1)
    exchange.remove(1)
    assert (len(exchange.outbox), exchange.outbox.is_sent) == (0, False)
    exchange.add("c")
    sent(exchange, 2)
    assert (len(exchange.outbox), exchange.outbox.is_sent) == (0, False)
    opened(exchange, 2, have=2)
    exchange.release()
    sent(exchange, 3)
    assert said(exchange, 2) == [("data", 3, [b"3"])]
    assert len(exchange.outbox) == 1


# ---- views


def test_a_peer_gets_what_was_sent_in_a_view_that_it_has():
    exchange = exchange_of()
    opened(exchange, 1, 2)
    sent(exchange, 1)
    exchange.enter(1)
    sent(exchange, 2, 3)
    exchange.enter(2)
    sent(exchange, 4)
    exchange.installed(2, 2)
    assert said(exchange, 2) == [("data", 1, [b"1", b"2", b"3", b"4"])]
    assert said(exchange, 1) == [("data", 1, [b"1"])]
    exchange.acknowledged(1, talk.Ack(0, 1, 200, LARGE))
    assert said(exchange, 1) == []
    exchange.installed(1, 1)
    assert said(exchange, 1) == [("data", 2, [b"2", b"3"])]
    opened(exchange, 1, have=3)
    assert said(exchange, 1) == []
    exchange.installed(1, 2)
    assert said(exchange, 1) == [("data", 4, [b"4"])]


def test_a_peer_may_be_in_a_later_view_and_is_in_no_earlier_one_again():
    exchange = exchange_of()
    opened(exchange, 1)
    exchange.installed(1, 3)
    exchange.installed(1, 1)
    exchange.enter(2)
    sent(exchange, 1)
    assert exchange.flows[1].view == 3
    assert said(exchange, 1) == [("data", 1, [b"1"])]


def test_where_a_view_began_is_forgotten_when_all_peers_have_it():
    exchange = exchange_of()
    for view in (1, 2, 3):
        exchange.enter(view)  # nothing was sent in the first two
    assert exchange._marks == [(1, 3)]
    sent(exchange, 1)
    exchange.enter(4)
    exchange.installed(1, 3)
    assert (exchange.flows[1].ceiling, exchange.flows[2].ceiling) == (1, 0)
    exchange.installed(2, 4)
    assert exchange._marks == [(2, 4)]
    assert (exchange.flows[1].ceiling, exchange.flows[2].ceiling) == (1, NO_CEILING)
    exchange.remove(1)
    assert exchange._marks == []
    exchange.enter(5)
    assert exchange.flows[2].ceiling == 1
    exchange.installed(2, 5)
    assert exchange._marks == []
    assert exchange.flows[2].ceiling == NO_CEILING


def test_a_new_member_has_the_view_of_those_it_came_to_and_not_the_next():
    exchange = exchange_of()
    opened(exchange, 1)
    exchange.enter(4)
    sent(exchange, 1)
    flow = exchange.add("d")
    exchange.enter(5)
    sent(exchange, 2)
    opened(exchange, 3)
    assert (flow.view, flow.ceiling) == (4, 1)
    assert said(exchange, 3) == [("data", 1, [b"1"])]
    exchange.installed(3, 5)
    assert said(exchange, 3) == [("data", 2, [b"2"])]


def test_a_phantom_waits_until_the_peer_has_its_view():
    exchange = exchange_of()
    opened(exchange, 1, 2)
    exchange.enter(2)
    exchange.installed(2, 2)
    exchange.say(NEWS)
    assert said(exchange, 2) == [("news", NEWS)]
    exchange.installed(1, 1)
    assert not exchange.owes(1, 0.0)
    assert said(exchange, 1) == []
    exchange.installed(1, 3)
    assert exchange.owes(1, 0.0)
    assert said(exchange, 1) == [("news", NEWS)]
    exchange.installed(1, 4)
    assert said(exchange, 1) == []


def test_a_phantom_of_the_next_view_replaces_one_that_is_owed():
    exchange = exchange_of()
    opened(exchange, 1)
    exchange.say(NEWS)
    exchange.enter(1)
    later = Phantom(0, 9, ())
    exchange.say(later)
    assert said(exchange, 1) == []
    exchange.installed(1, 1)
    assert said(exchange, 1) == [("news", later)]


def test_a_phantom_waits_for_the_messages_before_it():
    exchange = exchange_of()
    opened(exchange, 1, limit=2)
    opened(exchange, 2)
    sent(exchange, 1, 2, 3)
    news = Phantom(0, 4, ())
    exchange.say(news)
    assert talk.news(1, news) not in exchange.frames(1, 1, False, 0.0)
    assert talk.news(1, news) in exchange.frames(2, 1, False, 0.0)
    exchange.acknowledged(1, talk.Ack(0, 2, 100, LARGE))
    assert exchange.frames(1, 1, False, 0.0)[-1] == talk.news(1, news)


def test_a_phantom_that_waits_for_a_view_ends_with_the_connection():
    exchange = exchange_of()
    opened(exchange, 1)
    exchange.enter(1)
    exchange.say(NEWS)
    exchange.flows[1].closed()
    opened(exchange, 1)
    exchange.installed(1, 1)
    assert said(exchange, 1) == []


# ---- catching up


def test_nothing_is_kept_for_a_member_that_is_not_there_yet():
    exchange = exchange_of(("a", "b"))
    opened(exchange, 1)
    exchange.add("d")
    sent(exchange, 1, 2)
    acknowledge(exchange, 1, 2)
    assert len(exchange.outbox) == 0
    assert exchange.behind() == ["d"]


def refill(exchange: Exchange, messages: list[Message]) -> None:
    """These are to be sent again; the engine would have them."""
    made = {message.seq: message for message in messages}
    exchange.outbox.fetch = made.__getitem__
    exchange.refill([len(message.payload) for message in messages])


def joined(messages_max: int = 4, bytes_max: int = 1024, size: int = 1) -> Exchange:
    """Where b has all of ten messages, and d, who came, has none."""
    exchange = exchange_of(("a", "b"), outbox_messages_max=messages_max, outbox_bytes_max=bytes_max)
    opened(exchange, 1)
    exchange.add("d")
    send(exchange, *[own(seq, bytes(size)) for seq in range(1, 11)])
    acknowledge(exchange, 1, 10)
    refill(exchange, [own(seq, bytes(size)) for seq in exchange.lacks(0)])
    opened(exchange, 2)
    exchange.release()
    return exchange


def test_what_a_member_lacks_is_kept_and_counts_towards_no_limit():
    exchange = joined()
    outbox = exchange.outbox
    assert (len(outbox), outbox.floor, outbox.waiting, outbox.waiting_bytes) == (10, 10, 0, 0)
    assert exchange.has_room
    assert not exchange.flows[2].is_settled
    assert exchange.behind() == ["d"]
    assert said(exchange, 2) == [("data", 1, [b"\0"] * 10)]
    sent(exchange, 11, 12, 13, 14)
    assert not exchange.has_room  # b lacks those
    assert exchange.behind() == ["b"]
    acknowledge(exchange, 1, 12)
    assert (len(outbox), outbox.waiting) == (14, 2)
    assert exchange.has_room


def test_a_member_is_settled_when_it_leaves_half_of_the_outbox_free():
    exchange = joined()
    acknowledge(exchange, 2, 7)
    assert (exchange.flows[2].is_settled, len(exchange.outbox)) == (False, 3)
    acknowledge(exchange, 2, 8)
    assert exchange.flows[2].is_settled
    assert (len(exchange.outbox), exchange.outbox.waiting) == (2, 2)
    sent(exchange, 11, 12)
    assert not exchange.has_room
    acknowledge(exchange, 1, 12)
    assert not exchange.has_room
    assert exchange.behind() == ["d"]
    exchange.flows[2].closed()
    exchange.release()
    assert len(exchange.outbox) == 4  # from now on it is waited for like any other


def test_a_member_is_settled_only_when_half_of_the_bytes_are_free_too():
    exchange = joined(messages_max=100, size=200)
    acknowledge(exchange, 2, 7)
    assert not exchange.flows[2].is_settled
    acknowledge(exchange, 2, 8)
    assert exchange.flows[2].is_settled


def test_what_was_kept_for_a_member_that_went_away_again_is_released():
    exchange = joined()
    exchange.flows[2].closed()
    exchange.release()
    assert len(exchange.outbox) == 0
    assert exchange.lacks(4) == range(5, 11)


def test_what_was_kept_for_a_member_that_is_removed_is_released():
    exchange = joined()
    exchange.remove(2)
    assert (len(exchange.outbox), exchange.has_room) == (0, True)
    assert exchange._unsettled == []
    sent(exchange, 11, 12, 13, 14)
    assert not exchange.has_room


def test_a_settled_member_that_lost_much_has_to_catch_up_again():
    exchange = joined()
    acknowledge(exchange, 2, 10)
    assert (exchange.flows[2].is_settled, len(exchange.outbox)) == (True, 0)
    exchange.unsettle(2)
    exchange.unsettle(2)
    assert exchange._unsettled == [exchange.flows[2]]
    refill(exchange, [own(seq) for seq in exchange.lacks(3)])
    opened(exchange, 2, have=3)
    exchange.release()
    assert (len(exchange.outbox), exchange.outbox.waiting) == (7, 0)
    acknowledge(exchange, 2, 10)
    assert exchange.flows[2].is_settled
    assert exchange._unsettled == []


def test_the_only_peer_does_not_hold_up_what_was_sent_before_it_came():
    exchange = exchange_of(("a",), outbox_messages_max=4)
    sent(exchange, *range(1, 11))
    exchange.add("b")
    refill(exchange, [own(seq) for seq in exchange.lacks(0)])
    opened(exchange, 1)
    exchange.release()
    assert (len(exchange.outbox), exchange.outbox.waiting) == (10, 0)
    assert exchange.behind() == ["b"]
    sent(exchange, 11)
    assert said(exchange, 1) == [("data", 1, [b"x"] * 10 + [b"11"])]


# ---- refill


def test_what_is_lacked_is_what_the_outbox_no_longer_has():
    exchange = exchange_of(("a",))
    assert list(exchange.lacks(0)) == []
    sent(exchange, 1, 2, 3)
    assert exchange.lacks(0) == range(1, 4)
    assert exchange.lacks(2) == range(3, 4)
    assert list(exchange.lacks(3)) == []


def test_messages_come_back_as_they_were():
    exchange = exchange_of(("a",))
    chained(exchange, 1, *[b""] * 6)
    exchange.outbox.release(6)
    chained(exchange, 7, b"7")
    aside = Aside("", (), (pack(1, 1),))
    before = [
        own(1, b"1"),
        link(1, 2),
        link(2, 3),
        Message(0, 4, (pack(0, 3), pack(1, 1)), b"4"),
        Message(0, 5, (pack(0, 4),), b"5", aside),
        link(5, 6),
    ]
    exchange.add("b")
    refill(exchange, before)
    opened(exchange, 1)
    expected = [own(1, b"1"), Chain(0, 2, [b"2", b"3"]), *before[3:5]]
    assert items(exchange, 1) == [*expected, Chain(0, 6, [b"6"]), Chain(0, 7, [b"7"])]


def test_a_flow_is_not_opened_before_there_is_what_it_lacks():
    exchange = exchange_of(("a",))
    sent(exchange, 1, 2)
    exchange.add("b")
    opened(exchange, 1)
    with pytest.raises(AssertionError, match="refilled before"):
        exchange.release()


def test_what_comes_back_counts_as_it_did():
    exchange = exchange_of(("a",))
    sent(exchange, 1, 2)
    exchange.add("b")
    refill(exchange, [own(1, b"abc"), link(1, 2)])
    opened(exchange, 1)
    flow = exchange.flows[1]
    items(exchange, 1)
    assert flow.room == LARGE - talk.message_bytes(b"abc") - talk.message_bytes(b"2")


# ---- evictions


def test_what_was_thrown_away_is_asked_for_at_the_next_opening():
    exchange = exchange_of(credit_messages=10)
    opened(exchange, 1)
    exchange.arrived(1, 1, batch(*[theirs(seq, b"12345") for seq in range(1, 6)]), 0.0)
    exchange.written()
    exchange.taken(1, b"12345")
    exchange.fall_back(1, 2, 3, 3 * talk.message_bytes(b"12345"))
    flow = exchange.flows[1]
    assert (flow.have, flow.held, flow.held_bytes) == (2, 1, talk.message_bytes(b"12345"))
    assert flow.opening()[:2] == (2, 2 + 10 - 1)
    messages, _ = exchange.arrived(1, 3, batch(theirs(3)), 0.0)
    assert [message.seq for message in messages] == [3]


def test_what_another_member_relayed_is_there_and_costs_the_connection_nothing():
    exchange = exchange_of(credit_messages=10)
    opened(exchange, 1)
    before = exchange.flows[1]._arrived_bytes
    exchange.relayed(1, 2, 2 * talk.message_bytes(b"12345"))
    exchange.written()
    flow = exchange.flows[1]
    assert (flow.have, flow.durable, flow.held) == (2, 2, 2)
    assert flow.held_bytes == 2 * talk.message_bytes(b"12345")
    assert flow._arrived_bytes == before
    exchange.taken(1, b"12345")
    assert flow.opening()[:2] == (2, 2 + 10 - 1)
    assert exchange.arrived(1, 1, batch(theirs(1), theirs(2)), 0.0) == ([], b"")


# ---- the application


def test_an_application_is_not_stopped_by_a_member_that_catches_up():
    flow = FlowConfig(outbox_messages_max=2, outbox_bytes_max=1024)
    driver = driver_open(driver_of(flow=flow), 1)
    driver.exchange.unsettle(2)
    made = []
    for number in range(1, 7):
        tag = driver.broadcast(bytes(500), 0.0)
        made.append(message_of(tag))
        driver.frames(1, 0, False, 0.0)
        driver.acknowledged(1, talk.Ack(0, number, 100, LARGE))
    refill(driver.exchange, made)
    driver_open(driver, 2)
    assert (len(driver.exchange.outbox), driver.has_room) == (6, True)
    assert len(driver.broadcast_many([b"7", b"8", b"9"], 0.0)) == 2
    with pytest.raises(Full, match=r"2 messages are not acknowledged .* b has acknowledged least"):
        driver.broadcast(b"9", 0.0)


def test_an_application_goes_on_when_a_member_that_catches_up_goes_away():
    driver = driver_of(names=("a", "b"), flow=FlowConfig(outbox_messages_max=2))
    driver.exchange.unsettle(1)
    driver.exchange.release()
    made = [message_of(driver.broadcast(b"x", 0.0)) for _ in range(5)]  # kept for nobody
    refill(driver.exchange, made)
    driver_open(driver, 1)
    driver.broadcast_many([b"6", b"7"], 0.0)
    with pytest.raises(Full):
        driver.broadcast(b"8", 0.0)
    told: list[str] = []
    driver.on_room = lambda: told.append("room")
    driver.closed(1, "gone")
    assert told == ["room"]
    assert len(driver.exchange.outbox) == 0
    driver.broadcast(b"8", 0.0)
