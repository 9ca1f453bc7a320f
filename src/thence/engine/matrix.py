"""``matrix``: causal order for messages to one, some or all (Garg, 003, 12.2; Raynal, Schiper and
Toueg).

Theory of operation
    Entry (j, k) of a node's matrix is how many messages it knows that j sent to k.  A message takes
    the matrix of its sender with it, in which it is counted itself for each of those it is for.
    Node i hands over a message of j when it is the next of j for i, and i has all messages that the
    matrix counts for it: column i says of each sender how many.  Then it knows what j knew.

Invariants
    Column i of the matrix of node i is what was handed over there, row i what it has sent.  Between
    steps nothing held back is ready.

Differences from the source (tests/engine/test_matrix.py)
    Figure 12.4, line 25, lets a message in again that was delivered already; the text of 12.2 is
    right: its number is exactly the next one.  An own row that counts more than was
    sent is refused.
    ``okayToRecv`` looks at all that waits after every arrival; here at what can have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import gt

from thence.causal.dot import SEQ_MAX
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.holdback import HoldBack
from thence.engine.plain import PlainClient, PlainTag, refusal
from thence.engine.reject import BAD_CONTEXT, UNSENT_OWN_DOT, WRONG_KIND, Reject, Waiting
from thence.errors import LocalProtocolError
from thence.message import Directed, Phantom, Stamped, WireMessage


class MatrixEngine:
    """The middleware.  The stamp of a message is the sender's matrix, row after row."""

    __slots__ = ("_hold", "_matrix", "_members", "_seq", "_size", "_slot")

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        self._members = members
        self._slot = slot
        self._size = len(members.names)
        self._seq = 0
        self._matrix = [0] * (self._size * self._size)
        self._hold = HoldBack(self._size, options.pending_per_origin_max)

    def broadcast(self, tag: PlainTag, out: Effects) -> None:
        """Count it for each of those it is for, then send the matrix with it."""
        if tag.origin != self._slot or tag.seq != self._seq + 1:
            raise LocalProtocolError(f"{tag} is not the next message of slot {self._slot}")
        self._seq += 1
        others = [slot for slot in range(self._size) if slot != self._slot]
        for slot in tag.to or others:
            self._matrix[self._slot * self._size + slot] += 1
        message = Stamped(self._slot, tag.seq, tuple(self._matrix), tag.payload, tag.to)
        out.send.append(Directed(tag.to, message) if tag.to else message)

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """There are none."""
        raise LocalProtocolError("the matrix engine has no phantoms")

    def forget(self, tag: PlainTag) -> None:
        """There is no stability."""

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """Hand over what is ready with it."""
        if not isinstance(message, Stamped):
            out.reject.append(Reject(peer, WRONG_KIND, "this engine takes messages with matrices"))
            return
        size, slot, origin = self._size, self._slot, message.origin
        refused = refusal(peer, message, self._members, slot, size * size)
        refused = refused or self._fault(peer, message)
        if refused is not None:
            out.reject.append(refused)
            return
        column = message.stamp[slot::size]
        needs = [(k, count) for k, count in enumerate(column) if count and k != origin]
        for each in self._hold.add(column[origin], message, needs):
            self._matrix = list(map(max, self._matrix, each.stamp))
            out.deliver.append(PlainTag(each.origin, each.seq, each.payload, each.to))

    def _fault(self, peer: int, message: Stamped) -> Reject | None:
        size, slot, stamp = self._size, self._slot, message.stamp
        mine = slice(slot * size, slot * size + size)
        if max(stamp) > SEQ_MAX or any(stamp[:: size + 1]):
            return Reject(peer, BAD_CONTEXT, "not a matrix of counts with nothing sent to oneself")
        if True in map(gt, stamp[mine], self._matrix[mine]):
            return Reject(peer, UNSENT_OWN_DOT, "it counts messages that this node has not sent")
        return self._hold.refusal(peer, message.origin, stamp[message.origin * size + slot])

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
        """The matrix, a count per member, and a matrix with each held message."""
        square = self._size * self._size
        return square + self._hold.words() + square * len(self._hold.messages())


def make(members: Members, slot: int, options: EngineOptions) -> tuple[PlainClient, MatrixEngine]:
    """Both processes of one node."""
    return PlainClient(members, slot, some=True), MatrixEngine(members, slot, options)


SPEC = EngineSpec(
    name="matrix",
    summary="a matrix of counts: causal order for messages to one, some or all",
    guarantee="causal",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    reach=("broadcast", "multicast", "unicast"),
    stamped=True,
)
