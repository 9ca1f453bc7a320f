"""A real Redis, to compare with: a process on a free port of this machine, without persistence."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hiredis
import pytest

needs_redis = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="redis-server is not installed"
)
START_S = 10.0


class Client:
    """One connection; replies as hiredis gives them, errors as ``hiredis.ReplyError`` objects."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=START_S)
        self._reader = hiredis.Reader()

    def run(self, *words: bytes) -> Any:
        self._socket.sendall(hiredis.pack_command(words))
        while True:
            reply = self._reader.gets()
            if reply is not False:
                return reply
            self._reader.feed(self._socket.recv(1 << 16))

    def close(self) -> None:
        self._socket.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def redis_server(folder: Path) -> Iterator[Client]:
    """A connection to a server that lives as long as the block."""
    port = free_port()
    process = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        + ["--appendonly", "no", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    try:
        client = connected(port)
        try:
            yield client
        finally:
            client.close()
    finally:
        process.terminate()
        process.wait(START_S)


def connected(port: int) -> Client:
    until = time.monotonic() + START_S
    while True:
        try:
            return Client(port)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
