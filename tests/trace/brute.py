"""The trace rules from explicit sets: slow, short, and sharing no code with the checker.

Every function says its rule as docs/reference/trace.md does.  Sets of dots are Python sets of
(node, seq) pairs; the past of a dot is a set, computed by walking.
"""

from __future__ import annotations

from collections.abc import Iterable

from thence.trace.record import Record, RunInfo

D = tuple[str, int]
Found = tuple[str, int, str, D | None, D | None]  # node, pos, rule, dot, missing


def pair(dot) -> D:
    return (dot.node, dot.seq)


def base(name: str) -> str:
    return name.partition("/")[0]


def is_stream(dot: D) -> bool:
    return "/" in dot[0]


class Brute:
    def __init__(self, records: Iterable[Record], info: RunInfo) -> None:
        self.info = info
        self.causal = info.guarantee in ("causal", "causal-total")
        self.total = info.guarantee in ("total", "causal-total")
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

    def say(self, node, pos, rule, dot, missing=None):
        self.found.add((node, pos, rule, dot, missing))

    def run(self) -> list[Found]:
        self.sends: dict[D, tuple[str, int]] = {}  # valid first sends: where
        self.good: dict[str, list[tuple[int, str, D, Record]]] = {}
        for node, log in self.logs.items():
            self.good[node] = self.structural(node, log)
        self.reached: dict[D, set[D]] = {}
        for node in self.logs:
            self.check_node(node)
        if self.total:
            self.check_order()
        key = lambda f: (f[0], f[1], f[2], f[3] or ("", 0))  # noqa: E731
        return sorted(self.found, key=key)

    def structural(self, node, log):
        good = []
        sent, delivered, stable = set(), set(), set()
        last: dict[str, int] = {}
        for at, record in enumerate(log):
            kind = record.kind
            dot = pair(record.dot) if record.dot is not None else None
            if kind == "send":
                if base(dot[0]) != node:
                    self.say(node, record.pos, "send-foreign", dot)
                    continue
                if dot in sent:
                    self.say(node, record.pos, "send-duplicate", dot)
                    continue
                want = last.get(dot[0], 0) + 1
                if dot[1] != want:
                    missing = (dot[0], want) if dot[1] > want else None
                    self.say(node, record.pos, "send-gap", dot, missing)
                last[dot[0]] = dot[1]
                sent.add(dot)
                self.sends[dot] = (node, at)
            elif kind == "deliver":
                if base(dot[0]) == node and not self.total:
                    self.say(node, record.pos, "deliver-own", dot)
                    continue
                if dot in delivered:
                    self.say(node, record.pos, "deliver-duplicate", dot)
                    continue
                delivered.add(dot)
            elif kind == "stable":
                if dot in stable:
                    self.say(node, record.pos, "stable-duplicate", dot)
                    continue
                stable.add(dot)
            elif kind == "phantom":
                if is_stream(dot):
                    continue
                if dot[0] == node:
                    want = last.get(node, 0) + 1
                    if dot[1] != want:
                        missing = (node, want) if dot[1] > want else None
                        self.say(node, record.pos, "send-gap", dot, missing)
            else:
                continue
            good.append((at, kind, dot, record))
        return good

    def taken_before(self, node, at) -> set[D]:
        """What a node had sent or delivered."""
        return {d for a, kind, d, _ in self.good[node] if a < at and kind in ("send", "deliver")}

    def there_before(self, node, at) -> set[D]:
        """What counts as delivered: in total orders sending does not."""
        kinds = ("deliver",) if self.total else ("send", "deliver")
        return {d for a, kind, d, _ in self.good[node] if a < at and kind in kinds}

    def direct(self, dot: D) -> set[D]:
        before = {(dot[0], dot[1] - 1)} if dot[1] > 1 else set()
        if self.causal and dot in self.sends:
            node, at = self.sends[dot]
            if is_stream(dot):
                record = self.logs[node][at]
                before |= {pair(d) for d in record.context or ()}
            else:
                before |= self.taken_before(node, at)
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

    def maximal(self, dots: set[D]) -> set[D]:
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
        stable_before: set[D] = set()
        for at, kind, dot, record in self.good[node]:
            there = self.there_before(node, at)
            if kind == "send":
                self.context(node, at, dot, record)
                if not self.total:
                    self.after_stable(node, record, dot, stable_before)
            elif kind == "phantom" and dot[0] == node:
                self.context(node, at, dot, record)
            elif kind == "deliver":
                if dot not in self.sends:
                    self.say(node, record.pos, "deliver-unsent", dot)
                if self.info.guarantee != "total":
                    absent = {d for d in self.past(dot) - there if self.is_for(d, node)}
                    if absent:
                        self.say(node, record.pos, "deliver-early", dot, min(absent))
                self.after_stable(node, record, dot, stable_before)
            elif kind == "stable":
                if dot not in there:
                    self.say(node, record.pos, "stable-undelivered", dot)
                self.stable(node, at, dot, record, stable_before)
                stable_before.add(dot)
        self.at_end(node, stable_before)

    def context(self, node, at, dot, record):
        if self.info.tags == "none" or not self.causal:
            return
        named = [pair(d) for d in record.context or ()]
        if is_stream(dot):
            unsent = {d for d in named if d not in self.sends}
            if unsent or len({d[0] for d in named}) < len(named):
                self.say(node, record.pos, "context-wrong", dot, min(unsent, default=None))
            return
        expected = self.maximal(self.taken_before(node, at))
        if self.info.tags == "exact":
            if sorted(named) != sorted(expected):
                missing = min(expected - set(named), default=None)
                self.say(node, record.pos, "context-wrong", dot, missing)
            return
        taken = self.taken_before(node, at)
        cover = set(named)
        for d in named:
            cover |= self.past(d)
        if taken - cover:
            missing = min(expected - cover, default=None)
            self.say(node, record.pos, "context-wrong", dot, missing)

    def after_stable(self, node, record, dot, stable_before):
        if not self.causal or is_stream(dot) or dot not in self.sends:
            return
        outside = {t for t in stable_before if not is_stream(t)} - self.past(dot) - {dot}
        if outside:
            self.say(node, record.pos, "deliver-after-stable", dot, min(outside))

    def waits_for(self, node, at, dot) -> list[tuple[str, D | None]]:
        """The other members nothing is known of at or after the dot, and their first message."""
        there = self.there_before(node, at)
        waiting = []
        for member in self.info.members:
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
        there = self.there_before(node, at)
        earlier = {(announcer, s) for s in range(1, nth)}
        if any(d not in there and self.is_for(d, node) for d in earlier):
            return False
        if dot in earlier:
            return True
        return any(dot == c or dot in self.past(c) for c in map(pair, record.context or ()))

    def stable(self, node, at, dot, record, stable_before):
        if not self.causal:
            return
        if is_stream(dot):
            self.say(node, record.pos, "stable-early", dot)
            return
        waiting = self.waits_for(node, at, dot)
        if waiting:
            firsts = [first for _, first in waiting if first is not None]
            self.say(node, record.pos, "stable-early", dot, min(firsts, default=None))
        absent = {
            d for d in self.past(dot) - stable_before if not is_stream(d) and self.is_for(d, node)
        }
        if absent:
            self.say(node, record.pos, "stable-disorder", dot, min(absent))

    def at_end(self, node, stable_before):
        log = self.logs[node]
        if not self.info.complete or node not in self.info.members:
            return
        if not any(r.kind == "end" for r in log):
            return
        length = log[-1].pos + 1
        there = self.there_before(node, 10**9)
        for dot in self.sends:
            if dot not in there and base(dot[0]) in self.info.members and self.is_for(dot, node):
                self.say(node, length, "deliver-missing", dot)
        if self.causal and self.info.stability:
            for dot in there:
                if is_stream(dot) or dot in stable_before:
                    continue
                if not self.waits_for(node, 10**9, dot):
                    self.say(node, length, "stable-missing", dot)

    def check_order(self):
        order = {
            node: [d for _, kind, d, _ in good if kind == "deliver"]
            for node, good in self.good.items()
            if node in self.info.members
        }
        for node, mine in order.items():
            for at, dot in enumerate(mine):
                swapped = set()
                for other, theirs in order.items():
                    if other >= node or dot not in theirs:
                        continue
                    later = set(theirs[theirs.index(dot) + 1 :])
                    swapped |= {e for e in mine[:at] if e in later}
                if swapped:
                    pos = next(
                        r.pos for _, k, d, r in self.good[node] if k == "deliver" and d == dot
                    )
                    self.say(node, pos, "order-disagree", dot, min(swapped))


def brute_check(records: Iterable[Record], info: RunInfo) -> list[Found]:
    """Every violation, as (node, pos, rule, dot, missing), in report order."""
    return Brute(records, info).run()
