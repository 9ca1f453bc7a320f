"""Small traces by hand, and both checkers on the same records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.trace.brute import Found, brute_check
from thence.causal.dot import Dot
from thence.trace.check import check_run
from thence.trace.columns import gather_runs
from thence.trace.record import Record, RunInfo
from thence.trace.segments import part_of_records
from thence.trace.verdict import Verdict


def verdict_on(records: Iterable[Record], info: RunInfo) -> Verdict:
    """What the checker says."""
    runs = gather_runs([part_of_records(records)], info.members)
    return check_run(runs[0], info)


def found_by_checker(records: list[Record], info: RunInfo) -> list[Found]:
    """The checker's violations in the form of the brute force."""
    if not records:
        return []
    verdict = verdict_on(records, info)
    assert sum(verdict.counts.values()) == len(verdict.violations)
    return [(v.node, v.pos, v.rule, plain(v.dot), plain(v.missing)) for v in verdict.violations]


def plain(dot: Dot | None) -> tuple[str, int] | None:
    return None if dot is None else (dot.node, dot.seq)


def records(**logs: str) -> list[Record]:
    """Logs as text: ``a="send a:1; deliver b:1; send a:2 < a:1 b:1; end"``.

    After ``<`` comes the context, after ``@`` the recipients, ``+3`` before a kind skips positions.
    """
    made = []
    for node, text in logs.items():
        pos = 0
        for event in filter(None, (part.strip() for part in text.split(";"))):
            if event.startswith("+"):
                skip, _, event = event[1:].partition(" ")
                pos += int(skip)
            made.append(_record(node, pos, event))
            pos += 1
    return made


def _record(node: str, pos: int, text: str) -> Record:
    text, _, to = text.partition("@")
    text, _, context = text.partition("<")
    kind, _, dot = text.strip().partition(" ")
    more: dict[str, Any] = {}
    if to:
        more["to"] = tuple(to.split())
    if context:
        more["context"] = tuple(Dot.parse(word) for word in context.split())
    if dot:
        more["dot"] = Dot.parse(dot)
    return Record(run="r", node=node, pos=pos, kind=kind, t_us=pos, **more)


def info(*members: str, **more: Any) -> RunInfo:
    """A complete run of these members."""
    return RunInfo(members=members, **({"run": "r", "complete": True} | more))


def both(made: list[Record], about: RunInfo) -> list[Found]:
    """What the checker finds, which must be what the brute force finds."""
    found = found_by_checker(made, about)
    assert found == brute_check(made, about)
    return found
