"""What a check found, and how it is said.

``why`` is a function of a violation's own fields, so every checker says the same of the same
fault whatever it computed on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from thence.causal.dot import Dot
from thence.trace.columns import Ints
from thence.trace.segments import Quarantined

LISTED_MAX: Final = 1000

# Rule to the sentence that explains it; ``{missing}`` only where the second form is not used.
_WHY: Final[dict[str, tuple[str, str]]] = {
    # rule: (with a missing dot, without one)
    "context-wrong": (
        "the context of {dot} lacks {missing}, which {node} had sent or delivered",
        "the context of {dot} is not the set of latest dots {node} had sent or delivered",
    ),
    "deliver-after-stable": (
        "{node} took {dot} after it was told that {missing}, not in its past, is stable",
        "",
    ),
    "deliver-duplicate": ("", "{node} delivered {dot} before"),
    "deliver-early": ("{node} delivered {dot} before {missing}, which precedes it", ""),
    "deliver-missing": ("", "{node} never delivered {dot}"),
    "deliver-outside": ("", "{node} delivered {dot} of a node outside its view, or above its cut"),
    "deliver-own": ("", "{node} delivered {dot}, its own message: sending delivers it"),
    "deliver-unsent": ("", "{node} delivered {dot}, which no log says was sent"),
    "log-gap": ("", "the positions of {node} are not 0, 1, 2, ... here"),
    "order-disagree": ("{node} delivered {dot} after {missing}; another member did otherwise", ""),
    "send-duplicate": ("", "{node} sent {dot} before"),
    "send-foreign": ("", "{node} sent {dot}, a message of another node"),
    "send-gap": (
        "{node} went to {dot} without {missing}",
        "{node} went back to {dot}",
    ),
    "send-outside": ("", "{node} sent {dot} while it was not a member"),
    "stable-disorder": ("{node} was told {dot} is stable before {missing}, which precedes it", ""),
    "stable-duplicate": ("", "{node} was told before that {dot} is stable"),
    "stable-early": (
        "{node} was told {dot} is stable without {missing} or later from that member",
        "{node} was told {dot} is stable; some member has nothing at or after it",
    ),
    "stable-missing": ("", "{dot} became stable at {node}, which was never told"),
    "stable-undelivered": ("", "{node} was told {dot} is stable before it delivered it"),
    "view-disagree": (
        "{node} removed a node after {dot}; another record says after {missing}",
        "{node} removed a node after {dot}; another record says before its first message",
    ),
}
RULES: Final = tuple(_WHY)  # sorted, and the order in which violations of one record are listed


def why(rule: str, node: str, dot: Dot | None, missing: Dot | None) -> str:
    """One sentence on a violation."""
    with_missing, without = _WHY[rule]
    return (without if missing is None else with_missing).format(
        node=node, dot="nothing" if dot is None else dot, missing=missing
    )


class Violation(msgspec.Struct, frozen=True, order=True):
    """One broken rule; ordered as reports list them."""

    run: str
    node: str
    pos: int
    rule: str
    dot: Dot | None
    missing: Dot | None
    why: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the check of one run found."""

    run: str
    events: int
    counts: dict[str, int]
    """Rule to number of violations; only rules that were broken, sorted."""
    violations: tuple[Violation, ...]
    """The first ``LISTED_MAX``, in order."""

    @property
    def ok(self) -> bool:
        """No rule broken."""
        return not self.counts


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What ``thence check`` found in all runs."""

    runs: int
    events: int
    counts: dict[str, int]
    violations: tuple[Violation, ...]
    paths: tuple[str, ...] = ()
    """Where the runs were read from: ``explain`` reads the one it needs again."""
    quarantined: tuple[Quarantined, ...] = ()
    quarantined_count: int = 0
    notes: tuple[str, ...] = ()
    """Sentences on what is not wrong but should be known."""

    @property
    def ok(self) -> bool:
        """No rule broken in any run."""
        return not self.counts

    def to_json(self) -> bytes:
        """The object that ``thence check --json`` prints, on one line."""
        return msgspec.json.encode(
            {
                "ok": self.ok,
                "runs": self.runs,
                "events": self.events,
                "counts": self.counts,
                "violations": self.violations,
            }
        )


def report_of(
    verdicts: Sequence[Verdict],
    paths: Sequence[str] = (),
    quarantined: Sequence[Quarantined] = (),
    quarantined_count: int = 0,
    notes: Sequence[str] = (),
) -> Report:
    """The verdicts on several runs as one report."""
    counts: dict[str, int] = {}
    for verdict in verdicts:
        for rule, count in verdict.counts.items():
            counts[rule] = counts.get(rule, 0) + count
    violations = sorted((v for verdict in verdicts for v in verdict.violations), key=sort_key)
    return Report(
        runs=len(verdicts),
        events=sum(verdict.events for verdict in verdicts),
        counts=dict(sorted(counts.items())),
        violations=tuple(violations[:LISTED_MAX]),
        paths=tuple(paths),
        quarantined=tuple(quarantined),
        quarantined_count=quarantined_count,
        notes=tuple(notes),
    )


def sort_key(violation: Violation) -> tuple[str, str, int, str, str, int]:
    """(run, node, pos, rule, dot), a violation without a dot first."""
    dot = violation.dot
    node, seq = ("", 0) if dot is None else (dot.node, dot.seq)
    return violation.run, violation.node, violation.pos, violation.rule, node, seq


Missing = Callable[[int], Dot | None]


class Findings:
    """Violations at one node while they are arrays: most are counted and never spelt out."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Ints, Ints, Missing | Ints | None]] = []

    def add(
        self, rule: str, pos: Ints, dot_id: Ints, missing: Missing | Ints | None = None
    ) -> None:
        """Violations of ``rule``; what is missing as ids (-1: nothing), or a function of the index
        into these arrays."""
        if len(pos):
            self.found.append((rule, pos, dot_id, missing))

    def counts(self) -> dict[str, int]:
        """Rule to number of violations here."""
        counts: dict[str, int] = {}
        for rule, pos, _, _ in self.found:
            counts[rule] = counts.get(rule, 0) + len(pos)
        return counts

    def listed(
        self, run: str, node: str, name: Callable[[int], Dot | None], limit: int = LISTED_MAX
    ) -> list[Violation]:
        """The first ``limit`` by (pos, rule, dot); ``name`` spells a dot id."""
        if not self.found:
            return []
        pos = np.concatenate([found[1] for found in self.found])
        dots = np.concatenate([found[2] for found in self.found])
        rules = np.concatenate(
            [np.full(len(found[1]), RULES.index(found[0])) for found in self.found]
        )
        source = np.repeat(np.arange(len(self.found)), [len(found[1]) for found in self.found])
        index = np.concatenate([np.arange(len(found[1])) for found in self.found])
        violations = []
        for at in np.lexsort((dots, rules, pos))[:limit].tolist():
            rule, _, _, missing_of = self.found[int(source[at])]
            dot = name(int(dots[at]))
            missing = None
            if isinstance(missing_of, np.ndarray):
                missing = name(int(missing_of[int(index[at])]))
            elif missing_of is not None:
                missing = missing_of(int(index[at]))
            reason = why(rule, node, dot, missing)
            violations.append(Violation(run, node, int(pos[at]), rule, dot, missing, reason))
        return violations
