"""Whole nodes in virtual time: the same hub, driver, ledger and codec as on real networks.

One seed drives everything: when applications send, take and confirm; how long frames travel; when
connections break, partitions come and heal, nodes are killed and started again.  A node is killed
between two turns of its loop, or inside one, before or after an operation of its journal.  What it
had not committed is gone; its trace is cut to what its journal says, as on a real disk.

At the end faults stop, everybody comes back, and everything must arrive: ``finish`` runs until it
has.  Then the trace is judged by the checker (trace/check.py), which knows nothing of all this, and
what applications confirmed, which survives their crashes, must be each message once.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

import msgspec

from thence.causal.dot import Dot
from thence.client.driver import Driver
from thence.client.events import Delivered, Event, Stable
from thence.client.hub import Hub
from thence.client.tracing import Tracing
from thence.config.node import FlowConfig, TimingConfig
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.errors import Full
from thence.journal.base import Identity
from thence.journal.memory import Crashed, Fault, MemoryDisk, MemoryJournal
from thence.sim.names import node_names
from thence.trace.check import check_run
from thence.trace.columns import gather_runs
from thence.trace.record import END, SEND, Record, RunInfo
from thence.trace.segments import part_of_records
from thence.trace.verdict import Verdict
from thence.wire.frame import FRAME_BYTES_MAX, FrameReader

RUN = "nodes"


class NodesOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What happens in a run of whole nodes."""

    nodes: int = 3
    seed: int = 1
    messages: int = 30
    """That each application sends."""
    interval_s: float = 0.02
    """Mean time between two steps of an application."""
    latency_s: float = 0.005
    breaks: int = 0
    """Connections that break."""
    partitions: int = 0
    kills: int = 0
    """Nodes that are killed between turns."""
    crashes: int = 0
    """Nodes that are killed inside a turn, at an operation of their journal."""
    confirms: bool = False
    """Applications confirm by themselves, late and in lots."""
    slow: bool = False
    """One application takes events rarely."""
    streams: bool = False
    multicasts: bool = False
    flow: FlowConfig = msgspec.field(default_factory=FlowConfig)
    checkpoint_bytes: int = 1
    stability: bool = True


class MemoryLog:
    """The log of one node as a list, cut after a crash to what its journal says."""

    def __init__(self, node: str, records: list[Record], at: int) -> None:
        self.node = node
        self.records = records
        if len(records) < at:
            raise AssertionError(f"{node}: the journal has {at} records, the trace {len(records)}")
        del records[at:]
        self.ended = False

    def __len__(self) -> int:
        return len(self.records)

    def append(
        self, kind: str, t_us: int, dot: Dot | None = None, context: Any = None, **more: Any
    ) -> int:
        """Log one event."""
        more = {name: value for name, value in more.items() if value is not None}
        given = None if context is None else tuple(context)
        for name in ("to", "stable"):
            if name in more:
                more[name] = tuple(more[name])
        self.records.append(
            Record(
                run=RUN, node=self.node, pos=len(self.records), kind=kind, t_us=t_us, dot=dot,
                context=given, **more,
            )
        )  # fmt: skip
        self.ended = kind == END
        return len(self.records) - 1

    def flush(self) -> int:
        """All is there at once."""
        return len(self.records)

    def due(self, now: float) -> bool:
        """Never sealed."""
        return False

    def close(self) -> None:
        """Nothing to let go of."""


