"""One member of a total order, for tests that say what the others say."""

from __future__ import annotations

from thence.engine.base import PENDING_PER_ORIGIN_MAX, EngineOptions
from thence.engine.effects import Effects
from thence.engine.registry import make_node
from thence.engine.reject import Reject
from thence.message import Control, Directed, Stamped, WireMessage


class Node:
    """Member a of three, and what b and c say to it."""

    def __init__(self, name: str, limit: int = PENDING_PER_ORIGIN_MAX) -> None:
        options = EngineOptions(pending_per_origin_max=limit)
        self.client, self.engine = make_node("abc", "a", name, options)
        self.links = [0, 0, 0]
        self.delivered: list[tuple[int, int]] = []
        self.sent: list[WireMessage] = []

    def broadcast(self) -> None:
        out = Effects()
        self.engine.broadcast(self.client.broadcast(b""), out)
        self._keep(out)

    def message(self, peer: int, seq: int, *numbers: int, origin: int = 0) -> list[Reject]:
        """The role and what follows."""
        stamp = (self.links[peer] + 1, self.engine._epoch, *numbers)
        return self._receive(peer, Stamped(origin or peer, seq, stamp, b""))

    def control(self, peer: int, kind: int, *numbers: int) -> list[Reject]:
        stamp = (self.links[peer] + 1, self.engine._epoch, *numbers)
        return self._receive(peer, Control(peer, kind, stamp))

    def _receive(self, peer: int, message: WireMessage) -> list[Reject]:
        out = Effects()
        self.engine.receive(peer, message, out)
        if not any(reject.retry for reject in out.reject):
            self.links[peer] += 1
        self._keep(out)
        return out.reject

    def _keep(self, out: Effects) -> None:
        self.delivered += [(tag.origin, tag.seq) for tag in out.deliver]
        self.sent += [each.message if isinstance(each, Directed) else each for each in out.send]
