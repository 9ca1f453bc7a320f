"""What a node has besides its groups: its settings, its runtime, its status page.

``Node`` has one, and so has a ``Group`` that was made by itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from thence.client.debug import debug_tracing, watch_links, watch_order
from thence.client.driver import Driver
from thence.client.kept import Kept
from thence.client.runtime import Runtime
from thence.client.status import StatusPage
from thence.client.tracing import Tracing
from thence.config import JournalConfig, MembershipConfig, NodeConfig, TraceConfig
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.errors import LocalProtocolError, UnusableInputError
from thence.journal.base import Identity, Journal
from thence.trace.record import RunInfo, info_from_json
from thence.trace.writer import CLOSED_FILE, file_stem, write_info

DEFAULT_GROUP: Final = "main"

MakeTracing = Callable[[int], Tracing]
"""Makes the trace from the record that the journal names."""


class Station:
    """One node without its groups."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self._runtime: Runtime | None = None
        self.status: StatusPage | None = None
        """Serves health and numbers, if the settings say where."""

    @property
    def runtime(self) -> Runtime:
        """What it runs on; there once it is started."""
        if self._runtime is None:
            raise LocalProtocolError("the node is not started: use `async with`, or await start()")
        return self._runtime

    async def start(self) -> None:
        """Listen, begin to dial, serve the status page; UnusableInputError if that cannot be."""
        if self._runtime is not None:
            raise LocalProtocolError(f"the node {self.config.name} was started before")
        runtime = self._runtime = Runtime(self.config)
        try:
            await runtime.start()
            if self.config.status is not None:
                self.status = StatusPage(runtime)
                await self.status.start()
        except BaseException:
            await self.stop()
            raise
        if "link" in self.config.log.debug:
            watch_links(runtime)
        if "order" in self.config.log.debug:
            watch_order(runtime)

    async def stop(self) -> None:
        """Say goodbye and let go of the network; may be called again."""
        if self._runtime is not None:
            await self._runtime.stop()
        if self.status is not None:
            await self.status.aclose()

    @property
    def options(self) -> EngineOptions:
        """Of engines, as the settings have them."""
        stability = self.config.stability
        return EngineOptions(stability=stability.on, stability_batch=stability.batch)

    def _with_clock(self, options: EngineOptions, engine: str) -> EngineOptions:
        """The same with the clock of this node, if the engine reads one."""
        if options.clock is not None or not ENGINES[engine].timed:
            return options
        runtime = self.runtime
        return replace(options, clock=lambda _: runtime.epoch_us + int(runtime.now * 1_000_000))

    def open(
        self,
        group: str,
        members: Sequence[str] | None = None,
        engine: str | None = None,
        options: EngineOptions | None = None,
        kept: Kept | None = None,
    ) -> Driver:
        """Take part in a group, with what its journal remembers."""
        config, runtime = self.config, self.runtime
        names = sorted(config.member_names if members is None else members)
        if config.name not in names:
            raise UnusableInputError(f"{config.name} is not among the members of {group}")
        chosen = self.check(group, engine)
        options = self._with_clock(options or self.options, chosen)
        trace = self.tracing(group, config.name, names, chosen, options.stability)
        journal = self.journal(group)
        try:
            driver = Driver(
                group, names, config.name, ENGINES[chosen], runtime.now,
                options=options, flow=config.flow, timing=config.timing,
                journal=journal, checkpoint_bytes=config.journal.checkpoint_bytes,
                trace=trace, epoch_us=runtime.epoch_us, kept=kept,
            )  # fmt: skip
        except BaseException:
            if journal is not None:
                journal.close()
            raise
        runtime.add(driver)
        return driver

    def check(self, group: str, engine: str | None) -> str:
        """The engine that is meant, if this node can take part."""
        if group in self.runtime.hub.drivers or group in self.runtime.hub.newcomers:
            raise LocalProtocolError(f"this node takes part in {group} already")
        chosen = engine or self.config.engine
        if chosen not in ENGINES:
            raise UnusableInputError(f"no engine {chosen!r}; there are {', '.join(ENGINES)}")
        return chosen

    def journal(self, group: str, is_anew: bool = False) -> Journal | None:
        """What survives a crash, if anything is to; ``is_anew``: what was there is over."""
        config = self.config.journal
        if config.folder is None:
            return None
        from thence.journal.sqlite import SqliteJournal

        folder = Path(config.folder)
        # Not the folders above: perhaps a disk is not mounted, and the node would begin anew.
        folder.mkdir(exist_ok=True)
        path = folder / f"{file_stem(group)}-{file_stem(self.config.name)}.journal"
        if is_anew:
            for each in folder.glob(f"{path.name}*"):
                each.unlink()
        return SqliteJournal(path, Identity(group, self.config.name), config.durability)

    def tracing(
        self, group: str, member: str, names: list[str], engine: str, stability: bool,
        is_founder: bool = True,
    ) -> MakeTracing | None:  # fmt: skip
        """What makes the trace of this node, as this member."""
        config, debugs = self.config.trace, "order" in self.config.log.debug
        if config.folder is None:
            return debug_tracing(group, names, None) if debugs else None
        folder = Path(config.folder) / file_stem(group)
        if is_founder:
            _describe(folder, group, names, engine, stability)
        folder.mkdir(parents=True, exist_ok=True)

        is_journaled = self.config.journal.folder is not None

        def make(at: int) -> Tracing:
            from thence.trace.resumable import ResumableLog

            if not is_journaled:
                _keep_open_log(folder, member)
            log = ResumableLog(folder, group, member, at=at, form=config.form)
            return Tracing(log, names, config.payload, over=ENGINES[engine].tags == "over")

        return debug_tracing(group, names, make) if debugs else make


