"""What a link does and when, exactly.  Its behaviour in bad weather is in test_hostile.py."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.link.ends import ID, carry, ends, head, message, packet
from thence.errors import UnusableInputError
from thence.link.datagram import (
    ACCEPT,
    ACK,
    COOKIE,
    DATA,
    DATAGRAM_BYTES_MAX,
    FIN,
    HELLO,
    OPEN,
    PAYLOAD_BYTES_MAX,
    PING,
    RESET,
    opening,
    short,
)
from thence.link.options import LinkOptions
from thence.link.reliable import Link

# ---- opening


def test_a_dialler_says_hello_shows_the_cookie_and_is_open():
    link = Link(ID, 0.0, dialled=True)
    assert link.outgoing(0.0) == [opening(HELLO, ID)]
    assert link.receive(opening(COOKIE, ID, b"c" * 16), 0.1) == []
    assert link.outgoing(0.1) == [opening(OPEN, ID, b"c" * 16)]
    assert not link.opened
    link.receive(short(ACCEPT, ID), 0.2)
    assert link.opened
    assert link.stats.rtt_ms == pytest.approx(100)


def test_copies_of_a_cookie_bring_about_one_open():
    link = Link(ID, 0.0, dialled=True)
    link.outgoing(0.0)
    for _ in range(5):
        link.receive(opening(COOKIE, ID, b"c" * 16), 0.1)
    assert len(link.outgoing(0.1)) == 1
    assert link.outgoing(0.1) == []


def test_a_late_copy_of_the_cookie_brings_about_nothing():
    link = Link(ID, 0.0, dialled=True)
    link.outgoing(0.0)
    link.receive(opening(COOKIE, ID, b"c" * 16), 0.1)
    link.outgoing(0.1)
    link.receive(opening(COOKIE, ID, b"c" * 16), 0.11)
    assert link.outgoing(0.11) == []


def test_a_lost_accept_starts_the_opening_again():
    link = Link(ID, 0.0, dialled=True)
    link.outgoing(0.0)
    link.receive(opening(COOKIE, ID, b"c" * 16), 0.01)
    link.outgoing(0.01)
    again = link.deadline()
    assert again is not None
    assert link.outgoing(again) == [opening(HELLO, ID)]


def test_data_stands_for_a_lost_accept():
    link = Link(ID, 0.0, dialled=True)
    link.outgoing(0.0)
    assert link.receive(packet(DATA, 0, message(b"x")), 0.1) == [b"x"]
    assert link.opened


def test_a_repeated_open_is_accepted_again():
    one, _ = ends()
    one.receive(opening(OPEN, ID, bytes(16)), 1.0)
    assert one.outgoing(1.0) == [short(ACCEPT, ID)]


def test_a_dialler_that_gives_up_tells_the_other_side():
    link = Link(ID, 0.0, dialled=True)
    link.outgoing(0.0)
    link.close()
    assert link.outgoing(0.0) == [short(RESET, ID)]
    assert link.closed
    assert link.outgoing(9.0) == []


# ---- acknowledgements


def test_an_acknowledgement_waits_for_data_to_travel_with():
    one, two = ends(LinkOptions(ack_delay_s=0.02))
    one.send(b"question")
    assert carry(one, two, 1.0) == [b"question"]
    assert two.outgoing(1.0) == []
    assert two.deadline() == 1.02
    two.send(b"answer")
    (datagram,) = two.outgoing(1.01)
    assert head(datagram) == (DATA, 0, 1, 0)
    assert two.deadline() != 1.02
    assert one.receive(datagram, 1.01) == [b"answer"]
    assert one.backlog_bytes == 0


def test_an_acknowledgement_goes_alone_after_its_delay():
    one, two = ends(LinkOptions(ack_delay_s=0.02))
    one.send(b"question")
    carry(one, two, 1.0)
    assert two.outgoing(1.0199) == []
    (datagram,) = two.outgoing(1.02)
    assert head(datagram) == (ACK, 0, 1, 0)
    assert two.outgoing(1.03) == []


def test_many_packets_are_acknowledged_at_once():
    _, two = ends(LinkOptions(ack_packets=4))
    for number in range(4):
        assert two.outgoing(1.0) == []
        two.receive(packet(DATA, number, message(b"")), 1.0)
    assert [head(datagram) for datagram in two.outgoing(1.0)] == [(ACK, 0, 4, 0)]


def test_a_gap_is_told_at_once_with_what_arrived_behind_it():
    _, two = ends()
    for number in (0, 2, 3, 5):
        two.receive(packet(DATA, number, message(b"%d" % number)), 1.0)
    assert [head(datagram) for datagram in two.outgoing(1.0)] == [(ACK, 0, 1, 0b1011)]
    assert two.receive(packet(DATA, 1, message(b"1")), 1.0) == [b"1", b"2", b"3"]
    assert [head(datagram) for datagram in two.outgoing(1.0)] == [(ACK, 0, 4, 0b1)]


def test_a_packet_that_came_twice_is_acknowledged_again_and_counted():
    _, two = ends()
    two.receive(packet(DATA, 0, message(b"x")), 1.0)
    two.outgoing(2.0)
    assert two.receive(packet(DATA, 0, message(b"x")), 2.1) == []
    assert [head(datagram)[0] for datagram in two.outgoing(2.1)] == [ACK]
    assert two.stats.duplicates == 1


def test_a_packet_that_is_held_and_came_twice_is_counted_once():
    _, two = ends()
    for _ in range(2):
        two.receive(packet(DATA, 1, message(b"x")), 1.0)
    assert (two.stats.received, two.stats.duplicates) == (1, 1)


def test_a_packet_beyond_the_window_is_not_held():
    _, two = ends(LinkOptions(window_packets=16))
    two.receive(packet(DATA, 16, message(b"x")), 1.0)
    assert (two.rejected, two.held_bytes) == (1, 0)
    two.receive(packet(DATA, 15, message(b"x")), 1.0)
    assert two.held_bytes == 5


# ---- life and death


def test_silence_is_asked_and_after_too_much_of_it_the_link_fails():
    one, _ = ends(LinkOptions(keepalive_s=3.0, silence_s=10.0))
    pings = []
    while not one.closed:
        now = one.deadline()
        assert now is not None
        pings += [(now, head(datagram)[0]) for datagram in one.outgoing(now)]
    assert pings == [(3.0, PING), (6.0, PING), (9.0, PING)]
    assert one.failed == "the peer was silent for 10 s"


def test_a_ping_is_answered_at_once_and_whoever_answers_need_not_ask():
    one, two = ends()
    carry(one, two, 3.0)
    assert [head(datagram)[0] for datagram in two.outgoing(3.0)] == [ACK]
    assert two.deadline() == 6.0


def test_a_peer_that_does_not_know_the_connection_ends_it():
    one, _ = ends()
    one.receive(short(RESET, ID), 1.0)
    assert one.failed == "the peer does not know this connection any more"


def test_a_close_carries_what_was_accepted_and_ends_both():
    one, two = ends()
    one.send(b"last")
    one.close()
    assert carry(one, two, 1.0) == [b"last"]
    assert (two.closed, two.by_peer, two.failed) == (True, True, None)
    assert not one.closed
    carry(two, one, 1.0)
    assert (one.closed, one.by_peer, one.failed) == (True, False, None)


def test_a_fin_that_overtook_data_waits_for_it():
    _, two = ends()
    two.receive(packet(FIN, 1), 1.0)
    assert not two.closed
    assert two.receive(packet(DATA, 0, message(b"x")), 1.0) == [b"x"]
    assert two.closed


def test_nothing_is_given_out_behind_a_fin():
    _, two = ends()
    two.receive(packet(DATA, 2, message(b"behind")), 1.0)
    two.receive(packet(FIN, 1), 1.0)
    assert two.receive(packet(DATA, 0, message(b"x")), 1.0) == [b"x"]


def test_while_closing_a_reset_is_the_end_and_no_failure():
    one, _ = ends()
    one.close()
    one.outgoing(1.0)
    one.receive(short(RESET, ID), 1.1)
    assert (one.closed, one.failed) == (True, None)


# ---- nonsense


@pytest.mark.parametrize(
    "datagram",
    [
        packet(ACK, ack=2),
        packet(ACK, ack=0, bits=1),
        packet(DATA, 0, message(b"x"), ack=1 << 63),
        packet(DATA, 1 << 63, message(b"x")),
        packet(12),
        packet(DATA, 0, message(b"x"))[:-1],
        packet(DATA, 0, message(b"x")) + b"x",
        short(ACCEPT, ID + 1),
        packet(ACK, ack=1, connection=ID + 1),
        b"",
    ],
)
def test_nonsense_is_counted_and_changes_nothing(datagram: bytes):
    one, _ = ends()
    one.send(b"x")
    one.outgoing(0.0)
    before = (one.stats.acked, one.backlog_bytes, one.held_bytes, one.deadline())
    assert one.receive(datagram, 0.1) == []
    assert one.rejected == 1
    assert (one.stats.acked, one.backlog_bytes, one.held_bytes, one.deadline()) == before


def test_what_was_acknowledged_cannot_be_taken_back():
    one, _ = ends()
    one.send(bytes(4 * PAYLOAD_BYTES_MAX))
    one.outgoing(1.0)
    one.receive(packet(ACK, ack=0, bits=0b1), 1.1)
    one.receive(packet(ACK, ack=1), 1.2)
    assert one.rejected == 1


def test_a_message_above_the_limit_fails_the_link_and_tells_the_peer():
    _, two = ends(LinkOptions(message_bytes_max=100))
    two.receive(packet(DATA, 0, struct.pack(">I", 101)), 1.0)
    assert two.failed == "the peer sent a message of 101 bytes; at most 100 are taken"
    assert two.outgoing(1.0) == [short(RESET, ID)]


numbers = st.one_of(st.integers(0, 20), st.integers(0, (1 << 64) - 1))
crafted = st.builds(
    packet,
    st.integers(0, 255),
    numbers,
    st.one_of(st.binary(max_size=40), st.binary(max_size=20).map(message)),
    numbers,
    st.integers(0, 65535),
    st.one_of(st.integers(0, 1 << 20), st.integers(0, (1 << 256) - 1)),
)
noise = st.one_of(
    crafted,
    st.binary(max_size=1500),
    st.builds(opening, st.integers(0, 12), st.just(ID), st.binary(min_size=16, max_size=16)),
    st.builds(short, st.sampled_from([ACCEPT, ACCEPT, RESET]), st.sampled_from([ID, 1])),
)


@given(st.lists(noise, max_size=40), st.booleans())
def test_any_datagrams_never_raise_and_leave_little(datagrams: list[bytes], dialled: bool):
    link = Link(ID, 0.0, dialled=dialled, options=LinkOptions(message_bytes_max=4096))
    now = 0.0
    for datagram in datagrams:
        link.send(bytes(700))
        now += 0.01
        for got in link.receive(datagram, now):
            assert len(got) <= 4096
        link.outgoing(now)
        deadline = link.deadline()
        assert deadline is None or deadline > now
        assert link.held_bytes <= 256 * DATAGRAM_BYTES_MAX + 4096 + 4
        assert link.stats.in_flight >= 0
        assert link.backlog_bytes >= 0
        if deadline is not None and len(datagram) % 3 == 0:
            now = deadline
            link.outgoing(now)


@pytest.mark.parametrize(
    "options",
    [
        LinkOptions(retries=-1),
        LinkOptions(window_packets=15),
        LinkOptions(window_packets=257),
        LinkOptions(keepalive_s=20.0),
        LinkOptions(message_bytes_max=0),
    ],
)
def test_options_that_cannot_be_are_refused(options: LinkOptions):
    with pytest.raises(UnusableInputError):
        Link(ID, 0.0, dialled=True, options=options)
