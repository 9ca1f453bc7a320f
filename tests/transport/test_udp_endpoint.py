"""Strangers, pauses and full buffers: what a UDP socket must bear."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.transport.udp_ends import HERE, SECONDS_MAX, Ends, Owner, Run, until
from thence.errors import UnreachableError
from thence.link.datagram import ACCEPT, COOKIE, DATA, HELLO, OPEN, RESET, cookie_of, kind_of
from thence.link.datagram import opening as opening_datagram
from thence.link.options import LinkOptions
from thence.transport.base import Connection
from thence.transport.udp import UdpTransport
from thence.transport.udp_endpoint import BAD_DATAGRAM
from thence.transport.watch import BAD_FRAME, CROWDED, NEVER_TRUSTED, Limits
from thence.wire.frame import frame


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    factory = None
    if request.param == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop

    def runner(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as loop:
            loop.run(work)

    return runner


def test_what_arrives_after_close_is_not_given_out(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            ends.accepted.send(frame(1, b"crossing"))
            ends.dialled.close("enough")
            await until(lambda: "closed" in ends.dialling.calls)
            assert ends.dialling.frames == []

    run(work())


def test_after_a_pause_what_was_said_meanwhile_is_heard_before_the_peer_counts_as_silent(run: Run):
    async def work() -> None:
        patient = UdpTransport()
        hasty = UdpTransport(options=LinkOptions(keepalive_s=0.2, silence_s=0.4))
        there, here = Owner(), Owner()
        listener = await patient.listen(HERE, there)
        connection = await hasty.dial(listener.url, here)

        def pause(answering: Connection, _: object) -> None:
            """In the callback of a socket: after it some loops look at timers first."""
            answering.send(frame(1, b"x"))
            answering._endpoint._flush()  # type: ignore[attr-defined]
            time.sleep(0.6)

        there.on_frames = pause
        connection.send(frame(1, b"?"))
        await until(lambda: bool(there.frames and (here.frames or here.reasons)))
        assert here.frames == [(1, b"x")]
        assert here.reasons == []
        connection.close("done")
        await until(lambda: bool(here.reasons and there.reasons))
        await listener.close()

    run(work())


def test_the_time_to_say_who_one_is_counts_from_the_opening(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            # The accepted end opens first.
            assert ends.dialled._since >= ends.accepted._since  # type: ignore[attr-defined]

    run(work())


class Stranger:
    """A plain socket that sends what it likes."""

    def __init__(self, port: int) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.connect(("127.0.0.1", port))
        self.sock.setblocking(False)

    def send(self, datagram: bytes) -> None:
        self.sock.send(datagram)

    async def answer(self) -> bytes:
        async with asyncio.timeout(SECONDS_MAX):
            return await asyncio.get_running_loop().sock_recv(self.sock, 2048)

    async def open(self, connection: int) -> None:
        self.send(opening_datagram(HELLO, connection))
        cookie = await self.answer()
        assert kind_of(cookie) == COOKIE
        self.send(opening_datagram(OPEN, connection, cookie_of(cookie)))
        assert kind_of(await self.answer()) == ACCEPT


def test_garbage_is_counted_and_the_connection_unharmed(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            stranger = Stranger(ends.listener.url.port)
            rng = random.Random(1)
            for size in (0, 1, 13, 14, 30, 33, 100, 1400, 1401, 9000):
                stranger.send(rng.randbytes(size))
            await until(lambda: len(ends.reports) == 10)
            assert {what for what, _ in ends.reports} == {BAD_DATAGRAM}
            ends.dialled.send(frame(1, b"fine"))
            await until(lambda: ends.listening.frames == [(1, b"fine")])
            stranger.sock.close()

    run(work())


def test_a_greeting_without_the_cookie_keeps_nothing_and_a_forged_one_opens_nothing(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            stranger = Stranger(ends.listener.url.port)
            for number in range(50):
                stranger.send(opening_datagram(HELLO, number))
                assert len(await stranger.answer()) <= len(opening_datagram(HELLO, number))
            stranger.send(opening_datagram(OPEN, 1, bytes(16)))
            await until(lambda: len(ends.reports) == 1)
            assert ends.listening.calls == ["connected"]
            assert len(ends.accepted._endpoint._peers) == 1  # type: ignore[attr-defined]
            stranger.sock.close()

    run(work())


def test_a_late_packet_of_a_connection_that_ended_is_no_fault(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            late = ends.dialled.link._packet(DATA, 0, b"")  # type: ignore[attr-defined]
            ends.dialled.close("enough")
            await until(lambda: "closed" in ends.listening.calls)
            stranger = Stranger(ends.listener.url.port)
            stranger.send(late)
            assert kind_of(await stranger.answer()) == RESET
            assert ends.reports == []
            stranger.sock.close()

    run(work())


def test_a_packet_of_an_unknown_connection_is_answered_with_a_reset_and_no_more(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            stranger = Stranger(ends.listener.url.port)
            link = ends.dialled.link  # type: ignore[attr-defined]
            datagram = link._packet(DATA, 0, b"")
            # From another address than the connection's: nobody is told anything about it.
            stranger.send(datagram)
            await until(lambda: len(ends.reports) == 1)
            link.connection += 1
            stranger.send(link._packet(DATA, 0, b""))
            link.connection -= 1
            answer = await stranger.answer()
            assert kind_of(answer) == RESET
            assert len(answer) <= len(datagram)
            stranger.sock.close()
            ends.dialled.send(frame(1, b"fine"))
            await until(lambda: ends.listening.frames == [(1, b"fine")])

    run(work())


def test_who_says_nothing_is_refused_after_a_while_and_when_it_gets_crowded(run: Run):
    async def work() -> None:
        limits = Limits(waiting=2, greeting_s=0.4)
        reports: list[str] = []
        owner = Owner(trusts=False)
        transport = UdpTransport(limits=limits, report=lambda what, _: reports.append(what))
        listener = await transport.listen(HERE, owner)
        strangers = [Stranger(listener.url.port) for _ in range(3)]
        for number, stranger in enumerate(strangers):
            await stranger.open(number)
        await until(lambda: len(owner.reasons) == 3)
        assert sorted(reports) == [CROWDED, NEVER_TRUSTED, NEVER_TRUSTED]
        assert kind_of(await strangers[0].answer()) == RESET
        for stranger in strangers:
            stranger.sock.close()
        await listener.close()

    run(work())


def test_connections_are_bounded(run: Run):
    async def work() -> None:
        async with Ends(connections_max=1, limits=Limits(dial_s=0.3)) as ends:
            with pytest.raises(UnreachableError):
                await ends.transport.dial(ends.listener.url, Owner())
            assert CROWDED in {what for what, _ in ends.reports}

    run(work())


def test_a_frame_above_the_limit_of_a_stranger_ends_the_connection(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            ends.accepted._reader.limit = 1000  # type: ignore[attr-defined]
            ends.dialled.send(frame(1, bytes(1000)))
            await until(lambda: "closed" in ends.listening.calls)
            assert ends.listening.reasons == [
                "the peer sent a frame of 1001 bytes; at most 1000 are taken"
            ]
            assert ends.reports[0][0] == BAD_FRAME

    run(work())


def test_a_socket_that_takes_no_more_is_written_to_when_it_does(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            endpoint = ends.dialled._endpoint  # type: ignore[attr-defined]

            class Stuttering:
                """Refuses every other datagram, as a full buffer does."""

                def __init__(self, sock: socket.socket) -> None:
                    self.sock = sock
                    self.refused = 0

                def send(self, datagram: bytes) -> int:
                    self.refused += 1
                    if self.refused % 2:
                        raise BlockingIOError
                    return self.sock.send(datagram)

                def __getattr__(self, name: str) -> Any:
                    return getattr(self.sock, name)

            endpoint._sock = Stuttering(endpoint._sock)
            for number in range(200):
                ends.dialled.send(frame(1, b"%d" % number))
                await asyncio.sleep(0)
            ends.dialled.send(frame(1, bytes(100_000)))
            await until(lambda: len(ends.listening.frames) == 201)
            assert [body for _, body in ends.listening.frames[:200]] == [
                b"%d" % number for number in range(200)
            ]
            assert endpoint._sock.refused > 20
            # What was refused was kept, and not left to be found lost.
            resent = ends.dialled.stats.resent  # type: ignore[attr-defined]
            assert resent < endpoint._sock.refused / 4

    run(work())
