"""The UDP transport against a bare loop of acknowledged datagrams, in the same run.

    python benchmarks/bench_udp.py [--messages 60000] [--rounds 5] [--loss 0.1] [--bar 0.6]

A sender and a receiver, two processes on loopback, with messages of 64 bytes:

- bare:       a datagram for each message and one for each acknowledgement, a window of 64, nothing
              lost and nothing sent again: what sockets and event loop cost without a protocol;
- burst:      the transport with 32 messages in each turn of the loop: they share datagrams;
- bare turn:  as bare, with one message in each turn of the sender's loop;
- turn:       the transport with one message in each turn, so one in a datagram;
- loss:       as turn, with datagrams dropped and reordered on purpose, in both directions.

The kinds take turns and medians are compared, so that a busy machine slows all of them.  Wall time
is from the first message to the last acknowledgement, CPU time that of both processes.  "holds" is
about messages a second: ``burst`` beside ``bare``, and ``turn`` beside ``bare turn``.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import socket
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from itertools import islice
from typing import Any

from thence.link.faults import Faults
from thence.transport import udp_endpoint
from thence.transport.base import Connection, Url
from thence.transport.udp import UdpTransport
from thence.wire.frame import frame

MESSAGE_BYTES = 64
BARE_WINDOW = 64
BURST = 32
BACKLOG_BYTES = {"turn": 16 << 10, "loss": 16 << 10, "burst": 256 << 10}
"""The sender's connection counts as congested above this, and as drained at half of it: with one
message in a turn, early enough that datagrams, not messages that share one because they had to
wait, are what is measured."""
WAIT_S = 0.001
SECONDS_MAX = 120.0
BESIDE = {
    "bare": "bare",
    "burst": "bare",
    "bare turn": "bare turn",
    "turn": "bare turn",
    "loss": "bare turn",
}
"""The kinds, and what each is compared with."""


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run in a loop of its own."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


# ---- bare ------------------------------------------------------------------------------------


def bare_socket() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.setblocking(False)
    return sock


async def bare_receive(messages: int, tell: Callable[[int], None]) -> int:
    """Acknowledge every datagram by its number, until all have come; how many different ones."""
    loop = asyncio.get_running_loop()
    sock = bare_socket()
    done: asyncio.Future[None] = loop.create_future()
    seen: set[bytes] = set()

    def readable() -> None:
        try:
            while True:
                datagram, address = sock.recvfrom(2048)
                sock.sendto(datagram[:8], address)
                seen.add(datagram[:8])
        except BlockingIOError:
            pass
        if len(seen) >= messages and not done.done():
            done.set_result(None)

    loop.add_reader(sock.fileno(), readable)
    tell(sock.getsockname()[1])
    async with asyncio.timeout(SECONDS_MAX):
        await done
    loop.remove_reader(sock.fileno())
    sock.close()
    return len(seen)


async def bare_send(kind: str, messages: int, port: int) -> float:
    """A datagram for each message, BARE_WINDOW of them not acknowledged; seconds."""
    loop = asyncio.get_running_loop()
    sock = bare_socket()
    sock.connect(("127.0.0.1", port))
    done: asyncio.Future[None] = loop.create_future()
    sent = acked = 0
    due = False
    body = bytes(MESSAGE_BYTES - 8)

    def fill() -> None:
        nonlocal sent, due
        due = False
        while sent < messages and sent - acked < BARE_WINDOW:
            sock.send(sent.to_bytes(8) + body)
            sent += 1
            if kind == "bare turn":
                due = True
                loop.call_soon(fill)
                return

    def readable() -> None:
        nonlocal acked
        try:
            while True:
                sock.recv(64)
                acked += 1
        except BlockingIOError:
            pass
        if not due:
            fill()
        if acked == messages and not done.done():
            done.set_result(None)

    loop.add_reader(sock.fileno(), readable)
    started = time.perf_counter()
    fill()
    async with asyncio.timeout(SECONDS_MAX):
        await done
    spent = time.perf_counter() - started
    loop.remove_reader(sock.fileno())
    sock.close()
    return spent


# ---- the transport ---------------------------------------------------------------------------


class Count:
    """A handler that counts frames, and checks that none is missing, doubled or out of order."""

    def __init__(self, messages: int) -> None:
        self.left = messages
        self.seen = 0
        self.done = asyncio.Event()
        self.go_on: Callable[[], None] | None = None
        self.over = asyncio.Event()

    def connected(self, connection: Connection) -> None:
        connection.trust()

    def received(self, connection: Connection, frames: list[tuple[int, bytes]]) -> None:
        for _, body in frames:
            if int.from_bytes(body[:8]) != self.seen:
                sys.exit(f"message {int.from_bytes(body[:8])} came where {self.seen} was due")
            self.seen += 1
        if self.seen >= self.left:
            self.done.set()

    def drained(self, connection: Connection) -> None:
        if self.go_on is not None:
            self.go_on()

    def closed(self, connection: Connection, reason: str) -> None:
        self.over.set()


def transport(loss: float, seed: int) -> UdpTransport:
    if not loss:
        return UdpTransport()
    return UdpTransport(faults=Faults(drop=loss, reorder=loss), rng=random.Random(seed))


async def receive(messages: int, loss: float, tell: Callable[[int], None]) -> int:
    """Take all messages; how many came, each once and in order."""
    handler = Count(messages)
    listener = await transport(loss, 1).listen(Url("udp", "127.0.0.1", 0), handler)
    tell(listener.url.port)
    async with asyncio.timeout(SECONDS_MAX):
        await handler.done.wait()
        await handler.over.wait()
    await listener.close()
    return handler.seen


async def send(kind: str, messages: int, loss: float, port: int) -> float:
    """Send all messages; seconds until the last one is acknowledged."""
    handler = Count(0)
    udp_endpoint.BACKLOG_BYTES_HIGH = BACKLOG_BYTES[kind]  # type: ignore[misc]
    udp_endpoint.BACKLOG_BYTES_LOW = BACKLOG_BYTES[kind] // 2  # type: ignore[misc]
    connection = await transport(loss, 2).dial(Url("udp", "127.0.0.1", port), handler)
    started = time.perf_counter()
    body = bytes(MESSAGE_BYTES - 8)
    burst, backlog_bytes = BURST if kind == "burst" else 1, BACKLOG_BYTES[kind]
    loop = asyncio.get_running_loop()
    numbers = iter(range(messages))
    done: asyncio.Future[None] = loop.create_future()

    def turn() -> None:
        """A callback of the loop and not a task, whose switches are no cost of the transport."""
        if connection.backlog_bytes > backlog_bytes:
            return  # ``drained`` goes on: no sleep, in which a free core would stand idle
        sent = False
        for number in islice(numbers, burst):
            connection.send(frame(1, number.to_bytes(8) + body))
            sent = True
        if sent:
            loop.call_soon(turn)
        elif connection.backlog_bytes:
            loop.call_later(WAIT_S, turn)
        else:
            done.set_result(None)

    handler.go_on = turn
    turn()
    async with asyncio.timeout(SECONDS_MAX):
        await done
        spent = time.perf_counter() - started
        connection.close("done")
        await handler.over.wait()
    return spent


# ---- both ------------------------------------------------------------------------------------


def other(kind: str, messages: int, loss: float, pipe: Any) -> None:
    """The receiving process: its port, then what it counted and its CPU seconds."""
    begun = time.process_time()
    if kind.startswith("bare"):
        counted = run(bare_receive(messages, pipe.send))
    else:
        counted = run(receive(messages, loss, pipe.send))
    pipe.send((counted, time.process_time() - begun))


def measure(kind: str, messages: int, loss: float) -> tuple[float, float]:
    """(messages a second, CPU microseconds a message); exits if not every message arrived."""
    loss = loss if kind == "loss" else 0.0
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=other, args=(kind, messages, loss, there)
    )
    process.start()
    there.close()  # so that the end of the other process ends the wait for it
    try:
        port = here.recv()
        begun = time.process_time()
        if kind.startswith("bare"):
            spent = run(bare_send(kind, messages, port))
        else:
            spent = run(send(kind, messages, loss, port))
        cpu = time.process_time() - begun
        counted, theirs = here.recv()
    except (EOFError, TimeoutError) as error:
        sys.exit(f"{kind}: BROKEN, the messages did not all arrive ({type(error).__name__})")
    process.join()
    if counted != messages:
        sys.exit(f"{kind}: BROKEN, {counted} of {messages} messages arrived")
    return messages / spent, (cpu + theirs) / messages * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loss", type=float, default=0.1)
    parser.add_argument("--bar", type=float, default=0.6, help="exit 1 below this ratio")
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in BESIDE}
    for _ in range(options.rounds):
        for kind in BESIDE:
            found[kind].append(measure(kind, options.messages, options.loss))
    print(f"{MESSAGE_BYTES} bytes, {options.messages} messages, medians of {options.rounds} rounds")
    print(f"{'':12}{'messages/s':>12}{'CPU us':>9}{'beside':>12}{'rate':>8}{'CPU':>8}")
    rate = {kind: statistics.median(row[0] for row in rows) for kind, rows in found.items()}
    cpu = {kind: statistics.median(row[1] for row in rows) for kind, rows in found.items()}
    for kind, beside in BESIDE.items():
        print(
            f"{kind:12}{rate[kind]:12.0f}{cpu[kind]:9.2f}{beside:>12}"
            f"{rate[kind] / rate[beside]:8.2f}{cpu[kind] / cpu[beside]:8.2f}"
        )
    broken = False
    for kind in ("burst", "turn"):
        beside = BESIDE[kind]
        fails = rate[kind] / rate[beside] < options.bar
        broken |= fails
        verdict = "BROKEN" if fails else "holds"
        print(f"{kind}: at least {options.bar:.0%} of {beside}: {verdict}")
    # ``measure`` exits where the receiver did not count every message, once and in order.
    total = options.messages * options.rounds
    print(f"loss: {total} of {total} messages with {options.loss:.0%} dropped and reordered: holds")
    if broken:
        sys.exit(1)


if __name__ == "__main__":
    main()
