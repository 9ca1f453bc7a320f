"""Two links over a network that does its worst: everything once, in order, and an end to it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.link.hostile import Pair, Weather, draw_weather
from tests.seeds import seeds
from thence.link.datagram import ACK, PAYLOAD_BYTES_MAX, PING
from thence.link.options import LinkOptions

SIZES = [0, 1, 64, 64, 64, 1330, 1331, 1332, 3000]
PATIENT = LinkOptions(retries=60, silence_s=1000.0)


def talk(pair: Pair, rng: random.Random, messages: int, sizes: list[int]) -> list[list[bytes]]:
    """Both ends say things at times of their own; what each should get."""
    wanted: list[list[bytes]] = [[], []]

    def say(end: int, message: bytes) -> Callable[[], None]:
        def act() -> None:
            if pair.links[end] is None:  # not accepted yet
                pair.at(pair.now - pair.started + 0.2, act)
                return
            pair.link(end).send(message)
            wanted[1 - end].append(message)
            pair.flush(end)

        return act

    span_s = rng.choice([0.1, 5.0])
    for _ in range(messages):
        message = rng.randbytes(rng.choice(sizes))
        pair.at(rng.random() * span_s, say(rng.randrange(2), message))
    pair.flush(0)
    return wanted


def idle(pair: Pair) -> bool:
    links = [link for link in pair.links if link is not None]
    quiet = len(links) == 2 and not any([link.backlog_bytes for link in links])
    return quiet and not pair._actions


@pytest.mark.parametrize("seed", seeds(300))
def test_every_message_arrives_once_and_in_order(seed: int):
    rng = random.Random(seed)
    options = LinkOptions(
        retries=60,
        silence_s=1000.0,
        keepalive_s=rng.choice([0.5, 3.0]),
        ack_delay_s=rng.choice([0.0, 0.005, 0.2]),
        ack_packets=rng.choice([1, 16]),
        window_packets=rng.choice([16, 64, 256]),
    )
    pair = Pair(draw_weather(rng), seed, options)
    messages = rng.choice([5, 50, 200])
    wanted = talk(pair, rng, messages, [*SIZES, 200_000] if messages == 5 else SIZES)
    pair.run(lambda: idle(pair), 3000)
    assert pair.got == wanted, f"seed {seed}: {pair.weather}"
    assert [link.failed for link in pair.links if link] == [None, None]


@pytest.mark.parametrize("seed", seeds(100))
def test_what_was_accepted_before_close_arrives_and_both_ends_end(seed: int):
    rng = random.Random(f"close {seed}")
    weather = draw_weather(rng)
    pair = Pair(weather, seed, PATIENT)
    pair.flush(0)
    pair.run(lambda: pair.link(0).opened, 300)
    sent = [rng.randbytes(rng.choice(SIZES)) for _ in range(rng.randrange(60))]
    for message in sent:
        pair.link(0).send(message)
    pair.link(0).close()
    pair.link(0).send(b"too late")
    pair.flush(0)
    pair.run(lambda: pair.link(1).closed, 1000)
    assert pair.got[1] == sent, f"seed {seed}: {weather}"
    assert (pair.link(1).failed, pair.link(1).by_peer) == (None, True)
    assert pair.link(1).deadline() is None


def test_a_closer_whose_last_word_was_not_acknowledged_ends_too():
    pair = Pair(Weather(blackouts=((1, 1.0, 99.0),)), 1, LinkOptions(retries=3, silence_s=50.0))
    pair.open()
    pair.run(lambda: pair.now > pair.started + 1.5, 5)
    pair.link(0).close()
    pair.flush(0)
    pair.run(lambda: pair.link(0).closed, 60)
    assert pair.link(0).closed
    assert pair.link(1).by_peer


@pytest.mark.parametrize("way", [0, 1])
@pytest.mark.parametrize("busy", [False, True])
def test_when_one_direction_dies_both_ends_give_up_in_time(way: int, busy: bool):
    options = LinkOptions(keepalive_s=1.0, silence_s=6.0, retries=5)
    pair = Pair(Weather(blackouts=((way, 2.0, 1e9),)), 1, options)
    pair.open()
    if busy:
        for end in (0, 1):
            pair.at(2.5, lambda end=end: (pair.link(end).send(b"x"), pair.flush(end))[0])
    pair.run(lambda: all([pair.link(end).closed for end in (0, 1)]), 60)
    assert all([pair.link(end).failed for end in (0, 1)])
    assert pair.now - pair.started < 2.5 + 2 * 6.0 + 1.0


def test_nobody_answers_and_the_dialler_says_so():
    pair = Pair(Weather(loss=1.0), 1, LinkOptions(retries=3))
    pair.flush(0)
    pair.run(lambda: pair.link(0).closed, 100)
    assert pair.link(0).failed == "nobody answers after 3 retries"
    # 0.3, 0.6, 1.2 and 2.4 s after four HELLOs.
    assert pair.datagrams[0] == 4
    assert pair.now - pair.started == pytest.approx(4.5)


def test_without_loss_nothing_is_sent_twice_and_acknowledgements_are_few():
    pair = Pair(Weather(), 1)
    pair.open()
    before = list(pair.datagrams)
    total = 0
    for number in range(100):
        pair.at(2.0 + number * 0.02, lambda: (pair.link(0).send(bytes(5000)), pair.flush(0))[0])
        total += 5004
    pair.run(lambda: len(pair.got[1]) == 100 and idle(pair), 60)
    packets = total / PAYLOAD_BYTES_MAX
    assert pair.link(0).stats.resent == 0
    assert pair.datagrams[0] - before[0] <= 1.3 * packets
    assert pair.datagrams[1] - before[1] <= 0.6 * packets


def test_an_idle_hour_costs_a_ping_and_an_answer_for_each_keep_alive():
    pair = Pair(Weather(), 1, LinkOptions(keepalive_s=10.0, silence_s=50.0))
    pair.open()
    pair.kinds = [[], []]
    pair.run(seconds=3600)
    assert not any([pair.link(end).failed for end in (0, 1)])
    kinds = pair.kinds[0] + pair.kinds[1]
    assert set(kinds) == {PING, ACK}
    assert 300 <= kinds.count(PING) <= 2 * 361
    assert kinds.count(ACK) == pytest.approx(kinds.count(PING), abs=2)


def test_a_long_stream_over_bad_weather_holds_little():
    """The bound on what is held is asserted at every step, in ``Pair.flush``."""
    weather = Weather(loss=0.2, duplicate=0.1, corrupt=0.02, jitter_s=0.03)
    pair = Pair(weather, 5, PATIENT)
    pair.open()
    for number in range(40):
        pair.link(0).send(number.to_bytes(2) * 25_000)
    assert pair.link(0).backlog_bytes == 40 * 50_004
    pair.flush(0)
    pair.run(lambda: len(pair.got[1]) == 40, 3000)
    assert [message[:2] for message in pair.got[1]] == [n.to_bytes(2) for n in range(40)]
    assert len(pair.link(0)._sender._sent) <= 256


def test_a_path_that_becomes_slow_is_learnt():
    """Karn's rule with time-outs that stay doubled: else every packet is sent again for ever."""
    pair = Pair(Weather(delay_s=(0.001, 0.001)), 1, PATIENT)
    pair.open()
    pair.link(0).send(b"x")
    pair.flush(0)
    pair.run(lambda: idle(pair), 5)
    pair.weather = Weather(delay_s=(0.4, 0.4))
    for number in range(40):
        pair.at(5 + number, lambda: (pair.link(0).send(b"y"), pair.flush(0))[0])
    pair.run(lambda: len(pair.got[1]) == 41 and idle(pair), 100)
    assert 700 < pair.link(0).stats.rtt_ms < 1000
    assert pair.link(0).stats.resent < 20
