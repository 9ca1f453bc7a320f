"""Connections, hubs and drivers without a network, for tests."""

from __future__ import annotations

from random import Random
from typing import Any

from thence.client.driver import Driver
from thence.client.hub import Hub
from thence.config.node import FlowConfig, TimingConfig
from thence.engine.registry import ENGINES
from thence.journal.base import Identity
from thence.journal.memory import MemoryDisk, MemoryJournal
from thence.wire import talk
from thence.wire.frame import FRAME_BYTES_MAX, FrameReader

TIMING = TimingConfig(heartbeat_s=1.0, greeting_s=2.0, reconnect_ms_min=100, reconnect_ms_max=1000)


class FakeConnection:
    """Keeps what is sent."""

    def __init__(self, dialled: bool = False, peer_name: str | None = None) -> None:
        self.dialled = dialled
        self.address = "fake://somewhere"
        self.peer_name = peer_name
        self.backlog_bytes = 0
        self.closed: str | None = None
        self.trusted = False
        self.other: FakeConnection | None = None
        self._sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        if self.closed is None:
            self._sent.append(data)

    def trust(self) -> None:
        self.trusted = True

    def close(self, reason: str) -> None:
        self.closed = reason

    def said(self) -> list[tuple[int, bytes]]:
        """What was sent since the last time, as frames."""
        data, self._sent = b"".join(self._sent), []
        return FrameReader(FRAME_BYTES_MAX).feed(data)


def driver_of(
    name: str = "a",
    names: tuple[str, ...] = ("a", "b", "c"),
    disk: MemoryDisk | None = None,
    group: str = "g",
    engine: str = "tagged",
    checkpoint_bytes: int = 1 << 20,
    **more: Any,
) -> Driver:
    journal = None if disk is None else MemoryJournal(disk, Identity(group, name))
    return Driver(
        group, names, name, ENGINES[engine], 0.0, journal=journal, timing=TIMING,
        checkpoint_bytes=checkpoint_bytes, **more,
    )  # fmt: skip


def hub_of(name: str, *drivers: Driver, boot: int = 1, **more: Any) -> Hub:
    hub = Hub(name, boot, TIMING, Random(1), **more)
    for driver in drivers:
        hub.add(driver)
    return hub


def turn(hub: Hub, now: float = 0.0) -> None:
    hub.tick(now)
    hub.flush(now)


class Wire:
    """Hubs and the connections between them; everything arrives at once and in order."""

    def __init__(self, *hubs: Hub) -> None:
        self.hubs = {hub.node: hub for hub in hubs}
        self.ends: list[tuple[Hub, FakeConnection]] = []
        self.refusals: list[tuple[str, int, str]] = []
        """(who said it, code, sentence)"""

    def connect(self, dialler: str, other: str, now: float = 0.0) -> FakeConnection:
        near, far = FakeConnection(dialled=True), FakeConnection()
        near.other, far.other = far, near
        self.ends += [(self.hubs[dialler], near), (self.hubs[other], far)]
        self.hubs[dialler].connected(near, other, now)
        self.hubs[other].connected(far, "", now)
        return near

    def run(self, now: float = 0.0, turns: int = 50) -> None:
        """Until nobody has anything to say at this time."""
        for _ in range(turns):
            for hub in self.hubs.values():
                turn(hub, now)
            moved = False
            for hub, end in list(self.ends):
                frames = end.said()
                moved = moved or bool(frames)
                assert end.other is not None
                for kind, body in frames:
                    if kind == talk.REFUSE:
                        said = talk.read(body, talk.Refuse)
                        self.refusals.append((hub.node, said.code, said.sentence))
                target = next(each for each, far in self.ends if far is end.other)
                if frames and end.other.closed is None:
                    target.received(end.other, frames, now)
                if end.closed is not None and end.other.closed is None:
                    end.other.closed = "closed by the peer"
                    target.closed(end.other, "closed by the peer", now)
            if not moved:
                return
        raise AssertionError("they do not come to rest")


def taken(driver: Driver, now: float = 0.0) -> list[Any]:
    """All events that wait."""
    found = []
    while (event := driver.take(now)) is not None:
        found.append(event)
    return found


def payloads(driver: Driver, now: float = 0.0) -> list[bytes]:
    """Of all deliveries that wait."""
    return [event.payload for event in taken(driver, now) if hasattr(event, "payload")]


TIGHT = FlowConfig(outbox_messages_max=3, credit_messages=2)
