"""One member of a total order, for tests that say what the others say."""

from __future__ import annotations

from typing import Any

from thence.engine.base import PENDING_PER_ORIGIN_MAX, EngineOptions
from thence.engine.effects import Effects
from thence.engine.registry import make_node
from thence.engine.reject import Reject
from thence.message import Control, Directed, Stamped, WireMessage


class Node:
    """Member a of a group, and what the others say to it."""

    def __init__(
        self, name: str, limit: int = PENDING_PER_ORIGIN_MAX, members: str = "abc"
    ) -> None:
        options = EngineOptions(pending_per_origin_max=limit)
        self.client, made = make_node(members, "a", name, options)
        self.engine: Any = made
        self.links = [0] * len(members)
        self.delivered: list[tuple[int, int]] = []
        self.sent: list[WireMessage] = []

    def broadcast(self) -> None:
        out = Effects()
        self.engine.broadcast(self.client.broadcast(b""), out)
        self._keep(out)

    def crashed(self, slot: int) -> None:
        out = Effects()
        self.engine.crashed(slot, out)
        self._keep(out)

    def kinds(self) -> list[int]:
        """Of what it sent beside messages, since the last call; messages are forgotten too."""
        sent, self.sent = self.sent, []
        return [each.kind for each in sent if isinstance(each, Control)]

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
