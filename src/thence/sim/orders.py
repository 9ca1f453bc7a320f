"""What order the applications of a group saw, judged from explicit histories: FIFO, causal, total,
synchronous.

Independent of any engine: it watches what applications send and take, keeps who it is for and what
happened before it, and says afterwards which guarantees the execution kept.  Sets of messages are
integers, a bit for each message in the order of sending.

    fifo          what one sends reaches each of those it is for in the order of sending
    causal        nobody takes a message before one that happened before it and is for it too
    total         there is one order of all messages in which everybody takes those that are for it
    causal-total  both of the last two
    synchronous   causal-total, and every message can be drawn as an instant: there is no crown, and
                  its sender gets it back last, when all others it is for have it

A crown is messages m1 .. mk of which each was sent before the next was taken, by the same node, and
the last before the first was taken: arrows that cannot all be upright.  Where an engine gives
messages back to their senders (``EngineSpec.own``) sending ends with that, and that is when it
counts; for others it is the call.

A message happened before another if the other's sender had sent or taken it, or something after it.
Own messages count as taken when they are sent for ``causal``, and for ``total`` when the engine
gives them back (``EngineSpec.own``).

Where nodes crash, ``total`` is about the survivors, unless one asks for more (``uniform``): a node
that takes a message before it knows that others have it may take it to its grave.
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

from thence.causal.dot import pack
from thence.engine.base import EngineSpec, Guarantee
from thence.sim.checkers import OracleFailure
from thence.sim.cluster import Watcher

STRONGER: dict[Guarantee, tuple[Guarantee, ...]] = {
    "fifo": ("causal",),
    "causal": ("causal-total",),
    "total": ("causal-total",),
    "causal-total": ("synchronous",),
    "synchronous": (),
}
"""What is the next stronger guarantee, which an engine of this one must be seen to lack."""


class Orders(Watcher):
    """The histories of one execution."""

    def __init__(self, spec: EngineSpec, names: Sequence[str]) -> None:
        self.spec = spec
        self.names = list(names)
        self.number: dict[int, int] = {}
        """Of a message by its packed dot."""
        self.dots: list[tuple[int, int]] = []
        self.to: list[int] = []
        """By message, whom it is for: a bit per slot, its sender included if it gets it back."""
        self.before: list[int] = []
        """By message, what happened before it."""
        self.past = [0] * len(self.names)
        """By node, what its application has sent or taken, and what happened before that."""
        self.sequences: list[list[int]] = [[] for _ in self.names]
        """By node, the messages in the order in which its application took them."""
        self.events: list[list[int]] = [[] for _ in self.names]
        """The same, with those it sent in between."""
        self.handed: list[int] = []
        """By message, the nodes whose middleware has handed it over, a bit per slot."""
        self.early: list[str] = []
        """Messages that their senders got back before others had them."""
        self.taken = [0] * len(self.names)
        self.crashed = 0
        """Those that crashed, a bit per slot."""
        self.mistakes: list[str] = []
        """What no guarantee allows: a message that nobody sent, twice, or for others."""

    # What happens.

    def sent(self, node: int, tag: Any, after: Sequence[Any] | None) -> None:
        number = len(self.dots)
        self.number[pack(tag.origin, tag.seq)] = number
        self.dots.append((tag.origin, tag.seq))
        everyone = (1 << len(self.names)) - 1
        to = sum(1 << slot for slot in getattr(tag, "to", ())) or everyone & ~(1 << node)
        self.to.append(to | self.spec.own << node)
        self.before.append(self.past[node])
        self.handed.append(0)
        if not self.spec.own:
            self.events[node].append(number)
        self.past[node] |= 1 << number

    def ready(self, node: int, tag: Any) -> None:
        number = self.number.get(pack(tag.origin, tag.seq))
        if number is None:
            return  # told when it is taken
        self.handed[number] |= 1 << node
        if node == tag.origin and self.to[number] & ~self.handed[number] & ~self.crashed:
            self.early.append(f"{self.names[node]} got {self.show(number)} back before all had it")

    def consumed(self, node: int, tag: Any) -> None:
        number = self.number.get(pack(tag.origin, tag.seq))
        name = self.names[node]
        if number is None:
            self.mistakes.append(f"{name} took {tag.origin}:{tag.seq}, which nobody sent")
            return
        if self.taken[node] >> number & 1:
            self.mistakes.append(f"{name} took {self.show(number)} twice")
        if not self.to[number] >> node & 1:
            self.mistakes.append(f"{name} took {self.show(number)}, which is for others")
        self.taken[node] |= 1 << number
        self.sequences[node].append(number)
        self.events[node].append(number)
        self.past[node] |= self.before[number] | 1 << number

    def crash(self, node: int) -> None:
        """The node is gone."""
        self.crashed |= 1 << node

    # What it was.

    def violations(self, guarantee: Guarantee, *, uniform: bool = False) -> list[str]:
        """How the execution breaks this guarantee, for people; empty: it does not.

        ``uniform``: what crashed nodes took before is part of the one order, too.
        """
        found = list(self.mistakes)
        if guarantee == "fifo":
            found += self._out_of_order()
        if guarantee in ("causal", "causal-total", "synchronous"):
            found += self._before_their_causes()
        if guarantee in ("total", "causal-total", "synchronous"):
            found += self._circle(self._counting(self.sequences, uniform), "no one order")
        if guarantee == "synchronous":
            found += self._circle(self.events, "a crown") + self.early
        return found

    def missing(self) -> list[str]:
        """Messages that never came, though sender and recipient are there; for people."""
        found = []
        for number, to in enumerate(self.to):
            if self.crashed >> self.dots[number][0] & 1:
                continue  # judged by ``disagreements``
            for node, name in enumerate(self.names):
                if (to & ~self.crashed) >> node & 1 and not self.taken[node] >> number & 1:
                    found.append(f"{name} never took {self.show(number)}")
        return found

    def disagreements(self) -> list[str]:
        """Messages of the crashed that some survivors took and others did not; for people."""
        found = []
        for number, to in enumerate(self.to):
            live = to & ~self.crashed
            here = [node for node in range(len(self.names)) if live >> node & 1]
            have = [node for node in here if self.taken[node] >> number & 1]
            if have and len(have) < len(here):
                lacks = [self.names[node] for node in here if node not in have]
                found.append(f"{self.show(number)} was taken by some, and not by {lacks}")
        return found

    def _out_of_order(self) -> list[str]:
        found = []
        for node, sequence in enumerate(self.sequences):
            last: dict[int, int] = {}
            for number in sequence:
                origin = self.dots[number][0]
                if number < last.get(origin, -1):
                    earlier, later = self.show(number), self.show(last[origin])
                    found.append(f"{self.names[node]} took {later} before {earlier}")
                last[origin] = max(number, last.get(origin, -1))
        return found

    def _before_their_causes(self) -> list[str]:
        found = []
        for node, sequence in enumerate(self.sequences):
            mine = sum(1 << number for number, to in enumerate(self.to) if to >> node & 1)
            seen = 0
            for number in sequence:
                missing = self.before[number] & mine & ~seen
                if missing:
                    first = (missing & -missing).bit_length() - 1
                    name = self.names[node]
                    found.append(f"{name} took {self.show(number)} before {self.show(first)}")
                seen |= 1 << number
        return found

    def _counting(self, sequences: list[list[int]], uniform: bool) -> list[list[int]]:
        """Those of survivors; of all, if what crashed nodes took counts too."""
        return [
            sequence
            for node, sequence in enumerate(sequences)
            if uniform or not self.crashed >> node & 1
        ]

    def _circle(self, sequences: list[list[int]], name: str) -> list[str]:
        """There must be one order that all sequences are part of: their union has no cycle."""
        after: dict[int, set[int]] = {}
        for sequence in sequences:
            for one, other in pairwise(sequence):
                after.setdefault(other, set()).add(one)
        try:
            TopologicalSorter(after).prepare()
        except CycleError as error:
            return [f"{name}: {' then '.join(map(self.show, error.args[1]))}"]
        return []

    def show(self, number: int) -> str:
        """Of a message, as in ``b:3``."""
        origin, seq = self.dots[number]
        return f"{self.names[origin]}:{seq}"


class OrderOracle(Orders):
    """The same as a check at the end, of what the engine states."""

    def __init__(self, spec: EngineSpec, names: Sequence[str], replay: str = "") -> None:
        super().__init__(spec, names)
        self.replay = replay

    def check_end(self) -> None:
        """OracleFailure if something is missing or came in another order than is stated."""
        found = self.violations(self.spec.guarantee) + self.missing() + self.disagreements()
        if found:
            more = f", and {len(found) - 1} more" if len(found) > 1 else ""
            raise OracleFailure(f"{self.spec.name}: {found[0]}{more}", self.replay)
