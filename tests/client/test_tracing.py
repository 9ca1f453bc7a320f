"""What a node writes of its restart, as the checkers read it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from thence.causal.dot import Dot
from thence.client.debug import OrderLog
from thence.client.tracing import Tracing
from thence.trace.check import check_paths
from thence.trace.record import RunInfo
from thence.trace.resumable import ResumableLog
from thence.trace.writer import write_info

NAMES = ("a", "b")


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("members", "found"),
    [
        (None, [("deliver-outside", 3)]),
        ((), [("deliver-outside", 3)]),
        (("b",), []),
        (NAMES, []),
    ],
)
def test_a_node_that_came_back_is_in_the_view_it_had_confirmed(
    tmp_path: Path, form, wrapped: bool, members, found
):
    log = ResumableLog(tmp_path, "r", "a", form=form)
    trace = Tracing(log, NAMES, payloads=False)
    if wrapped:
        trace = OrderLog("r", NAMES, trace)
    log.append("deliver", 0, Dot("b", 1))
    trace.changed(1, "evict", "b", 1, 1)
    trace.restarted(2, (), (), members)
    log.append("deliver", 3, Dot("b", 1))
    trace.changed(4, "evict", "b", 1, 1)
    log.seal(log.flush())
    other = ResumableLog(tmp_path, "r", "b", form=form)
    other.append("send", 0, Dot("b", 1))
    other.seal(other.flush())
    write_info(tmp_path, RunInfo(run="r", members=NAMES, stability=False))
    report = check_paths(tmp_path)
    assert [(v.rule, v.pos) for v in report.violations] == found


def test_without_members_the_record_is_as_it_always_was(tmp_path: Path):
    log = ResumableLog(tmp_path, "r", "a", form="jsonl")
    Tracing(log, NAMES, payloads=False).restarted(2, (Dot("b", 1),), ())
    log.seal(log.flush())
    (line,) = (tmp_path / "a-000000.jsonl").read_text().splitlines()
    assert '"kind":"restart"' in line
    assert '"to"' not in line
