"""``unordered``: no engine at all, for comparison: messages are handed over as they arrive.

Not in ``ENGINES``: only scripts name it (script.py), to show what goes wrong without an engine.
Its order is that of the links: FIFO where they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.plain import PlainClient, PlainTag, refusal
from thence.engine.reject import WRONG_KIND, Reject, Waiting
from thence.errors import LocalProtocolError
from thence.message import Directed, Phantom, Stamped, WireMessage


class UnorderedEngine:
    """The middleware.  Stamps are empty."""

    def __init__(self, members: Members, slot: int) -> None:
        self._members = members
        self._slot = slot

    def broadcast(self, tag: PlainTag, out: Effects) -> None:
        """As it is, to those it is for."""
        message = Stamped(self._slot, tag.seq, (), tag.payload, tag.to)
        out.send.append(Directed(tag.to, message) if tag.to else message)

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """There are none."""
        raise LocalProtocolError("without an engine there are no phantoms")

    def forget(self, tag: PlainTag) -> None:
        """There is no stability."""

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """Hand it over."""
        if not isinstance(message, Stamped):
            out.reject.append(Reject(peer, WRONG_KIND, "only messages are taken"))
            return
        refused = refusal(peer, message, self._members, self._slot, 0)
        if refused is not None:
            out.reject.append(refused)
            return
        out.deliver.append(PlainTag(message.origin, message.seq, message.payload, message.to))

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """One after the other."""
        for message in messages:
            self.receive(peer, message, out)

    def flush(self, out: Effects) -> None:
        """There is no stability."""

    def waiting(self) -> list[Waiting]:
        """Nothing waits."""
        return []

    def words(self) -> int:
        """Nothing is kept."""
        return 0


def make(
    members: Members, slot: int, options: EngineOptions
) -> tuple[PlainClient, UnorderedEngine]:
    """Both processes of one node."""
    return PlainClient(members, slot, some=True), UnorderedEngine(members, slot)


SPEC = EngineSpec(
    name="unordered",
    summary="no engine: what arrives is handed over",
    guarantee="fifo",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    reach=("broadcast", "multicast", "unicast"),
    stamped=True,
    fifo_links=True,
)
