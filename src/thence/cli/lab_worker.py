"""``thence lab worker``: a machine that runs nodes for a lab elsewhere; and what the coordinator of
such a lab, ``thence lab run --mode workers``, is told of it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Final

import msgspec

from thence.client.secret import read_secret
from thence.errors import UnusableInputError
from thence.lab.door import WorkersOptions
from thence.lab.orders import NODES_MAX
from thence.lab.worker import WorkerOptions, work

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
WAIT_S: Final = 300.0
"""How long a coordinator waits for its workers."""


def command(
    *,
    coordinator: str,
    name: str | None = None,
    advertise: str | None = None,
    seats: int = NODES_MAX,
    secret_file: Path | None = None,
    stop_after: float | None = None,
) -> int:
    """Run nodes for `thence lab run --mode workers`, until it says that all runs are done.

    The worker looks for the coordinator until it finds it, also when the connection breaks. Exit
    code 0 all is done or the time is over, 2 the coordinator refuses this worker.

    Parameters
    ----------
    coordinator
        HOST:PORT where the coordinator listens.
    name
        Of this worker, unique in the lab; by default that of the machine, and a number.
    advertise
        Where other workers reach this one, if not at the address by which it reaches the
        coordinator.
    seats
        How many nodes it takes at most.
    secret_file
        A file with the secret of the lab; needed unless all is on one machine.
    stop_after
        Seconds after which the worker goes by itself.
    """
    options = WorkerOptions(
        coordinator=coordinator,
        name=f"{socket.gethostname()}-{os.getpid()}" if name is None else name,
        advertise=advertise or "",
        seats=seats,
        secret=b"" if secret_file is None else read_secret(secret_file),
        stop_after_s=stop_after,
    )
    options.check()
    with asyncio.Runner() as runner:
        return runner.run(_until_signalled(options))


async def _until_signalled(options: WorkerOptions) -> int:
    loop = asyncio.get_running_loop()
    working = asyncio.ensure_future(work(options, say))
    for number in SIGNALS:  # its nodes are ended first
        loop.add_signal_handler(number, working.cancel)
    try:
        await working
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    return 0


def say(sentence: str) -> None:
    """Tell a person, who may be reading a log."""
    print(sentence, file=sys.stderr, flush=True)


class WorkersFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `thence lab run` that are about workers."""

    listen: str | None = None
    workers: int | None = None
    secret_file: Path | None = None
    wait_s: float | None = None

    def options(self) -> WorkersOptions:
        """Of the coordinator; UnusableInputError says what cannot be."""
        if self.listen is None or self.workers is None:
            missing = "--listen HOST:PORT" if self.listen is None else "--workers COUNT"
            raise UnusableInputError(f"--mode workers needs {missing}")
        options = WorkersOptions(
            listen=self.listen,
            workers=self.workers,
            wait_s=WAIT_S if self.wait_s is None else self.wait_s,
            secret=b"" if self.secret_file is None else read_secret(self.secret_file),
        )
        options.check()
        return options

    def words(self) -> list[str]:
        """As they were given."""
        given = {
            "--listen": self.listen,
            "--workers": self.workers,
            "--secret-file": self.secret_file,
            "--wait-s": self.wait_s,
        }
        return [
            word
            for flag, value in given.items()
            if value is not None
            for word in (flag, f"{value}")
        ]
