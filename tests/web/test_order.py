"""Past, future and paths, against a search in a graph of all records."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from tests.seeds import seeds
from tests.trace.dynamics import dynamic_execution
from tests.trace.executions import execution, records_of
from tests.trace.faults import info, records
from tests.web.brute import Place, pasts, with_arrivals
from thence.trace.columns import gather_runs
from thence.trace.record import Record, RunInfo
from thence.trace.segments import part_of_records
from thence.web.execution import Execution
from thence.web.order import CONCURRENT, FUTURE, PAST, SELF


def opened(made: list[Record], about: RunInfo) -> Execution:
    parts = [part_of_records(made, measured=True)]
    return Execution(gather_runs(parts, about.members)[0], about)


def place(execution: Execution, row: int) -> Place:
    where = execution.where(row)
    return where["node"], where["pos"]


def arrivals_of(seed: int) -> tuple[list[Record], RunInfo]:
    logs, about = execution(seed)
    return with_arrivals(records_of(logs), seed), about


@pytest.mark.parametrize("seed", seeds(15))
def test_past_and_future_are_those_of_a_search(seed: int):
    made, about = arrivals_of(seed)
    run = opened(made, about)
    before = pasts(made)
    rows = np.arange(len(made))
    for row in rows.tolist():
        here = place(run, row)
        relation = run.order.relation(row, rows).tolist()
        for other, found in zip(rows.tolist(), relation, strict=True):
            there = place(run, other)
            expected = CONCURRENT
            if there in before[here]:
                expected = PAST
            elif here in before[there]:
                expected = FUTURE
            elif here == there:
                expected = SELF
            assert found == expected, (here, there)


@pytest.mark.parametrize("seed", seeds(15))
def test_a_path_leads_from_the_earlier_to_the_later_by_records_in_between(seed: int):
    made, about = arrivals_of(seed)
    run = opened(made, about)
    before = pasts(made)
    rng = random.Random(seed)
    for one, other in rng.choices([(a, b) for a in range(len(made)) for b in range(a)], k=80):
        for first, last in ((one, other), (other, one)):
            steps = run.order.path(first, last)
            assert bool(steps) == (place(run, first) in before[place(run, last)])
            if steps:
                assert [steps[0].tail, steps[-1].head] == [first, last]
                assert all(a.head == b.tail for a, b in pairwise(steps))
                assert all(place(run, s.tail) in before[place(run, s.head)] for s in steps)


@pytest.mark.parametrize("seed", seeds(20))
def test_sends_are_ordered_as_the_vectors_say_also_across_restarts(seed: int):
    logs, about = dynamic_execution(seed)
    made = records_of(logs)
    run = opened(made, about)
    sends = run.layout.send_row[run.layout.send_row >= 0]
    ids = run.layout.ids[sends]
    origin = np.searchsorted(run.numbering.base, ids, side="right") - 1
    for row, dot in zip(sends.tolist(), ids.tolist(), strict=True):
        past = run.order.vectors[origin, dot] >= ids
        past[sends == row] = False
        assert run.order.is_past(run.order.past(row), sends).tolist() == past.tolist()
        future = run.order.vectors[run.numbering.origin(dot), ids] >= dot
        future[sends == row] = False
        assert run.order.future(row, sends).tolist() == future.tolist()


@pytest.mark.parametrize("seed", seeds(20))
def test_what_is_in_the_past_is_at_a_lower_level_also_of_who_joined(seed: int):
    logs, about = dynamic_execution(seed)
    made = records_of(logs)
    run = opened(made, about)
    rows = np.arange(len(made))
    for row in rows.tolist():
        past = run.order.is_past(run.order.past(row), rows)
        assert (run.layout.level[past] < run.layout.level[row]).all(), place(run, row)


def test_what_a_restart_took_back_is_in_the_past_of_nothing_after_it():
    made = records(
        a="send a:1; end",
        b="deliver a:1; restart < b:9; send b:1; end",
    )
    run = opened(made, info("a", "b", complete=False))
    delivered, sent = run.row("b", 0), run.row("b", 2)
    assert not run.order.before(delivered, sent)
    assert not run.order.before(run.row("a", 0), sent)
    assert run.event(delivered)["undone"]["pos"] == 1


def test_a_path_after_a_restart_goes_through_what_it_carried_on():
    made = records(
        a="send a:1",
        b="send b:1; send b:2 < b:1; deliver a:1; restart < a:1 b:2; send b:3 < a:1 b:2; end",
    )
    run = opened(made, info("a", "b", complete=False))
    restarted = run.row("b", 4)
    steps = run.compare(run.row("a", 0), restarted)["path"]
    assert [(s["from"]["pos"], s["to"]["pos"], s["how"]) for s in steps] == [
        (0, 2, "message"),
        (2, 4, "log"),
    ]


@pytest.mark.parametrize("seed", seeds(15))
def test_each_link_of_a_path_is_a_log_or_a_message_also_across_restarts(seed: int):
    logs, about = dynamic_execution(seed)
    made = records_of(logs)
    run = opened(made, about)
    record_at = {(record.node, record.pos): record for record in made}
    rng = random.Random(seed)
    for one, other in rng.choices([(a, b) for a in range(len(made)) for b in range(a)], k=80):
        for step in (*run.order.path(one, other), *run.order.path(other, one)):
            tail, head = (record_at[place(run, row)] for row in (step.tail, step.head))
            if step.how == "log":
                assert (tail.node, tail.pos < head.pos) == (head.node, True)
            elif step.how == "message" and head.kind != "snapshot":
                assert (tail.kind, tail.dot) == ("send", head.dot)
            elif step.how == "message":
                latest = {dot.node: dot.seq for dot in head.context or ()}
                assert latest[tail.dot.node] >= tail.dot.seq


@pytest.mark.parametrize("seed", seeds(12))
def test_the_greatest_consistent_cut_lacks_nothing_and_is_the_greatest(seed: int):
    made, about = arrivals_of(seed)
    run = opened(made, about)
    before = pasts(made)
    rng = np.random.default_rng(seed)
    sizes = np.diff(run.layout.first)
    cut = rng.integers(-1, sizes)
    inside = {(n, p) for n, last in zip(run.names, cut.tolist(), strict=True)
              for p in range(last + 1)}  # fmt: skip
    lacks = {p for q in inside for p in before[q] if kind_of(made, p) == "send"} - inside
    assert bool(run.order.lacking(cut)) == bool(lacks)
    found = run.order.consistent_within(cut)
    assert not run.order.lacking(found)
    assert (found <= cut).all()
    assert found.tolist() == greatest(made, before, run.names, cut.tolist())


def test_a_cut_is_not_consistent_when_a_message_inside_was_sent_outside():
    made = records(a="send a:1; end", b="receive a:1; deliver a:1; restart < b:9; end")
    run = opened(made, info("a", "b", complete=False))
    for last in range(4):
        cut = np.array([-1, last])
        assert run.order.lacking(cut) == [(1, 1)]
        assert run.order.consistent_within(cut).tolist() == [-1, -1]


def kind_of(made: list[Record], place: Place) -> str:
    return next(record.kind for record in made if (record.node, record.pos) == place)


def greatest(made, before, names, cut: list[int]) -> list[int]:
    """By removing one record at a time."""
    kinds = {(record.node, record.pos): record.kind for record in made}
    cut = list(cut)
    while True:
        inside = {(n, p) for n, last in zip(names, cut, strict=True) for p in range(last + 1)}
        for place in sorted(inside):
            if any(kinds[p] == "send" and p not in inside for p in before[place]):
                cut[names.index(place[0])] = place[1] - 1
                break
        else:
            return cut
