"""One node in virtual time whose groups' members change: founders, newcomers, leavers, the evicted.

A node has lives (sim/elastic_life.py).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from thence.causal.dot import SEQ_MAX
from thence.client.elastic import Elastic
from thence.client.entries import Checkpoint
from thence.client.events import Delivered, Evicted, Joined, Left, Stable
from thence.client.hub import Hub
from thence.client.links import CONTACT
from thence.client.newcomer import Newcomer
from thence.client.recovery import last_checkpoint
from thence.client.tracing import Tracing
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.errors import Full, Removed
from thence.journal.base import Identity
from thence.journal.memory import Crashed, MemoryDisk, MemoryJournal
from thence.sim.datagrams import Socket
from thence.sim.diary import Diary
from thence.sim.elastic_life import Life
from thence.sim.elastic_options import TIMING, ElasticOptions
from thence.sim.node import MemoryLog
from thence.sim.node_options import NEVER
from thence.sim.node_view import Broken
from thence.sim.pipes import Net, connect
from thence.wire.membership import Request, View

GROUP = "group"
LINGER_CHECKS = 1200
"""A node that is out waits so often for the others to know it."""


class Society(Net, Protocol):
    """What nodes need of their world."""

    @property
    def busy_s(self) -> float: ...
    def installed(self, node: ElasticNode, view: View) -> None: ...
    def over(self, node: ElasticNode, why: str) -> None: ...
    def contacts(self, name: str) -> list[str]: ...


class ElasticNode:
    """One node over all its lives."""

    def __init__(self, world: Society, name: str, options: ElasticOptions) -> None:
        self.world = world
        self.name = name
        self.options = options
        self.life = 0
        self.is_up = False
        self.lives: list[Life] = []
        self.hub: Hub
        self.socket: Socket | None = None
        self._wake = float("inf")
        self._turning = False
        self._view = -1
        self._eager = 0
        self.talks = True
        self._turns = 0
        self.refusals: list[str] = []
        """Connections that it ended because of what the other side said."""

    @property
    def now_life(self) -> Life:
        """The present incarnation."""
        return self.lives[-1]

    @property
    def driver(self) -> Elastic | None:
        """Of the present incarnation, once it is let in."""
        return self.lives[-1].driver if self.lives and self.is_up else None

    # ---- lives -----------------------------------------------------------------------------------

    def found(self, view: View) -> None:
        """Begin as a founder."""
        self._begin()
        member = view.named(self.name)
        assert member is not None
        self.turn(lambda now: self._enter(self._driver(view, member.slot, now, None), now))

    def join(self, _: Any = None) -> None:
        """Begin as a newcomer."""
        if self.is_up:
            return
        self._begin()
        world, life = self.world, self.now_life
        ticket = world.chance.getrandbits(40) + 1
        life.newcomer = Newcomer(GROUP, Request(self.name, ticket, self.name), world.now)
        self.hub.newcomers[GROUP] = life.newcomer
        contacts = world.contacts(self.name)
        for contact in world.chance.sample(contacts, min(len(contacts), 2)):
            self.hub.ask(contact, world.now)
        self.turn(lambda now: None)

    def resume(self, _: Any = None) -> None:
        """Come back from what the disk has, as the same member; join anew if that is over."""
        if self.is_up:
            return
        life = self.now_life
        assert life.driver is not None
        journal = self._journal(life.driver.name)
        assert journal is not None
        made = last_checkpoint(journal)
        journal.close()
        if made is None or made.view is None:
            self.join()
            return
        self._start()
        life.is_over, life.why = False, ""
        view, slot, checkpoint = made.view, made.state.slot, made

        def enter(now: float) -> None:
            driver = self._driver(view, slot, now, None, checkpoint)
            life.resume(driver)
            driver.reception.snapshot = life.snapshot
            self.hub.add(driver)
            if life.is_leaving:
                driver.leave(now)
                self.world.after(0.05, self._left, (self.life, 0))

        self.turn(enter)

    def _begin(self) -> None:
        self.lives.append(Life(self.name, self.world.now))
        self._start()

    def _start(self) -> None:
        world = self.world
        self.life += 1
        self._eager = world.chance.choice((2, 3, 6))  # how many events it takes at a time at most
        self.hub = Hub(self.name, self.life, TIMING, Random(world.chance.random()), self._noted)
        if self.options.weather is not None:
            self.socket = Socket(self, self.options.weather)
        self.is_up = True
        self._wake = float("inf")
        self._turning = False
        self._view = -1

    def _journal(self, member: str) -> MemoryJournal | None:
        life = self.now_life
        if not self.options.journal:
            return None
        if life.disk is None:
            life.disk = MemoryDisk()
        return MemoryJournal(life.disk, Identity(GROUP, member))

    def _driver(
        self, view: View, slot: int, now: float, newcomer: Any,
        checkpoint: Checkpoint | None = None,
    ) -> Elastic:  # fmt: skip
        options, life, chance = self.options, self.now_life, self.world.chance
        member = view.member(slot)
        assert member is not None
        diary = None
        if options.kept:
            had = life.seen.items() if newcomer is not None else ()
            # The first checkpoint is made at once.
            diary = Diary(member.id, lambda: life.driver is None or chance.random() < 0.7, had=had)
        driver = Elastic(
            GROUP, ENGINES["tagged"], view, slot, now, options.membership,
            options=EngineOptions(stability_batch=options.stability_batch), newcomer=newcomer,
            checkpoint=checkpoint, journal=self._journal(member.id), shelf_bytes_max=1 << 40,
            checkpoint_bytes=NEVER if options.seed % 2 else 1,
            flow=options.flow, timing=TIMING,
            trace=lambda at: Tracing(
                MemoryLog(GROUP, member.id, life.records, at), [], False  # type: ignore[arg-type]
            ),
            kept=diary,
        )  # fmt: skip
        if diary is not None and life.diary is not None:
            diary.follows(life.diary, 0)
        life.diary = diary
        return driver

    def _enter(self, driver: Elastic, now: float) -> None:
        life = self.now_life
        life.driver = driver
        life.members = {each.id for each in driver.view_told.members}
        driver.reception.snapshot = life.snapshot
        self.hub.newcomers.pop(GROUP, None)
        for label in [each for each in self.hub.addresses if each.startswith(CONTACT)]:
            del self.hub.addresses[label]
        self.hub.add(driver)

    def _let_in(self, now: float) -> None:
        """The state is there: begin with it."""
        life = self.now_life
        newcomer = life.newcomer
        assert newcomer is not None
        head, state = newcomer.head, newcomer.state
        assert head is not None
        assert state is not None
        life.restore(newcomer.spool.chunks())
        handed = (head, state, newcomer.payloads.chunks())
        self._enter(self._driver(head.view, head.slot, now, handed), now)
        newcomer.close()
        if len(life.seen) != sum(dot.seq for dot in head.taken):
            raise Broken(f"{life.id} took over {len(life.seen)} messages, not {head.taken}")

    def kill(self, _: Any = None) -> None:
        """End at once, as kill -9 does."""
        if self.is_up:
            self.is_up = False
            for link in list(self.hub.links.values()):
                link.connection.vanish()  # type: ignore[attr-defined]
            self.now_life.over("killed")
            if (disk := self.now_life.disk) is not None:
                disk.crash()
                disk.fault = None
            self.world.over(self, "killed")

    def stop(self, why: str) -> None:
        """End in order: it left, or it was evicted."""
        if not self.is_up:
            return
        self.hub.stop(why, self.world.now)
        life = self.now_life
        try:
            if life.driver is not None:
                life.driver.close(self.world.now, ended=why == "left")
        except Crashed:  # in its last moment
            self.kill()
            return
        self.is_up = False
        life.over(why)
        self.world.over(self, why)

    def _noted(self, what: str, who: str, detail: str) -> None:
        if what == "refused":
            self.refusals.append(f"{self.world.now:.3f} {who}: {detail}")

    # ---- turns -----------------------------------------------------------------------------------

    def turn(self, work: Callable[[float], Any], by_application: bool = False) -> Any:
        """Do this in a turn of the node's loop."""
        if not self.is_up:
            return None
        try:
            result = work(self.world.now)
        except Crashed:
            self.kill()
            return None
        if not self.options.turn_s:
            self._end_turn(self.life)
        elif not self._turning:
            self._turning = True
            self.world.after(
                self.world.chance.random() * self.options.turn_s, self._end_turn, self.life
            )
        return result

    def _end_turn(self, life: int) -> None:
        if not self.is_up or life != self.life:
            return
        try:
            self._finish_turn()
        except Crashed:
            self.kill()

    def _finish_turn(self) -> None:
        self._turning = False
        now, hub = self.world.now, self.hub
        newcomer = self.now_life.newcomer
        if newcomer is not None and newcomer.is_done and self.now_life.driver is None:
            self._let_in(now)
        if newcomer is not None and newcomer.failed:
            self.stop(f"refused: {newcomer.failed}")
            return
        hub.tick(now)
        hub.flush(now)
        self._check()
        for peer, url in hub.dials(now):
            self.world.after(self.world.latency(), self.dial, (peer, url, self.life))
        due = hub.deadline()
        if due is not None and due < self._wake:
            self._wake = max(due, now)
            self.world.at(self._wake, self.wake, (self.life, self._wake))

    def _check(self) -> None:
        driver = self.driver
        if driver is None:
            return
        view = driver.council.view
        if view.num != self._view:
            self._view = view.num
            self.world.installed(self, view)
        hub = self.hub
        for link in hub.links.values():
            if link.peer and hub.by_peer.get(link.peer) is not link:
                raise Broken(f"{self.name}: two connections to {link.peer}")
        self._turns += 1
        if self._turns % 8:
            return  # that costs more than a turn
        held = sum(flow.held for flow in driver.exchange.flows)
        ready = sum(map(driver.is_delivery, driver.queue))
        if ready > held:
            raise Broken(f"{self.name}: {ready} deliveries wait, {held} messages are held")

    def wake(self, which: Any) -> None:
        """A timer of the node."""
        life, at = which
        if self._wake == at:
            self._wake = float("inf")
        if self.is_up and self.life == life:
            self.turn(lambda now: None)

    def dial(self, which: Any) -> None:
        """Connect to a peer."""
        peer, url, life = which
        if self.is_up and life == self.life:
            if self.socket is not None:
                self.socket.dial(self.world.owner(url), peer)
            else:
                connect(self, self.world.owner(url), peer)

    def received(self, connection: Any, frames: list[tuple[int, bytes]]) -> None:
        """Frames arrived."""
        self.turn(lambda now: self.hub.received(connection, frames, now))

    def leaves(self, connection: Any, data: bytes) -> None:
        """Something is sent."""

    def datagram(self, which: Any) -> None:
        """One arrived, if anybody is there."""
        sender, data = which
        if self.is_up and self.socket is not None:
            self.socket.arrive(sender, data)

    # ---- the application -------------------------------------------------------------------------

    def step(self, rarely: bool) -> None:
        """Take and send: whatever chance says."""
        chance, driver = self.world.chance, self.driver
        if driver is None:
            return
        for _ in range(chance.randrange(self._eager) if not rarely else chance.random() < 0.05):
            if not self.take():
                break
        if self.is_up and chance.random() < 0.8 and self._may_send():
            self.turn(self.send)

    def _may_send(self) -> bool:
        """What a life sends is spread over the time in which things happen."""
        world, life = self.world, self.now_life
        if not self.talks:
            return False
        share = (world.now - life.began + 0.1) / world.busy_s
        return life.sent < self.options.messages * min(1.0, share)

    def send(self, now: float) -> None:
        """Send the next messages, if there is room and it may."""
        life, driver = self.now_life, self.driver
        if driver is None:
            return
        count = 1 + self.world.chance.randrange(max(1, self.options.bursts))
        payloads = [self._payload(life.id, life.sent + at) for at in range(1, count + 1)]
        try:
            tags = driver.broadcast_many(payloads, now)
        except (Full, Removed):
            return
        life.sent += len(tags)
        for tag, payload in zip(tags, payloads, strict=False):
            life.seen[str(tag)] = payload
            if life.diary is not None:
                life.diary.sent(tag)

    def _payload(self, sender: str, number: int) -> bytes:
        return f"{sender} {number}".encode().ljust(self.options.payload_bytes, b".")

    def take(self) -> bool:
        """Take one event; whether there was one."""
        driver = self.driver
        if driver is None:
            return False
        life = self.now_life
        event = self.turn(driver.take)
        if event is None or not self.is_up:
            return False
        if life.diary is not None:
            life.diary.took(event)
        if isinstance(event, Delivered):
            dot = str(event.tag)
            if dot in life.seen:
                raise Broken(f"{life.id}: {dot} came twice")
            if dot.rpartition(":")[0] not in life.members:
                raise Broken(f"{life.id}: {dot} of no member in {sorted(life.members)}")
            if event.payload != self._payload(dot.rpartition(":")[0], event.tag.seq):
                raise Broken(f"{life.id}: {dot} came with {bytes(event.payload)!r}")
            life.seen[dot] = bytes(event.payload)
        elif isinstance(event, Stable):
            life.stable.add(str(event.tag))
        elif isinstance(event, Joined):
            life.members.add(event.member)
        elif isinstance(event, Left | Evicted):
            life.members.discard(event.member)
            if event.member == life.id:
                self._out(event)
        return True

    def _out(self, event: Left | Evicted) -> None:
        """The application learns that it is no member any more."""
        life, driver = self.now_life, self.driver
        assert driver is not None
        if isinstance(event, Evicted):
            life.rejected = [str(tag) for tag in event.rejected]
            self.stop("evicted")
        elif not life.is_leaving:
            raise Broken(f"{life.id} left, and did not want to")

    def leave(self, _: Any = None) -> None:
        """Leave the group."""
        driver = self.driver
        if driver is not None and not driver.is_out and not self.now_life.is_leaving:
            self.now_life.is_leaving = True
            self.turn(driver.leave)
            self.world.after(0.05, self._left, (self.life, 0))

    def _left(self, which: Any) -> None:
        life, waited = which
        driver = self.driver
        if driver is None or life != self.life:
            return
        while self.take():
            pass
        if self.is_up and (driver.has_left or waited > LINGER_CHECKS):
            self.stop("left")
        elif self.is_up:
            self.world.after(0.05, self._left, (life, waited + driver.is_out))

    def sent_last(self) -> int:
        """The number of the last message of the present incarnation."""
        driver = self.lives[-1].driver
        last: int = 0 if driver is None else driver.client.sent & SEQ_MAX
        return last
