"""Connections between simulated nodes over datagrams: the real link (link/reliable.py) and its
door (link/cookie.py) over a network that loses, doubles and reorders.

A node that was started again does not know the connections of its former life, and says so.
"""

from __future__ import annotations

from typing import Any

import msgspec

from thence.link.cookie import Gate
from thence.link.datagram import DATA, RESET, connection_of, kind_of, short
from thence.link.options import LinkOptions
from thence.link.reliable import Link
from thence.sim.pipes import Owner
from thence.wire.frame import FRAME_BYTES_MAX, FrameReader


class Weather(msgspec.Struct, frozen=True):
    """Of the network.  Chances from 0 to 1 for each datagram."""

    loss: float = 0.15
    duplicate: float = 0.1
    jitter_s: float = 0.01
    """Uniform on top of the latency: reorders."""


class LinkPipe:
    """One end of a connection: a link and its timer."""

    def __init__(
        self, socket: Socket, peer: str, link: Link, dialled: bool, label: str = ""
    ) -> None:
        self._label = label or peer
        self.socket = socket
        self.owner = socket.owner
        self.world = self.owner.world
        self.peer = self.world.owner(peer)
        self.link = link
        self.address = f"sim://{peer}"
        self.peer_name: str | None = None
        self.dialled = dialled
        self.backlog_bytes = 0
        self.announced = not dialled
        """The hub was told of it."""
        self.open = True
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._wake = float("inf")

    def send(self, data: bytes) -> None:
        """Bytes for the other end; they leave at the end of the turn."""
        if self.open:
            self.owner.leaves(self, data)
            self.link.send(data)
            self.backlog_bytes = self.link.backlog_bytes
            self.world.at(self.world.now, self.pump, None)

    def trust(self) -> None:
        """Every length is taken."""

    def close(self, reason: str) -> None:
        """What was accepted is carried, then it ends."""
        if self.open:
            self.open = False
            self.link.close()
            self.world.at(self.world.now, self.pump, None)

    def snap(self, reason: str) -> None:
        """Break it here; the other end is told by a datagram, which may be lost."""
        self.link.fail(reason)
        self.pump()

    def vanish(self) -> None:
        """The process is gone: nobody is told."""
        self.open = False

    def take(self, datagram: bytes) -> None:
        """A datagram of the other end."""
        messages = self.link.receive(datagram, self.world.now)
        self._announce()
        if messages and self.open:
            frames = self._reader.feed(b"".join(messages))
            if frames:
                self.owner.received(self, frames)
        if self.socket.is_live():
            self.pump()

    def pump(self, _: Any = None) -> None:
        """Put on the wire what there is, and plan the next time."""
        if not self.socket.is_live():
            return
        now = self.world.now
        for datagram in self.link.outgoing(now):
            self.socket.put(self.peer.name, datagram)
        self.backlog_bytes = self.link.backlog_bytes
        self._announce()
        if self.link.closed:
            self._over()
            return
        due = self.link.deadline()
        if due is not None and due < self._wake:
            self._wake = due
            self.world.at(due, self._fire, due)

    def _fire(self, at: Any) -> None:
        if self._wake == at:
            self._wake = float("inf")
            self.pump()

    def _announce(self) -> None:
        if not self.announced and self.link.opened:
            self.announced = True
            self.world.pipes = [pipe for pipe in self.world.pipes if pipe.open]
            self.world.pipes.append(self)
            self.owner.turn(lambda now: self.owner.hub.connected(self, self._label, now))

    def _over(self) -> None:
        self.socket.forget(self)
        was_open, self.open = self.open, False
        reason = self.link.failed or "closed by the peer"
        if not self.announced:
            self.announced = True
            self.owner.turn(lambda now: self.owner.hub.unreachable(self._label, reason, now))
        elif was_open:
            self.owner.turn(lambda now: self.owner.hub.closed(self, reason, now))


class Socket:
    """All connections of one life of a node."""

    def __init__(self, owner: Owner, weather: Weather) -> None:
        self.owner = owner
        self.world = owner.world
        self.life = owner.life
        self.weather = weather
        self._gate = Gate(self.world.chance.getrandbits(128).to_bytes(16, "big"))
        self._options = LinkOptions(retries=5, keepalive_s=1.0, silence_s=4.0)
        self._pipes: dict[int, LinkPipe] = {}

    def is_live(self) -> bool:
        """Whether its process runs."""
        return self.owner.is_up and self.owner.life == self.life

    def dial(self, peer: Owner, label: str = "") -> None:
        """Begin to connect; the hub is told how it ends.  ``label``: what it calls the peer, if
        not by its name."""
        connection = self.world.chance.getrandbits(64)
        link = Link(connection, self.world.now, dialled=True, options=self._options)
        self._pipes[link.connection] = pipe = LinkPipe(self, peer.name, link, True, label)
        pipe.pump()

    def forget(self, pipe: LinkPipe) -> None:
        """It is over."""
        self._pipes.pop(pipe.link.connection, None)

    def put(self, to: str, datagram: bytes) -> None:
        """On the wire."""
        world, weather = self.world, self.weather
        for _ in range(2 if world.chance.random() < weather.duplicate else 1):
            if world.chance.random() >= weather.loss and not world.is_cut(self.owner.name, to):
                delay = (
                    world.latency(self.owner.name, to) + world.chance.random() * weather.jitter_s
                )
                world.after(delay, world.owner(to).datagram, (self.owner.name, datagram))

    def arrive(self, sender: str, datagram: bytes) -> None:
        """Off the wire."""
        connection = connection_of(datagram)
        pipe = self._pipes.get(connection)
        if pipe is not None and pipe.peer.name == sender:
            pipe.take(datagram)
            return
        now = self.world.now
        answer = self._gate.greet(datagram, sender, now)
        if answer is not None:
            self.put(sender, answer)
            return
        admitted = self._gate.admit(datagram, sender, now)
        if admitted is not None and admitted not in self._pipes:
            link = Link(admitted, now, dialled=False, options=self._options)
            self._pipes[admitted] = far = LinkPipe(self, sender, link, False)
            self.owner.turn(lambda now: self.owner.hub.connected(far, "", now))
            far.pump()
        elif kind_of(datagram) >= DATA and connection not in self._pipes:
            self.put(sender, short(RESET, connection))
