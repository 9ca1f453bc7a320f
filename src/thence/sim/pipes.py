"""Connections between simulated nodes: bytes in order until it breaks, as tcp gives them.

Over datagrams the same is in sim/datagrams.py, with the real link in between.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from thence.client.hub import Hub
from thence.errors import WireError
from thence.wire.frame import FRAME_BYTES_MAX, FrameReader

BREAK_S = 0.2
"""It takes up to so long until an end learns that a connection broke."""


class Net(Protocol):
    """What connections need of the world."""

    now: float
    chance: Random
    pipes: list[Any]
    """Connections that can be broken, one end of each."""

    def at(self, time: float, action: Callable[[Any], object], argument: Any) -> None: ...
    def after(self, delay: float, action: Callable[[Any], object], argument: Any) -> None: ...
    def latency(self, a: str = "", b: str = "") -> float: ...
    def is_cut(self, a: str, b: str) -> bool: ...
    def owner(self, name: str) -> Owner: ...


class Owner(Protocol):
    """What connections need of a node."""

    name: str
    life: int
    is_up: bool
    hub: Hub

    @property
    def world(self) -> Net: ...
    def turn(self, work: Callable[[float], Any]) -> Any: ...
    def received(self, connection: Any, frames: list[tuple[int, bytes]]) -> None: ...
    def leaves(self, connection: Any, data: bytes) -> None: ...
    def datagram(self, which: Any) -> None: ...


class Pipe:
    """One end of a connection; ``other`` is the other end."""

    def __init__(self, owner: Owner, peer: Owner, dialled: bool) -> None:
        self.world = owner.world
        self.owner = owner
        self.peer = peer
        self.address = f"sim://{peer.name}"
        self.peer_name: str | None = None
        self.dialled = dialled
        self.backlog_bytes = 0
        self.other: Pipe = self
        self.open = True
        self.life = owner.life
        self._last = 0.0  # when the last bytes sent arrive: they stay in order
        self._deaf = False
        self._reader = FrameReader(FRAME_BYTES_MAX)

    def send(self, data: bytes) -> None:
        """Bytes for the other end."""
        if self.open:
            self.owner.leaves(self, data)
            self._last = max(
                self._last, self.world.now + self.world.latency(self.owner.name, self.peer.name)
            )
            self.world.at(self._last, self.other.arrive, data)

    def trust(self) -> None:
        """Every length is taken."""

    def close(self, reason: str) -> None:
        """What was sent arrives, then the other end learns of it."""
        if self.open:
            self.open = False
            self.world.at(max(self._last, self.world.now), self.other.lose, "closed by the peer")

    def arrive(self, data: Any) -> None:
        """Bytes of the other end, unless a partition or a crash swallowed them."""
        node = self.owner
        if self.open and not self._deaf and node.life == self.life and node.is_up:
            if self.world.is_cut(node.name, self.peer.name):
                self.snap("the network is cut")
                return
            try:
                frames = self._reader.feed(data)
            except WireError as error:
                self.close(str(error))
                return
            node.received(self, frames)

    def lose(self, reason: Any) -> None:
        """This end learns that the connection is gone."""
        if self.open:
            self.open = False
            if self.owner.life == self.life and self.owner.is_up:
                self.owner.turn(lambda now: self.owner.hub.closed(self, reason, now))

    def snap(self, reason: str) -> None:
        """Break it: what is on its way is lost, and both ends learn of it at some time."""
        for end in (self, self.other):
            end._deaf = True
            self.world.after(self.world.chance.random() * BREAK_S, end.lose, reason)

    def vanish(self) -> None:
        """The process of this end is gone; the system tells the other end."""
        self.open = False
        self.world.after(0.01, self.other.lose, "the peer was killed")


def connect(owner: Owner, peer: Owner, label: str = "") -> None:
    """Dial: at once there or not.  ``label``: what the hub calls it, if not by its name."""
    world = owner.world
    known = label or peer.name
    if not peer.is_up or world.is_cut(owner.name, peer.name):
        owner.turn(lambda now: owner.hub.unreachable(known, "nobody answers", now))
        return
    near, far = Pipe(owner, peer, True), Pipe(peer, owner, False)
    near.other, far.other = far, near
    world.pipes = [pipe for pipe in world.pipes if pipe.open]
    world.pipes.append(near)
    owner.turn(lambda now: owner.hub.connected(near, known, now))
    if peer.is_up:
        peer.turn(lambda now: peer.hub.connected(far, "", now))
