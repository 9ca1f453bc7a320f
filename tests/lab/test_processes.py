"""Runs of the lab with real processes, so nothing here depends on how fast they are."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from thence.errors import ThenceError
from thence.lab import processes
from thence.lab.plan import Latency, RunPlan, Slow, Variant
from thence.lab.processes import run_processes
from thence.trace.check import check_paths
from thence.trace.reader import read_records

TAGGED = Variant(name="tagged-at-once", engine="tagged", stability_batch=1)
PLAN = RunPlan(
    experiment="here", variant=TAGGED, nodes=3, messages=20, interval_ms=2.0,
    latency=Latency(mean_ms=5.0), slow=Slow(), phantom_ms=20.0,
)  # fmt: skip


def test_a_plan_becomes_a_complete_run_that_the_checker_accepts(tmp_path: Path):
    folder = tmp_path / "runs" / PLAN.name
    told: list[tuple[str, int, int]] = []
    run_processes(PLAN, folder, lambda *each: told.append(each))
    report = check_paths([folder])
    assert report.ok
    info = json.loads((folder / "run.json").read_text())
    assert info["complete"] is True
    assert info["run"] == PLAN.name
    assert info["scenario"]["clock"] == "common"
    assert info["scenario"]["plan"] == PLAN.digest
    assert info["scenario"]["slow_nodes"] == ["a", "b"]
    assert (folder / "run.closed").exists()
    assert sorted(path.name for path in folder.iterdir() if path.suffix == ".parquet") == [
        "a-000000.parquet", "b-000000.parquet", "c-000000.parquet",
    ]  # fmt: skip
    assert not (folder / processes.NODES_FOLDER).exists()
    assert told
    assert {total for _, _, total in told} == {PLAN.deliveries}


def test_the_slow_link_is_seen_in_the_trace(tmp_path: Path):
    """The delay on it is 50 ms and never varies: nothing crosses it sooner."""
    folder = tmp_path / "run"
    run_processes(msgspec.structs.replace(PLAN, stability=False), folder, None)
    records = list(read_records([folder]))
    sent = {each.dot: each.t_us for each in records if each.kind == "send"}
    took = [
        each.t_us - sent[each.dot]
        for each in records
        if each.kind == "receive" and each.dot and {each.node, each.dot.node} == {"a", "b"}
    ]
    assert len(took) == 2 * PLAN.messages
    assert min(took) >= 49_000
    assert not [each for each in records if each.kind == "stable"]
    quick = [
        each.t_us - sent[each.dot]
        for each in records
        if each.kind == "receive" and each.dot and "c" in (each.node, each.dot.node)
    ]
    assert 4_000 <= min(quick) < 49_000


def test_what_an_earlier_try_left_is_replaced(tmp_path: Path):
    folder = tmp_path / "run"
    (folder / processes.NODES_FOLDER).mkdir(parents=True)
    (folder / "a-000007.parquet").write_text("rubbish")
    run_processes(msgspec.structs.replace(PLAN, nodes=2, messages=3), folder, None)
    assert check_paths([folder]).ok


def test_a_node_that_ends_early_ends_the_run_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(processes, "free_ports", lambda count: [1] * count)
    folder = tmp_path / "run"
    with pytest.raises(ThenceError, match=r"node [a-z] ended with exit code 2; it said: thence: "):
        run_processes(PLAN, folder, None)
    assert not (folder / "run.closed").exists()
    assert json.loads((folder / "run.json").read_text())["complete"] is False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_a_node_starts_leaves_no_process(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    children: list[subprocess.Popen[bytes]] = []

    def signalled(*given: Any, **more: Any) -> subprocess.Popen[bytes]:
        children.append(popen(*given, **more))
        signal.raise_signal(number)
        return children[-1]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", signalled)
    with pytest.raises(KeyboardInterrupt):
        run_processes(PLAN, tmp_path / "run", None)
    (child,) = children
    assert child.poll() is not None