class Pipe:
    """One end of a connection; ``other`` is the other end."""

    def __init__(self, world: World, owner: str, peer: str, dialled: bool) -> None:
        self.world = world
        self.owner = owner
        self.address = f"sim://{peer}"
        self.peer_name: str | None = None
        self.dialled = dialled
        self.backlog_bytes = 0
        self.other: Pipe = self
        self.open = True
        self.last = 0.0  # when the last bytes sent arrive: they stay in order
        self.reader = FrameReader(FRAME_BYTES_MAX)
        self.life = world.nodes[owner].life

    def send(self, data: bytes) -> None:
        """Bytes for the other end."""
        if self.open:
            self.last = max(self.last, self.world.now + self.world.latency(self.owner))
            self.world.at(self.last, self.other.arrive, data)

    def trust(self) -> None:
        """Every length is taken."""

    def close(self, reason: str) -> None:
        """What was sent arrives, then the other end learns of it."""
        if self.open:
            self.open = False
            self.world.at(max(self.last, self.world.now), self.other.lose, "closed by the peer")

    def arrive(self, data: Any) -> None:
        """Bytes of the other end, unless a partition or a crash swallowed them."""
        node = self.world.nodes[self.owner]
        if self.open and node.life == self.life and node.is_up:
            if self.world.is_cut(self.owner, self.other.owner):
                self.snap("the network is cut")
                return
            frames = self.reader.feed(data)
            node.turn(lambda now: node.hub.received(self, frames, now))

    def lose(self, reason: Any) -> None:
        """This end learns that the connection is gone."""
        if self.open:
            self.open = False
            node = self.world.nodes[self.owner]
            if node.life == self.life and node.is_up:
                node.turn(lambda now: node.hub.closed(self, reason, now))

    def snap(self, reason: str) -> None:
        """Break it: what is on its way is lost, and both ends learn of it at some time."""
        for end in (self, self.other):
            delay = self.world.chance.random() * 0.2
            self.world.at(self.world.now + delay, end.lose, reason)
            end.reader = FrameReader(FRAME_BYTES_MAX)
        self.other.arrive = self.arrive = lambda data: None  # type: ignore[method-assign]


class SimNode:
    """One node and its application, over all its lives."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.disk = MemoryDisk()
        self.records: list[Record] = []
        self.life = 0
        self.is_up = False
        self.hub: Hub
        self.driver: Driver
        self.sent = 0
        self.confirmed: list[tuple[str, str]] = []
        """What the application is done with, in order: it survives."""
        self._taken: list[Event] = []
        self._wake = float("inf")

    def start(self, _: Any = None) -> None:
        """Begin, or come back from what the disk has."""
        world = self.world
        if self.is_up:
            return
        self.life += 1
        self._taken = []
        options = world.options
        try:
            journal = MemoryJournal(self.disk, Identity(RUN, self.name))
            self.driver = Driver(
                RUN, world.names, self.name, ENGINES["tagged"], world.now,
                options=EngineOptions(stability=options.stability), flow=options.flow,
                timing=world.timing, journal=journal, checkpoint_bytes=options.checkpoint_bytes,
                trace=lambda at: Tracing(
                    MemoryLog(self.name, self.records, at), world.names, False  # type: ignore[arg-type]
                ),
            )  # fmt: skip
        except Crashed:
            world.at(world.now + 0.05, self.start, None)
            return
        self.driver.auto_confirm = not options.confirms
        self.hub = Hub(self.name, self.life, world.timing, Random(world.chance.random()))
        self.hub.add(self.driver)
        for peer in world.names:
            if peer != self.name:
                self.hub.know(peer, peer, world.now)
        self.is_up = True
        self.turn(lambda now: None)

    def kill(self, _: Any = None) -> None:
        """End at once, as kill -9 does."""
        if not self.is_up:
            return
        self.is_up = False
        self.disk.crash()
        self.disk.fault = None
        for link in list(self.hub.links.values()):
            pipe: Any = link.connection
            pipe.open = False
            self.world.at(self.world.now + 0.01, pipe.other.lose, "the peer was killed")
        self.world.at(self.world.now + 0.02 + self.world.chance.random() * 0.3, self.start, None)

    def turn(self, work: Callable[[float], Any]) -> Any:
        """One turn of the node's loop."""
        now = self.world.now
        result = None
        try:
            result = work(now)
            self.hub.tick(now)
            self.hub.flush(now)
        except Crashed:
            self.kill()
            return None
        for peer, _ in self.hub.dials(now):
            self.world.at(now + self.world.latency(self.name), self.dial, (peer, self.life))
        due = self.hub.deadline()
        if due is not None and due < self._wake:
            self._wake = max(due, now)
            self.world.at(self._wake, self.wake, (self.life, self._wake))
        return result

    def wake(self, which: Any) -> None:
        """A timer of the node."""
        life, at = which
        if self._wake == at:
            self._wake = float("inf")
        if self.is_up and self.life == life:
            self.turn(lambda now: None)

    def dial(self, which: Any) -> None:
        """A connection is made, or is not."""
        peer, life = which
        world = self.world
        if not self.is_up or life != self.life:
            return
        other = world.nodes[peer]
        if not other.is_up or world.is_cut(self.name, peer):
            self.turn(lambda now: self.hub.unreachable(peer, "nobody answers", now))
            return
        near, far = Pipe(world, self.name, peer, True), Pipe(world, peer, self.name, False)
        near.other, far.other = far, near
        world.pipes.append(near)
        self.turn(lambda now: self.hub.connected(near, peer, now))
        if other.is_up:
            other.turn(lambda now: other.hub.connected(far, "", now))

    # The application.

    def step(self, _: Any = None) -> None:
        """Send, take, confirm: whatever chance says."""
        world, chance = self.world, self.world.chance
        rarely = world.options.slow and self.name == world.names[-1]
        if self.is_up:
            for _ in range(chance.randrange(4) if not rarely else chance.random() < 0.05):
                if not self.is_up or not self.turn(self.take):
                    break
            if self.is_up and self.sent < world.options.messages and chance.random() < 0.7:
                # It counts as sent when the turn has ended: before, it may not be written down.
                self.sent += bool(self.turn(self.send))
            if self.is_up and world.options.confirms and chance.random() < 0.3 and self._taken:
                self.turn(self.confirm)
        if not world.calm or self.sent < world.options.messages:
            world.after(chance.expovariate(1 / world.options.interval_s), self.step, None)

    def send(self, now: float) -> bool:
        """Broadcast the next message, if there is room."""
        how: dict[str, Any] = {}
        if self.world.options.streams and self.world.chance.random() < 0.2:
            how["stream"] = "s"
        if self.world.options.multicasts and self.world.chance.random() < 0.4:
            others = [name for name in self.world.names if name != self.name]
            how["to"] = self.world.chance.sample(
                others, self.world.chance.randrange(1, len(others))
            )
        try:
            self.driver.broadcast(f"{self.name} {self.sent}".encode(), now, **how)
        except Full:
            return False
        self._done()  # a broadcast confirms what was taken before it
        return True

    def take(self, now: float) -> bool:
        """Take one event."""
        if not self.world.options.confirms:
            self._done()
        event = self.driver.take(now)
        if event is None:
            return False
        self._taken.append(event)
        return True

    def confirm(self, now: float) -> None:
        """Be done with some of what was taken."""
        some = self._taken[: 1 + self.world.chance.randrange(len(self._taken))]
        some[-1].confirm()
        self._done(len(some))

    def _done(self, count: int | None = None) -> None:
        """Remember outside what the node was told that it need not tell again.

        It is told so in a turn that may still crash before its commit: then the node tells it
        again, and an application of this kind, which writes down before it confirms, knows it.
        """
        done, self._taken = self._taken[:count], [] if count is None else self._taken[count:]
        for event in done:
            if isinstance(event, Delivered):
                self.confirmed.append(("deliver", str(event.tag)))
            elif isinstance(event, Stable):
                self.confirmed.append(("stable", str(event.tag)))


