"""Nodes of the store as processes (``thence serve``), each with clients of Redis."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from tests.chaos.cables import Cables
from tests.chaos.processes import PORTS
from tests.tracked import ROOT
from thence.trace.check import check_paths
from thence.trace.record import info_from_json
from thence.trace.writer import mark_closed, write_info

READY_S = 120.0
"""Of a process that a busy machine hardly lets run."""
EXIT_S = 30.0
QUICK = (
    "--timing-heartbeat-s",
    "0.5",
    "--timing-reconnect-ms-max",
    "200",
    "--log-level",
    "warning",
)
SABOTAGE = "import sys; from tests.chaos import saboteurs; sys.exit(saboteurs.serve())"


class Stores:
    """Nodes that all know each other; or, elastic, of which the later ones join the first."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str] = "abc",
        *,
        is_journaled: bool = True,
        is_cabled: bool = False,
        is_elastic: bool = False,
        sabotage: str = "",
        words: Callable[[str], list[str]] = lambda name: [],
    ) -> None:
        """``is_cabled``: what they say goes through ``cables``; ``words``: more arguments of a
        node; ``sabotage``: the bug in it (saboteurs.py)."""
        self.folder = folder
        self.names = list(names)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.cables: Cables | None = None
        self._is_journaled = is_journaled
        self._is_elastic = is_elastic
        self._is_cabled = is_cabled
        self._sabotage = sabotage
        self._words = words
        self._chance = random.Random(f"{os.getpid()} {folder}")
        self._ports: dict[str, int] = {}
        self._resp: dict[str, int] = {}
        self._lives = dict.fromkeys(names, 0)
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Choose where it is reached."""
        if name not in self.names:
            self.names.append(name)
            self._lives[name] = 0
        self._ports[name] = self._free_port()
        self._resp[name] = self._free_port()

    def _free_port(self) -> int:
        while True:
            port = self._chance.choice(PORTS)
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            if port not in (*self._ports.values(), *self._resp.values()):
                return port

    def __enter__(self) -> Stores:
        try:
            if self._is_cabled:
                pairs = {(a, b): self._ports[b] for a in self.names for b in self.names if a != b}
                self.cables = Cables(pairs).__enter__()
            for name in self.names:
                self.start(name)
                if self._is_elastic:
                    self.wait_ready(name)  # the next one joins by way of the first
            for name in self.names:
                self.wait_ready(name)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in list(self.running):
            self.kill(name)
        if self.cables is not None:
            self.cables.__exit__(None, None, None)

    # ---- processes -------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Begin a life of it."""
        self._lives[name] += 1
        words = [
            "--name", name, "--listen", f"tcp://127.0.0.1:{self._ports[name]}",
            "--resp", f"127.0.0.1:{self._resp[name]}",
            "--trace", os.fspath(self.folder / "trace"), "--end", *QUICK, *self._words(name),
        ]  # fmt: skip
        if self._is_journaled:
            words += ["--data", os.fspath(self.folder / "data")]
            words += ["--journal-checkpoint-bytes", str(1 << 16)]  # so that there are some
        words += self._company(name)
        program = [sys.executable, "-m", "thence"]
        if self._sabotage:
            program = [sys.executable, "-c", SABOTAGE, self._sabotage]
        with self._log(name, "wb") as log:
            self.running[name] = subprocess.Popen(
                [*program, "serve", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=ROOT,
            )  # fmt: skip

    def _company(self, name: str) -> list[str]:
        first = self.names[0]
        if self._is_elastic:
            if name == first:
                return ["--elastic"]
            return ["--join", f"tcp://127.0.0.1:{self._ports[first]}"]
        found = []
        for peer, port in self._ports.items():
            if peer != name:
                if self.cables is not None:
                    port = self.cables.ports[name, peer]
                found += ["--peer", f"{peer}=tcp://127.0.0.1:{port}"]
        return found

    def _log(self, name: str, mode: str) -> Any:
        return (self.folder / f"{name}-{self._lives[name]}.log").open(mode)

    def said(self, name: str) -> str:
        """What it printed in its last life."""
        with self._log(name, "r") as log:
            return str(log.read()[-3000:])

    def wait_ready(self, name: str) -> None:
        """Until clients can talk to it."""
        with self.client(name) as client:
            self.until(f"{name} is ready", lambda: _pings(client), READY_S, name)

    def until(
        self, what: str, done: Callable[[], bool], limit_s: float = READY_S, name: str = ""
    ) -> None:
        """Poll; AssertionError if it takes too long, or the process ends."""
        end = time.monotonic() + limit_s
        while not done():
            if name and (code := self.running[name].poll()) is not None:
                raise AssertionError(f"{name} ended by itself ({code}): {self.said(name)}")
            assert time.monotonic() < end, f"not within {limit_s:g} s: {what}"
            time.sleep(0.02)

    def kill(self, name: str) -> None:
        """kill -9."""
        child = self.running.pop(name)
        child.kill()
        child.wait(EXIT_S)

    def stop(self, name: str, expected: int = 0) -> str:
        """SIGTERM; what it said."""
        child = self.running.pop(name)
        child.send_signal(signal.SIGTERM)
        try:
            code = child.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise AssertionError(f"{name} does not end: {self.said(name)}") from None
        said = self.said(name)
        assert code == expected, f"{name} ended with {code}: {said}"
        return said

    # ---- clients ---------------------------------------------------------------------------------

    def address(self, name: str) -> tuple[str, int]:
        """Where clients connect."""
        return "127.0.0.1", self._resp[name]

    def client(self, name: str, **options: Any) -> Any:
        """A client of one node that never repeats a request by itself."""
        host, port = self.address(name)
        options = {"socket_timeout": 20, "decode_responses": True, **options}
        return Redis(host=host, port=port, retry=Retry(NoBackoff(), 0), **options)

    def settle(self, *names: str) -> None:
        """Until the nodes have the same, and all is stable."""
        clients = [self.client(name) for name in names or self.names]
        try:
            self.until("all have the same, stable", lambda: _agree(clients))
        finally:
            for client in clients:
                client.close()

    def end(self) -> None:
        """Stop all in order; nothing went wrong, and the traces are clean."""
        for name in list(self.running):
            self.stop(name)
        for path in sorted(self.folder.glob("*.log")):
            text = path.read_text(encoding="utf-8")
            assert "Traceback" not in text, f"{path.name}: {text[-3000:]}"
            assert "exception" not in text.lower(), f"{path.name}: {text[-3000:]}"
        run = self.folder / "trace" / "main"
        if self._is_journaled and not self._is_elastic:
            info = info_from_json((run / "run.json").read_bytes())
            write_info(run, msgspec.structs.replace(info, complete=True))
        mark_closed(run)
        report = check_paths([self.folder / "trace"])
        assert report.ok, report.violations[:5]
        assert report.events


def _pings(client: Any) -> bool:
    try:
        return bool(client.ping())
    except RedisError:
        return False


def _agree(clients: list[Any]) -> bool:
    said = [client.info("causality") for client in clients]
    return all(each["seen"] == said[0]["seen"] and not each["unstable_batches"] for each in said)
