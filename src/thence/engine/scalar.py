"""``scalar``: one logical clock for all (Dewan's slide 14).  Causal only without concurrency.

Theory of operation
    Every node keeps a global id, from 0.  Who sends increments it and stamps the message with it; a
    message is handed over when its id is the successor of the one here, which it then is here too.
    As long as whoever sends has taken everything that was sent before (no two messages are
    concurrent), ids are the numbers of one sequence, and every node hands it over.

    With concurrent messages two have the same id.  The second to arrive is noticed at once, because
    its id is not above the one here; what becomes of it ``EngineOptions.concurrent`` says.

What it guarantees
    In all executions: the order of each sender.  Causal order in those without concurrent messages.
    With them a message may come before its cause: another message of the same id as the cause makes
    room for it (tests/engine/test_scalar.py shows it).

Invariants
    ``delivered[j]`` messages of j were handed over, the first so many.  ``seen`` is the highest id
    handed over or sent here, and every id below was too; ``now`` is the highest that was not
    refused, the same unless the policy is to refuse.  Between steps no held message is the next of
    its sender with an id up to ``seen + 1``.

Concurrent messages
    A message is found to be concurrent if one of its id is here.  It then is: what comes after that
    one has a higher id.  Not all pairs of concurrent messages are found; of those that have one id
    the second is.  To *refuse* takes what is not the successor of ``now``, and all that its sender
    says later; that a message of a third node comes after a refused one is not seen.  A *branch* is
    continued by the sender of its last message, or by whoever says the successor of its id, the
    oldest branch first; ids alone do not tell more.

Differences from the slides
    Messages of one sender keep their order, by the numbers that they have anyway: by ids alone
    concurrent messages of others would turn them round.
"""

from __future__ import annotations

from thence.causal.dot import pack, slot_of
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.branches import BRANCH, CONCURRENT, REFUSED, Branches
from thence.engine.in_turn import InTurn
from thence.engine.plain import PlainClient, PlainTag
from thence.engine.reject import BAD_CONTEXT, Reject
from thence.message import Stamped


class ScalarEngine(InTurn):
    """The middleware.  The stamp of a message is its global id."""

    numbers = 1

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        super().__init__(members, slot, options)
        self._concurrent = options.concurrent
        self._now = self._seen = 0
        self._parted = 0
        """Whose messages are refused from now on: a bit per slot."""
        self._branches = Branches()
        self._ids: dict[int, int] = {}
        """Of the leaves."""

    def _stamp(self, tag: PlainTag) -> tuple[int, ...]:
        self._now += 1
        self._seen = max(self._seen, self._now)
        if self._concurrent == "branch":
            dot = pack(self._slot, tag.seq)
            tag.branch = self._branches.send(dot)
            self._ids = {dot: self._now}
        return (self._now,)

    def _stamp_fault(self, peer: int, message: Stamped) -> Reject | None:
        if message.stamp[0] < message.seq:
            return Reject(peer, BAD_CONTEXT, "an id counts at least the messages of its sender")
        return None

    def _missing(self, message: Stamped) -> int | None:
        """The dot is not known: all that is known is its id."""
        return 0 if message.stamp[0] > self._seen + 1 else None

    def _take(self, message: Stamped) -> PlainTag:
        number, origin = message.stamp[0], message.origin
        tag = PlainTag(origin, message.seq, message.payload)
        is_concurrent = number <= self._seen
        self._seen = max(self._seen, number)
        if self._concurrent == "refuse":
            if number != self._now + 1 or self._parted >> origin & 1:
                self._parted |= 1 << origin
                tag.flag = REFUSED
                return tag
        elif self._concurrent == "flag" and is_concurrent:
            tag.flag = CONCURRENT
        elif self._concurrent == "branch":
            self._branch(tag, number)
        self._now = max(self._now, number)
        return tag

    def _branch(self, tag: PlainTag, number: int) -> None:
        leaves, ids = self._branches.leaves, self._ids
        before = [dot for dot in leaves if slot_of(dot) == tag.origin]
        if not before:
            before = [dot for dot in leaves if ids[dot] == number - 1]
            before = sorted(before, key=lambda dot: leaves[dot])[:1]
        dot = pack(tag.origin, tag.seq)
        tag.branch, beside = self._branches.take(dot, before)
        tag.flag = BRANCH if beside else ""
        self._ids = {each: ids[each] for each in leaves if each != dot} | {dot: number}

    def words(self) -> int:
        """The id, a count per member, and dot and id of each held message and leaf."""
        return 1 + len(self._delivered) + 3 * (self.held + len(self._ids))


def make(members: Members, slot: int, options: EngineOptions) -> tuple[PlainClient, ScalarEngine]:
    """Both processes of one node."""
    return PlainClient(members, slot), ScalarEngine(members, slot, options)


SPEC = EngineSpec(
    name="scalar",
    summary="one logical clock for all: causal while no messages are concurrent, else fifo",
    guarantee="fifo",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    stamped=True,
)
