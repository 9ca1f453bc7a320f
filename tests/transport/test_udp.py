"""The UDP transport on real sockets of this machine, with uvloop and with asyncio's own loop."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.transport.udp_ends import HERE, Ends, Owner, Run, until
from thence.errors import UnreachableError, UnusableInputError
from thence.link.faults import Faults
from thence.link.options import LinkOptions
from thence.transport.base import BACKLOG_BYTES_HIGH, Connection, Url
from thence.transport.udp import UdpTransport
from thence.transport.udp_endpoint import BAD_DATAGRAM
from thence.transport.watch import Limits
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


def test_a_backlog_that_only_the_lengths_of_the_link_make_too_large_ends_with_drained(run: Run):
    """Whoever sees the backlog above the limit waits for ``drained``, and not for ever."""

    async def work() -> None:
        async with Ends() as ends:
            data = frame(1, bytes(BACKLOG_BYTES_HIGH - 5))
            assert len(data) == BACKLOG_BYTES_HIGH
            ends.dialled.send(data)
            assert ends.dialled.backlog_bytes == BACKLOG_BYTES_HIGH
            await asyncio.sleep(0)
            assert ends.dialled.backlog_bytes > BACKLOG_BYTES_HIGH
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
        options = LinkOptions(keepalive_s=0.2, silence_s=1.5)
        async with Ends(options=options) as ends:
            await asyncio.sleep(1.8)
            assert ends.dialling.calls == ["connected"]  # pings keep it
            endpoint = ends.accepted._endpoint  # type: ignore[attr-defined]
            endpoint.put = lambda datagrams, target: None
            await until(lambda: "closed" in ends.dialling.calls)
            assert ends.dialling.reasons == ["the peer was silent for 1.5 s"]

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


def test_a_peer_that_forgot_the_connection_says_so(run: Run):
    async def work() -> None:
        async with Ends() as ends:
            peers = ends.accepted._endpoint._peers  # type: ignore[attr-defined]
            kept = dict(peers)
            peers.clear()  # as if it had started anew
            ends.dialled.send(frame(1, b"x"))
            await until(lambda: "closed" in ends.dialling.calls)
            assert ends.dialling.reasons == ["the peer does not know this connection any more"]
            peers.update(kept)

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
        with pytest.raises(UnusableInputError, match=r"cannot listen on udp://127\.0\.0\.1"):
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
