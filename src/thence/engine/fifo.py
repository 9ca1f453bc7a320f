"""``fifo``: sequence numbers, the weakest order there is (Dewan's slides, 000 and 001).

Theory of operation
    Each sender counts what it sends to each of the others, and numbers messages with that; who gets
    one holds it back until all before it have come.  As long as every message is for everyone the
    counts are the same, and one message goes out; with multicasts and unicasts each recipient gets
    its own number.

Invariants
    ``delivered[j]`` messages of j were handed over, the first so many for this node, in order.
    Between steps no held message is the next of its sender.

Differences from the slides
    Unicasts and broadcasts share the numbers, so that a broadcast does not overtake a unicast of
    the same sender; the slides number them apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from thence.causal.dot import pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.plain import PlainClient, PlainTag, refusal
from thence.engine.reject import BAD_SEQ, DUPLICATE, TOO_FAR_AHEAD, WRONG_KIND, Reject, Waiting
from thence.errors import LocalProtocolError
from thence.message import Directed, Phantom, Stamped, WireMessage


class FifoEngine:
    """The middleware.  The stamp of a message is its number for whoever gets it."""

    __slots__ = ("_delivered", "_held", "_members", "_pending_max", "_sent", "_seq", "_slot")

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        self._members = members
        self._slot = slot
        self._pending_max = options.pending_per_origin_max
        self._seq = 0
        self._sent = [0] * len(members.names)
        self._delivered = [0] * len(members.names)
        self._held: list[dict[int, Stamped]] = [{} for _ in members.names]
        """By origin and number."""

    def broadcast(self, tag: PlainTag, out: Effects) -> None:
        """Number it for each of those it is for."""
        if tag.origin != self._slot or tag.seq != self._seq + 1:
            raise LocalProtocolError(f"{tag} is not the next message of slot {self._slot}")
        self._seq += 1
        everyone = [slot for slot in range(len(self._sent)) if slot != self._slot]
        numbers: dict[int, list[int]] = {}
        for slot in tag.to or everyone:
            self._sent[slot] += 1
            numbers.setdefault(self._sent[slot], []).append(slot)
        for number, slots in numbers.items():
            message = Stamped(self._slot, tag.seq, (number,), tag.payload, tag.to)
            out.send.append(message if slots == everyone else Directed(tuple(slots), message))

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """There are none."""
        raise LocalProtocolError("the fifo engine has no phantoms")

    def forget(self, tag: PlainTag) -> None:
        """There is no stability."""

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """Hand it over if it is the next of its sender, and what waited for it."""
        if not isinstance(message, Stamped):
            out.reject.append(Reject(peer, WRONG_KIND, "this engine takes messages with numbers"))
            return
        refused = refusal(peer, message, self._members, self._slot, 1) or self._fault(peer, message)
        if refused is not None:
            out.reject.append(refused)
            return
        origin, held = message.origin, self._held[message.origin]
        held[message.stamp[0]] = message
        while (following := held.pop(self._delivered[origin] + 1, None)) is not None:
            self._delivered[origin] += 1
            out.deliver.append(PlainTag(origin, following.seq, following.payload, following.to))

    def _fault(self, peer: int, message: Stamped) -> Reject | None:
        number, delivered = message.stamp[0], self._delivered[message.origin]
        if number < 1:
            return Reject(peer, BAD_SEQ, "numbers are from 1")
        if number <= delivered or number in self._held[message.origin]:
            return Reject(peer, DUPLICATE, f"number {number} of slot {message.origin} is here")
        if number > delivered + self._pending_max:
            detail = f"number {number} of slot {message.origin} while {delivered} is delivered"
            return Reject(peer, TOO_FAR_AHEAD, detail, True)
        return None

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """One after the other."""
        for message in messages:
            self.receive(peer, message, out)

    def flush(self, out: Effects) -> None:
        """There is no stability."""

    def waiting(self) -> list[Waiting]:
        """What is held back; what is missing is told by the number of the link, as a dot."""
        return [
            Waiting(pack(origin, message.seq), pack(origin, self._delivered[origin] + 1))
            for origin, held in enumerate(self._held)
            for _, message in sorted(held.items())
        ]

    def words(self) -> int:
        """Two counts per member, and dot and number of each held message."""
        return 2 * len(self._sent) + sum(3 * len(held) for held in self._held)


def make(members: Members, slot: int, options: EngineOptions) -> tuple[PlainClient, FifoEngine]:
    """Both processes of one node."""
    return PlainClient(members, slot, some=True), FifoEngine(members, slot, options)


SPEC = EngineSpec(
    name="fifo",
    summary="sequence numbers: what one node sends arrives in order, and no more",
    guarantee="fifo",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    reach=("broadcast", "multicast", "unicast"),
    stamped=True,
)
