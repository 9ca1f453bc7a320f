"""The explanation of a violation, and how each rule is worded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace.executions import broken, records_of
from tests.trace.faults import info, records, verdict_on
from thence.causal.dot import Dot
from thence.trace.check import check_paths
from thence.trace.columns import gather_runs
from thence.trace.explain import explain, explain_in
from thence.trace.record import info_to_json, record_to_json
from thence.trace.segments import part_of_records
from thence.trace.verdict import RULES, why


def test_an_early_delivery_explained(tmp_path: Path):
    made = records(
        a="send a:1; deliver b:1; end",
        b="deliver a:1; send b:1 < a:1; end",
        c="receive b:1; deliver b:1; deliver a:1; end",
    )
    (tmp_path / "run.json").write_bytes(info_to_json(info("a", "b", "c", stability=False)))
    (tmp_path / "all.jsonl").write_bytes(b"".join(record_to_json(r) + b"\n" for r in made))
    report = check_paths([tmp_path])
    [violation] = report.violations
    assert explain(report, violation) == (
        """\
deliver-early at c, position 1 of run r:
  c delivered b:1 before a:1, which precedes it
  c had delivered {}
  and knew stable  {}
  b:1: sent by b at position 1
    context a:1
    vector  {a: 1, b: 1}
    delivered at c: 1
    stable at c: never
  a:1: sent by a at position 0
    context nothing
    vector  {a: 1}
    delivered at c: 2
    stable at c: never
  the log of c:
         0 receive b:1
  >      1 deliver b:1
         2 deliver a:1
         3 end
"""
    )


def test_every_violation_of_random_executions_can_be_explained():
    for seed in range(60):
        logs, about = broken(seed)
        made = records_of(logs)
        if not made:
            continue
        [columns] = gather_runs([part_of_records(made)], about.members)
        for violation in verdict_on(made, about).violations:
            text = explain_in(columns, about, violation)
            assert violation.why in text
            assert f"\n  > {violation.pos:6} " in text


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_a_sentence_without_gaps(rule: str):
    for missing in (None, Dot("b", 2)):
        text = why(rule, "a", Dot("a", 1), missing)
        assert "{" not in text
        assert "None" not in text


def test_rules_are_sorted():
    assert list(RULES) == sorted(RULES)
