"""``compressed``: causal order with recipient lists, where a message takes along only what changed
since the last one to the same peer (Bosneag et al., 002, 2.2.1; Singhal and Kshemkalyani; thesis
2.4.3.3, the general approach).

Theory of operation
    What a node knows is counts, as in ``matrix``: entry (j, k) is how many messages with a list of
    recipients that has k it knows j to have sent, and (j, j), free because nobody sends to itself,
    how many for everyone.  So a broadcast changes one entry, and while there are only broadcasts
    the entries (j, j) are a vector clock.  Each entry has the number of its last change, and each
    peer the number of changes when it was last sent something: what changed since goes to it.

    Links are FIFO, so nothing else is needed.  What is not told with a message was told with one
    before it over the same link, which is handed over before it.  How many messages of a sender
    came is the number of the message, so the entries that the message itself changes for its
    recipient do not travel, nor does the row of the recipient, who knows it best.

Invariants
    ``(j, j) + (j, i)`` at node i is how many messages of j were handed over there.  All that a held
    message needs and does not say is a need of the one before it.  Between steps nothing held back
    is ready.

Differences from the sources (tests/engine/test_compressed.py)
    The thesis compresses a vector clock.  With lists of recipients a vector does not say whom a
    message was for, so nobody could tell what to wait for; the rows of counts do.
    2.4.3.3 compares the sender's own entry when it last sent (LS) and when an entry changed (LU).
    Where, as in the rest of the thesis, that entry counts messages sent, both are the same for what
    is delivered after a message, and it would never be told: here changes are counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from thence.causal.dot import SEQ_MAX
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.holdback import HoldBack
from thence.engine.plain import PlainClient, PlainTag, refusal
from thence.engine.reject import BAD_CONTEXT, DUPLICATE, WRONG_KIND, Reject, Waiting
from thence.errors import LocalProtocolError
from thence.message import Directed, Phantom, Stamped, WireMessage


class CompressedEngine:
    """The middleware.  The stamp of a message is pairs: the place of an entry (its row times the
    size of the group, plus its column) and its value; places ascend."""

    __slots__ = (
        "_arrived",
        "_changed",
        "_changes",
        "_counts",
        "_hold",
        "_last_seq",
        "_members",
        "_sent_at",
        "_seq",
        "_size",
        "_slot",
        "_told",
    )

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        size = len(members.names)
        self._members = members
        self._slot = slot
        self._size = size
        self._seq = 0
        self._counts = [0] * (size * size)
        self._changes = 0
        self._changed: dict[int, int] = {}
        """By place, the number of its last change (LU); the latest are last."""
        self._sent_at = [0] * size
        """By peer, how many changes there were when it was last sent something (LS)."""
        self._arrived = [0] * size
        """Messages per peer."""
        self._last_seq = [0] * size
        self._told: list[dict[int, int]] = [{} for _ in members.names]
        """By peer and place, the last value that it told of what this node may have to wait for."""
        self._hold = HoldBack(size, options.pending_per_origin_max)

    def broadcast(self, tag: PlainTag, out: Effects) -> None:
        """Count it, and tell each of those it is for what changed."""
        slot, size = self._slot, self._size
        if tag.origin != slot or tag.seq != self._seq + 1:
            raise LocalProtocolError(f"{tag} is not the next message of slot {slot}")
        self._seq += 1
        everyone = [peer for peer in range(size) if peer != slot]
        for column in tag.to or (slot,):
            self._change(slot * size + column, self._counts[slot * size + column] + 1)
        since: dict[int, list[int]] = {}
        alike: dict[tuple[int, ...], list[int]] = {}
        for peer in tag.to or everyone:
            at = self._sent_at[peer]
            if at not in since:
                since[at] = self._since(at)
            alike.setdefault(self._for(peer, since[at]), []).append(peer)
            self._sent_at[peer] = self._changes
        for stamp, peers in alike.items():
            message = Stamped(slot, tag.seq, stamp, tag.payload, tag.to)
            out.send.append(message if peers == everyone else Directed(tuple(peers), message))

    def _change(self, place: int, value: int) -> None:
        self._counts[place] = value
        self._changes += 1
        self._changed.pop(place, None)
        self._changed[place] = self._changes

    def _since(self, change: int) -> list[int]:
        """The places that changed after that, in order."""
        found = []
        for place in reversed(self._changed):
            if self._changed[place] <= change:
                break
            found.append(place)
        return sorted(found)

    def _for(self, peer: int, places: list[int]) -> tuple[int, ...]:
        """Of these what a peer cannot know, with the values."""
        size, row = self._size, self._slot * self._size
        stamp: list[int] = []
        for place in places:
            if place // size != peer and place != row + self._slot and place != row + peer:
                stamp += (place, self._counts[place])
        return tuple(stamp)

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """There are none."""
        raise LocalProtocolError("the compressed engine has no phantoms")

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
        origin = message.origin
        self._arrived[origin] += 1
        self._last_seq[origin] = message.seq
        needs = self._needs(message)
        for each in self._hold.add(self._arrived[origin], message, needs):
            self._learn(each)
            out.deliver.append(PlainTag(each.origin, each.seq, each.payload, each.to))

    def _needs(self, message: Stamped) -> list[tuple[int, int]]:
        """How many messages of each sender it comes after, where that changed."""
        size, slot, told = self._size, self._slot, self._told[message.origin]
        changed = []
        for place, value in zip(message.stamp[::2], message.stamp[1::2], strict=True):
            row, column = divmod(place, size)
            if row != message.origin and column in (row, slot):
                told[place] = value
                changed.append(row)
        return [
            (row, told.get(row * size + row, 0) + told.get(row * size + slot, 0))
            for row in dict.fromkeys(changed)
        ]

    def _learn(self, message: Stamped) -> None:
        """What the sender knew is known here."""
        row = message.origin * self._size
        counted = row + (self._slot if message.to else message.origin)
        self._change(counted, self._counts[counted] + 1)
        for place, value in zip(message.stamp[::2], message.stamp[1::2], strict=True):
            if value > self._counts[place]:
                self._change(place, value)

    def _fault(self, peer: int, message: Stamped) -> Reject | None:
        size, slot, origin, stamp = self._size, self._slot, message.origin, message.stamp
        places, values = stamp[::2], stamp[1::2]
        implied = (origin * size + origin, origin * size + slot)
        if len(places) != len(values) or list(places) != sorted(set(places)):
            return Reject(peer, BAD_CONTEXT, "not pairs in the order of their places")
        if any(place >= size * size or place // size == slot for place in places):
            return Reject(peer, BAD_CONTEXT, "an entry that is none, or that is this node's own")
        if any(place in implied for place in places) or not all(
            1 <= value <= SEQ_MAX for value in values
        ):
            return Reject(peer, BAD_CONTEXT, "an entry that the message itself says, or no count")
        if message.seq <= self._last_seq[origin]:
            detail = f"message {message.seq} of slot {origin} after {self._last_seq[origin]}"
            return Reject(peer, DUPLICATE, detail)
        return self._hold.refusal(peer, origin, self._arrived[origin] + 1)

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """One after the other."""
        for message in messages:
            self.receive(peer, message, out)

    def flush(self, out: Effects) -> None:
        """There is no stability."""

    def waiting(self) -> list[Waiting]:
        """What is held back; what is missing is told by its number for this node, as a dot."""
        return self._hold.waiting()

    def words(self) -> int:
        """Counts, their changes, three numbers per peer, what peers told, what is held back."""
        told = sum(2 * len(each) for each in self._told)
        counts = len(self._counts) + 2 * len(self._changed)
        held = sum(len(each.stamp) for each in self._hold.messages())
        return counts + 3 * self._size + told + self._hold.words() + held


def make(
    members: Members, slot: int, options: EngineOptions
) -> tuple[PlainClient, CompressedEngine]:
    """Both processes of one node."""
    return PlainClient(members, slot, some=True), CompressedEngine(members, slot, options)


SPEC = EngineSpec(
    name="compressed",
    summary="counts that changed since the last message to the same peer; needs FIFO links",
    guarantee="causal",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    reach=("broadcast", "multicast", "unicast"),
    stamped=True,
    fifo_links=True,
)
