"""The UDP transport on real sockets of this machine, with uvloop and with asyncio's own loop."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from thence.errors import UnreachableError, UnusableInputError
from thence.link.datagram import ACCEPT, COOKIE, DATA, HELLO, OPEN, RESET, cookie_of, kind_of
from thence.link.datagram import opening as opening_datagram
from thence.link.faults import Faults
from thence.link.options import LinkOptions
from thence.transport.base import BACKLOG_BYTES_HIGH, Connection, Url
from thence.transport.udp import UdpTransport
from thence.transport.udp_endpoint import BAD_DATAGRAM
from thence.transport.watch import BAD_FRAME, CROWDED, NEVER_TRUSTED, Limits
from thence.wire.frame import frame

SECONDS_MAX = 30.0
HERE = Url("udp", "127.0.0.1", 0)


class Owner:
    """Remembers everything."""

    def __init__(self, trusts: bool = True) -> None:
        self.trusts = trusts
        self.connections: list[Connection] = []
        self.frames: list[tuple[int, bytes]] = []
        self.calls: list[str] = []
        self.reasons: list[str] = []
        self.on_frames: Callable[[Connection, list[tuple[int, bytes]]], None] | None = None

    def connected(self, connection: Connection) -> None:
        self.calls.append("connected")
        self.connections.append(connection)
        if self.trusts:
            connection.trust()

    def received(self, connection: Connection, frames: list[tuple[int, bytes]]) -> None:
        assert "closed" not in self.calls
        self.frames += frames
        if self.on_frames is not None:
            self.on_frames(connection, frames)

    def drained(self, connection: Connection) -> None:
        self.calls.append("drained")

    def closed(self, connection: Connection, reason: str) -> None:
        self.calls.append("closed")
        self.reasons.append(reason)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    factory = None
    if request.param == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop

    def runner(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as loop:
            loop.run(work)

    return runner


class Ends:
    """A listener, a dialled connection and its accepted end."""

    def __init__(self, **settings: Any) -> None:
        self.reports: list[tuple[str, str]] = []
        self.transport = UdpTransport(
            report=lambda what, detail: self.reports.append((what, detail)), **settings
        )
        self.listening, self.dialling = Owner(), Owner()

    async def __aenter__(self) -> Ends:
        self.listener = await self.transport.listen(HERE, self.listening)
        self.dialled = await self.transport.dial(self.listener.url, self.dialling)
        await until(lambda: bool(self.listening.connections))
        self.accepted = self.listening.connections[0]
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in (self.dialled, self.accepted):
            connection.close("the test is over")
        await self.listener.close()
        await until(lambda: "closed" in self.dialling.calls and "closed" in self.listening.calls)


Run = Callable[[Awaitable[None]], None]


def test_frames_go_both_ways_in_order(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            assert ends.dialling.calls == ends.listening.calls == ["connected"]
            assert (ends.dialled.dialled, ends.accepted.dialled) == (True, False)
            assert ends.dialled.address == f"127.0.0.1:{ends.listener.url.port}"
            assert ends.dialled.peer_name is None
            for number in range(500):
                ends.dialled.send(frame(1, b"%d" % number))
                ends.accepted.send(frame(2, b"%d" % number))
                if number % 7 == 0:
                    await asyncio.sleep(0)
            await until(lambda: len(ends.dialling.frames) == len(ends.listening.frames) == 500)
            assert ends.listening.frames == [(1, b"%d" % number) for number in range(500)]
            assert ends.dialling.frames == [(2, b"%d" % number) for number in range(500)]
            assert not ends.reports

    run(work())


def test_every_frame_arrives_once_and_in_order_over_loss_and_reordering(run: Run):
    async def work() -> None:
        faults = Faults(drop=0.1, reorder=0.1, duplicate=0.05, alter_seq=0.02)
        async with Ends(faults=faults, rng=random.Random(3)) as ends:
            for number in range(3000):
                ends.dialled.send(frame(1, b"%060d" % number))
                ends.accepted.send(frame(1, b"%060d" % number))
                if number % 3 == 0:
                    await asyncio.sleep(0)
            await until(lambda: len(ends.dialling.frames) >= 3000 <= len(ends.listening.frames))
            wanted = [(1, b"%060d" % number) for number in range(3000)]
            assert ends.dialling.frames == wanted
            assert ends.listening.frames == wanted
            assert ends.dialled.stats.resent > 0  # type: ignore[attr-defined]
            assert {what for what, _ in ends.reports} == {BAD_DATAGRAM}  # the altered ones

    run(work())


def test_a_large_frame_arrives_whole(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            body = random.Random(1).randbytes(3 << 20)
            ends.dialled.send(frame(1, body))
            ends.dialled.send(frame(2, b""))
            await until(lambda: len(ends.listening.frames) == 2)
            assert ends.listening.frames == [(1, body), (2, b"")]

    run(work())


def test_a_congested_connection_says_when_it_is_not_any_more(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            ends.dialled.send(frame(1, bytes(BACKLOG_BYTES_HIGH)))
            assert ends.dialled.backlog_bytes > BACKLOG_BYTES_HIGH
            await until(lambda: "drained" in ends.dialling.calls)
            assert ends.dialled.backlog_bytes < BACKLOG_BYTES_HIGH
            await until(lambda: ends.dialled.backlog_bytes == 0)
            assert ends.dialling.calls == ["connected", "drained"]

    run(work())


def test_what_a_turn_sends_leaves_in_one_datagram(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            await asyncio.sleep(0.05)
            before = ends.dialled.stats.sent  # type: ignore[attr-defined]
            for _ in range(15):
                ends.dialled.send(frame(1, bytes(64)))
            await until(lambda: len(ends.listening.frames) == 15)
            assert ends.dialled.stats.sent - before == 1  # type: ignore[attr-defined]

    run(work())


@pytest.mark.parametrize("closer", ["dialled", "accepted"])
def test_a_close_carries_what_was_sent_and_both_owners_hear_once(run: Run, closer: str):
    async def work() -> None:
        async with Ends() as ends:
            here, there = ends.dialling, ends.listening
            if closer == "accepted":
                here, there = there, here
            connection = getattr(ends, closer)
            connection.send(frame(1, bytes(100_000)))
            connection.close("enough")
            connection.send(frame(1, b"too late"))
            connection.close("again")
            await until(lambda: "closed" in here.calls and "closed" in there.calls)
            assert there.frames == [(1, bytes(100_000))]
            assert here.reasons == ["enough"]
            assert there.reasons == ["the peer closed the connection"]

    run(work())


def test_a_listener_that_closed_keeps_its_connections_and_takes_no_more(run: Run):
    async def work() -> None:
        async with Ends(limits=Limits(dial_s=0.5)) as ends:
            await ends.listener.close()
            with pytest.raises(UnreachableError, match=r"no answer within 0\.5 s"):
                await ends.transport.dial(ends.listener.url, Owner())
            ends.dialled.send(frame(1, b"still"))
            await until(lambda: ends.listening.frames == [(1, b"still")])

    run(work())


def test_nobody_there_is_told_at_once(run: Run):
    async def work() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        owner = Owner()
        url = Url("udp", "127.0.0.1", port)
        with pytest.raises(UnreachableError, match=f"udp://127.0.0.1:{port}: nobody listens there"):
            await UdpTransport().dial(url, owner)
        assert owner.calls == []

    run(work())


def test_who_is_there_and_does_not_answer_is_given_up(run: Run):
    async def work() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.1", 0))
            url = Url("udp", "127.0.0.1", sock.getsockname()[1])
            with pytest.raises(UnreachableError, match=r"no answer within 0\.2 s"):
                await UdpTransport(limits=Limits(dial_s=0.2)).dial(url, Owner())

    run(work())


def test_a_peer_that_falls_silent_is_gone_after_a_while(run: Run):
    async def work() -> None:
        options = LinkOptions(keepalive_s=0.1, silence_s=0.5)
        async with Ends(options=options) as ends:
            await asyncio.sleep(1.0)
            assert ends.dialling.calls == ["connected"]  # pings keep it
            endpoint = ends.accepted._endpoint  # type: ignore[attr-defined]
            endpoint.put = lambda datagrams, target: None
            await until(lambda: "closed" in ends.dialling.calls)
            assert ends.dialling.reasons == ["the peer was silent for 0.5 s"]

    run(work())


def test_a_fault_of_one_handler_costs_its_connection_only(run: Run):
    async def work() -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, info: failures.append(info))
        async with Ends() as ends:
            second = Owner()
            other = await ends.transport.dial(ends.listener.url, second)

            def fail(connection: Connection, frames: list[tuple[int, bytes]]) -> None:
                if connection is ends.accepted:
                    raise ValueError("a bug")

            ends.listening.on_frames = fail
            ends.dialled.send(frame(1, b"bad"))
            other.send(frame(1, b"good"))
            await until(lambda: len(ends.listening.frames) == 2 and bool(ends.dialling.reasons))
            assert second.reasons == []
            assert len(failures) == 1
            other.close("done")
            await until(lambda: bool(second.reasons))

    run(work())


# ---- who may be reached


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_addresses_off_this_machine_are_refused_unless_allowed(run: Run, host: str):
    async def work() -> None:
        transport = UdpTransport()
        for attempt in (transport.listen, transport.dial):
            with pytest.raises(UnusableInputError, match=r"plain udp .*use tls"):
                await attempt(Url("udp", host, 9), Owner())
        if host == "0.0.0.0":
            listener = await UdpTransport(allow_remote=True).listen(Url("udp", host, 0), Owner())
            await listener.close()

    run(work())


def test_a_port_that_is_taken_is_a_clear_error(run: Run):
    async def work() -> None:
        first = await UdpTransport().listen(HERE, Owner())
        with pytest.raises(UnusableInputError, match="cannot listen on udp://127.0.0.1"):
            await UdpTransport().listen(first.url, Owner())
        await first.close()

    run(work())


def test_a_name_is_served_at_all_its_addresses(run: Run):
    async def work() -> None:
        listener = await UdpTransport().listen(Url("udp", "localhost", 0), Owner())
        owner = Owner()
        connection = await UdpTransport().dial(listener.url, owner)
        connection.close("done")
        await until(lambda: "closed" in owner.calls)
        await listener.close()

    run(work())


# ---- strangers


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


def test_a_packet_of_an_unknown_connection_is_answered_with_a_reset_and_no_more(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            stranger = Stranger(ends.listener.url.port)
            link = ends.dialled.link  # type: ignore[attr-defined]
            datagram = link._packet(DATA, 0, b"")
            # From another address than the connection's: nobody is told anything about it.
            stranger.send(datagram)
            await until(lambda: len(ends.reports) == 1)
            await ends.transport.dial(ends.listener.url, Owner())  # connections made meanwhile
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
            assert ends.dialled.stats.timeouts == 0  # type: ignore[attr-defined]

    run(work())
