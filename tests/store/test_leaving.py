"""Clients that send no more: what they are waited for, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.store.raw import request, run, served, until
from tests.transport.peers import each_loop
from thence.store.connection import CLOSE_S


@each_loop
def test_who_sends_no_more_gets_the_replies_to_what_was_sent(loop: str):
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            site.gate.uncommitted = True
            client.write(request("SET", "k", "v") * 10)
            client.writer.write_eof()
            assert await client.is_silent()
            site.gate.commit()
            assert await client.rest() == b"+OK\r\n" * 10
            await until(lambda: site.server.clients == 0)

    run(main(), loop)


def test_what_was_sent_before_the_end_is_written_once_there_is_room():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            site.gate.room.clear()
            client.write(request("SET", "k", "v") + request("GET", "k"))
            client.writer.write_eof()
            assert await client.is_silent()
            site.gate.room.set()
            assert await client.rest() == b"+OK\r\n$1\r\nv\r\n"

    run(main())


def _patience(scale: float = 1.0) -> list[asyncio.TimerHandle]:
    """The timers of those who wait ``CLOSE_S`` from now on, which is another time."""
    loop = asyncio.get_running_loop()
    call_later = loop.call_later
    timers: list[asyncio.TimerHandle] = []

    def noted(delay: float, callback: Any, *args: Any) -> asyncio.TimerHandle:
        if delay != CLOSE_S:
            return call_later(delay, callback, *args)
        timers.append(call_later(delay * scale, callback, *args))
        return timers[-1]

    loop.call_later = noted  # type: ignore[method-assign,assignment]
    return timers


def test_who_leaves_while_a_write_waits_for_room_takes_nobodys_place():
    async def main() -> None:
        async with served(clients_max=3) as site:
            timers = _patience(0.01)
            site.gate.room.clear()
            for number in range(10):
                client = await site.client()
                client.send("SET", "k", str(number))
                client.close()
                await until(lambda seen=number: len(timers) > seen)
                await until(lambda: site.server.clients == 0)
            site.gate.room.set()
            assert await (await site.client()).do("GET", "k") is None

    run(main())


def test_who_sends_no_more_is_waited_for_anew_with_each_write():
    async def main() -> None:
        async with served() as site:
            timers = _patience()
            client = await site.client()
            room = site.gate.room
            room.clear()
            client.write(request("INCR", "n") * 10)
            client.writer.write_eof()
            await until(lambda: bool(timers))

            def once() -> bool:
                """Room for one write, and a moment later for another."""
                if not room.is_set():
                    return False
                room.clear()
                asyncio.get_running_loop().call_soon(room.set)
                return True

            site.gate.has_room = once  # type: ignore[method-assign]
            room.set()
            assert await client.rest() == b"".join([b":%d\r\n" % n for n in range(1, 11)])
            assert len(timers) == 10
            assert all([timer.cancelled() for timer in timers])

    run(main())


def test_who_leaves_while_a_command_waits_is_forgotten():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            await client.do("SET", "k", "v")
            client.send("WAIT", "5", "0")
            assert await client.is_silent()
            client.writer.write_eof()
            await until(lambda: site.server.clients == 0)

    run(main())
