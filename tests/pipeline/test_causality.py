"""The stages of the Spark check against the local checker, without Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pipeline.runs import check_without_spark, write_run
from tests.seeds import seeds
from tests.trace.dynamics import broken_dynamic, dynamic_execution
from tests.trace.executions import broken, execution, records_of
from thence.errors import UnusableInputError
from thence.trace.check import check_paths

BROKEN = 500
CORRECT = 60


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


@pytest.mark.parametrize("make", [broken, broken_dynamic])
def test_broken_executions_are_judged_by_logs_as_in_one_process(make, tmp_path):
    for seed in seeds(BROKEN):
        same(tmp_path / str(seed), make, seed, whole_events_max=0, long_log_events=5)
