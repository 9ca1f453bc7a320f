"""Workers of a lab as processes, and ones that break the rules, for the tests."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from thence.lab.handshake import hello
from thence.lab.worker_messages import (
    FRAME_BYTES_MAX,
    NONCE_BYTES,
    Beat,
    Challenge,
    FromCoordinator,
    Message,
    Welcome,
    encode,
    from_coordinator,
)
from thence.wire.frame import FrameReader

SECRET = b"known to the lab"
END_S = 30.0

M = TypeVar("M", bound=Message)

_numbers = itertools.count()


def own_experiment() -> str:
    """A name no other test has: what is ``running`` under it is of this test alone."""
    return f"far{os.getpid()}x{next(_numbers)}"


def secret_file(folder: Path, secret: bytes = SECRET) -> Path:
    path = folder / f"secret-{secret.hex()}"
    path.write_bytes(secret + b"\n")
    path.chmod(0o600)
    return path


class WorkerProcess:
    """``thence lab worker``."""

    def __init__(
        self, coordinator: str, name: str, *words: str, within: Sequence[str] = ()
    ) -> None:
        self.name = name
        flags = ["--coordinator", coordinator, "--name", name, *words]
        self.process = subprocess.Popen(
            [*within, sys.executable, "-m", "thence", "lab", "worker", *flags],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def end(self) -> tuple[int, str]:
        """Its exit code and what it said."""
        _, said = self.process.communicate(timeout=END_S)
        return self.process.returncode, said

    def kill(self) -> None:
        """It is gone then, however it was before."""
        self.process.kill()
        assert self.process.stderr is not None
        if not self.process.stderr.closed:
            self.process.communicate()


@contextlib.contextmanager
def workers(
    coordinator: str, names: Sequence[str], *words: str
) -> Iterator[dict[str, WorkerProcess]]:
    """So many of them; none is left at the end."""
    started = {name: WorkerProcess(coordinator, name, *words) for name in names}
    try:
        yield started
    finally:
        for worker in started.values():
            worker.kill()


def running(marker: str) -> list[str]:
    """The command lines of processes that name this; of systems with /proc."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(marker.encode() in word for word in words):
            found.append(b" ".join(words).decode())
    return found


def until(what: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


class Stranger:
    """A connection to a coordinator that may say anything."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=END_S)
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self._waiting: list[tuple[int, bytes]] = []

    def __enter__(self) -> Stranger:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def say(self, message: Message) -> None:
        self.socket.sendall(encode(message))

    def hear(self) -> FromCoordinator | None:
        """The next message that is no sign of life; None at the end."""
        while True:
            while not self._waiting:
                try:
                    data = self.socket.recv(65536)
                except ConnectionResetError:
                    return None
                if not data:
                    return None
                self._waiting += self._frames.feed(data)
            heard = from_coordinator(*self._waiting.pop(0))
            if not isinstance(heard, Beat):
                return heard

    def expect(self, kind: type[M]) -> M:
        """The next message of this kind; ConnectionError if the coordinator ends before it."""
        while not isinstance(heard := self.hear(), kind):
            if heard is None:
                raise ConnectionError("the coordinator has ended the connection")
        return heard

    def enter(self, name: str, secret: bytes = SECRET) -> FromCoordinator | None:
        """Say hello as a worker does; the answer."""
        challenge = self.expect(Challenge)
        self.say(hello(challenge, secret, b"n" * NONCE_BYTES, name, "127.0.0.1", 64))
        return self.hear()


@contextlib.contextmanager
def hostile(address: str, name: str, act: Callable[[Stranger], None]) -> Iterator[None]:
    """A worker that does this whenever it is let in, for as long as somebody listens."""

    def work() -> None:
        while True:
            try:
                stranger = Stranger(address)
            except OSError:
                return
            with stranger, contextlib.suppress(OSError):
                if isinstance(stranger.enter(name), Welcome):
                    act(stranger)
                    while stranger.hear() is not None:
                        pass

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(END_S)
        assert not thread.is_alive()
