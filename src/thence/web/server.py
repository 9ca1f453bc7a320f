"""Serves the page on this machine until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn

from thence.errors import UnusableInputError
from thence.web.app import make_app
from thence.web.runs import Viewer

HOST: Final = "127.0.0.1"
STOP_S: Final = 1
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class _Server(uvicorn.Server):
    """One that tells the streams that it stops, which would keep it open, and for which a signal
    is the way to end: uvicorn raises it again afterwards."""

    def __init__(self, config: uvicorn.Config, viewer: Viewer) -> None:
        super().__init__(config)
        self._viewer = viewer

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Here, and not where the signal is handled: a second one would wait there for a lock that
        # the first one holds.
        self._viewer.closing.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Obey signals while it runs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listen(port: int) -> socket.socket:
    """A socket on this machine; port 0 is any free one.  UnusableInputError if it is taken."""
    if not 0 <= port <= 65535:
        raise UnusableInputError(f"port: expected 0 to 65535, got {port}")
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
        found.listen()  # two may be bound to one port, only one listens
    except OSError as error:
        found.close()
        raise UnusableInputError(
            f"{HOST}:{port}: cannot listen: {error.strerror}; choose another with --port"
        ) from None
    return found


def serve(viewer: Viewer, listener: socket.socket, begun: Callable[[], Any]) -> None:
    """Answer until SIGINT or SIGTERM; ``begun`` is called once it listens."""
    config = uvicorn.Config(
        make_app(viewer), log_level="error", access_log=False, lifespan="off",
        timeout_graceful_shutdown=STOP_S, server_header=False, date_header=False,
    )  # fmt: skip
    server = _Server(config, viewer)

    async def run() -> None:
        begun()
        await server.serve(sockets=[listener])

    try:
        asyncio.run(run())
    finally:
        viewer.closing.set()
        listener.close()
