"""``compressed-broadcast``: causal broadcast with the entries of the vector that changed since the
sender's last message (thesis 2.4.3.3, the multicast-based approach, after Birman et al.).

Theory of operation
    Everybody gets every message, so a sender needs to remember only its vector at its last message
    (LM), and sends the entries that are larger now.  Who gets message n of j hands it over after
    n - 1, which told the rest: what does not travel is there by then.  So links may bring messages
    in any order, unlike those of ``compressed``.

Invariants
    ``delivered[j]`` messages of j were handed over, the first so many.  Between steps nothing held
    back is ready.

Differences from the thesis
    None in what is sent.  (2.4.3.3 then says that this pays while k < n b, with k entries of m + b
    bits against n of b: it pays while k (m + b) < n b.)  The thesis calls it multicast; it is for
    everyone, and here ``multicast`` is for some.
"""

from __future__ import annotations

from collections.abc import Sequence

from thence.causal.dot import SEQ_MAX
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.holdback import HoldBack
from thence.engine.plain import PlainClient, PlainTag, refusal
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_RECIPIENTS,
    UNSENT_OWN_DOT,
    WRONG_KIND,
    Reject,
    Waiting,
)
from thence.errors import LocalProtocolError
from thence.message import Phantom, Stamped, WireMessage


class CompressedBroadcastEngine:
    """The middleware.  The stamp of a message is pairs: a slot and how many of its messages come
    before; slots ascend."""

    __slots__ = ("_hold", "_last_sent", "_members", "_seq", "_slot")

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        self._members = members
        self._slot = slot
        self._seq = 0
        self._hold = HoldBack(len(members.names), options.pending_per_origin_max)
        self._last_sent = list(self._hold.delivered)
        """What was delivered when this node last sent something (LM)."""

    def broadcast(self, tag: PlainTag, out: Effects) -> None:
        """Tell what was delivered since the last one."""
        if tag.origin != self._slot or tag.seq != self._seq + 1:
            raise LocalProtocolError(f"{tag} is not the next message of slot {self._slot}")
        self._seq += 1
        stamp: list[int] = []
        for slot, count in enumerate(self._hold.delivered):
            if count > self._last_sent[slot]:
                stamp += (slot, count)
        self._last_sent = list(self._hold.delivered)
        out.send.append(Stamped(self._slot, tag.seq, tuple(stamp), tag.payload))

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """There are none."""
        raise LocalProtocolError("the compressed-broadcast engine has no phantoms")

    def forget(self, tag: PlainTag) -> None:
        """There is no stability."""

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """Hand over what is ready with it."""
        if not isinstance(message, Stamped):
            out.reject.append(Reject(peer, WRONG_KIND, "this engine takes messages with changes"))
            return
        refused = refusal(peer, message, self._members, self._slot, -1)
        refused = refused or self._fault(peer, message)
        if refused is not None:
            out.reject.append(refused)
            return
        pairs = zip(message.stamp[::2], message.stamp[1::2], strict=True)
        needs = [(slot, count) for slot, count in pairs if slot != self._slot]
        for each in self._hold.add(message.seq, message, needs):
            out.deliver.append(PlainTag(each.origin, each.seq, each.payload))

    def _fault(self, peer: int, message: Stamped) -> Reject | None:
        slots, counts = message.stamp[::2], message.stamp[1::2]
        if message.to:
            return Reject(peer, BAD_RECIPIENTS, "messages of this engine are for everyone")
        if len(slots) != len(counts) or list(slots) != sorted(set(slots)):
            return Reject(peer, BAD_CONTEXT, "not pairs in the order of their slots")
        if message.origin in slots or any(slot >= len(self._last_sent) for slot in slots):
            return Reject(peer, BAD_CONTEXT, "the sender's own entry, or one of nobody")
        if not all(1 <= count <= SEQ_MAX for count in counts):
            return Reject(peer, BAD_CONTEXT, "an entry that is no count")
        if dict(zip(slots, counts, strict=True)).get(self._slot, 0) > self._seq:
            return Reject(peer, UNSENT_OWN_DOT, "it counts messages that this node has not sent")
        return self._hold.refusal(peer, message.origin, message.seq)

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """One after the other."""
        for message in messages:
            self.receive(peer, message, out)

    def flush(self, out: Effects) -> None:
        """There is no stability."""

    def waiting(self) -> list[Waiting]:
        """What is held back, each with one message that it lacks."""
        return self._hold.waiting()

    def words(self) -> int:
        """Two vectors and what is held back."""
        return len(self._last_sent) + self._hold.words()


def make(
    members: Members, slot: int, options: EngineOptions
) -> tuple[PlainClient, CompressedBroadcastEngine]:
    """Both processes of one node."""
    return PlainClient(members, slot), CompressedBroadcastEngine(members, slot, options)


SPEC = EngineSpec(
    name="compressed-broadcast",
    summary="the entries of the vector that changed since the sender's last message",
    guarantee="causal",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    stamped=True,
)
