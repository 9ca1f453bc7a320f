"""``tcp://``: sockets as they are, addresses that are refused, peers that are not ours."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from collections.abc import Awaitable, Callable
from unittest import mock

import pytest

from tests.transport.peers import Recorder, Reports, World, each_loop, run
from thence.errors import UnreachableError, UnusableInputError
from thence.transport.address import Address
from thence.transport.base import BACKLOG_BYTES_HIGH, Url
from thence.transport.stream import StreamConnection
from thence.transport.tcp import TcpTransport
from thence.transport.watch import BAD_FRAME, CROWDED, CUT_FRAME, NEVER_TRUSTED, Limits
from thence.wire.frame import GREETING_BYTES_MAX, frame

ANY_PORT = Url("tcp", "127.0.0.1", 0)


async def listening(
    limits: Limits | None = None,
) -> tuple[tuple[str, int], Recorder, Reports, Callable[[], Awaitable[None]]]:
    """Where a transport listens, who owns it, what it reports, and how to close it."""
    handler, reports = Recorder(), Reports()
    transport = TcpTransport(limits=limits or Limits(), report=reports)
    listener = await transport.listen(ANY_PORT, handler)
    return ("127.0.0.1", listener.url.port), handler, reports, listener.close


@each_loop
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_both_families_and_names_work(host: str, loop: str):
    async def main() -> None:
        world = World("tcp")
        world.listener = await world.far_transport.listen(Url("tcp", host, 0), world.far)
        near, far = await world.connect()
        near.send(frame(1, b"hello"))
        await world.far.until(lambda: world.far.frames[far])
        assert (
            near.address == str(Url("", host, world.listener.url.port))[3:] or host == "localhost"
        )
        await world.end()

    run(loop, main())


@each_loop
def test_a_name_listens_at_all_its_addresses_with_one_port(loop: str):
    async def main() -> None:
        transport, handler = TcpTransport(), Recorder()
        both = [
            Address(socket.AF_INET, ("127.0.0.1", 0)),
            Address(socket.AF_INET6, ("::1", 0, 0, 0)),
        ]
        with mock.patch("thence.transport.tcp.resolve", return_value=both):
            listener = await transport.listen(Url("tcp", "both", 0), handler)
        assert listener.url.host == "both"
        dialled = [
            await transport.dial(Url("tcp", host, listener.url.port), Recorder())
            for host in ("127.0.0.1", "::1")
        ]
        await handler.until(lambda: len(handler.connections) == 2)
        for connection in dialled:
            connection.close("done")
        await handler.until(lambda: len(handler.closings) == 2)
        await listener.close()

    run(loop, main())


@each_loop
def test_dialling_goes_on_to_the_next_address(loop: str):
    async def main() -> None:
        world = World("tcp")
        await world.listen()
        port = world.listener.url.port
        found = [
            Address(socket.AF_INET6, ("::1", port, 0, 0)),  # nobody listens there
            Address(socket.AF_INET, ("127.0.0.1", port)),
        ]
        with mock.patch("thence.transport.tcp.resolve", return_value=found):
            near, _ = await world.connect()
        assert near.address == f"127.0.0.1:{port}"
        await world.end()

    run(loop, main())


@each_loop
@pytest.mark.parametrize("host", ["192.0.2.1", "0.0.0.0", "::"])
def test_other_machines_need_permission(host: str, loop: str):
    async def main() -> None:
        transport = TcpTransport()
        sentence = r"plain tcp is neither secret nor authentic.* use tls:// between machines"
        with pytest.raises(UnusableInputError, match=sentence):
            await transport.listen(Url("tcp", host, 0), Recorder())
        with pytest.raises(UnusableInputError, match=sentence):
            await transport.dial(Url("tcp", host, 9), Recorder())

    run(loop, main())


@each_loop
def test_with_permission_all_addresses_are_listened_on(loop: str):
    async def main() -> None:
        transport = TcpTransport(allow_remote=True)
        listener = await transport.listen(Url("tcp", "0.0.0.0", 0), Recorder())
        near = Recorder()
        connection = await transport.dial(Url("tcp", "127.0.0.1", listener.url.port), near)
        connection.close("done")
        await near.reason(connection)
        await listener.close()

    run(loop, main())


@each_loop
def test_what_cannot_be_listened_on_is_one_sentence(loop: str):
    async def main() -> None:
        transport = TcpTransport(allow_remote=True)
        listener = await transport.listen(ANY_PORT, Recorder())
        for url, sentence in (
            (listener.url, f"^cannot listen on {listener.url}: another process listens there$"),
            (Url("tcp", "192.0.2.77", 0), "this machine does not have that address$"),
            (Url("tcp", "no-such-host.invalid", 0), "^cannot listen on tcp://no-such-host.invalid"),
        ):
            with pytest.raises(UnusableInputError, match=sentence):
                await transport.listen(url, Recorder())
        await listener.close()

    run(loop, main())


@each_loop
def test_who_cannot_be_dialled_is_one_sentence(loop: str):
    async def main() -> None:
        transport = TcpTransport()
        with pytest.raises(UnusableInputError, match="nobody can be dialled at port 0"):
            await transport.dial(ANY_PORT, Recorder())
        with pytest.raises(UnreachableError, match=r"^tcp://no-such-host\.invalid:7: "):
            await transport.dial(Url("tcp", "no-such-host.invalid", 7), Recorder())

    run(loop, main())


@each_loop
def test_a_dial_that_nobody_answers_ends_in_time(loop: str):
    async def main() -> None:
        # A full queue of a socket that nobody accepts from: the system drops what comes.
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            waiting = [socket.socket() for _ in range(3)]
            for sock in waiting:
                sock.setblocking(False)
                sock.connect_ex(deaf.getsockname())
            transport = TcpTransport(limits=Limits(dial_s=0.1))
            with pytest.raises(UnreachableError, match=r"no answer within 0\.1 s"):
                await transport.dial(Url("tcp", *deaf.getsockname()), Recorder())
            for sock in waiting:
                sock.close()

    run(loop, main())


@each_loop
def test_small_messages_do_not_wait_and_dead_hosts_are_noticed(loop: str):
    async def main() -> None:
        world = World("tcp")
        for end in await world.connect():
            assert isinstance(end, StreamConnection)
            sock = end._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        await world.end()

    run(loop, main())


@each_loop
def test_one_write_for_each_connection_and_turn(loop: str):
    async def main() -> None:
        world = World("tcp")
        near, far = await world.connect()
        assert isinstance(near, StreamConnection)
        with mock.patch.object(near, "_write", wraps=near._write) as write:
            for _ in range(5):
                near.send(frame(1, b"a"))
            assert write.call_count == 0
            await asyncio.sleep(0)
            assert write.call_count == 1
            near.send(frame(1, b"b"))
            await asyncio.sleep(0)
            assert write.call_count == 2
        await world.far.until(lambda: len(world.far.frames[far]) == 6)
        await world.end()

    run(loop, main())


@each_loop
def test_a_peer_that_speaks_tls_is_told_apart(loop: str):
    async def main() -> None:
        address, handler, reports, close = await listening(Limits(close_s=0.1))
        _, writer = await asyncio.open_connection(*address)
        writer.write(bytes.fromhex("160301020001 0001fc0303".replace(" ", "")) + bytes(500))
        reason = await handler.reason(await handler.first())
        assert reason == "the peer speaks TLS, and this is plain tcp"
        assert reports.kinds == [BAD_FRAME]
        writer.close()
        await close()

    run(loop, main())


@each_loop
def test_strangers_with_bytes_of_any_kind_leave_no_trace(loop: str):
    """HTTP, an immediate end, a reset, half a frame: counted where there is something to count."""

    async def main() -> None:
        address, handler, reports, close = await listening()
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"", b"\0\0\0", frame(1, b"half")[:-1]):
            _, writer = await asyncio.open_connection(*address)
            writer.write(data)
            writer.close()
        with socket.create_connection(address) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await handler.until(lambda: len(handler.closings) == 5)
        assert sorted(reports.kinds) == [BAD_FRAME, CUT_FRAME, CUT_FRAME]
        assert not any(handler.frames.values())
        await close()

    run(loop, main())


@each_loop
def test_a_peer_that_closes_one_direction_is_closed(loop: str):
    async def main() -> None:
        address, handler, _, close = await listening()
        reader, writer = await asyncio.open_connection(*address)
        connection = await handler.first()
        connection.send(frame(1, b"you hear me"))
        await asyncio.sleep(0)
        writer.write_eof()
        assert await handler.reason(connection) == "the peer closed the connection"
        assert await reader.read() == frame(1, b"you hear me")
        writer.close()
        await close()

    run(loop, main())


@each_loop
def test_a_reset_is_told_as_one(loop: str):
    async def main() -> None:
        address, handler, _, close = await listening()
        with socket.create_connection(address) as sock:
            connection = await handler.first()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert await handler.reason(connection) == "the peer reset the connection"
        await close()

    run(loop, main())


@each_loop
def test_a_peer_that_never_reads_cannot_keep_a_closed_connection(loop: str):
    async def main() -> None:
        address, handler, _, close = await listening(Limits(close_s=0.1))
        with socket.create_connection(address) as sock:
            connection = await handler.first()
            connection.trust()
            connection.send(bytes(20 << 20))
            await asyncio.sleep(0)
            assert connection.backlog_bytes > BACKLOG_BYTES_HIGH
            connection.close("not wanted")
            assert await handler.reason(connection) == "not wanted"
            assert connection.backlog_bytes == 0
            assert sock.fileno() >= 0
        await close()

    run(loop, main())


@each_loop
def test_what_is_read_slowly_after_closing_still_arrives(loop: str):
    """Progress counts, not the time since."""

    async def main() -> None:
        address, handler, _, close = await listening(Limits(close_s=0.2))
        sock = socket.create_connection(address)
        sock.setblocking(False)
        connection = await handler.first()
        connection.send(bytes(20 << 20))
        connection.close("all said")
        size = 0
        running = asyncio.get_running_loop()
        while data := await running.sock_recv(sock, 1 << 18):
            size += len(data)
            await asyncio.sleep(0.005)
        assert size == 20 << 20
        sock.close()
        assert await handler.reason(connection) == "all said"
        assert not handler.drains  # nobody waits any more
        await close()

    run(loop, main())


@each_loop
def test_silent_strangers_are_dropped_in_time_and_real_peers_served(loop: str):
    async def main() -> None:
        limits = Limits(waiting=8, greeting_s=0.1)
        address, handler, reports, close = await listening(limits)
        silent = [await asyncio.open_connection(*address) for _ in range(20)]
        near = Recorder()
        peer = await TcpTransport().dial(Url("tcp", *address), near)
        peer.send(frame(1, b"I am known"))
        await handler.until(lambda: any(handler.frames.values()))
        (known,) = [c for c, frames in handler.frames.items() if frames]
        known.trust()
        await handler.until(lambda: len(handler.closings) == 20)
        assert reports.kinds.count(CROWDED) == 13
        assert reports.kinds.count(NEVER_TRUSTED) == 7
        assert known not in handler.closings
        for _, writer in silent:
            writer.close()
        peer.close("done")
        await handler.reason(known)
        await close()

    run(loop, main())


@each_loop
def test_memory_is_bounded_while_a_stranger_floods(loop: str):
    """What follows a refusal is thrown away; what precedes it is one greeting at most."""

    async def main() -> None:
        address, handler, _, close = await listening(Limits(close_s=5.0))
        half = frame(1, bytes(GREETING_BYTES_MAX - 1))[:-1]
        running = asyncio.get_running_loop()
        flood = bytes(1 << 16)
        tracemalloc.start()
        try:
            for start in (half, b"\xff" * 8):
                sock = socket.create_connection(address)
                sock.setblocking(False)
                await running.sock_sendall(sock, start)
                await asyncio.sleep(0.02)
                before = tracemalloc.get_traced_memory()[0]
                tracemalloc.reset_peak()
                for _ in range(200):
                    await running.sock_sendall(sock, flood)
                assert tracemalloc.get_traced_memory()[1] - before < 2 << 20
                sock.close()
        finally:
            tracemalloc.stop()
        await handler.until(lambda: len(handler.closings) == 2)
        assert not any(
            len(body) > GREETING_BYTES_MAX for f in handler.frames.values() for _, body in f
        )
        await close()

    run(loop, main())
