"""The state of the online checker with what is looked up in it, and how it answers.

The past of a message is known when its send is met, because every log waits before a delivery
until the send is: the logs are read in causal order.  From then on it does not change.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right, insort
from collections.abc import Iterable
from typing import Final

from thence.causal.dot import Dot
from thence.trace.online_ranges import Ranges, first_gap, has, top
from thence.trace.online_state import Found, Log, Origin, Pair, State, Table, Vector
from thence.trace.record import RunInfo
from thence.trace.verdict import Violation, why

# What one log says by itself: true whatever is found out later of others' messages.
LOCAL_RULES: Final = frozenset(
    {
        "send-foreign", "send-duplicate", "send-outside", "send-gap", "deliver-own",
        "deliver-duplicate", "deliver-outside", "stable-undelivered", "stable-duplicate", "log-gap",
    }
)  # fmt: skip


class Replay:
    """One run being followed."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.found: list[Found] = []
        self.index = {origin.name: at for at, origin in enumerate(state.origins)}
        self.by_name = sorted(range(len(state.origins)), key=lambda at: state.origins[at].name)
        self.waiting: dict[Pair, list[str]] = {}
        """The logs that wait for a dot."""
        for log in state.logs.values():
            if log.waits is not None:
                self.waiting.setdefault(log.waits, []).append(log.name)
        self._set_rules()

    def _set_rules(self) -> None:
        guarantee = "causal" if self.state.info is None else self.state.info.guarantee
        self.causal = guarantee in ("causal", "causal-total", "synchronous")
        self.total = guarantee in ("total", "causal-total", "synchronous")
        self.orders_causes = guarantee != "total"
        self.tells = self.causal and self.state.info is not None and self.state.info.stability

    def begin(self, info: RunInfo) -> None:
        """Take what is known of the run; nothing is judged before."""
        state = self.state
        state.info, state.members = info, set(info.members)
        for log in state.logs.values():
            self._start_view(log)
        self._set_rules()

    def _start_view(self, log: Log) -> None:
        log.view = set(self.state.members) if log.name in self.state.members else set()

    # Origins and logs.

    def origin(self, name: str) -> int:
        """The number of an origin, new or not."""
        at = self.index.get(name)
        if at is None:
            state = self.state
            owner, slash, _ = name.partition("/")
            at = self.index[name] = len(state.origins)
            state.origins.append(Origin(name, owner, bool(slash)))
            insort(self.by_name, at, key=lambda one: state.origins[one].name)
            state.settled.append([])
            for log in state.logs.values():
                self._widen(log)
        return at

    def _widen(self, log: Log) -> None:
        while len(log.known) < len(self.state.origins):
            log.known.append(0)
            log.there.append([])
            log.told.append([])

    def log(self, name: str) -> Log:
        """The log of a node, new or not."""
        log = self.state.logs.get(name)
        if log is None:
            whole = not any(origin.base for origin in self.state.origins)
            log = Log(name=name, origin=self.origin(name), is_whole=whole)
            self._widen(log)
            self._start_view(log)
            self.state.logs[name] = log
        return log

    def pair(self, dot: Dot) -> Pair:
        """A dot by numbers."""
        return self.origin(dot.node), dot.seq

    def pairs(self, dots: Iterable[Dot] | None) -> list[Pair]:
        """Dots by numbers, in order."""
        return [self.pair(dot) for dot in dots or ()]

    def dot(self, pair: Pair | None) -> Dot | None:
        """A dot by name."""
        return None if pair is None else Dot(self.state.origins[pair[0]].name, pair[1])

    def name_key(self, pair: Pair) -> tuple[str, int]:
        """What dots are ordered by: name, then number."""
        return self.state.origins[pair[0]].name, pair[1]

    # Pasts.

    def is_settled(self, pair: Pair) -> bool:
        """Whether the past of a dot is known: its send was met, or will never be."""
        return self.state.closed or pair[1] <= self.state.origins[pair[0]].floor

    def is_sent(self, pair: Pair) -> bool:
        """Whether a settled dot was sent."""
        return has(self.state.origins[pair[0]].sent, pair[1])

    def is_dropped(self, pair: Pair) -> bool:
        """Whether the past of a dot is no longer kept; it is all at or below the bases."""
        return pair[1] <= self.state.origins[pair[0]].base

    def down(self, pair: Pair) -> Vector:
        """The past of a settled dot and the dot itself; of a dropped one only its own origin.

        A dot that nobody sent has only the earlier ones of its origin, and their pasts.
        """
        number, seq = pair
        origin = self.state.origins[number]
        at = bisect_right(origin.seqs, seq) - 1
        if at >= 0 and seq > origin.base:
            vector = origin.downs[at]
            if origin.seqs[at] == seq:
                return vector
            vector = vector.copy()
        else:
            vector = [0] * (number + 1)
        vector[number] = seq
        return vector

    def covers(self, later: Pair, dot: Pair) -> bool:
        """Whether ``dot``, which is above its base, is ``later`` or in its past."""
        if later[0] == dot[0]:
            return dot[1] <= later[1]
        if self.is_dropped(later):
            return False
        vector = self.down(later)
        return dot[0] < len(vector) and dot[1] <= vector[dot[0]]

    def is_for(self, pair: Pair, log: Log) -> bool:
        """Whether a message is for a node; giving up where that was forgotten."""
        origin = self.state.origins[pair[0]]
        if self.state.has_recipients and pair[1] <= origin.base:
            self.give_up(f"{log.name} has not all that the others have")
        to = origin.to.get(pair[1])
        return to is None or log.name in to

    def first_absent(
        self, log: Log, table: Table, past: Vector, dot: Pair, default_only: bool = False
    ) -> Pair | None:
        """The smallest dot by name of a dot's past, for this node, that a table lacks."""
        for number in self.by_name:
            last = past[number] if number < len(past) else 0
            if number == dot[0]:
                last = dot[1] - 1
            ranges = table[number]
            if last <= 0 or (ranges and ranges[0] == 1 and ranges[1] >= last):
                continue
            if default_only and self.state.origins[number].is_stream:
                continue
            seq = self.gap(log, number, ranges, last, default_only)
            if seq:
                return number, seq
        return None

    def gap(self, log: Log, number: int, ranges: Ranges, last: int, told: bool = False) -> int:
        """The first message up to ``last``, for this node, that is not in the set; or 0.

        ``told``: the set is of what was told, else of what is there.
        """
        origin = self.state.origins[number]
        complete = log.is_whole and not origin.ragged and (self.tells or not told)
        seq = first_gap(ranges, origin.base + 1 if complete else 1, last)
        while seq and not self.is_for((number, seq), log):
            seq = first_gap(ranges, seq + 1, last)
        return seq

    def taken_top(self, log: Log, number: int) -> int:
        """The latest message of an origin that a node has taken, or 0."""
        origin = self.state.origins[number]
        seq = top(log.there[number])
        return max(seq, top(origin.sent)) if origin.owner == log.name else seq

    def members_at(self, log: Log) -> set[str]:
        """Who belongs to the group for this log, at the position it is at."""
        return log.view if log.is_dynamic else self.state.members

    # Answers.

    def give_up(self, reason: str) -> None:
        """Leave the rest to a check of the whole run."""
        if not self.state.gave_up:
            self.state.gave_up = reason

    def say(
        self, node: str, pos: int, rule: str, dot: Pair | None, missing: Pair | None = None
    ) -> None:
        """Tell a violation, now or, while something is in doubt, at the end."""
        found = (node, pos, rule, self.dot(dot), self.dot(missing))
        if self.state.gave_up:
            return
        if self.state.has_doubt and rule not in LOCAL_RULES and not self.state.closed:
            self.state.held.append(found)
        else:
            self.tell(found)

    def tell(self, found: Found) -> None:
        """Tell a violation once."""
        key = hash_of(found)
        if key not in self.state.emitted:
            self.state.emitted.add(key)
            self.found.append(found)

    def violations(self) -> list[Violation]:
        """What was told since the last call."""
        told, self.found = self.found, []
        return [
            Violation(self.state.run, node, pos, rule, dot, missing, why(rule, node, dot, missing))
            for node, pos, rule, dot, missing in told
        ]


def hash_of(found: Found) -> int:
    """64 bits of a violation, the same in every process."""
    node, pos, rule, dot, missing = found
    text = f"{node}\0{pos}\0{rule}\0{dot}\0{missing}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def join(vector: Vector, other: Vector) -> None:
    """Raise ``vector``, which is not shorter, in place."""
    for at, seq in enumerate(other):
        if seq > vector[at]:
            vector[at] = seq
