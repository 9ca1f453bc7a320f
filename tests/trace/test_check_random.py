"""The checker against the brute force on random executions, correct and broken.

A plain run takes a slice, which THENCE_SEEDS multiplies; ``-m soak`` does ten thousand others.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.seeds import seeds
from tests.trace.brute import brute_check
from tests.trace.executions import broken, execution, records_of
from tests.trace.faults import found_by_checker
from thence.trace.verdict import RULES

PLAIN_BROKEN = 1200
PLAIN_CORRECT = 250
SOAK_BROKEN = 10_000
STATIC_RULES = set(RULES) - {"send-outside", "deliver-outside", "view-disagree"}


def test_correct_executions_break_no_rule():
    for seed in seeds(PLAIN_CORRECT):
        logs, info = execution(seed)
        records = records_of(logs)
        assert found_by_checker(records, info) == [], f"seed {seed}"
        assert brute_check(records, info) == [], f"seed {seed}"


def compare(chosen: range) -> Counter[str]:
    """How many of these broken executions break each rule; fails where the checkers differ."""
    seen: Counter[str] = Counter()
    for seed in chosen:
        logs, info = broken(seed)
        records = records_of(logs)
        expected = brute_check(records, info)
        assert found_by_checker(records, info) == expected, f"seed {seed}"
        seen.update({found[2] for found in expected})
    return seen


def test_broken_executions_are_judged_as_the_brute_force_does():
    seen = compare(seeds(PLAIN_BROKEN))
    assert set(seen) == STATIC_RULES, "every rule is broken by some mutation"


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_thousand_broken_executions():
    seen = compare(range(10**6, 10**6 + SOAK_BROKEN))
    print(f"\n{SOAK_BROKEN} broken executions, identical verdicts:", dict(seen))
    assert set(seen) == STATIC_RULES
