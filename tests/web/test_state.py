"""Data types at a cut, from the payloads that a run has."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from tests.trace.faults import info, records
from thence.crdt import batch
from thence.crdt.registry import CRDTS
from thence.trace.columns import gather_runs
from thence.trace.payload import payload_of
from thence.trace.segments import part_of_records
from thence.web.execution import Execution
from thence.web.state import rows_inside, rows_known, state_of

SET = CRDTS["set_aw"]()
# b removes what a added; c, who does not know of that, adds it again.
LOGS = {
    "a": "send a:1; end",
    "b": "deliver a:1; send b:1 < a:1; end",
    "c": "deliver a:1; send c:1 < a:1; deliver b:1; end",
}


def operation(name: str, element: str) -> Any:
    (data,) = batch.encode(0, [b"cart", SET.CODE, SET.prepare(name, element.encode())], 1 << 20)
    return payload_of(data)


def opened(payloads: dict[str, Any]) -> tuple[Execution, dict[int, Any]]:
    made = records(**LOGS)
    columns = gather_runs([part_of_records(made)], ("a", "b", "c"))[0]
    run = Execution(columns, info("a", "b", "c", complete=False))
    sends = run.layout.send_row[run.layout.send_row >= 0].tolist()
    return run, {row: payloads[str(run.columns.dot(row))] for row in sends}


def cart(run: Execution, payloads: dict[int, Any], cut: list[int]) -> str:
    state = state_of(run, rows_inside(run, np.array(cut)), payloads)
    return state["objects"][0]["value"] if state["objects"] else "{}"


def test_the_state_is_that_of_the_messages_inside_the_cut():
    run, payloads = opened({
        "a:1": operation("add", "milk"), "b:1": operation("remove", "milk"),
        "c:1": operation("add", "milk"),
    })  # fmt: skip
    assert cart(run, payloads, [-1, -1, -1]) == "{}"
    assert cart(run, payloads, [0, 0, 0]) == "{milk}"
    assert cart(run, payloads, [0, 1, 0]) == "{}"
    assert cart(run, payloads, [0, 1, 1]) == "{milk}"


def test_a_node_knows_what_it_had_taken():
    run, payloads = opened({
        "a:1": operation("add", "milk"), "b:1": operation("add", "bread"),
        "c:1": operation("add", "tea"),
    })  # fmt: skip
    lane = run.lanes["c"]
    known = state_of(run, rows_known(run, lane, 1), payloads)
    assert known["objects"][0]["value"] == "{milk, tea}"
    assert state_of(run, rows_known(run, lane, 2), payloads)["messages"] == 3


def test_other_payloads_are_listed_by_key_the_latest_first():
    op = msgspec.json.encode({"key": "cart", "op": "clear"}).decode()
    run, payloads = opened({"a:1": "hello", "b:1": op, "c:1": "world"})
    state = state_of(run, rows_inside(run, np.array([0, 1, 1])), payloads)
    assert state["plain"] == [
        {"key": "", "count": 2, "latest": ["world", "hello"]},
        {"key": "cart", "count": 1, "latest": ["clear"]},
    ]
