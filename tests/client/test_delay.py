"""A slow link on purpose."""

from __future__ import annotations

import asyncio

import pytest

from tests.client.meshes import QUICK, deliveries, each_scheme, listen, run
from thence import Node, UnusableInputError
from thence.client.delay import delays_of
from thence.config import FaultConfig
from thence.link.spread import WEIBULL_MEAN

DELAY_MS = 80.0


@each_scheme
@pytest.mark.parametrize("slow", ["a", "b"], ids=["whoever-dials", "whoever-is-dialled"])
def test_what_is_sent_over_a_slow_link_comes_later_and_in_order(scheme: str, slow: str):
    async def main() -> None:
        loop = asyncio.get_running_loop()
        faults = FaultConfig(delay_to={"quick": DELAY_MS})
        peers = {"quick": "mem://nowhere"}  # where it really is, it is told below
        one = Node(slow, listen=listen(scheme, slow), peers=peers, faults=faults, timing=QUICK)
        two = Node("quick", listen=listen(scheme, "quick"), timing=QUICK)
        async with one, two:
            members = [slow, "quick"]
            two.know(slow, one.addresses[0])
            groups = [await node.group(members=members) for node in (one, two)]
            for group in groups:
                await group.until_connected()
            start = loop.time()
            for number in range(10):
                await groups[0].broadcast(b"%d" % number)
            assert await deliveries(groups[1], 10) == [b"%d" % number for number in range(10)]
            assert loop.time() - start >= DELAY_MS / 1000 - 0.01

    run(main())


def test_other_links_are_as_quick_as_before():
    async def main() -> None:
        faults = FaultConfig(delay_to={"c": 20_000.0})
        peers = {"b": "mem://b", "c": "mem://c"}
        one = Node("a", listen="mem://a", peers=peers, faults=faults, timing=QUICK)
        two = Node("b", listen="mem://b", peers={"a": "mem://a"}, timing=QUICK)
        async with one, two:
            a = await one.group(members=["a", "b"])
            b = await two.group(members=["a", "b"])
            start = asyncio.get_running_loop().time()
            await a.broadcast(b"x")
            assert await deliveries(b, 1) == [b"x"]
            assert asyncio.get_running_loop().time() - start < 15.0

    run(main())


def test_only_peers_can_be_far_away():
    with pytest.raises(UnusableInputError, match="delay_to names 'x', which is none of the peers"):
        Node("a", faults=FaultConfig(delay_to={"x": 1.0}))
    with pytest.raises(UnusableInputError, match="vary_to names 'x', which is none of the peers"):
        Node("a", faults=FaultConfig(vary_to={"x": 1.0}))


def test_a_delay_varies_or_it_does_not():
    with pytest.raises(UnusableInputError, match="both name b"):
        FaultConfig(delay_to={"b": 1.0}, vary_to={"b": 1.0})


def test_times_that_vary_are_drawn_from_the_seed_for_each_link():
    def draws(name: str, seed: int, peer: str = "b") -> list[float]:
        faults = FaultConfig(vary_to={"b": 10.0, "c": 10.0}, delay_to={"d": 7.0}, delay_seed=seed)
        delays = delays_of(name, faults)
        assert delays["d"]() == delays["d"]() == 0.007
        return [delays[peer]() for _ in range(2000)]

    first = draws("a", 1)
    assert first == draws("a", 1)
    assert first not in (draws("a", 2), draws("x", 1), draws("a", 1, "c"))
    base = 0.01 / WEIBULL_MEAN
    assert base <= min(first) < max(first) <= base * 1.45
    assert abs(sum(first) / len(first) - 0.01) < 0.0002
