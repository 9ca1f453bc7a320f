"""One node in virtual time, over all its lives: the same hub and drivers as on real networks.

Beside the checker of traces, which sees what the log says, the promises that only an outsider sees
are checked after every turn: what applications saw over crashes (sim/node_view.py), that nothing
leaves before the journal has it, that queues keep their limits, that there is one connection to
each peer and drivers know it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from thence.causal.dot import Dot
from thence.client.driver import Driver
from thence.client.events import Delivered, Stable
from thence.client.hub import Hub
from thence.client.tracing import Tracing
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.errors import Full, JournalError
from thence.journal.base import Identity
from thence.journal.memory import Crashed, MemoryDisk, MemoryJournal
from thence.sim.datagrams import Socket
from thence.sim.diary import Diary
from thence.sim.node_options import TIMING, NodesOptions
from thence.sim.node_view import Broken, Payloads, View
from thence.sim.pipes import Net, connect
from thence.trace.record import END, Record
from thence.wire import talk


class MemoryLog:
    """The log of one node as a list, cut after a crash to what its journal says."""

    def __init__(self, run: str, node: str, records: list[Record], at: int) -> None:
        self.run = run
        self.node = node
        self.records = records
        if len(records) < at:
            raise Broken(f"{node}: the journal has {at} records, the trace {len(records)}")
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
                run=self.run, node=self.node, pos=len(self.records), kind=kind, t_us=t_us, dot=dot,
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

    def seal(self, position: int) -> None:
        """Nothing to seal."""

    def close(self) -> None:
        """Nothing to let go of."""


class Part:
    """One group at one node: its disk, its log, its application."""

    def __init__(self, node: SimNode, group: str, names: list[str], payloads: Payloads) -> None:
        self.node = node
        self.group = group
        self.names = names
        self.disk = MemoryDisk()
        self.records: list[Record] = []
        self.view = View(node.name, names, payloads)
        self.driver: Driver
        self.journal: MemoryJournal | None = None
        self.written: list[int] = []
        """By slot: the number up to which it is written down what arrived."""
        self.restarts = 0
        self.took = 0
        self.refusals = 0
        """Broadcasts that there was no room for."""
        self.diary: Diary | None = None
        self._sure = 0  # of what it did, how much is confirmed and written down
        self._tries = 0
        self._surplus: list[int] = []
        self._outbox_surplus = 0

    def start(self, now: float) -> None:
        """Begin, or come back from what the disk has."""
        options = self.node.options
        if options.journal:
            self.journal = MemoryJournal(self.disk, Identity(self.group, self.node.name))
        diary = self._new_diary()
        self.driver = driver = Driver(
            self.group, self.names, self.node.name, ENGINES[options.engine], now,
            options=EngineOptions(
                stability=options.stability, stability_batch=options.stability_batch, k=options.k
            ),
            flow=options.flow,
            timing=TIMING, journal=self.journal, checkpoint_bytes=options.checkpoint_bytes,
            trace=lambda at: Tracing(
                MemoryLog(self.group, self.node.name, self.records, at),  # type: ignore[arg-type]
                self.names, False,
            ),
            kept=diary,
        )  # fmt: skip
        if diary is not None and self.diary is not None:
            diary.follows(self.diary, self._sure)
        self.diary = diary
        driver.auto_confirm = not options.confirms
        credit = options.flow.credit_messages
        # What was taken and not confirmed waits again, beside what peers may send.
        self._surplus = [max(0, flow.held - credit) for flow in driver.exchange.flows]
        # What was acknowledged since the last checkpoint is kept again, until peers open.
        outbox = driver.exchange.outbox
        self._outbox_surplus = max(0, len(outbox) - options.flow.outbox_messages_max)
        self.restarts += bool(self.records)
        self.view.began(driver)
        self.written = [flow.have for flow in driver.exchange.flows]

    def _new_diary(self) -> Diary | None:
        options, chance = self.node.options, self.node.world.chance
        if not options.kept:
            return None
        return Diary(self.node.name, lambda: chance.random() < 0.7, options.stability)

    # ---- the application -------------------------------------------------------------------------

    def send(self, now: float) -> bool:
        """Send the next message, if there is room."""
        chance = self.node.world.chance
        if self.node.options.streams and chance.random() < 0.2:
            return self.broadcast(now, stream="s")
        if self.node.options.multicasts and chance.random() < 0.5:
            others = [name for name in self.names if name != self.node.name]
            to = sorted(chance.sample(others, chance.randrange(1, len(others) + 1)))
            return self.broadcast(now, to=to)
        if self.node.options.bursts:
            return self.broadcast_many(now, 1 + chance.randrange(self.node.options.bursts))
        return self.broadcast(now)

    def broadcast(self, now: float, **how: Any) -> bool:
        """Send a message, if there is room."""
        payload = self._payload()
        try:
            tag = self.driver.broadcast(payload, now, **how)
        except Full:
            return self._refused()
        self._sent(tag, payload, how.get("to"))
        return True

    def _sent(self, tag: Any, payload: bytes, to: list[str] | None) -> None:
        self.view.sending(tag, payload, to)
        if self.diary is not None:
            self.diary.sent(tag)

    def broadcast_many(self, now: float, count: int) -> bool:
        """Send a burst, as far as there is room."""
        payloads = [self._payload() for _ in range(count)]
        try:
            tags = self.driver.broadcast_many(payloads, now)
        except Full:
            return self._refused()
        if not tags or (len(tags) < count and self.driver.has_room):
            raise Broken(f"{self.node.name}: {len(tags)} of {count} were sent, and there is room")
        for tag, payload in zip(tags, payloads, strict=False):
            self._sent(tag, payload, None)
        return True

    def _payload(self) -> bytes:
        self._tries += 1
        return f"{self.node.name} {self._tries}".encode()

    def _refused(self) -> bool:
        if self.driver.has_room:
            raise Broken(f"{self.node.name}: Full, and there is room")
        self.refusals += 1
        return False

    def take(self, now: float) -> bool:
        """Take one event."""
        if not self.node.options.confirms:
            self.view.done()  # taking the next one says so
        event = self.driver.take(now)
        if event is None:
            return False
        self.view.took(event)
        if self.diary is not None:
            self.diary.took(event)
        self.took += 1
        return True

    def confirm(self, now: float) -> None:
        """Be done with some of what was taken."""
        events = self.view.events
        count = 1 + self.node.world.chance.randrange(len(events))
        events[count - 1].confirm()
        self.view.done(count)

    def confirm_all(self, now: float) -> None:
        """Be done with all of it."""
        self.view.events[-1].confirm()
        self.view.done()

    def turned(self) -> None:
        """A turn ended."""
        self.view.turned()
        if self.diary is not None:
            told = [event for event in self.view.events if isinstance(event, Delivered | Stable)]
            self._sure = len(self.diary.did) - len(told)
        self.written = [flow.have for flow in self.driver.exchange.flows]

    # ---- what must always hold -------------------------------------------------------------------

    def check(self) -> None:
        """Queues keep their limits."""
        driver, flow, name = self.driver, self.node.options.flow, self.node.name
        outbox = driver.exchange.outbox
        self._outbox_surplus = min(
            self._outbox_surplus, max(0, len(outbox) - flow.outbox_messages_max)
        )
        if len(outbox) > flow.outbox_messages_max + self._outbox_surplus:
            raise Broken(f"{name}: {len(outbox)} messages in the outbox")
        if outbox.kept_bytes > flow.outbox_bytes_max + (1 << 20):
            raise Broken(f"{name}: {outbox.kept_bytes} bytes in the outbox")
        held = 0
        for peer in driver.exchange.peers:
            held += peer.held
            surplus = self._surplus[peer.slot] = min(
                self._surplus[peer.slot], max(0, peer.held - flow.credit_messages)
            )
            if not 0 <= peer.held <= flow.credit_messages + surplus or peer.held_bytes < 0:
                raise Broken(f"{name}: {peer.held} messages of {peer.name} are held")
        ready = sum(map(driver.is_delivery, driver.queue))
        if ready > held:
            raise Broken(f"{name}: {ready} deliveries wait, {held} messages are held")
        others = len(driver.queue) - ready
        if options_bound_queue(self.node.options) and others > 2 * driver.unstable:
            raise Broken(f"{name}: {others} other events wait, {driver.unstable} are unstable")


def options_bound_queue(options: NodesOptions) -> bool:
    """Whether what waits beside deliveries is about messages that are remembered."""
    return options.engine == "tagged"


class SimNode:
    """One node and its applications."""

    def __init__(self, world: Net, name: str, options: NodesOptions) -> None:
        self.world = world
        self.name = name
        self.options = options
        self.parts: dict[str, Part] = {}
        self.life = 0
        self.is_up = False
        self.hub: Hub
        self.socket: Socket | None = None
        self.failures = 0
        self._wake = float("inf")
        self._turning = False

    def start(self, _: Any = None) -> None:
        """Begin, or come back from what the disks have."""
        world = self.world
        if self.is_up:
            return
        self.life += 1
        try:
            for part in self.parts.values():
                part.start(world.now)
        except Crashed:
            self._down()
            return
        self.hub = Hub(self.name, self.life, TIMING, Random(world.chance.random()))
        peers: dict[str, None] = {}
        for part in self.parts.values():
            self.hub.add(part.driver)
            peers.update(dict.fromkeys(part.names))
        for peer in peers:
            if peer != self.name:
                self.hub.know(peer, peer, world.now)
        if self.options.weather is not None:
            self.socket = Socket(self, self.options.weather)
        self.is_up = True
        self._wake = float("inf")
        self._turning = False
        self.turn(lambda now: None)

    def kill(self, _: Any = None) -> None:
        """End at once, as kill -9 does."""
        if self.is_up:
            self.is_up = False
            for link in list(self.hub.links.values()):
                pipe: Any = link.connection
                pipe.vanish()
            self._down()

    def _down(self) -> None:
        for part in self.parts.values():
            part.disk.crash()
            part.disk.fault = None
            part.view.crashed()
        self.world.after(0.02 + self.world.chance.random() * 0.3, self.start, None)

    # ---- turns -----------------------------------------------------------------------------------

    def turn(self, work: Callable[[float], Any], by_application: bool = False) -> Any:
        """Do this in a turn of the node's loop; what it gave, None if the node did not survive."""
        result = None
        try:
            result = work(self.world.now)
        except JournalError:
            if not by_application:
                raise
        except Crashed:
            self.kill()
            return None
        if not self.options.turn_s:
            return result if self._end_turn(self.life) else None
        if not self._turning:
            self._turning = True
            self.world.after(
                self.world.chance.random() * self.options.turn_s, self._end_turn, self.life
            )
        return result

    def _end_turn(self, life: int) -> bool:
        """Write down what happened and let it out; whether the node survived."""
        if not self.is_up or life != self.life:
            return False
        self._turning = False
        now = self.world.now
        try:
            self.hub.tick(now)
            self.hub.flush(now)
        except Crashed:
            self.kill()
            return False
        for part in self.parts.values():
            if not part.driver.failed:  # each group has its own journal
                part.turned()
        if any([part.driver.failed for part in self.parts.values()]):
            self._stop(now)
            return False
        self._check()
        for peer, _ in self.hub.dials(now):
            self.world.after(self.world.latency(), self.dial, (peer, self.life))
        due = self.hub.deadline()
        if due is not None and due < self._wake:
            self._wake = max(due, now)
            self.world.at(self._wake, self.wake, (self.life, self._wake))
        return True

    def _stop(self, now: float) -> None:
        """A journal failed: the application is told so, and stops the node."""
        self.failures += 1
        for part in self.parts.values():
            if part.driver.failed:
                try:
                    part.driver.broadcast(b"x", now)
                except JournalError:
                    continue
                raise Broken(f"{self.name}: its journal failed, and it goes on")
        self.kill()

    def _check(self) -> None:
        hub = self.hub
        for part in self.parts.values():
            part.check()
        for link in hub.links.values():
            if link.peer and hub.by_peer.get(link.peer) is not link:
                raise Broken(f"{self.name}: two connections to {link.peer}")
        for part in self.parts.values():
            live = [
                peer
                for peer, link in hub.by_peer.items()
                if part.driver in list(link.channels.values())
            ]
            if sorted(part.driver.connected) != sorted(live):
                raise Broken(f"{self.name}: connected {part.driver.connected}, live {live}")

    def leaves(self, connection: Any, data: bytes) -> None:
        """Something is sent: by then the journal must have all that it can speak of."""
        kind = data[4]
        if kind == talk.OPEN:
            said = talk.read(data[5:], talk.Open)
            part, peer = self.parts[said.group], self.hub.links[connection].peer
            if said.have > part.written[part.driver.members.slot(peer)]:
                raise Broken(f"{self.name}: more of {peer} is said to be there than is written")
        elif kind in (talk.DATA, talk.ACK, talk.NEWS) and self.options.journal:
            channel = int.from_bytes(data[5:7], "big")
            link = self.hub.links[connection]
            for group, number in link.opened.items():
                ledger = self.parts[group].driver._ledger
                if number == channel and ledger is not None and ledger.dirty:
                    raise Broken(f"{self.name}: a frame of {group} leaves before the commit")

    def received(self, connection: Any, frames: list[tuple[int, bytes]]) -> None:
        """Frames arrived."""
        self.turn(lambda now: self._received(connection, frames, now))

    def _received(self, connection: Any, frames: list[tuple[int, bytes]], now: float) -> None:
        self.hub.received(connection, frames, now)
        if self.options.eager:
            for part in self.parts.values():
                try:
                    self._answer(part, now)
                except JournalError:  # it learns of it
                    pass

    def _answer(self, part: Part, now: float) -> None:
        chance = self.world.chance
        while chance.random() < 0.6 and part.take(now):
            if chance.random() < 0.2 and self._may_send(part):
                part.send(now)

    def wake(self, which: Any) -> None:
        """A timer of the node."""
        life, at = which
        if self._wake == at:
            self._wake = float("inf")
        if self.is_up and self.life == life:
            self.turn(lambda now: None)

    def dial(self, which: Any) -> None:
        """Connect to a peer."""
        peer, life = which
        if self.is_up and life == self.life:
            if self.socket is not None:
                self.socket.dial(self.world.owner(peer))
            else:
                connect(self, self.world.owner(peer))

    def datagram(self, which: Any) -> None:
        """One arrived, if anybody is there."""
        sender, data = which
        if self.is_up and self.socket is not None:
            self.socket.arrive(sender, data)

    # ---- the applications ------------------------------------------------------------------------

    def _may_send(self, part: Part) -> bool:
        return len(part.view.sent) < self.options.messages

    def step(self, rarely: bool) -> None:
        """Send, take, confirm: whatever chance says."""
        chance = self.world.chance
        for part in self.parts.values():
            for _ in range(chance.randrange(4) if not rarely else chance.random() < 0.05):
                if not self.is_up or not self.turn(part.take, True):
                    break
            if self.is_up and self._may_send(part) and chance.random() < 0.7:
                self.turn(part.send, True)
            if self.is_up and self.options.confirms and part.view.events and chance.random() < 0.3:
                self.turn(part.confirm, True)

    def drain(self) -> None:
        """Take and confirm all there is, and send what is left to send."""
        for part in self.parts.values():
            while self.is_up and self.turn(part.take, True):
                pass
            if self.is_up and part.view.events:
                self.turn(part.confirm_all, True)

    def lacks(self) -> list[str]:
        """What it has not sent."""
        if not self.is_up:
            return [f"{self.name} is down"]
        return [
            f"{self.name} sent {len(part.view.sent)} in {part.group}"
            for part in self.parts.values()
            if self._may_send(part)
        ]
