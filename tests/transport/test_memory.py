"""``mem://``: names, latency, and connections that are broken on purpose."""

from __future__ import annotations

import asyncio

import pytest

from tests.transport.peers import Recorder, each_loop, run
from thence.errors import UnreachableError, UnusableInputError
from thence.transport.base import Url
from thence.transport.memory import MemoryNetwork, MemoryTransport
from thence.wire.frame import frame

PLACE = Url("mem", "place")


@each_loop
def test_names_belong_to_a_network(loop: str):
    async def main() -> None:
        one, other = MemoryNetwork(), MemoryNetwork()
        handler = Recorder()
        listener = await MemoryTransport(network=one).listen(PLACE, handler)
        await MemoryTransport(network=one).dial(PLACE, handler)
        with pytest.raises(UnreachableError, match="mem://place: nobody listens there"):
            await MemoryTransport(network=other).dial(PLACE, handler)
        with pytest.raises(UnusableInputError, match="somebody in this process does"):
            await MemoryTransport(network=one).listen(PLACE, handler)
        await MemoryTransport(network=other).listen(PLACE, handler)
        await listener.close()
        with pytest.raises(UnreachableError):
            await MemoryTransport(network=one).dial(PLACE, handler)

    run(loop, main())


def test_transports_of_one_loop_share_a_network_and_those_of_another_do_not():
    async def serve() -> None:
        await MemoryTransport().listen(PLACE, Recorder())
        await MemoryTransport().dial(PLACE, Recorder())

    run("asyncio", serve())
    run("asyncio", serve())  # the name of the loop before is free


@each_loop
def test_latency_delays_and_keeps_the_order(loop: str):
    async def main() -> None:
        transport = MemoryTransport(network=MemoryNetwork(), latency_s=0.02)
        near, far = Recorder(), Recorder()
        await transport.listen(PLACE, far)
        clock = asyncio.get_running_loop().time
        start = clock()
        connection = await transport.dial(PLACE, near)
        assert clock() - start >= 0.019
        start = clock()
        for number in range(100):
            connection.send(frame(1, bytes([number])))
            if number % 7 == 0:
                await asyncio.sleep(0)
        assert connection.backlog_bytes > 0
        there = await far.first()
        await far.until(lambda: len(far.frames[there]) == 100)
        assert clock() - start >= 0.019
        assert [body[0] for _, body in far.frames[there]] == list(range(100))
        assert connection.backlog_bytes == 0

    run(loop, main())


@each_loop
def test_breaking_off_loses_what_is_on_its_way_and_tells_both(loop: str):
    async def main() -> None:
        network = MemoryNetwork()
        transport = MemoryTransport(network=network, latency_s=0.01)
        near, far = Recorder(), Recorder()
        await transport.listen(PLACE, far)
        await transport.listen(Url("mem", "elsewhere"), far)
        connection = await transport.dial(PLACE, near)
        other = await transport.dial(Url("mem", "elsewhere"), near)
        connection.send(frame(1, b"lost"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert network.break_off("place") == 1
        await near.reason(connection)
        assert await far.reason(far.connections[0]) == "the peer reset the connection"
        await asyncio.sleep(0.02)
        assert far.frames[far.connections[0]] == []
        assert other not in near.closings
        assert network.break_off() == 1
        assert network.break_off() == 0

    run(loop, main())


@each_loop
def test_both_ends_can_be_aborted_and_each_is_told_once(loop: str):
    async def main() -> None:
        transport = MemoryTransport(network=MemoryNetwork())
        near, far = Recorder(), Recorder()
        await transport.listen(PLACE, far)
        connection = await transport.dial(PLACE, near)
        there = await far.first()
        connection.abort("the test wants it")
        there.abort("and this too")  # type: ignore[attr-defined]
        connection.abort("again")
        assert await near.reason(connection) == "the test wants it"
        assert await far.reason(there) == "and this too"
        await asyncio.sleep(0.01)  # the Recorder asserts that nothing is told twice

    run(loop, main())
