"""One peer in one group: what may be sent, what may be acknowledged, and credit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.client.flow import Flow
from thence.config.node import FlowConfig
from thence.message import PAYLOAD_BYTES_MAX
from thence.wire.talk import MESSAGE_BYTES_EXTRA, Open

BYTES = PAYLOAD_BYTES_MAX + MESSAGE_BYTES_EXTRA


def flow_of(messages: int = 4, have: int = 0, credit_bytes: int = 1024) -> Flow:
    config = FlowConfig(credit_messages=messages, credit_bytes=credit_bytes)
    return Flow(1, "b", config, have=have)


def opening(have: int = 0, limit: int = 4, limit_bytes: int = 1000) -> Open:
    return Open(0, "g", "tagged", ("a", "b"), have, limit, limit_bytes)


def test_the_opening_says_what_is_written_down_and_the_whole_credit():
    flow = flow_of(have=7)
    assert flow.opening() == (7, 11, BYTES)


def test_the_largest_message_always_fits_when_nothing_is_held():
    assert flow_of(credit_bytes=1024).opening()[2] == BYTES
    assert flow_of(credit_bytes=BYTES + 5).opening()[2] == BYTES + 5


def test_sending_goes_on_after_what_the_peer_has():
    flow = flow_of()
    flow.sent = 9
    flow.opened(opening(have=3, limit=7, limit_bytes=50))
    assert flow.is_open
    assert (flow.acked, flow.sent, flow.limit, flow.room, flow.resent) == (3, 3, 7, 50, 6)


def test_what_arrived_is_acknowledged_when_it_is_written_down():
    flow = flow_of()
    flow.opening()
    flow.arrived(2, 20)
    assert flow.ack()[0] == 0
    flow.durable = flow.have
    assert flow.ack()[0] == 2


def test_credit_counts_what_the_application_has_not_taken():
    flow = flow_of(messages=4)
    flow.opening()
    flow.arrived(3, 30)
    assert flow.ack()[1:] == (3 + 1, 30 + BYTES - 30)
    flow.taken(10)
    assert flow.ack()[1:] == (3 + 2, 30 + BYTES - 20)
    flow.taken(10)
    flow.taken(10)
    assert flow.ack()[1:] == (3 + 4, 30 + BYTES)
    assert (flow.held, flow.held_bytes) == (0, 0)


def test_a_limit_is_never_below_what_is_there():
    flow = flow_of(messages=2)
    flow.held, flow.held_bytes = 5, BYTES + 100  # of a former life
    assert flow.opening()[1:] == (0, 0)


def test_the_peer_is_told_at_once_when_half_of_the_credit_is_free_again():
    flow = flow_of(messages=4)
    flow.opening()
    flow.arrived(4, 40)
    flow.ack()
    assert not flow.owes_ack()
    flow.taken(10)
    flow.taken(10)
    assert not flow.owes_ack()
    flow.taken(10)
    assert flow.owes_ack()
    flow.ack()
    assert not flow.owes_ack()


def test_the_peer_is_told_at_once_when_half_of_the_bytes_are_free_again():
    flow = flow_of(messages=1000)
    flow.opening()
    flow.arrived(2, BYTES)
    flow.ack()
    flow.taken(BYTES // 2)
    assert not flow.owes_ack()
    flow.taken(BYTES - BYTES // 2)
    assert flow.owes_ack()


def test_acknowledgements_that_are_late_take_nothing_back():
    flow = flow_of()
    flow.opened(opening(have=0, limit=4, limit_bytes=100))
    flow.sent, flow.room = 4, 60
    flow.acknowledged(3, 7, 130)
    assert (flow.acked, flow.limit, flow.room) == (3, 7, 90)
    flow.acknowledged(1, 5, 110)
    assert (flow.acked, flow.limit, flow.room) == (3, 7, 90)
    flow.acknowledged(3, 7, 130)
    assert flow.room == 90


def test_bytes_are_counted_from_the_opening_repeated_ones_too():
    flow = flow_of()
    flow.opening()
    flow.arrived(1, 100)
    flow.repeated(50)
    flow.taken(100)
    assert flow.ack()[2] == 150 + BYTES
    assert flow.opening()[2] == BYTES


def test_more_bytes_than_were_told_are_too_many():
    flow = flow_of()
    flow.opening()
    assert not flow.exceeds(BYTES)
    assert flow.exceeds(BYTES + 1)
    flow.arrived(1, 10)
    assert flow.exceeds(BYTES - 9)


def test_a_closed_connection_owes_nothing():
    flow = flow_of()
    flow.opened(opening())
    flow.owes_news, flow.ack_at = True, 1.0
    flow.closed()
    assert (flow.is_open, flow.owes_news, flow.ack_at) == (False, False, None)


@pytest.mark.parametrize("messages", [1, 2, 5])
@given(steps=st.lists(st.sampled_from(["send", "take", "tell", "reconnect"]), max_size=80))
def test_a_sender_within_its_limit_never_makes_the_receiver_hold_more(
    messages: int, steps: list[str]
):
    sender, receiver = flow_of(messages), flow_of(messages)

    def connect() -> None:
        have, limit, limit_bytes = receiver.opening()
        sender.opened(opening(have, limit, limit_bytes))

    connect()
    for step in steps:
        if step == "send" and sender.sent < sender.limit and sender.room >= 70:
            sender.sent += 1
            sender.room -= 70
            assert not receiver.exceeds(70)
            receiver.arrived(1, 70)
            assert receiver.have <= receiver.told_limit
        elif step == "take" and receiver.held:
            receiver.taken(70)
        elif step == "tell":
            receiver.durable = receiver.have
            sender.acknowledged(*receiver.ack())
        elif step == "reconnect":
            receiver.durable = receiver.have
            connect()
        assert receiver.held <= messages
        if not receiver.held:  # never stuck: told now, one message may come
            sender.acknowledged(*receiver.ack())
            assert sender.limit > sender.sent


# ---- members that come and go


def test_a_peer_of_a_group_that_stays_has_no_ceiling():
    flow = flow_of()
    assert (flow.view, flow.ceiling, flow.is_settled) == (0, 1 << 62, True)
    flow.opened(opening(limit=7))
    assert flow.granted == flow.limit == 7


def test_the_limit_is_the_smaller_of_what_the_peer_allowed_and_the_ceiling():
    flow = flow_of()
    flow.set_ceiling(5)
    assert (flow.granted, flow.limit) == (0, 0)
    flow.opened(opening(limit=7))
    assert (flow.granted, flow.limit) == (7, 5)
    flow.acknowledged(1, 9, 1000)
    assert (flow.granted, flow.limit) == (9, 5)
    flow.set_ceiling(8)
    assert flow.limit == 8
    flow.set_ceiling(1 << 62)
    assert flow.limit == 9
    flow.acknowledged(1, 8, 1000)
    assert (flow.granted, flow.limit) == (9, 9)
    flow.acknowledged(1, 10, 1000)
    assert (flow.granted, flow.limit) == (10, 10)


def test_nothing_is_gained_by_falling_back():
    flow = flow_of(have=3)
    with pytest.raises(AssertionError):
        flow.fall_back(4, 0, 0)
