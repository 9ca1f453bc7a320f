"""The status server on real sockets: what it says, and what strangers can do to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from tests.telemetry.numbers import example_snapshot
from thence.errors import UnusableInputError
from thence.telemetry import http
from thence.telemetry.http import HttpLimits, StatusServer
from thence.telemetry.snapshot import Readiness, Snapshot, Status

READY = Readiness(True)
QUICK = HttpLimits(request_s=0.15, write_s=0.15, linger_s=0.1)
PATIENCE_S = 10.0

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Scenario = Callable[[StatusServer, int], Awaitable[None]]
Serve = Callable[..., None]


@pytest.fixture(params=["asyncio", "uvloop"])
def serve(request: pytest.FixtureRequest) -> Serve:
    """Runs a scenario against a server, on either event loop."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else None

    def run(
        scenario: Scenario,
        limits: HttpLimits = HttpLimits(),  # noqa: B008 - a frozen Struct
        collect: Callable[[], Snapshot] = example_snapshot,
        ready: Callable[[], Readiness] = lambda: READY,
        orders: Mapping[str, http.Order] | None = None,
    ) -> None:
        async def whole() -> None:
            problems: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, what: problems.append(what))
            async with StatusServer(collect, ready, limits, orders) as server:
                _, port = await server.start("127.0.0.1", 0)
                async with asyncio.timeout(PATIENCE_S):
                    await scenario(server, port)
                # Whatever was done to it, it still answers.
                assert (await talk(port, b"GET /health HTTP/1.0\r\n\r\n"))[:12] == b"HTTP/1.1 200"
            assert not problems

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(whole())

    return run


