"""The trace rules from explicit sets: slow, short, and sharing no code with the checker.

Every function says its rule as docs/reference/trace.md does.  Sets of dots are Python sets of
(node, seq) pairs; the past of a dot is a set, computed by walking; what a log has taken, was told
and has in its view is written down anew before every record of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from thence.trace.record import Record, RunInfo

D = tuple[str, int]
Found = tuple[str, int, str, D | None, D | None]  # node, pos, rule, dot, missing


def pair(dot) -> D:
    return (dot.node, dot.seq)


def base(name: str) -> str:
    return name.partition("/")[0]


def is_stream(dot: D) -> bool:
    return "/" in dot[0]


def up_to(dots) -> set[D]:
    """Every dot that one of these covers: it, and all before it of the same origin."""
    return {(dot.node, seq) for dot in dots for seq in range(1, dot.seq + 1)}


@dataclass(frozen=True)
class State:
    """What holds in a log just before one of its records, in the life it is in."""

    sent: frozenset[D] = frozenset()
    delivered: frozenset[D] = frozenset()
    told: frozenset[D] = frozenset()
    view: frozenset[str] = frozenset()

    @property
    def taken(self) -> frozenset[D]:
        return self.sent | self.delivered


def after_snapshot(state: State, node: str, record: Record) -> State:
    view = state.view if record.to is None else frozenset(record.to)
    return replace(
        state,
        delivered=state.delivered | up_to(record.context or ()),
        told=state.told | up_to(record.stable or ()),
        view=view | {node},
    )


def after_restart(state: State, node: str, record: Record) -> State:
    delivered, told, view = state.delivered, state.told, state.view
    if record.context is not None:
        delivered &= up_to(record.context)
    if record.stable is not None:
        told &= up_to(record.stable)
    if record.to is not None:
        view = frozenset(record.to) | {node}
    return replace(state, delivered=delivered, told=told, view=view)


def changes_view(record: Record) -> bool:
    if record.kind == "restart":
        return record.to is not None
    return record.kind in ("snapshot", "join", "leave", "evict")


def after_view_change(state: State, node: str, record: Record) -> State:
    if record.peer is None:
        return state
    if record.kind == "join":
        return replace(state, view=state.view | {record.peer})
    if record.peer == node:
        return replace(state, view=frozenset())
    return replace(state, view=state.view - {record.peer})


class Brute:
    def __init__(self, records: Iterable[Record], info: RunInfo) -> None:
        self.info = info
        self.causal = info.guarantee in ("causal", "causal-total", "synchronous")
        self.total = info.guarantee in ("total", "causal-total", "synchronous")
        self.found: set[Found] = set()
        self.logs: dict[str, list[Record]] = {}
        by_node: dict[str, list[Record]] = {}
        for record in records:
            by_node.setdefault(record.node, []).append(record)
        for node, log in by_node.items():
            self.logs[node] = []
            last = -1
            for record in sorted(log, key=lambda r: r.pos):
                if record.pos == last:
                    self.found.add((node, record.pos, "log-gap", None, None))
                    continue
                if record.pos != last + 1:
                    self.found.add((node, record.pos, "log-gap", None, None))
                last = record.pos
                self.logs[node].append(record)
        self.find_groups()

    def say(self, node, pos, rule, dot, missing=None):
        self.found.add((node, pos, rule, dot, missing))

    def find_groups(self) -> None:
        """Who belonged when, as all logs together say."""
        joined = self.peers_of("join")
        welcomed = {n for n, log in self.logs.items() if any(r.kind == "snapshot" for r in log)}
        self.members = set(self.info.members) or set(self.logs) - joined - welcomed
        self.removed = self.peers_of("leave", "evict")
        self.ever = self.members | joined | welcomed | self.removed
        self.group_at_end = self.ever - self.removed
        self.dynamic = {n for n, log in self.logs.items() if any(map(changes_view, log))}
        self.removals: dict[str, dict[str, list[Record]]] = {}  # removed node, log: the records
        for node, log in self.logs.items():
            for record in log:
                if record.kind in ("leave", "evict") and record.peer is not None:
                    logs = self.removals.setdefault(record.peer, {})
                    logs.setdefault(node, []).append(record)

    def peers_of(self, *kinds: str) -> set[str]:
        logs = self.logs.values()
        return {r.peer for log in logs for r in log if r.kind in kinds and r.peer is not None}

    def cut(self, removed: str, log: str) -> int:
        """The last message of a removed node that counts, for one log."""
        logs = self.removals[removed]
        return cut_of((logs.get(log) or logs[min(logs)])[0])

    def run(self) -> list[Found]:
        self.sends: dict[D, tuple[str, int]] = {}  # valid first sends: where
        self.good: dict[str, list[tuple[int, str, D | None, Record]]] = {}
        self.states: dict[str, list[State]] = {}  # before each record, and at the end
        self.came: dict[str, dict[D, int]] = {}  # what is delivered at the end: since when
        for node, log in self.logs.items():
            self.follow(node, log)
        self.reached: dict[D, set[D]] = {}
        for node in self.logs:
            self.check_node(node)
            self.at_end(node)
        self.check_views()
        if self.total:
            self.check_order()
        key = lambda f: (f[0], f[1], f[2], f[3] or ("", 0))  # noqa: E731
        return sorted(self.found, key=key)

    def follow(self, node, log) -> None:
        """Which records take part, and the state before each."""
        state = State(view=frozenset(self.members) if node in self.members else frozenset())
        states, good, came = [state], [], {}
        last: dict[str, int] = {}
        for at, record in enumerate(log):
            kind = record.kind
            dot = pair(record.dot) if record.dot is not None else None
            if self.takes_part(node, state, last, record, dot):
                good.append((at, kind, dot, record))
                if kind == "send":
                    last[dot[0]] = dot[1]
                    self.sends[dot] = (node, at)
                    state = replace(state, sent=state.sent | {dot})
                elif kind == "deliver":
                    state = replace(state, delivered=state.delivered | {dot})
                elif kind == "stable":
                    state = replace(state, told=state.told | {dot})
                elif kind == "snapshot":
                    state = after_snapshot(state, node, record)
                elif kind == "restart":
                    state = after_restart(state, node, record)
                elif kind in ("join", "leave", "evict"):
                    state = after_view_change(state, node, record)
            states.append(state)
            came = {d: came.get(d, at) for d in state.delivered}
        self.states[node], self.good[node], self.came[node] = states, good, came

    def takes_part(self, node, state, last, record, dot) -> bool:
        """Whether a record counts; the rules on one record in the light of its own log alone."""
        pos, kind = record.pos, record.kind
        if kind == "send":
            if base(dot[0]) != node:
                self.say(node, pos, "send-foreign", dot)
                return False
            if dot in state.sent:
                self.say(node, pos, "send-duplicate", dot)
                return False
            self.no_gap(node, record, dot, last.get(dot[0], 0) + 1)
        elif kind == "deliver":
            if base(dot[0]) == node and not self.total:
                self.say(node, pos, "deliver-own", dot)
                return False
            if dot in state.delivered:
                self.say(node, pos, "deliver-duplicate", dot)
                return False
        elif kind == "stable":
            if dot in state.told:
                self.say(node, pos, "stable-duplicate", dot)
                return False
        elif kind == "phantom":
            if is_stream(dot):
                return False
            if dot[0] == node:
                self.no_gap(node, record, dot, last.get(node, 0) + 1)
        return True

    def no_gap(self, node, record, dot, want) -> None:
        if dot[1] != want:
            missing = (dot[0], want) if dot[1] > want else None
            self.say(node, record.pos, "send-gap", dot, missing)

    def there(self, state: State) -> frozenset[D]:
        """What counts as delivered: in total orders sending does not."""
        return state.delivered if self.total else state.taken

    def members_at(self, node: str, state: State) -> Iterable[str]:
        return state.view if node in self.dynamic else self.members

    def direct(self, dot: D) -> set[D]:
        before = {(dot[0], dot[1] - 1)} if dot[1] > 1 else set()
        if self.causal and dot in self.sends:
            node, at = self.sends[dot]
            if is_stream(dot):
                record = self.logs[node][at]
                before |= {pair(d) for d in record.context or ()}
            else:
                before |= self.states[node][at].taken
        return before

    def past(self, dot: D) -> set[D]:
        if dot not in self.reached:
            seen: set[D] = set()
            work = [dot]
            while work:
                for before in self.direct(work.pop()):
                    if before not in seen:
                        seen.add(before)
                        work.append(before)
            self.reached[dot] = {e for e in seen if not (e[0] == dot[0] and e[1] >= dot[1])}
        return self.reached[dot]

    def maximal(self, dots: Iterable[D]) -> set[D]:
        return {
            e
            for e in dots
            if not any(f[0] == e[0] and f[1] > e[1] for f in dots)
            and not any(f[0] != e[0] and e in self.past(f) for f in dots)
        }

    def is_for(self, dot: D, node: str) -> bool:
        if dot not in self.sends:
            return True
        sender, at = self.sends[dot]
        to = self.logs[sender][at].to
        return to is None or node in to

    def check_node(self, node):
        for at, kind, dot, record in self.good[node]:
            state = self.states[node][at]
            if kind == "send":
                if node in self.dynamic and node not in state.view:
                    self.say(node, record.pos, "send-outside", dot)
                self.context(node, state, dot, record)
                if not self.total:
                    self.after_stable(node, state, dot, record)
            elif kind == "phantom" and dot[0] == node:
                self.context(node, state, dot, record)
            elif kind == "deliver":
                self.arrival(node, record, dot, self.there(state))
                self.outside(node, state, dot, record)
                self.after_stable(node, state, dot, record)
            elif kind == "snapshot":
                there = self.there(self.states[node][at + 1])
                for named in map(pair, record.context or ()):
                    self.arrival(node, record, named, there)
            elif kind == "stable":
                if dot not in self.there(state):
                    self.say(node, record.pos, "stable-undelivered", dot)
                self.stable(node, at, dot, record)

    def arrival(self, node, record, dot, there):
        """deliver-unsent and deliver-early: of a delivery, or of a dot that a snapshot names."""
        if dot not in self.sends:
            self.say(node, record.pos, "deliver-unsent", dot)
        if self.info.guarantee != "total":
            absent = {d for d in self.past(dot) - there if self.is_for(d, node)}
            if absent:
                self.say(node, record.pos, "deliver-early", dot, min(absent))

    def outside(self, node, state, dot, record):
        sender = base(dot[0])
        if node not in self.dynamic:
            return
        mine = self.removals.get(sender, {}).get(node)
        above = mine is not None and not is_stream(dot) and dot[1] > cut_of(mine[0])
        if sender not in state.view or above:
            self.say(node, record.pos, "deliver-outside", dot)

    def context(self, node, state, dot, record):
        if self.info.tags == "none" or not self.causal:
            return
        named = [pair(d) for d in record.context or ()]
        if is_stream(dot):
            unsent = {d for d in named if d not in self.sends}
            if unsent or len({d[0] for d in named}) < len(named):
                self.say(node, record.pos, "context-wrong", dot, min(unsent, default=None))
            return
        expected = self.maximal(state.taken)
        if self.info.tags == "exact":
            if sorted(named) != sorted(expected):
                missing = min(expected - set(named), default=None)
                self.say(node, record.pos, "context-wrong", dot, missing)
            return
        cover = set(named)
        for d in named:
            cover |= self.past(d)
        if state.taken - cover:
            missing = min(expected - cover, default=None)
            self.say(node, record.pos, "context-wrong", dot, missing)

    def after_stable(self, node, state, dot, record):
        if not self.causal or is_stream(dot) or dot not in self.sends:
            return
        outside = {t for t in state.told if not is_stream(t)} - self.past(dot) - {dot}
        if outside:
            self.say(node, record.pos, "deliver-after-stable", dot, min(outside))

    def waits_for(self, node, at, dot) -> list[tuple[str, D | None]]:
        """The other members nothing is known of at or after the dot, and their first message."""
        state = self.states[node][at]
        there = self.there(state)
        waiting = []
        for member in self.members_at(node, state):
            if member == node:
                continue
            if any(d[0] == member and (d == dot or dot in self.past(d)) for d in there):
                continue
            if any(
                kind == "phantom" and a < at and d[0] == member and self.covers(node, d, r, dot, at)
                for a, kind, d, r in self.good[node]
            ):
                continue
            after = [d for d in self.sends if d[0] == member and (d == dot or dot in self.past(d))]
            waiting.append((member, min(after, default=None)))
        return waiting

    def covers(self, node, phantom: D, record, dot: D, at) -> bool:
        announcer, nth = phantom
        there = self.there(self.states[node][at])
        earlier = {(announcer, s) for s in range(1, nth)}
        if any(d not in there and self.is_for(d, node) for d in earlier):
            return False
        if dot in earlier:
            return True
        return any(dot == c or dot in self.past(c) for c in map(pair, record.context or ()))

    def stable(self, node, at, dot, record):
        if not self.causal:
            return
        if is_stream(dot):
            self.say(node, record.pos, "stable-early", dot)
            return
        waiting = self.waits_for(node, at, dot)
        if waiting:
            firsts = [first for _, first in waiting if first is not None]
            self.say(node, record.pos, "stable-early", dot, min(firsts, default=None))
        untold = self.past(dot) - self.states[node][at].told
        absent = {d for d in untold if not is_stream(d) and self.is_for(d, node)}
        if absent:
            self.say(node, record.pos, "stable-disorder", dot, min(absent))

    def at_end(self, node):
        log = self.logs[node]
        if not self.info.complete or node not in self.group_at_end:
            return
        if not any(r.kind == "end" for r in log):
            return
        pos = log[-1].pos + 1
        state = self.states[node][-1]
        there = self.there(state)
        for dot in self.sends:
            if dot not in there and self.is_expected(dot, node):
                self.say(node, pos, "deliver-missing", dot)
        if self.causal and self.info.stability:
            for dot in there:
                if dot not in self.sends or is_stream(dot) or dot in state.told:
                    continue
                if not self.waits_for(node, len(log), dot):
                    self.say(node, pos, "stable-missing", dot)

    def is_expected(self, dot: D, node: str) -> bool:
        sender = base(dot[0])
        if not self.is_for(dot, node):
            return False
        if sender in self.removed:
            return not is_stream(dot) and dot[1] <= self.cut(sender, node)
        return sender in self.group_at_end

    def check_views(self):
        for removed, logs in self.removals.items():
            agreed = self.cut(removed, min(logs))
            for record in (record for records in logs.values() for record in records):
                cut = cut_of(record)
                if cut != agreed:
                    mine = (removed, cut) if cut else None
                    other = (removed, agreed) if agreed else None
                    self.say(record.node, record.pos, "view-disagree", mine, other)

    def check_order(self):
        order = {node: came for node, came in self.came.items() if node in self.ever}
        for node, mine in order.items():
            for dot, at in mine.items():
                record = self.logs[node][at]
                if record.kind != "deliver":
                    continue  # a snapshot has no order within, and is no delivery
                swapped = {
                    e
                    for other, theirs in order.items()
                    if other < node and dot in theirs
                    for e in mine
                    if mine[e] < at and e in theirs and theirs[dot] < theirs[e]
                }
                if swapped:
                    self.say(node, record.pos, "order-disagree", dot, min(swapped))


def cut_of(record: Record) -> int:
    """The cut that a leave or evict gives: 0 unless its dot is one of the removed node."""
    return record.dot.seq if record.dot is not None and record.dot.node == record.peer else 0


def brute_check(records: Iterable[Record], info: RunInfo) -> list[Found]:
    """Every violation, as (node, pos, rule, dot, missing), in report order."""
    return Brute(records, info).run()
