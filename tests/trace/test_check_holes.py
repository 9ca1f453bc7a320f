"""Sequence numbers with holes: their ranks stand for them, and nobody notices."""

from __future__ import annotations

import pytest

from tests.seeds import seeds
from tests.trace.brute import brute_check
from tests.trace.chaos import chaos, stretched
from tests.trace.dynamic_text import group, records_in, spelt
from tests.trace.dynamics import broken_dynamic
from tests.trace.executions import broken, records_of
from tests.trace.faults import found_by_checker
from thence.causal.dot import SEQ_MAX
from thence.trace import numbering

PLAIN = 150
SOAK = 3_000
FAR = 20_000


def compare(make, chosen: range) -> None:
    for seed in chosen:
        logs, info = make(seed)
        records = records_of(stretched(logs, seed))
        assert found_by_checker(records, info) == brute_check(records, info), f"seed {seed}"


@pytest.fixture
def always_ranks(monkeypatch):
    """Ranks however small the holes, so that the brute force can follow."""
    monkeypatch.setattr(numbering, "SPARE_SEQS", -(1 << 40))
    monkeypatch.setattr(numbering, "RANKS_PER_NAME", 0)


@pytest.mark.parametrize("make", [broken, broken_dynamic, chaos])
def test_ranks_stand_for_sequence_numbers(make, always_ranks):
    compare(make, seeds(PLAIN))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("make", [broken, broken_dynamic, chaos])
def test_ranks_in_many_executions(make, always_ranks):
    compare(make, range(10**6, 10**6 + SOAK))
    print(f"\n{SOAK} executions of {make.__name__} with holes, identical verdicts")


PLAINLY = group("a b", complete=False, tags="none")
SENT = f"send a:1; send a:{FAR}"
GAP = f"a 1 send-gap a:{FAR} < a:2"


def test_the_first_missing_number_in_a_hole_comes_after_what_a_snapshot_brought():
    made = records_in({"a": SENT, "b": f"snapshot < a:5000; deliver a:{FAR}"})
    found = [GAP, "b 0 deliver-unsent a:5000", f"b 1 deliver-early a:{FAR} < a:5001"]
    assert found_by_checker(made, PLAINLY) == [spelt(text) for text in found]


def test_the_first_missing_number_comes_after_what_was_delivered_in_the_hole():
    made = records_in({"a": SENT, "b": f"snapshot < a:5000; deliver a:5001; deliver a:{FAR}"})
    assert spelt(f"b 2 deliver-early a:{FAR} < a:5002") in found_by_checker(made, PLAINLY)


def test_the_first_untold_number_in_a_hole_comes_after_what_a_snapshot_says_was_told():
    made = records_in({"a": SENT, "b": f"snapshot < a:{FAR} ! a:5000; stable a:{FAR}"})
    assert spelt(f"b 1 stable-disorder a:{FAR} < a:5001") in found_by_checker(made, PLAINLY)


def test_the_first_missing_number_in_a_hole_comes_after_what_a_restart_confirmed():
    logs = {"a": SENT, "b": f"snapshot < a:{FAR}; restart < a:7000; deliver a:{FAR}"}
    found = found_by_checker(records_in(logs), PLAINLY)
    assert spelt(f"b 2 deliver-early a:{FAR} < a:7001") in found


def test_the_last_sequence_number_has_none_after_it():
    made = records_in({"a": f"send a:1; send a:{SEQ_MAX}", "b": f"snapshot < a:{SEQ_MAX}"})
    found = found_by_checker(made, PLAINLY)
    assert found == [spelt(f"a 1 send-gap a:{SEQ_MAX} < a:2")]