def _keep_open_log(folder: Path, member: str) -> None:
    """Refuse to begin a log where a former start, that was killed, has left one that is open."""
    opened = re.compile(rf"\.{re.escape(file_stem(member))}-\d+\.jsonl\.open")
    for path in folder.iterdir():
        if opened.fullmatch(path.name) and path.stat().st_size:
            raise UnusableInputError(
                f"{path} is the log of an earlier start of {member}, which was killed: give this "
                "node another folder (--trace)"
            )


def run_info(group: str, names: Sequence[str], engine: str, stability: bool = True) -> RunInfo:
    """What ``run.json`` says of a group."""
    spec = ENGINES[engine]
    return RunInfo(
        run=group, engine=engine, members=tuple(names), guarantee=spec.guarantee, tags=spec.tags,
        stability=spec.stability and stability, vectors=spec.vectors,
    )  # fmt: skip


def _describe(folder: Path, group: str, names: list[str], engine: str, stability: bool) -> None:
    """See to ``run.json``: every member writes the same."""
    info = run_info(group, names, engine, stability)
    path = folder / "run.json"
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        try:
            write_info(folder, info)
        except FileNotFoundError:  # another member put its own in place at the same moment
            if not path.exists():
                raise
    found = info_from_json(path.read_bytes())
    if (found.run, found.engine, sorted(found.members)) != (group, engine, names):
        raise UnusableInputError(
            f"{folder} holds the trace of {found.run} with {', '.join(sorted(found.members))} on "
            f"{found.engine}: choose another folder"
        )
    if (folder / CLOSED_FILE).exists():
        raise UnusableInputError(f"{folder} holds a trace that is complete: choose another folder")


def node_config(name: str, config: NodeConfig | None, settings: dict[str, Any]) -> NodeConfig:
    """The settings that were given in Python: a whole ``config``, or its fields.

    ``listen`` and ``join`` may be one address; ``elastic`` and ``join`` are those of
    ``membership``; ``data`` and ``trace`` name folders; ``peers`` may hold this node
    itself, which then says where it listens.
    """
    if config is not None:
        if name or settings:
            raise LocalProtocolError("give a whole config, or a name and settings, not both")
        return config
    listen = settings.pop("listen", ())
    listen = (listen,) if isinstance(listen, str) else tuple(listen)
    peers = dict(settings.pop("peers", {}))
    own = peers.pop(name, None)
    if own is not None and not listen:
        listen = (own,)
    data, trace = settings.pop("data", None), settings.pop("trace", None)
    if isinstance(trace, str | os.PathLike):
        trace = TraceConfig(folder=os.fspath(trace))
    if data is not None:
        journal = settings.get("journal", JournalConfig())
        settings["journal"] = replace(journal, folder=os.fspath(data))
    if trace is not None:
        settings["trace"] = trace
    elastic, join = settings.pop("elastic", None), settings.pop("join", None)
    if elastic is not None or join is not None:
        join = (join,) if isinstance(join, str) else tuple(join or ())
        membership = settings.pop("membership", MembershipConfig())
        elastic = membership.elastic if elastic is None else bool(elastic)
        settings["membership"] = replace(membership, elastic=elastic, join=join or membership.join)
    return NodeConfig(name=name, listen=listen, peers=peers, **settings)
