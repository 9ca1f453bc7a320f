"""The stages of the Spark check against the local checker, without Spark."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipeline.runs import check_without_spark, write_parquet, write_run
from tests.seeds import seeds
from tests.trace.chaos import chaos
from tests.trace.dynamics import broken_dynamic, dynamic_execution
from tests.trace.executions import broken, execution, records_of
from tests.trace.faults import info, records
from thence.errors import UnusableInputError
from thence.pipeline.causality import check as check_module
from thence.pipeline.causality.judge import flow_log
from thence.trace.check import check_paths

BROKEN = 120
CORRECT = 30
SOAK_BROKEN = 1500  # of each kind


def same(folder: Path, make, seed: int, **options) -> None:
    logs, info = make(seed)
    write_run(folder / "run", records_of(logs), info, seed)
    paths = [folder / "run"]
    try:
        local = check_paths(paths, keep_going=True)
    except UnusableInputError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            check_without_spark(paths, folder / "work", keep_going=True, **options)
        return
    spark = check_without_spark(paths, folder / "work", keep_going=True, **options)
    assert spark.to_json() == local.to_json(), f"seed {seed}"
    assert spark.notes == local.notes
    assert [(q.line, q.reason) for q in spark.quarantined] == [
        (q.line, q.reason) for q in local.quarantined
    ]


@pytest.mark.parametrize("make", [execution, dynamic_execution])
def test_correct_executions_are_clean_by_logs(make, tmp_path):
    for seed in seeds(CORRECT):
        same(tmp_path / str(seed), make, seed, whole_events_max=0)


@pytest.mark.parametrize("make", [broken, broken_dynamic, chaos])
def test_broken_executions_are_judged_by_logs_as_in_one_process(make, tmp_path):
    for seed in seeds(BROKEN):
        same(tmp_path / str(seed), make, seed, whole_events_max=0, long_log_events=5)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("make", [broken, broken_dynamic, chaos])
def test_many_broken_executions_by_logs(make, tmp_path):
    for seed in range(10**6, 10**6 + SOAK_BROKEN):
        same(tmp_path / str(seed), make, seed, whole_events_max=0, long_log_events=5)
        shutil.rmtree(tmp_path / str(seed))
    print(f"\n{SOAK_BROKEN} executions of {make.__name__}: by logs as in one process")


# What the stages know of a log that its own index does not say; each was a mutant nothing noticed.
HIDDEN = {
    "a dot of a that only c speaks of, with the past of a:1 in it": (
        {
            "a": "deliver b:1; send a:1 < b:1; end",
            "b": "send b:1; end",
            "c": "deliver b:1; deliver a:1; deliver a:2; send c:1 < a:2; end",
        },
        info("a", "b", "c", complete=False, stability=False),
        {"deliver-unsent": 1},
    ),
    "c never belonged: its order is not compared": (
        {
            "a": "send a:1; deliver a:1; deliver b:1",
            "b": "send b:1; deliver a:1; deliver b:1",
            "c": "deliver b:1; deliver a:1",
        },
        info("a", "b", complete=False, stability=False, guarantee="total", tags="none"),
        {},
    ),
    "m sent nothing: it is past no dot of others, whatever they say it sent": (
        {"a": "send a:1; deliver m:1; stable a:1", "m": "deliver a:1; end"},
        info("a", "m", complete=False, tags="none"),
        {"deliver-unsent": 1, "stable-early": 1},
    ),
    "m sent nothing: a dot that a has of it is itself": (
        {"a": "deliver m:1; stable m:1", "m": "end"},
        info("a", "m", complete=False, tags="none"),
        {"deliver-unsent": 1},
    ),
}


@pytest.mark.parametrize(("logs", "about", "counts"), HIDDEN.values(), ids=HIDDEN.keys())
def test_what_one_log_does_not_know_of_itself(logs, about, counts, tmp_path):
    write_run(tmp_path / "run", records(**logs), about, 1)
    paths = [tmp_path / "run"]
    local = check_paths(paths)
    assert local.counts == counts
    report = check_without_spark(paths, tmp_path / "work", whole_events_max=0)
    assert report.to_json() == local.to_json()


def test_a_run_whose_vectors_are_not_exact_is_closed_in_rounds(tmp_path, monkeypatch):
    # b delivers c:1 before what precedes it, a:1, and its own message carries that on.
    made = records(
        a="send a:1; deliver c:1; deliver b:1; end",
        b="deliver c:1; send b:1 < c:1; deliver a:1; end",
        c="deliver a:1; send c:1 < a:1; deliver b:1; end",
    )
    rounds = []
    monkeypatch.setattr(
        check_module, "flow_log", lambda spec: (rounds.append(spec.round), flow_log(spec))[1]
    )
    write_run(tmp_path / "run", made, info("a", "b", "c", stability=False), 1)
    report = check_without_spark([tmp_path / "run"], tmp_path / "work", whole_events_max=0)
    assert report.counts == {"deliver-early": 1}
    assert set(rounds) == {1, 2}
    assert not list((tmp_path / "work").rglob("run0.0-one*")), "no task got the whole run"


def test_sequence_numbers_with_great_holes_go_to_one_task(tmp_path):
    made = records(a="send a:1; send a:900000000 < a:1; end", b="deliver a:1; end")
    write_run(tmp_path / "run", made, info("a", "b", stability=False), 1)
    paths = [tmp_path / "run"]
    report = check_without_spark(paths, tmp_path / "work", whole_events_max=0)
    assert report.to_json() == check_paths(paths).to_json()
    assert report.counts == {"deliver-missing": 1, "send-gap": 1}


def test_a_long_file_is_decoded_by_row_groups(tmp_path):
    folder = tmp_path / "run"
    made = records(
        a="; ".join(f"send a:{k + 1} < a:{k}" if k else "send a:1" for k in range(40)) + "; end",
        b="; ".join(f"deliver a:{k + 1}" for k in range(40)) + "; end",
    )
    write_run(folder, made, info("a", "b", stability=False), 2)
    for path in folder.glob("?-?.*"):
        path.unlink()
    for node in "ab":
        write_parquet(folder / f"{node}.parquet", [r for r in made if r.node == node])
        table = pq.read_table(folder / f"{node}.parquet")
        pq.write_table(table, folder / f"{node}.parquet", row_group_size=7)
    options = {"whole_events_max": 0, "long_log_events": 15}
    report = check_without_spark([folder], tmp_path / "work", **options)
    assert report.to_json() == check_paths([folder]).to_json()
    assert len(list((tmp_path / "work").rglob("long-*.part"))) == 6  # 2 logs in 3 pieces each
