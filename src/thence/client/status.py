"""The numbers of a node, and whether it is ready, for its status page.

Everything is read off the hub and the drivers when somebody asks.  Only stability lag is measured
as things happen, and only in a node that has a status page.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Final

from thence import __version__
from thence.causal.dot import SEQ_BITS
from thence.client.driver import Driver
from thence.client.links import CONTACT, Totals
from thence.client.roster import evict, joining, membership_numbers, peer_names, unready
from thence.client.runtime import Runtime
from thence.config import split_address
from thence.engine.streams import STREAM_BASE
from thence.errors import UnusableInputError
from thence.telemetry.http import StatusServer
from thence.telemetry.snapshot import (
    GroupNumbers,
    LagCounter,
    PeerNumbers,
    Readiness,
    Snapshot,
)

MARKS_MAX: Final = 4096
"""Moments that a meter of lag remembers; beyond it, every other one."""


class LagMeter:
    """How long messages take from being sent or taken here to being known to be stable.

    Tags carry no time.  But the client's clock counts what its application does, and every tag has
    the count of its own moment; so once a turn the count is noted with the time.
    """

    def __init__(self) -> None:
        self.counter = LagCounter()
        self._marks: deque[tuple[int, float]] = deque()

    def turn(self, clock: int, now: float) -> None:
        """A turn ends with the client's clock at this count."""
        marks = self._marks
        if not marks or marks[-1][0] != clock:
            marks.append((clock, now))
            if len(marks) > MARKS_MAX:
                self._marks = deque(list(marks)[1::2])

    def stable(self, tags: Sequence[Any], now: float) -> None:
        """These were found to be stable; in the order in which they were delivered."""
        marks, observe = self._marks, self.counter.observe
        for tag in tags:
            while marks and marks[0][0] < tag.index:
                marks.popleft()
            observe(now - marks[0][1] if marks else 0.0)


class StatusPage:
    """Serves what a node says of itself where its settings say."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._started = runtime.now
        self.meters: dict[str, LagMeter] = {}
        """By group."""
        self.stopping = False
        orders = {"evict": lambda asked: evict(runtime, asked)}
        self.server = StatusServer(self.snapshot, self.readiness, orders=orders)
        self.address = ""
        """HOST:PORT, with the port that was chosen."""

    async def start(self) -> None:
        """Listen."""
        config = self._runtime.config
        found = split_address(config.status or "")
        if found is None:
            raise UnusableInputError(f"status {config.status!r} is no address: expected HOST:PORT")
        host, port = await self.server.start(*found, allow_remote=config.allow_remote)
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def aclose(self) -> None:
        """Stop; may be called again."""
        await self.server.aclose()

    def meter(self, group: str) -> LagMeter:
        """What the group tells of its turns and its stable messages."""
        return self.meters.setdefault(group, LagMeter())

    def snapshot(self) -> Snapshot:
        """All numbers, now."""
        runtime = self._runtime
        hub = runtime.hub
        drivers = list(hub.drivers.values())
        names = {name for name in hub.addresses if not name.startswith(CONTACT)} | {*hub.by_peer}
        names.update(name for driver in drivers for name in peer_names(driver))
        names.discard(hub.node)
        return Snapshot(
            node=hub.node,
            version=__version__,
            uptime_s=runtime.now - self._started,
            groups=tuple(
                group_numbers(driver, self.meters.get(driver.group), runtime.now)
                for driver in drivers
            ),
            joining=joining(runtime),
            peers=tuple(peer_numbers(runtime, name) for name in sorted(names)),
            rejected={**hub.refused, **self.server.refused},
        )

    def readiness(self) -> Readiness:
        """Ready: a message that is broadcast now is taken, and somebody gets it."""
        why = "it stops" if self.stopping else ""
        for each in joining(self._runtime):
            why = why or f"joining {each.group}: {each.waiting_for}"
        for driver in self._runtime.hub.drivers.values():
            alone = len(driver.members) > 1 and not driver.connected
            if driver.failed:
                why = why or driver.failed
            elif unready(driver):
                why = why or unready(driver)
            elif alone:
                others = [name for name in driver.member_names if name != driver.name]
                why = why or f"no other member of {driver.group} is connected: {', '.join(others)}"
            elif not driver.has_room:
                behind = ", ".join(driver.exchange.behind())
                why = why or f"{driver.group} is full; {behind} has acknowledged least"
        return Readiness(not why, why)


def group_numbers(driver: Driver, meter: LagMeter | None = None, now: float = 0.0) -> GroupNumbers:
    """The numbers of one group."""
    counts, outbox, flow = driver.counts, driver.exchange.outbox, driver.flow
    waiting = driver.engine.waiting()
    blocked_on = Counter(driver.members.names[_slot(driver, each.missing)] for each in waiting)
    return GroupNumbers(
        name=driver.group,
        engine=driver.spec.name,
        sent=counts["sent"],
        delivered=counts["delivered"],
        stable=counts["stable"],
        pending=len(waiting),
        blocked_on=dict(sorted(blocked_on.items())),
        unstable=driver.unstable,
        outbox_messages=len(outbox),
        outbox_bytes=outbox.kept_bytes,
        events_waiting=len(driver.queue),
        journal_bytes=driver.journal_bytes,
        limits={
            "outbox_messages": flow.outbox_messages_max,
            "outbox_bytes": flow.outbox_bytes_max,
            "unstable": flow.unstable_messages_max,
            "events_waiting": flow.credit_messages * (len(driver.member_names) - 1),
        },
        membership=membership_numbers(driver, now),
        **({} if meter is None else {"lag": meter.counter.lag()}),
    )


def _slot(driver: Driver, packed: int) -> int:
    """The member who sent, or will send, the message with this dot."""
    k = packed >> SEQ_BITS
    slot: int = k if k < STREAM_BASE else driver.client.past.streams[k - STREAM_BASE][0]
    return slot


def peer_numbers(runtime: Runtime, name: str) -> PeerNumbers:
    """The numbers of one peer, of all connections to it since the start."""
    hub = runtime.hub
    link = hub.by_peer.get(name)
    gone = hub.totals.get(name) or Totals()
    totals = Totals(gone.connections, gone.sent_bytes, gone.received_bytes, gone.resent)
    slots = [(driver, driver.slot_of(name)) for driver in hub.drivers.values()]
    flows = [driver.exchange.flows[slot] for driver, slot in slots if slot is not None]
    opened = [flow for flow in flows if flow.is_open]
    address, rtt_s = hub.addresses.get(name), None
    if link is not None:
        totals.add(link.connection)
        stats = getattr(link.connection, "stats", None)
        rtt_s = (link.rtt_s if stats is None else stats.rtt_ms / 1000) or None
    where = "" if address is None else address.url
    return PeerNumbers(
        name=name,
        address=where if link is None else link.connection.address,
        connected=link is not None,
        bytes_sent=totals.sent_bytes,
        bytes_received=totals.received_bytes,
        backlog_bytes=0 if link is None else link.connection.backlog_bytes,
        retransmissions=totals.resent + sum(flow.resent for flow in flows),
        reconnects=max(0, totals.connections - 1),
        credit_messages=sum(flow.limit - flow.sent for flow in opened),
        credit_bytes=sum(flow.room for flow in opened),
        rtt_s=rtt_s,
    )