@asynccontextmanager
async def client(port: int, limit: int = 1 << 16) -> AsyncIterator[Client]:
    """A connection that is gone afterwards, whatever the server did to it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=limit)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def talk(port: int, data: bytes) -> bytes:
    """All that comes back until the server closes."""
    async with client(port) as (reader, writer):
        writer.write(data)
        try:
            return await reader.read()
        except ConnectionError:
            return b""


def ask(path: str, method: str = "GET", close: bool = True, more: str = "") -> bytes:
    last = "Connection: close\r\n" if close else ""
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{more}{last}\r\n".encode()


def split(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first.startswith("HTTP/1.1 ")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


async def get(port: int, path: str) -> tuple[int, dict[str, str], bytes]:
    status, headers, body = split(await talk(port, ask(path)))
    assert int(headers["Content-Length"]) == len(body)
    return status, headers, body


# ---- what it says -----------------------------------------------------------------------------


def test_health_ready_status_metrics(serve: Serve):
    async def scenario(server: StatusServer, port: int) -> None:
        assert (await get(port, "/health"))[::2] == (200, b"alive\n")
        assert (await get(port, "/ready"))[::2] == (200, b'{"ready":true,"why":""}\n')
        status, headers, body = await get(port, "/status?x=1")
        assert (status, headers["Content-Type"]) == (200, "application/json")
        assert msgspec.json.decode(body, type=Status) == Status(True, "", example_snapshot())
        status, headers, body = await get(port, "/metrics")
        assert status == 200
        assert headers["Content-Type"].startswith("text/plain; version=")
        assert b'thence_pending_messages{group="main"} 104.0\n' in body
        assert (await get(port, "http://somewhere:80/health"))[0] == 200
        assert server.refused == {}

    serve(scenario)


def test_a_node_that_is_not_ready_says_why(serve: Serve):
    async def scenario(_: StatusServer, port: int) -> None:
        status, _, body = await get(port, "/ready")
        assert (status, json.loads(body)) == (503, {"ready": False, "why": "c is missing"})
        assert (await get(port, "/health"))[0] == 200
        status, _, body = await get(port, "/status")
        assert (status, json.loads(body)["ready"]) == (200, False)

    serve(scenario, ready=lambda: Readiness(False, "c is missing"))


def test_without_prometheus_client_the_rest_works(serve: Serve, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    async def scenario(_: StatusServer, port: int) -> None:
        status, _, body = await get(port, "/metrics")
        assert status == 503
        assert body == (
            b"metrics need prometheus_client; install it with: pip install 'thence[metrics]'\n"
        )
        assert (await get(port, "/status"))[0] == 200

    serve(scenario)


def test_a_failing_node_is_a_500(serve: Serve):
    def collect() -> Snapshot:
        raise RuntimeError("secret")

    async def scenario(_: StatusServer, port: int) -> None:
        for path in ("/status", "/metrics"):
            status, _, body = await get(port, path)
            assert (status, body) == (500, f"{path} failed: RuntimeError\n".encode())

    serve(scenario, collect=collect)


def test_head_has_the_length_and_no_body(serve: Serve):
    async def scenario(_: StatusServer, port: int) -> None:
        _, headers, body = split(await talk(port, ask("/status", "HEAD")))
        assert body == b""
        assert int(headers["Content-Length"]) == len((await get(port, "/status"))[2])

    serve(scenario)


def test_unknown_paths_and_methods(serve: Serve):
    async def scenario(server: StatusServer, port: int) -> None:
        for path in ("/", "/nosuch", "*", "/metrics/", "//health"):
            status, _, body = await get(port, path)
            assert (status, body) == (404, b"there is /metrics, /health, /ready, /status\n")
        status, headers, _ = split(await talk(port, ask("/health", "POST", close=False)))
        assert (status, headers["Allow"], headers["Connection"]) == (405, "GET, HEAD", "close")
        assert server.refused == {"http-405": 1}

    serve(scenario)


def test_requests_in_one_packet_are_answered_in_order(serve: Serve):
    async def scenario(_: StatusServer, port: int) -> None:
        asked = [ask("/health", close=False), ask("/nosuch", close=False), ask("/status", "HEAD")]
        answer = await talk(port, b"\r\n".join(asked))
        assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404", b"200"]

    serve(scenario)


def test_a_connection_serves_many_requests_until_it_is_told_to_close(serve: Serve):
    async def scenario(_: StatusServer, port: int) -> None:
        async with client(port) as (reader, writer):
            for _ in range(20):
                writer.write(ask("/health", close=False))
                head = await reader.readuntil(b"\r\n\r\n")
                assert b"Connection: keep-alive" in head
                assert await reader.readexactly(6) == b"alive\n"
            writer.write(ask("/health") + ask("/health"))
            assert (await reader.read()).count(b"HTTP/1.1 200") == 1

    serve(scenario)


def test_http_1_0_closes_unless_asked(serve: Serve):
    async def scenario(_: StatusServer, port: int) -> None:
        old = b"GET /health HTTP/1.0\r\n"
        answer = await talk(port, old + b"Connection: keep-alive\r\n\r\n" + old + b"\r\n")
        assert answer.count(b"HTTP/1.1 200") == 2

    serve(scenario)


def test_a_peer_that_ends_after_asking_gets_all_answers(serve: Serve):
    async def scenario(_: StatusServer, port: int) -> None:
        async with client(port) as (reader, writer):
            writer.write(ask("/status", close=False) * 5)
            writer.write_eof()
            assert (await reader.read()).count(b"HTTP/1.1 200") == 5

    serve(scenario)


# ---- what strangers can do --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (b"get / HTTP/1.1\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET /a b HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: b\r\n folded: c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: \x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET /health HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"GET /health HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 100_000 + b"\r\n", 431),
        (b"G" * 1_000_000, 431),
    ],
)
def test_what_is_no_request_is_refused_and_counted(serve: Serve, data: bytes, status: int):
    async def scenario(server: StatusServer, port: int) -> None:
        found, headers, _ = split(await talk(port, data))
        assert (found, headers["Connection"]) == (status, "close")
        assert server.refused == {f"http-{status}": 1}

    serve(scenario, HttpLimits(linger_s=0.3))


def test_a_request_of_the_largest_size_is_answered(serve: Serve):
    async def scenario(_: StatusServer, port: int) -> None:
        for extra, status in ((0, 200), (1, 431)):
            rest = http.REQUEST_BYTES_MAX - len(ask("/health", more="A: \r\n")) + extra
            data = ask("/health", more=f"A: {'b' * rest}\r\n")
            assert split(await talk(port, data))[0] == status

    serve(scenario)


def test_a_request_that_comes_byte_by_byte_is_cut_off(serve: Serve):
    async def scenario(server: StatusServer, port: int) -> None:
        async with client(port) as (reader, writer):
            answer = asyncio.ensure_future(reader.read())
            start = asyncio.get_running_loop().time()
            for byte in ask("/health") * 100:
                if answer.done():
                    break
                writer.write(bytes([byte]))
                await asyncio.sleep(0.01)
            assert split(await answer)[0] == 408
            assert asyncio.get_running_loop().time() - start >= 0.14
            assert server.refused == {"http-408": 1}

    # The whole request would take 0.4 s, and there are a hundred of them.
    serve(scenario, QUICK)


def test_a_connection_that_never_asks_is_closed(serve: Serve):
    async def scenario(server: StatusServer, port: int) -> None:
        assert await talk(port, b"") == b""
        assert await talk(port, ask("/health", close=False)) != b""
        assert server.refused == {}

    serve(scenario, QUICK)


def test_an_answer_that_nobody_reads_is_dropped(serve: Serve):
    def large() -> Snapshot:
        return Snapshot(node="a", rejected={f"{n:06}": n for n in range(50_000)})

    async def scenario(server: StatusServer, port: int) -> None:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, ("127.0.0.1", port))
            await loop.sock_sendall(deaf, ask("/status", close=False) * 100)
            while not server.refused:
                await asyncio.sleep(0.01)
        assert server.refused == {"http-unread": 1}

    serve(scenario, QUICK, collect=large)


def test_a_flood_of_requests_holds_no_more_than_a_few_answers(serve: Serve):
    made = 0

    def large() -> Snapshot:
        nonlocal made
        made += 1
        return Snapshot(node="a", rejected={f"{n:06}": n for n in range(20_000)})

    async def scenario(_: StatusServer, port: int) -> None:
        async with client(port, limit=1024) as (reader, writer):
            writer.write(ask("/status", close=False) * 5_000)
            await asyncio.sleep(0.1)
            assert made < 100  # each about 350 kB; the rest waits until these are taken
            assert await reader.readexactly(15) == b"HTTP/1.1 200 OK"

    serve(scenario, HttpLimits(write_s=5), collect=large)


def test_a_flood_of_requests_leaves_turns_to_the_node(serve: Serve):
    async def scenario(_: StatusServer, port: int) -> None:
        count = 2_000
        answers = asyncio.ensure_future(talk(port, ask("/health", close=False) * count + ask("/x")))
        turns = 0
        while not answers.done():
            await asyncio.sleep(0)
            turns += 1
        assert answers.result().count(b"HTTP/1.1 200") == count
        assert turns > count

    serve(scenario)


def test_a_new_connection_replaces_the_one_silent_longest(serve: Serve):
    async def scenario(server: StatusServer, port: int) -> None:
        async with AsyncExitStack() as stack:
            pairs = [await stack.enter_async_context(client(port)) for _ in range(4)]
            first, second = pairs[:2]
            first[1].write(ask("/health", close=False))  # so the second is silent longest
            await first[0].readuntil(b"alive\n")
            assert (await get(port, "/health"))[0] == 200
            assert server.refused == {"http-too-many": 1}
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await second[0].readexactly(1)
            first[1].write(ask("/health"))
            assert b"200" in await first[0].read()

    serve(scenario, HttpLimits(connections_max=4))


def test_connections_that_come_and_go_leave_nothing(serve: Serve):
    async def scenario(server: StatusServer, port: int) -> None:
        for data in (b"", b"GET", ask("/health"), b"\xff"):
            for _ in range(20):
                async with client(port) as (_, writer):
                    writer.write(data)
        while server._open:
            await asyncio.sleep(0.01)

    serve(scenario, QUICK)


def test_a_refused_peer_that_stays_is_dropped(serve: Serve):
    async def scenario(server: StatusServer, port: int) -> None:
        async with client(port) as (reader, _):
            with socket.socket() as stubborn:  # never closes, whatever it is told
                stubborn.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(stubborn, ("127.0.0.1", port))
                await loop.sock_sendall(stubborn, b"\xff")
                assert (await loop.sock_recv(stubborn, 1000)).startswith(b"HTTP/1.1 400")
                while server._open:
                    await asyncio.sleep(0.01)
            assert await reader.read() == b""

    serve(scenario, QUICK)


def test_random_bytes_do_no_harm(serve: Serve):
    draw = random.Random(7)
    alphabet = [b"GET ", b"/health", b" HTTP/1.1", b"\r\n", b"\r\n\r\n", b":", b"A", b"\0", b"\xff"]

    async def scenario(server: StatusServer, port: int) -> None:
        for _ in range(60):
            answer = await talk(port, b"".join(draw.choices(alphabet, k=12)) + b"\r\n\r\n\x01")
            assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
        assert sum(server.refused.values()) > 30

    serve(scenario, HttpLimits(request_s=0.05, linger_s=0.05))


@given(st.binary(max_size=80))
def test_any_head_is_a_request_or_refused(head: bytes):
    try:
        request = http._parse(head)
    except http._Refused as refused:
        assert refused.status in http.REASONS
    else:
        assert head.startswith(request.method.encode())


# ---- starting and stopping --------------------------------------------------------------------


def test_only_loopback_unless_told():
    async def scenario() -> None:
        server = StatusServer(example_snapshot, lambda: READY)
        for host in ("0.0.0.0", "::", "192.0.2.1", "example.invalid"):
            with pytest.raises(UnusableInputError, match=r"use 127\.0\.0\.1, or allow_remote"):
                await server.start(host, 0)
        assert (await server.start("0.0.0.0", 0, allow_remote=True))[0] == "0.0.0.0"
        await server.aclose()

    asyncio.run(scenario())


def test_a_port_that_is_taken_is_one_sentence():
    async def scenario() -> None:
        async with StatusServer(example_snapshot, lambda: READY) as first:
            host, port = await first.start("127.0.0.1", 0)
            second = StatusServer(example_snapshot, lambda: READY)
            with pytest.raises(UnusableInputError, match=f"status {host}:{port}: cannot listen"):
                await second.start(host, port)
            await second.aclose()

    asyncio.run(scenario())


def test_closing_drops_connections_and_may_be_repeated():
    async def scenario() -> None:
        server = StatusServer(example_snapshot, lambda: READY)
        await server.aclose()
        server = StatusServer(example_snapshot, lambda: READY)
        _, port = await server.start("127.0.0.1", 0)
        async with client(port) as (reader, writer):
            writer.write(ask("/health", close=False))
            await reader.readuntil(b"alive\n")
            await server.aclose()
            await server.aclose()
            assert not server._open
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(scenario())
