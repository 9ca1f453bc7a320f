"""What a link sends, and when it sends it again."""

from __future__ import annotations

import pytest

from tests.link.ends import carry, ends, head, message, packet
from thence.errors import Full, LimitError
from thence.link.datagram import ACK, ASK, DATA, DATAGRAM_BYTES_MAX, PAYLOAD_BYTES_MAX
from thence.link.options import WINDOW_PACKETS_ASSUMED, LinkOptions


def test_messages_of_a_turn_share_a_datagram():
    one, two = ends()
    for number in range(20):
        one.send(b"%064d" % number)
    datagrams = one.outgoing(1.0)
    assert [len(datagram) <= DATAGRAM_BYTES_MAX for datagram in datagrams] == [True, True]
    assert len([got for d in datagrams for got in two.receive(d, 1.0)]) == 20


def test_datagrams_never_exceed_their_size_whatever_they_acknowledge():
    one, _ = ends()
    for number in range(255, 0, -1):
        one.receive(packet(DATA, number, message(b"")), 1.0)
    one.send(bytes(100_000))
    sizes = [len(datagram) for datagram in one.outgoing(1.0)]
    assert max(sizes) == DATAGRAM_BYTES_MAX


def test_no_more_is_on_its_way_than_the_peer_takes():
    one, _ = ends()
    one._sender.window.acked(200)
    one.send(bytes(100 * PAYLOAD_BYTES_MAX))
    assert len(one.outgoing(1.0)) == WINDOW_PACKETS_ASSUMED
    one.receive(packet(ACK, ack=4, window=20), 1.1)
    assert len(one.outgoing(1.1)) == 8  # 4 to 24 were allowed, 16 had been sent
    one.receive(packet(ACK, ack=24, window=0), 1.2)
    assert len(one.outgoing(1.2)) == 1  # a closed window is tried with one packet


def test_the_window_grows_only_when_it_was_used_up():
    one, _ = ends()
    one.send(b"x")
    one.outgoing(1.0)
    one.receive(packet(ACK, ack=1), 1.01)
    assert one._sender.window.packets == 10
    one.send(bytes(10 * PAYLOAD_BYTES_MAX - 4))
    assert len(one.outgoing(2.0)) == 10
    one.receive(packet(ACK, ack=11), 2.01)
    assert one.stats.window == 20


def test_a_window_that_is_used_up_asks_for_an_acknowledgement():
    one, _ = ends()
    one.send(bytes(50 * PAYLOAD_BYTES_MAX))
    asks = [bool(datagram[1] & ASK) for datagram in one.outgoing(1.0)]
    assert [at for at, ask in enumerate(asks) if ask] == [4, 9]


def test_a_packet_that_three_overtook_is_sent_again_at_once():
    one, _ = ends()
    one.send(bytes(6 * PAYLOAD_BYTES_MAX))
    one.outgoing(1.0)
    one.receive(packet(ACK, ack=1, bits=0b11), 1.0001)
    assert one.outgoing(1.0001) == []
    one.receive(packet(ACK, ack=1, bits=0b111), 1.0001)
    assert [head(datagram)[:2] for datagram in one.outgoing(1.0001)] == [(DATA, 1)]
    assert one.stats.resent == 1
    assert one.stats.window == 7


def test_losses_of_one_window_make_it_smaller_once():
    one, _ = ends()
    one.send(bytes(10 * PAYLOAD_BYTES_MAX - 4))
    one.outgoing(1.0)
    one.receive(packet(ACK, ack=0, bits=0b1010), 1.0001)
    assert one.stats.window == 8  # (10 + 2) * 0.7
    one.receive(packet(ACK, ack=0, bits=0b111101010), 1.0001)
    assert one.stats.window == 8
    assert [head(datagram)[1] for datagram in one.outgoing(1.0001)] == [0, 1, 3, 5]


def test_a_resent_packet_can_be_found_lost_again_without_a_time_out():
    one, _ = ends()
    one.send(bytes(8 * PAYLOAD_BYTES_MAX - 4))
    one.outgoing(1.0)
    one.receive(packet(ACK, ack=0, bits=0b1111), 1.1)
    assert [head(d)[1] for d in one.outgoing(1.1)] == [0]
    one.send(bytes(3 * PAYLOAD_BYTES_MAX - 4))
    assert len(one.outgoing(1.1)) == 3
    one.receive(packet(ACK, ack=0, bits=0b1111111111), 1.2)
    assert [head(d)[1] for d in one.outgoing(1.2)] == [0]


