"""Three nodes in this process under steady traffic, while others attack them.

They take part in ``main`` by themselves, and in ``side`` with a fourth member, ``m``, whose seat is
for whoever breaks rules.  It tells different nodes different things, so not all that is sent in
``side`` can be delivered everywhere; all in ``main`` must be.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
from pathlib import Path
from typing import Any

from thence.client.events import Delivered, Stable
from thence.client.group import Group
from thence.client.node import Node
from thence.config import (
    FlowConfig,
    JournalConfig,
    NodeConfig,
    TimingConfig,
    TlsConfig,
    TraceConfig,
)
from thence.transport.certificates import issue, make_authority
from thence.transport.tls import TlsFiles

NAMES = ("a", "b", "c")
SIDE = ("a", "b", "c", "m")
INTERVAL_S = 0.01
SIDE_EVERY = 20
CREDIT_BYTES = 16 << 20
"""What one peer can make a node hold in one group."""
TIMING = TimingConfig(greeting_s=2.0, reconnect_ms_max=200.0, heartbeat_s=1.0)


def resident_bytes() -> int:
    """Of this process, now."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Complaints(logging.Handler):
    """Everything that was logged with an exception, or as an error."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            self.found.append(self.format(record))


class Victims:
    """The three nodes, and what their applications do."""

    def __init__(self, folder: Path, scheme: str, traced: bool = True) -> None:
        self._traced = traced
        self.folder = folder
        self.scheme = scheme
        self.nodes: dict[str, Node] = {}
        self.main: dict[str, Group] = {}
        self.side: dict[str, Group] = {}
        self.sent: dict[str, list[bytes]] = {name: [] for name in NAMES}
        self.got: dict[str, list[bytes]] = {name: [] for name in NAMES}
        self.side_got: dict[str, list[bytes]] = {name: [] for name in NAMES}
        self.stable = dict.fromkeys(NAMES, 0)
        self.complaints: list[str] = []
        self._log = Complaints()
        self._tasks: list[asyncio.Task[None]] = []
        self._sending = True
        if scheme == "tls" and not (folder / "ca").exists():
            make_authority(folder / "ca")

    def tls(self, name: str) -> TlsFiles | None:
        """The certificate of a member."""
        if self.scheme != "tls":
            return None
        return issue(name, self.folder / "ca", self.folder / "certificates", force=True)

    def config(self, name: str) -> NodeConfig:
        files = self.tls(name)
        return NodeConfig(
            name=name,
            listen=(f"{self.scheme}://127.0.0.1:0",),
            status="127.0.0.1:0",
            timing=TIMING,
            flow=FlowConfig(credit_bytes=CREDIT_BYTES),
            journal=JournalConfig(folder=os.fspath(self.folder / "data")),
            trace=TraceConfig(folder=os.fspath(self.folder / "trace") if self._traced else None),
            tls=TlsConfig()
            if files is None
            else TlsConfig(ca=files.ca, cert=files.certificate, key=files.key),
        )

    async def __aenter__(self) -> Victims:
        logging.getLogger("thence").addHandler(self._log)
        logging.getLogger("asyncio").addHandler(self._log)
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: self.complaints.append(repr(context))
        )
        for name in NAMES:
            self.nodes[name] = await Node(config=self.config(name)).start()
        for name, node in self.nodes.items():
            for peer, other in self.nodes.items():
                if peer != name:
                    node.know(peer, other.addresses[0])
            self.main[name] = await node.group("main", members=NAMES)
            self.side[name] = await node.group("side", members=SIDE)
        for name in NAMES:
            await self.main[name].until_connected()
            for work in (self._take_main, self._take_side, self._send):
                self._tasks.append(asyncio.create_task(work(name)))
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        self.complaints += [
            repr(each) for each in results
            if each is not None and not isinstance(each, asyncio.CancelledError)
        ]  # fmt: skip
        for node in self.nodes.values():
            await node.aclose(ended=error[0] is None, drain_s=2.0)
        logging.getLogger("thence").removeHandler(self._log)
        logging.getLogger("asyncio").removeHandler(self._log)
        self.complaints += self._log.found

    async def _send(self, name: str) -> None:
        number = 0
        while self._sending:
            await asyncio.sleep(INTERVAL_S)
            number += 1
            text = f"{name} {number}".encode()
            await self.main[name].broadcast(text)
            self.sent[name].append(text)
            if number % SIDE_EVERY == 0:
                await self.side[name].broadcast(text)

    async def _take_main(self, name: str) -> None:
        async for event in self.main[name].events():
            if isinstance(event, Delivered):
                self.got[name].append(event.payload)
            elif isinstance(event, Stable):
                self.stable[name] += 1

    async def _take_side(self, name: str) -> None:
        async for event in self.side[name].events():
            if isinstance(event, Delivered) and event.payload[:1] in (b"a", b"b", b"c"):
                self.side_got[name].append(event.payload)

    async def settle(self, limit_s: float = 30.0) -> None:
        """Stop sending, and wait until everybody has everything, once, and knows it stable."""
        self._sending = False
        async with asyncio.timeout(limit_s):
            while not self.is_settled():
                await asyncio.sleep(0.02)

    def is_settled(self) -> bool:
        total = sum(map(len, self.sent.values()))
        return all(
            sorted(self.got[name]) == others(self.sent, name) and self.stable[name] == total
            for name in NAMES
        )

    def state(self) -> dict[str, Any]:
        """For people, when it does not settle."""
        return {
            name: (
                len(self.sent[name]), len(self.got[name]), self.stable[name],
                len(self.side_got[name]), self.main[name].connected,
                node.runtime.hub.refused,
            )
            for name, node in self.nodes.items()
        }  # fmt: skip

    def refused(self, name: str) -> int:
        """How often this node refused something, as its status page says it."""
        page = self.nodes[name]._station.status
        assert page is not None
        return sum(page.snapshot().rejected.values())

    def kinds(self, name: str) -> int:
        """How many different things it counts."""
        return len(self.nodes[name].runtime.hub.refused)


def others(sent: dict[str, list[bytes]], name: str) -> list[bytes]:
    return sorted(text for sender, texts in sent.items() if sender != name for text in texts)
