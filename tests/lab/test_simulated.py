"""What a plan asks for comes about in virtual time: churn, partitions, slow links, matrices."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from pathlib import Path

import msgspec
import pytest

from thence.errors import ThenceError
from thence.lab import churn
from thence.lab.plan import Churn, Cut, Latency, Pacing, RunPlan, Slow, Variant
from thence.lab.simulated import run_simulated
from thence.sim.node_view import Broken
from thence.trace.check import check_paths
from thence.trace.reader import read_records
from thence.trace.record import Record

TAGGED = Variant(name="tagged", engine="tagged", form="installed")
PLAN = RunPlan(
    experiment="here", variant=TAGGED, nodes=4, messages=20,
    latency=Latency(mean_ms=10.0, spread="fixed"),
)  # fmt: skip
CHURN = msgspec.structs.replace(PLAN, nodes=5, churn=Churn(joins=2, leaves=1, crashes=1))


def records_of(plan: RunPlan, folder: Path) -> list[Record]:
    run_simulated(plan, folder, None)
    verdict = check_paths([folder])
    assert verdict.ok, verdict.violations
    return list(read_records([folder]))


def ways_ms(records: list[Record]) -> dict[tuple[str, str], set[float]]:
    """By sender and receiver: how long messages took; sends wait a while for the middleware."""
    sent = {each.dot: each.t_us for each in records if each.kind == "send"}
    found: dict[tuple[str, str], set[float]] = defaultdict(set)
    for each in records:
        if each.kind == "receive" and each.dot is not None:
            found[each.dot.node, each.node].add((each.t_us - sent[each.dot]) / 1000)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_members_come_go_and_crash(tmp_path: Path, seed: int):
    plan = msgspec.structs.replace(CHURN, seed=seed, passive=1)
    records = records_of(plan, tmp_path / "run")
    told = Counter(
        each.kind for each in records if each.node == each.peer or each.kind == "snapshot"
    )
    assert told["snapshot"] == 2
    assert told["leave"] == 1
    assert {each.peer for each in records if each.kind == "evict"} <= set(plan.names)
    evicted = {each.peer for each in records if each.kind == "evict"}
    assert len(evicted) == 1
    gone = evicted | {each.peer for each in records if each.kind == "leave"}
    sent = Counter(each.node for each in records if each.kind == "send")
    assert plan.names[-1] not in sent  # passive
    assert all(sent[name] == 20 for name in set(plan.names[:-1]) - gone)
    assert any(name not in plan.names for name in sent)  # newcomers send too
    assert any(each.words for each in records if each.kind == "sample")


def test_a_run_with_churn_repeats_byte_by_byte(tmp_path: Path):
    for name in ("one", "two"):
        run_simulated(CHURN, tmp_path / name, None)
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("one", "two")
    )
    assert one == two


def test_churn_that_did_not_come_about_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def nothing(self: churn.ChurnWorld) -> None:
        """No faults are planned."""

    monkeypatch.setattr(churn.ChurnWorld, "_plan", nothing)
    with pytest.raises(ThenceError, match="asked for Churn"):
        run_simulated(CHURN, tmp_path / "run", None)

    def broken(self: churn.ChurnWorld) -> None:
        raise Broken("never done: a has more to send")

    monkeypatch.setattr(churn.ChurnWorld, "finish", broken)
    with pytest.raises(ThenceError, match=f"{CHURN.name}: never done"):
        run_simulated(CHURN, tmp_path / "run", None)
    assert not (tmp_path / "run").exists()


def test_nothing_crosses_a_partition_until_it_heals(tmp_path: Path):
    cut = Cut(start_ms=50, end_ms=150, side=(0, 1))
    records = records_of(msgspec.structs.replace(PLAN, cuts=(cut,)), tmp_path / "run")
    sides = {"a": 0, "b": 0, "c": 1, "d": 1}
    sent = {each.dot: each.t_us for each in records if each.kind == "send"}
    crossed = [
        (sent[each.dot], each.t_us)
        for each in records
        if each.kind == "receive" and each.dot and sides[each.dot.node] != sides[each.node]
    ]
    during = [arrived for left, arrived in crossed if 50_000 <= left and arrived < 150_000]
    assert not during
    assert [left for left, arrived in crossed if 50_000 <= left < 150_000 <= arrived]


def test_a_slow_link_is_slow_both_ways_and_always(tmp_path: Path):
    plan = msgspec.structs.replace(
        PLAN, slow=Slow(), latency=Latency(mean_ms=10.0, spread="weibull")
    )
    found = ways_ms(records_of(plan, tmp_path / "run"))
    for (sender, receiver), ms in found.items():
        if {sender, receiver} == {"a", "b"}:
            assert 100 <= min(ms) <= max(ms) < 105
        else:
            assert 8.8 < min(ms) <= max(ms) < 10 / 1.1329 * 1.45 + 5
            assert max(ms) - min(ms) > 1  # these vary


@pytest.mark.parametrize("pacing", ["exponential", "fixed"])
def test_nodes_send_as_often_as_the_plan_says(tmp_path: Path, pacing: Pacing):
    plan = msgspec.structs.replace(PLAN, nodes=2, messages=2000, pacing=pacing, stability=False)
    times = [
        each.t_us
        for each in records_of(plan, tmp_path / "run")
        if each.kind == "send" and each.node == "a"
    ]
    gaps_ms = [(b - a) / 1000 for a, b in itertools.pairwise(times)]
    if pacing == "fixed":
        assert set(gaps_ms) == {10.0}
    else:  # -ln(U) x mean, cut at 4 x mean: the mean of what is drawn is 1 - exp(-4) of it
        assert max(gaps_ms) == 40.0
        assert sum(gaps_ms) / len(gaps_ms) == pytest.approx(10 * (1 - math.exp(-4)), rel=0.1)


def test_passive_nodes_send_nothing_and_phantoms_make_messages_stable(tmp_path: Path):
    plan = msgspec.structs.replace(PLAN, passive=2)
    silent = records_of(plan, tmp_path / "silent")
    announced = records_of(msgspec.structs.replace(plan, phantom_ms=20.0), tmp_path / "phantoms")
    for records in (silent, announced):
        assert {each.node for each in records if each.kind == "send"} == {"a", "b"}
    assert not [each for each in silent if each.kind in ("phantom", "stable")]
    by = {each.node for each in announced if each.kind == "phantom" and each.peer is None}
    assert by == {"c", "d"}
    # All but the last ones, which no active node has a reason to answer.
    assert len([each for each in announced if each.kind == "stable"]) > 2 * 20 * 4 * 0.8


def test_a_matrix_says_how_far_each_node_is_from_each(tmp_path: Path):
    rows = tuple(tuple(10.0 * (i + 1) + j for j in range(4)) for i in range(4))
    plan = msgspec.structs.replace(PLAN, latency=Latency(matrix_ms=rows, spread="fixed"))
    found = ways_ms(records_of(plan, tmp_path / "run"))
    names = plan.names
    for (sender, receiver), ms in found.items():
        mean = rows[names.index(sender)][names.index(receiver)]
        assert mean <= min(ms) <= max(ms) < mean + 5
