"""A mesh of ZeroMQ sockets: each node publishes, and subscribes to all others.

A plain loop without asyncio, which is what costs ZeroMQ least: send a tick, take what is there.
"""

from __future__ import annotations

import time
from typing import Any

import zmq

from benchmarks.mesh.load import PAYLOAD_BYTES, Load

HELLO = b"hello"
QUIET_MS = 300


class ZeroMesh:
    """One node."""

    def __init__(self, index: int, load: Load) -> None:
        self._index = index
        self._load = load
        self._context = zmq.Context()
        self._out = self._context.socket(zmq.PUB)
        self._in = self._context.socket(zmq.SUB)
        for socket in (self._out, self._in):
            socket.set_hwm(0)  # nothing is dropped: the load bounds what waits
            socket.linger = 0
        self._in.subscribe(b"")
        self._heard: set[bytes] = set()

    def listen(self) -> int:
        return int(self._out.bind_to_random_port("tcp://127.0.0.1"))

    def connect(self, ports: list[int]) -> None:
        """Subscribe to all others; it takes a moment (``greet``)."""
        for index, port in enumerate(ports):
            if index != self._index:
                self._in.connect(f"tcp://127.0.0.1:{port}")

    def greet(self) -> int:
        """Say hello, and how many were heard until it is quiet."""
        self._out.send(HELLO + bytes([self._index]))
        while self._in.poll(QUIET_MS):
            self._heard.add(self._in.recv())
        return len(self._heard)

    def run(self, messages: int, per_tick: int, window: int) -> dict[str, Any]:
        """Send so many messages, and wait for as many of every other node."""
        load = self._load
        target = messages * (load.nodes - 1)
        payload = bytes(PAYLOAD_BYTES)
        send, receive, deliver = self._out.send, self._in.recv, load.deliver
        start = time.perf_counter()
        while load.got < target or load.sent < messages:
            if load.sent < messages and load.got >= load.room_at(window):
                for _ in range(per_tick):
                    send(payload)
                load.sent += per_tick
            else:
                self._in.poll(1000)
            try:
                while True:
                    deliver(receive(zmq.DONTWAIT))
            except zmq.Again:
                pass
        return load.result(start)

    def close(self) -> None:
        self._context.destroy(linger=0)
