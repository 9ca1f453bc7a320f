"""``last-sender``: a stamp names the last message from another (Dewan's slides 15 and 16).

Theory of operation
    Every node counts what it has received of each.  Who sends names the last message that it
    received of another node: the sender and its count.  A message is handed over once so many of
    that sender were.  While a node's last message follows all that it took before (no messages are
    concurrent), the one cause that is named stands for all.

What it guarantees
    In all executions: the order of each sender.  Causal order in those without concurrent messages.
    A message may have several causes, and only the most recent one is named: slide 16, and a test
    (tests/engine/test_last_sender.py) in which a message comes before a cause of it.

Stamp
    The slot of that sender plus one, and the count; two zeros if nothing was received.

Invariants
    ``delivered[j]`` messages of j were handed over, the first so many.  Between steps no held
    message is the next of its sender with a cause that is here.

Concurrent messages
    What a message follows, as far as is known: the one of its sender before it, and the one it
    names.  It is taken to be concurrent if the latest message here, or one of several latest ones,
    is neither.  Without several causes that is right; a message with two of them looks concurrent
    to the one that it does not name.  To *refuse* takes that, and what follows a refused message.

Differences from the slides
    They hand a message over when the count is the *same* as here.  If more of the named sender came
    already, that never becomes so; those are concurrent messages, and a policy says what becomes of
    them.  Messages of one sender keep their order, by the numbers that they have anyway.
"""

from __future__ import annotations

from thence.causal.dot import pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.branches import BRANCH, CONCURRENT, REFUSED, Branches
from thence.engine.in_turn import InTurn
from thence.engine.plain import PlainClient, PlainTag
from thence.engine.reject import BAD_CONTEXT, UNSENT_OWN_DOT, Reject
from thence.engine.vector_rules import is_member
from thence.message import Stamped


class LastSenderEngine(InTurn):
    """The middleware."""

    numbers = 2

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        super().__init__(members, slot, options)
        self._concurrent = options.concurrent
        self._last = (0, 0)
        """The stamp of the next message."""
        self._accepted = [0] * len(members.names)
        """The first so many of each sender were not refused, and all others were."""
        self._branches = Branches()

    def _stamp(self, tag: PlainTag) -> tuple[int, ...]:
        self._accepted[self._slot] = tag.seq
        branch = self._branches.send(pack(self._slot, tag.seq))
        if self._concurrent == "branch":
            tag.branch = branch
        return self._last

    def _stamp_fault(self, peer: int, message: Stamped) -> Reject | None:
        sender, count = message.stamp
        if (sender == 0) != (count == 0) or sender == message.origin + 1:
            return Reject(peer, BAD_CONTEXT, "not another sender and a count")
        if sender and not is_member(sender - 1, self._members):
            return Reject(peer, BAD_CONTEXT, f"slot {sender - 1} is not a member")
        if sender == self._slot + 1 and count > self._delivered[self._slot]:
            return Reject(peer, UNSENT_OWN_DOT, f"names message {count} of this node")
        return None

    def _missing(self, message: Stamped) -> int | None:
        sender, count = message.stamp
        if sender and self._delivered[sender - 1] < count:
            return pack(sender - 1, count)
        return None

    def _take(self, message: Stamped) -> PlainTag:
        origin, seq = message.origin, message.seq
        sender, count = message.stamp
        tag = PlainTag(origin, seq, message.payload)
        before = [pack(origin, seq - 1)] if seq > 1 else []
        before += [pack(sender - 1, count)] if sender else []
        leaves = self._branches.leaves
        is_concurrent = any(leaf not in before for leaf in leaves)
        if self._concurrent == "refuse":
            after_refused = self._accepted[origin] < seq - 1 or (
                sender > 0 and self._accepted[sender - 1] < count
            )
            if is_concurrent or after_refused:
                tag.flag = REFUSED
                return tag
            self._accepted[origin] = seq
        number, beside = self._branches.take(pack(origin, seq), before)
        if self._concurrent == "flag" and is_concurrent:
            tag.flag = CONCURRENT
        elif self._concurrent == "branch":
            tag.branch = number
            tag.flag = BRANCH if beside else ""
        self._last = (origin + 1, seq)
        return tag

    def words(self) -> int:
        """A count per member, the next stamp, dot and stamp of each held message, leaves."""
        return len(self._delivered) + 2 + 4 * self.held + 2 * len(self._branches.leaves)


def make(
    members: Members, slot: int, options: EngineOptions
) -> tuple[PlainClient, LastSenderEngine]:
    """Both processes of one node."""
    return PlainClient(members, slot), LastSenderEngine(members, slot, options)


SPEC = EngineSpec(
    name="last-sender",
    summary="a stamp names the last message from another: causal if that is the only cause",
    guarantee="fifo",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    stamped=True,
)
