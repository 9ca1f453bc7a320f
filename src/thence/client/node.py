"""A node: one name, its addresses, and the groups it takes part in."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

from thence.client.driver import Driver
from thence.client.group import Group
from thence.client.runtime import Runtime
from thence.client.tracing import Tracing
from thence.config.node import NodeConfig
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.errors import LocalProtocolError, UnusableInputError
from thence.journal.base import Identity, Journal

DEFAULT_GROUP = "main"


class Node:
    """One node.  Groups of it share its connections.

    ``async with Node("a", listen="tcp://127.0.0.1:7001", peers={"b": "tcp://127.0.0.1:7002"}) as
    node: group = await node.group()``
    """

    def __init__(
        self, name: str = "", *, config: NodeConfig | None = None, **settings: Any
    ) -> None:
        """``settings`` are fields of ``NodeConfig``; ``listen`` may be one address, ``data`` and
        ``trace`` name folders.  Or give a whole ``config``."""
        self.config = config if config is not None else _config(name, settings)
        self._runtime: Runtime | None = None
        self.groups: dict[str, Group] = {}

    @property
    def runtime(self) -> Runtime:
        """What it runs on; there once the node is started."""
        if self._runtime is None:
            raise LocalProtocolError("the node is not started: use `async with`, or await start()")
        return self._runtime

    @property
    def addresses(self) -> list[str]:
        """Where it listens, with the ports that were chosen."""
        return [str(listener.url) for listener in self.runtime.listeners]

    async def start(self) -> Node:
        """Listen and begin to dial."""
        self._runtime = Runtime(self.config)
        await self._runtime.start()
        return self

    async def group(
        self,
        name: str = DEFAULT_GROUP,
        *,
        members: list[str] | None = None,
        engine: str | None = None,
        options: EngineOptions | None = None,
    ) -> Group:
        """Take part in a group.  ``members``: all of it, this node too; by default this node and
        all its peers.  The same at every member."""
        config, runtime = self.config, self.runtime
        names = sorted(members) if members is not None else list(config.member_names)
        if config.name not in names:
            raise UnusableInputError(f"{config.name} is not among the members of {name}")
        chosen = engine or config.engine
        if chosen not in ENGINES:
            raise UnusableInputError(f"no engine {chosen!r}; there are {', '.join(ENGINES)}")
        driver = Driver(
            name, names, config.name, ENGINES[chosen], runtime.now,
            options=options or EngineOptions(), flow=config.flow, timing=config.timing,
            journal=self._journal(name), checkpoint_bytes=config.journal.checkpoint_bytes,
            trace=self._trace(name, names, chosen), epoch_us=runtime.epoch_us,
        )  # fmt: skip
        group = Group(driver, runtime)
        runtime.add(driver)
        self.groups[name] = group
        return group

    async def aclose(self, ended: bool = False) -> None:
        """Stop; ``ended``: write into the traces that they are complete."""
        if self._runtime is None:
            return
        await self._runtime.stop()
        for group in self.groups.values():
            group.close(ended)
        self.groups.clear()

    async def __aenter__(self) -> Node:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _journal(self, group: str) -> Journal | None:
        folder = self.config.journal.folder
        if folder is None:
            return None
        from thence.journal.sqlite import SqliteJournal

        os.makedirs(folder, exist_ok=True)
        path = Path(folder) / f"{group}-{self.config.name}.journal"
        identity = Identity(group, self.config.name)
        return SqliteJournal(path, identity, self.config.journal.durability)

    def _trace(self, group: str, names: list[str], engine: str) -> Any:
        config = self.config.trace
        if config.folder is None:
            return None
        from thence.trace.record import RunInfo
        from thence.trace.resumable import ResumableLog
        from thence.trace.writer import write_info

        folder = Path(config.folder) / group
        spec = ENGINES[engine]
        info = RunInfo(
            run=group, engine=engine, members=tuple(names), guarantee=spec.guarantee, tags=spec.tags
        )
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "run.json").exists():
            write_info(folder, info)  # every member writes the same

        def make(at: int) -> Tracing:
            log = ResumableLog(folder, group, self.config.name, at=at, form=config.form)
            return Tracing(log, names, config.payload)

        return make


def _config(name: str, settings: dict[str, Any]) -> NodeConfig:
    from thence.config.node import JournalConfig, TraceConfig

    listen = settings.pop("listen", ())
    data, trace = settings.pop("data", None), settings.pop("trace", None)
    if isinstance(trace, str | os.PathLike):
        trace = TraceConfig(folder=os.fspath(trace))
    if data is not None:
        settings["journal"] = JournalConfig(folder=os.fspath(data))
    if trace is not None:
        settings["trace"] = trace
    return NodeConfig(
        name=name, listen=(listen,) if isinstance(listen, str) else tuple(listen), **settings
    )