class World:
    """Nodes, the connections between them, and what befalls them."""

    def __init__(self, options: NodesOptions) -> None:
        self.options = options
        self.chance = Random(options.seed)
        self.now = 0.0
        self._planned = 0
        self._queue: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self.names = node_names(options.nodes)
        self.timing = TimingConfig(heartbeat_s=1.0, reconnect_ms_max=500.0)
        self.cut: frozenset[str] = frozenset()
        """One side of a partition; empty when there is none."""
        self.calm = False
        self.pipes: list[Pipe] = []
        self.nodes: dict[str, SimNode] = {}
        for name in self.names:
            self.nodes[name] = SimNode(self, name)

    def at(self, time: float, action: Callable[[Any], None], argument: Any) -> None:
        """Plan something."""
        self._planned += 1
        heappush(self._queue, (max(time, self.now), self._planned, action, argument))

    def after(self, delay: float, action: Callable[[Any], None], argument: Any) -> None:
        """Plan something for later."""
        self.at(self.now + delay, action, argument)

    def latency(self, name: str) -> float:
        """How long something travels."""
        return self.options.latency_s * (0.2 + self.chance.expovariate(1.0))

    def is_cut(self, a: str, b: str) -> bool:
        """Whether a partition is between them."""
        return (a in self.cut) != (b in self.cut)

    def run(self) -> Verdict:
        """Everything, to the end; what the checker says of it."""
        options, chance = self.options, self.chance
        busy = options.messages * options.interval_s * 1.5
        for node in self.nodes.values():
            self.after(chance.random() * 0.1, node.start, None)
            self.after(0.1 + chance.random() * 0.1, node.step, None)
        for _ in range(options.kills):
            self.after(0.1 + chance.random() * busy, self._any(SimNode.kill), None)
        for _ in range(options.crashes):
            self.after(0.1 + chance.random() * busy, self._any(_crash_soon), None)
        for _ in range(options.breaks):
            self.after(0.1 + chance.random() * busy, self._snap, None)
        for _ in range(options.partitions):
            self.after(0.1 + chance.random() * busy, self._split, None)
        self._go(until=busy + 1.0)
        self.finish()
        return self.judge()

    def _any(self, action: Callable[[SimNode], None]) -> Callable[[Any], None]:
        return lambda _: action(self.nodes[self.chance.choice(self.names)])

    def _snap(self, _: Any) -> None:
        there = [pipe for pipe in self.pipes if pipe.open]
        if there:
            self.chance.choice(there).snap("it broke")

    def _split(self, _: Any) -> None:
        count = self.chance.randrange(1, len(self.names))
        self.cut = frozenset(self.chance.sample(self.names, count))
        self.after(0.1 + self.chance.random() * 1.5, self._heal, self.cut)

    def _heal(self, which: Any) -> None:
        if self.cut == which:
            self.cut = frozenset()

    def _go(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action, argument = heappop(self._queue)
            action(argument)
        self.now = until

    def finish(self) -> None:
        """No more faults; run until everything has arrived and was told."""
        self.calm = True
        self.cut = frozenset()
        for node in self.nodes.values():
            node.disk.fault = None
            node.start()
        # Messages of streams are never told stable, so how much is held says nothing there.
        quiet = 0
        for _ in range(400):
            self._go(self.now + 0.25)
            for node in self.nodes.values():
                while node.is_up and node.turn(node.take):
                    pass
                if node.is_up and node._taken:
                    node._taken[-1].confirm()
                    node._done()
                    node.turn(lambda now: None)
            quiet = 0 if self.lacks() else quiet + 1
            if quiet > (8 if self.options.streams or self.options.multicasts else 0):
                return
        raise AssertionError(f"seed {self.options.seed}: never done: {self.lacks()}")

    def lacks(self) -> list[str]:
        """What is missing, for people."""
        lacks = []
        sends = [
            (name, record.to)
            for name, node in self.nodes.items()
            for record in node.records
            if record.kind == SEND
        ]
        for node in self.nodes.values():
            if not node.is_up:
                lacks.append(f"{node.name} is down")
                continue
            driver = node.driver
            delivered = len({dot for what, dot in node.confirmed if what == "deliver"})
            if node.sent < self.options.messages:
                lacks.append(f"{node.name} sent {node.sent}")
            mine = [
                to for name, to in sends if name != node.name and node.name in (to or node.name)
            ]
            if delivered < len(mine):
                lacks.append(f"{node.name} took {delivered}")
            if len(driver.exchange.outbox):
                lacks.append(f"{node.name} keeps {len(driver.exchange.outbox)}")
            told = not self.options.streams and not self.options.multicasts
            if self.options.stability and told and driver.unstable:
                lacks.append(f"{node.name} holds {driver.unstable} unstable")
        return lacks

    def judge(self) -> Verdict:
        """What the checker says of the trace."""
        for node in self.nodes.values():
            node.driver.close(self.now, ended=False)
            log = node.records
            log.append(Record(run=RUN, node=node.name, pos=len(log), kind=END, t_us=10**12))
            twice = [one for one in set(node.confirmed) if node.confirmed.count(one) > 1]
            if twice and not (self.options.kills or self.options.crashes):
                raise AssertionError(f"seed {self.options.seed}: {node.name} got twice: {twice}")
        records = [record for node in self.nodes.values() for record in node.records]
        (columns,) = gather_runs([part_of_records(records)], self.names)
        info = RunInfo(
            run=RUN, members=tuple(self.names), complete=True, stability=self.options.stability
        )
        return check_run(columns, info)


def _crash_soon(node: SimNode) -> None:
    """At one of the next operations of its journal, before or after it is done."""
    disk, chance = node.disk, node.world.chance
    when = chance.choice(("before", "after"))
    disk.fault = Fault(disk.operations + 1 + chance.randrange(6), "crash", when)  # type: ignore[arg-type]