def test_an_acknowledgement_too_early_for_the_last_copy_shows_no_other_loss():
    one, _ = ends()
    one.send(b"x")
    one.outgoing(0.0)
    one.receive(packet(ACK, ack=1), 0.05)  # a round trip of 50 ms
    one.send(bytes(9 * PAYLOAD_BYTES_MAX - 4))
    assert len(one.outgoing(1.0)) == 9
    one.receive(packet(ACK, ack=1, bits=0b111), 1.05)
    assert [head(d)[1] for d in one.outgoing(1.05)] == [1]
    one.receive(packet(ACK, ack=5), 1.051)  # the first copy was late, not lost
    assert one.outgoing(1.051) == []


def test_after_a_time_out_packets_are_sent_again_two_at_first():
    one, _ = ends()
    one.send(bytes(10 * PAYLOAD_BYTES_MAX - 4))
    assert len(one.outgoing(0.0)) == 10
    assert [head(d)[1] for d in one.outgoing(0.3)] == [0, 1]
    one.receive(packet(ACK, ack=2), 0.31)
    assert [head(d)[1] for d in one.outgoing(0.31)] == [2, 3, 4, 5]
    one.receive(packet(ACK, ack=10), 0.32)  # the others had arrived, and their acknowledgement too
    assert one.outgoing(0.32) == []
    assert (one.stats.in_flight, one.backlog_bytes) == (0, 0)


def test_the_last_packet_of_a_burst_is_probed_before_the_time_out():
    one, two = ends()
    one.send(b"a")
    carry(one, two, 1.0)
    for datagram in two.outgoing(1.02):
        one.receive(datagram, 1.02)
    one.send(b"b")
    one.outgoing(2.0)
    assert one.deadline() == pytest.approx(2.04)  # two round trips of 20 ms
    assert [head(d)[:2] for d in one.outgoing(2.04)] == [(DATA, 1)]
    assert (one.stats.timeouts, one.stats.resent) == (0, 1)
    assert one.deadline() == pytest.approx(2.04 + one.stats.timeout_ms / 1e3)


def test_time_outs_double_and_after_the_last_retry_the_link_fails():
    one, _ = ends(LinkOptions(retries=4, silence_s=1000.0, keepalive_s=900.0))
    one.send(b"x")
    assert len(one.outgoing(0.0)) == 1
    times = []
    while not one.closed:
        now = one.deadline()
        assert now is not None
        out = one.outgoing(now)
        times.append((round(now, 6), len(out)))
    assert times == [(0.3, 1), (0.9, 1), (2.1, 1), (4.5, 1), (8.5, 0)]
    assert one.failed == "the peer acknowledged nothing after 4 retries"
    assert one.outgoing(99.0) == []


def test_an_acknowledgement_ends_the_count_of_retries():
    one, _ = ends(LinkOptions(retries=1, silence_s=1000.0, keepalive_s=900.0))
    one.send(b"x")
    one.outgoing(0.0)
    one.outgoing(0.3)
    one.receive(packet(ACK, ack=1), 0.4)
    one.send(b"y")
    one.outgoing(0.4)
    assert one.deadline() == pytest.approx(0.4 + 0.6)  # Karn: still doubled
    one.outgoing(1.0)
    assert one.failed is None
    assert one.stats.rtt_ms == 0


def test_an_acknowledgement_of_a_resent_packet_is_no_sample():
    one, _ = ends()
    one.send(b"x")
    one.outgoing(0.0)
    one.outgoing(0.3)
    one.receive(packet(ACK, ack=1), 0.31)
    assert one.stats.rtt_ms == 0
    one.send(b"y")
    one.outgoing(1.0)
    one.receive(packet(ACK, ack=2), 1.05)
    assert one.stats.rtt_ms == pytest.approx(50)
    assert one.stats.timeout_ms == pytest.approx(150)


def test_what_waits_is_counted_and_bounded():
    one, _ = ends(LinkOptions(message_bytes_max=1000, backlog_bytes_max=2500))
    one.send(bytes(1000))
    one.send(bytes(1000))
    assert one.backlog_bytes == 2008
    with pytest.raises(Full):
        one.send(bytes(600))
    with pytest.raises(LimitError, match="a message of 1001 bytes; at most 1000 are sent"):
        one.send(bytes(1001))
    one.outgoing(1.0)
    assert one.backlog_bytes == 2008
    one.receive(packet(ACK, ack=2), 1.1)
    assert one.backlog_bytes == 0
    one.send(bytes(600))
