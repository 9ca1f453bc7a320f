"""Real groups of engines that order by stamps: messages for some members only, credit, traces."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.client.meshes import deliveries, each_scheme, mesh, run, started
from thence import Delivered, Group
from thence.client.exchange import Exchange
from thence.client.stamped import KEPT_MIN, StampedCredit
from thence.config import FlowConfig, TraceConfig
from thence.engine.base import EngineOptions
from thence.message import Chain, Stamped
from thence.trace.check import check_paths

NAMES = "abc"
ORDERS = ["fifo", "history", "piggyback", "scalar", "last-sender", "realtime"]


@each_scheme
def test_messages_for_one_some_and_all_come_in_the_order_of_sending(scheme: str, tmp_path: Path):
    flow = FlowConfig(credit_messages=4)
    trace = TraceConfig(folder=str(tmp_path))

    async def main() -> None:
        async with mesh(NAMES, scheme, engine="fifo", flow=flow, trace=trace) as groups:
            a, b, c = groups
            for_b, for_c = [], []
            taking = asyncio.gather(deliveries(b, 40), deliveries(c, 30))
            for number in range(50):
                payload = b"%d" % number
                if number % 5 < 2:
                    await a.send(payload, ["b"])
                elif number % 5 == 2:
                    await a.send(payload, ["c"])
                else:
                    await a.broadcast(payload)
                for_b += [] if number % 5 == 2 else [payload]
                for_c += [] if number % 5 < 2 else [payload]
            assert await taking == [for_b, for_c]
            assert await a.drain()

    run(main())
    assert check_paths([tmp_path]).ok


@pytest.mark.parametrize("engine", ORDERS)
def test_a_group_of_each_engine_talks_and_leaves_a_trace(engine: str, tmp_path: Path):
    flow = FlowConfig(credit_messages=8)
    trace = TraceConfig(folder=str(tmp_path))

    async def talk(group: Any) -> None:
        for number in range(40):
            await group.broadcast(b"%d" % number)

    async def main() -> None:
        async with mesh(NAMES, engine=engine, flow=flow, trace=trace) as groups:
            taking = [deliveries(group, 80) for group in groups]
            results = await asyncio.gather(*taking, *map(talk, groups))
            for taken in results[: len(groups)]:
                assert sorted(taken) == sorted([b"%d" % number for number in range(40)] * 2)
            for group in groups:
                assert await group.drain()

    run(main())
    assert check_paths([tmp_path]).ok


@pytest.mark.parametrize("engine", ["matrix", "compressed"])
def test_figure_12_1_a_chain_of_messages_overtakes_nothing(engine: str):
    rounds = 20

    async def main() -> None:
        async with mesh(NAMES, engine=engine) as groups:
            a, b, c = groups

            async def pass_on() -> None:
                for number in range(rounds):
                    assert await deliveries(b, 1) == [b"to b %d" % number]
                    await b.send(b"then %d" % number, ["c"])

            passing = asyncio.create_task(pass_on())
            for number in range(rounds):
                await a.send(b"first %d" % number, ["c"])
                await a.send(b"to b %d" % number, ["b"])
            seen = await deliveries(c, 2 * rounds)
            await passing
            for number in range(rounds):
                assert seen.index(b"first %d" % number) < seen.index(b"then %d" % number)
            await c.broadcast(b"thanks")
            assert await deliveries(a, 1) == await deliveries(b, 1) == [b"thanks"]

    run(main())


def test_one_that_gets_nothing_for_long_is_not_waited_for():
    flow = FlowConfig(credit_messages=4, outbox_messages_max=8)

    async def main() -> None:
        async with mesh(NAMES, engine="fifo", flow=flow) as groups:
            a, b, c = groups
            taking = asyncio.create_task(deliveries(b, 100))
            for _ in range(100):
                await a.send(b"x", ["b"])
            await a.send(b"last", ["c"])
            assert await taking == [b"x"] * 100
            assert await deliveries(c, 1) == [b"last"]

    run(main())


def test_chains_that_an_engine_refuses_take_a_place_for_each_payload():
    exchange = Exchange(NAMES, 0, FlowConfig(), [0, 0, 0], 1, [], gaps=True)
    credit = StampedCredit(exchange, 8)
    good = Stamped(1, 1, (1,), b"good")
    exchange.hold(1, b"good")
    chain = Chain(1, 2, [b"x", b"y"])
    credit.arrived(1, [chain, good, chain], [0, 1, 3, 4])
    assert exchange.flows[1].held == 0
    credit.ready([good])
    assert exchange.flows[1].held > 0
    credit.taken(good)
    assert exchange.flows[1].held == 0


def test_what_an_engine_never_delivers_is_not_remembered_for_good():
    exchange = Exchange(NAMES, 0, FlowConfig(), [0, 0, 0], 1, [], gaps=True)
    credit = StampedCredit(exchange, 8)
    size = 2 * KEPT_MIN
    for seq in range(1, size + 1):
        message = Stamped(2, seq, (seq,), bytes(1000))
        exchange.hold(1, message.payload)
        credit.arrived(1, [message], [])
        if seq == 1:
            credit.ready([message])  # and the application does not take it
    assert exchange.flows[1].held == 0
    credit.ready([Stamped(2, size, (size,), b"")])
    assert exchange.flows[1].held == 1
    credit.taken(Stamped(2, size, (size,), b""))
    credit.taken(Stamped(2, 1, (1,), b""))
    assert exchange.flows[1].held == exchange.flows[1].held_bytes == 0
    assert sum(map(len, credit._came)) == len(credit._givers) == KEPT_MIN - 1


def test_whoever_gets_its_message_back_knows_that_all_have_it():
    async def main() -> None:
        async with mesh(NAMES, engine="synchronous") as groups:
            for group in groups:
                for number in range(5):
                    await group.broadcast(b"%s %d" % (group.node.encode(), number))
            seen = await asyncio.gather(*(deliveries(group, 15) for group in groups))
            assert seen[0] == seen[1] == seen[2]
            a, b, _ = groups
            await a.send(b"to b", ["b"])
            assert await deliveries(a, 1) == [b"to b"]
            found = None
            while not isinstance(found, Delivered):
                found = b.take()  # it is there
                assert found is not None
            assert found.payload == b"to b"


@pytest.mark.parametrize("engine", ["sequencer", "token", "lamport", "skeen"])
@each_scheme
def test_all_members_take_all_messages_in_one_order(scheme: str, engine: str, tmp_path: Path):
    flow = FlowConfig(credit_messages=4)
    trace = TraceConfig(folder=str(tmp_path))

    async def main() -> None:
        async with mesh(NAMES, scheme, engine=engine, flow=flow, trace=trace) as groups:
            taking = asyncio.gather(*(deliveries(group, 90) for group in groups))
            for number in range(30):
                for name, group in zip(NAMES, groups, strict=True):
                    await group.broadcast(b"%s%d" % (name.encode(), number))
            first, *others = await taking
            assert others == [first, first]
            assert len(set(first)) == 90
            for group in groups:
                assert await group.drain()

    run(main())
    assert check_paths([tmp_path]).ok


@pytest.mark.parametrize("engine", ["sequencer", "token", "lamport", "skeen"])
@pytest.mark.parametrize("limits", [(2, 65_536, 3), (65_536, 2, 65_536)])
def test_members_with_different_limits_take_all_messages_in_one_order(
    engine: str, limits: tuple[int, ...]
):
    async def talk(group: Group) -> None:
        for number in range(50):
            await group.broadcast(b"%s%d" % (group.node.encode(), number))

    async def main() -> None:
        async with started(NAMES) as nodes:
            groups = []
            for name, limit in zip(NAMES, limits, strict=True):
                options = EngineOptions(pending_per_origin_max=limit)
                made = nodes[name].group(members=NAMES, engine=engine, options=options)
                groups.append(await made)
            for group in groups:
                await group.until_connected()
            taking = asyncio.gather(*(deliveries(group, 150) for group in groups))
            await asyncio.gather(*map(talk, groups))
            first, *others = await taking
            assert others == [first, first]
            assert len(set(first)) == 150

    run(main())


def test_skeen_orders_messages_for_some_on_a_real_group():
    async def main() -> None:
        async with mesh("abcd", engine="skeen") as groups:
            a, b, c, d = groups
            taking = asyncio.gather(deliveries(b, 40), deliveries(c, 40))
            for number in range(20):
                await a.send(b"a%d" % number, ["b", "c"])
                await d.send(b"d%d" % number, ["b", "c"])
            at_b, at_c = await taking
            assert at_b == at_c
            assert len(set(at_b)) == 40
            assert await deliveries(a, 20) == [b"a%d" % number for number in range(20)]

    run(main())


@pytest.mark.parametrize("engine", ["sequencer", "token", "lamport", "skeen"])
def test_a_slow_application_holds_up_senders_and_breaks_no_limit(engine: str):
    flow = FlowConfig(credit_messages=4, outbox_messages_max=16)

    async def main() -> None:
        async with mesh(NAMES, engine=engine, flow=flow) as groups:
            a, b, c = groups

            async def send(group: Group) -> None:
                for number in range(40):
                    await group.broadcast(b"%d" % number)

            sending = [asyncio.create_task(send(group)) for group in (a, c)]
            quick = asyncio.gather(deliveries(a, 80), deliveries(c, 80))
            slow = []
            for _ in range(80):
                slow += await deliveries(b, 1)
                await asyncio.sleep(0.002)
            assert await quick == [slow, slow]
            await asyncio.gather(*sending)
            assert [len(group.connected) for group in groups] == [2, 2, 2]

    run(main())
