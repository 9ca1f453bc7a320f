"""When messages arrive."""

from __future__ import annotations

import statistics

import pytest

from thence.errors import UnusableInputError
from thence.sim.network import Network, NetworkOptions, Partition, SlowLink

NAMES = ["a", "b", "c"]


def delays(options: NetworkOptions, count: int = 4000) -> list[int]:
    network = Network(options, NAMES, "seed")
    return [t for _ in range(count) for t, _ in network.arrivals(0, 0, 2)]


@pytest.mark.parametrize("distribution", ["fixed", "uniform", "exponential", "weibull"])
def test_the_mean_delay_is_the_latency(distribution: str):
    options = NetworkOptions(latency_ms=10.0, distribution=distribution)  # type: ignore[arg-type]
    assert statistics.mean(delays(options)) == pytest.approx(10_000, rel=0.05)


def test_weibull_delays_are_cut_at_three_scales_above_their_base():
    """Thesis 8.1.2."""
    base_us = 10_000 / 1.1329
    found = delays(NetworkOptions(latency_ms=10.0, distribution="weibull"))
    assert min(found) >= int(base_us)
    assert max(found) <= base_us * 1.45


def test_a_lost_attempt_is_sent_again_later():
    options = NetworkOptions(distribution="fixed", latency_ms=10.0, loss=0.5, resend_ms=40.0)
    found = delays(options)
    assert set(found) >= {10_000, 50_000, 90_000}
    assert sum(t == 10_000 for t in found) / len(found) == pytest.approx(0.5, abs=0.05)


def test_a_duplicate_arrives_at_a_time_of_its_own():
    network = Network(NetworkOptions(duplicate=1.0), NAMES, "seed")
    arrivals = network.arrivals(0, 0, 3)
    assert sorted(j for _, j in arrivals) == [1, 1, 2, 2]
    assert len({t for t, j in arrivals if j == 1}) == 2


def test_messages_overtake_each_other_unless_links_are_fifo():
    for fifo in (False, True):
        network = Network(NetworkOptions(distribution="uniform", fifo=fifo), NAMES, "seed")
        times = [network.arrivals(0, sent, 2)[0][0] for sent in range(0, 100_000, 100)]
        assert (times == sorted(times)) is fifo


def test_a_slow_link_is_slow_both_ways_and_no_other_is():
    options = NetworkOptions(distribution="fixed", slow_links=(SlowLink("a", "b", 7.0),))
    network = Network(options, NAMES, "seed")
    assert network.arrivals(0, 0, 3) == [(70_000, 1), (10_000, 2)]
    assert network.arrivals(1, 0, 3) == [(70_000, 0), (10_000, 2)]


def test_messages_across_a_partition_wait_until_it_heals():
    cut = Partition(5.0, 100.0, (("a", "b"), ("c",)))
    options = NetworkOptions(distribution="fixed", partitions=(cut,))
    network = Network(options, NAMES, "seed")
    assert network.arrivals(0, 4_000, 3) == [(14_000, 1), (14_000, 2)]
    assert network.arrivals(0, 5_000, 3) == [(15_000, 1), (110_000, 2)]
    assert network.arrivals(2, 50_000, 3) == [(110_000, 0), (110_000, 1)]


def test_nodes_in_no_group_form_one_more():
    cut = Partition(0.0, 100.0, (("a",),))
    network = Network(NetworkOptions(distribution="fixed", partitions=(cut,)), NAMES, "seed")
    assert network.arrivals(1, 0, 3) == [(110_000, 0), (10_000, 2)]


def test_slow_links_and_partitions_print_as_they_parse():
    for text in ("a:c:20", "a:b:0.5"):
        assert str(SlowLink.parse(text)) == text
    for text in ("100:500:a,b|c", "0:1.5:a"):
        assert str(Partition.parse(text)) == text


@pytest.mark.parametrize("text", ["", "a:b", "a:b:x", "a:b:0", "a:b:-1", "a:b:nan", "a:b:2:3"])
def test_a_malformed_slow_link_is_refused(text: str):
    with pytest.raises(UnusableInputError, match="expected A:B:FACTOR"):
        SlowLink.parse(text)


@pytest.mark.parametrize("text", ["", "1:2", "2:1:a", "-1:2:a", "x:2:a", "1:inf:a"])
def test_a_malformed_partition_is_refused(text: str):
    with pytest.raises(UnusableInputError, match="expected START_MS:END_MS"):
        Partition.parse(text)


@pytest.mark.parametrize(
    "options",
    [
        NetworkOptions(loss=1.0),
        NetworkOptions(loss=-0.1),
        NetworkOptions(duplicate=1.1),
        NetworkOptions(latency_ms=-1.0),
        NetworkOptions(latency_ms=float("nan")),
        NetworkOptions(slow_links=(SlowLink("a", "z", 2.0),)),
        NetworkOptions(partitions=(Partition(0.0, 1.0, (("z",),)),)),
    ],
)
def test_options_that_cannot_be_are_refused(options: NetworkOptions):
    with pytest.raises(UnusableInputError):
        Network(options, NAMES, "seed")
