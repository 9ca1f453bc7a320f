"""The brute force on groups whose members come and go: examples by hand, random executions.

Nothing here uses the checker: the brute force is what it is judged by.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.seeds import seeds
from tests.trace.brute import brute_check
from tests.trace.dynamic_examples import examples
from tests.trace.dynamics import broken_dynamic, dynamic_execution
from tests.trace.executions import Logs, records_of
from thence.trace.record import RunInfo, fault
from thence.trace.verdict import RULES

PLAIN_CORRECT = 300
PLAIN_BROKEN = 400

EXAMPLES = [pytest.param(*case[1:], id=case[0]) for case in examples()]


@pytest.mark.parametrize(("records", "info", "expected"), EXAMPLES)
def test_an_example_breaks_exactly_these_rules(records, info, expected):
    assert brute_check(records, info) == expected


def test_examples_are_well_formed_records():
    for name, records, _, _ in examples():
        assert [fault(record) for record in records if fault(record)] == [], name


def test_examples_break_every_rule():
    broken_by_examples = {found[2] for *_, expected in examples() for found in expected}
    assert broken_by_examples == set(RULES)


def test_correct_dynamic_executions_break_no_rule():
    for seed in seeds(PLAIN_CORRECT):
        logs, info = dynamic_execution(seed)
        assert brute_check(records_of(logs), info) == [], f"seed {seed}"


def test_a_seed_gives_the_same_execution_every_time():
    for seed in range(20):
        assert dynamic_execution(seed) == dynamic_execution(seed)
        assert broken_dynamic(seed) == broken_dynamic(seed)


def test_executions_have_all_that_can_happen_to_a_member():
    seen: Counter[str] = Counter()
    for seed in seeds(PLAIN_CORRECT):
        seen.update(happenings(*dynamic_execution(seed)))
    rare = {what: seen[what] for what in HAPPENINGS if seen[what] < 3}
    assert not rare, f"hardly ever generated: {rare}"


def test_every_rule_is_broken_by_some_mutation_of_a_dynamic_execution():
    seen: Counter[str] = Counter()
    for seed in seeds(PLAIN_BROKEN):
        logs, info = broken_dynamic(seed)
        seen.update({found[2] for found in brute_check(records_of(logs), info)})
    assert set(seen) == set(RULES)


HAPPENINGS = (
    "join", "leave", "evict", "own leave", "own evict", "snapshot first", "snapshot later",
    "snapshot with stable", "snapshot without to", "restart", "restart without context",
    "restart without stable", "restart with to", "delivered again", "told again",
    "join again", "leave again", "evict again", "own leave again", "own evict again",
    "deliver from a removed one again", "second incarnation",
    "cut below what was sent", "cut of nothing", "joined without a log", "crash without end",
    "stream", "members not given", "not complete", "fifo", "total", "causal-total", "over", "none",
)  # fmt: skip


def happenings(logs: Logs, info: RunInfo) -> set[str]:
    """What of ``HAPPENINGS`` an execution has."""
    found = {info.guarantee, info.tags}
    found |= {"members not given"} if not info.members else set()
    found |= {"not complete"} if not info.complete else set()
    found |= {"second incarnation"} if any("#" in node for node in logs) else set()
    sent = {e["dot"] for log in logs.values() for e in log if e["kind"] == "send"}
    for node, log in logs.items():
        if info.complete and log and log[-1]["kind"] != "end":
            found.add("crash without end")
        done: set[tuple[str, tuple[str, int]]] = set()
        told: set[tuple[str, str]] = set()
        for at, event in enumerate(log):
            kind, dot, peer = event["kind"], event["dot"], event.get("peer")
            found |= {kind, f"own {kind}"} if peer == node else {kind}
            if (kind, peer) in told:
                found |= {f"{kind} again", f"{'own ' if peer == node else ''}{kind} again"}
            elif kind in ("join", "leave", "evict"):
                told.add((kind, peer))
            if kind in ("leave", "evict") and dot is None:
                found.add("cut of nothing")
            elif kind == "evict" and (dot[0], dot[1] + 1) in sent:
                found.add("cut below what was sent")
            elif kind == "join" and peer not in logs:
                found.add("joined without a log")
            elif kind == "snapshot":
                found.add("snapshot later" if at else "snapshot first")
                found |= {"snapshot with stable"} if event["stable"] else set()
                found |= {"snapshot without to"} if "to" not in event else set()
            elif kind == "restart":
                found |= {f"restart without {f}" for f in ("context", "stable") if event[f] is None}
                found |= {"restart with to"} if "to" in event else set()
            elif kind in ("deliver", "stable") and (kind, dot) in done:
                found.add("delivered again" if kind == "deliver" else "told again")
                if kind == "deliver" and told & {("leave", dot[0]), ("evict", dot[0])}:
                    found.add("deliver from a removed one again")
            elif kind == "send" and "/" in dot[0]:
                found.add("stream")
            done.add((kind, dot))
    return found
