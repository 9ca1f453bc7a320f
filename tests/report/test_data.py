"""Reading tables and lab.json: what is there, and clear sentences about what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.report.made_tables import make_lab, make_tables, settings
from thence.errors import UnusableInputError
from thence.report.data import Tables, are_usable, read_lab, variants_of


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    return make_lab(tmp_path / "lab", sizes=(4,))


def test_rows_come_by_level_in_a_fixed_order(lab: Path):
    tables = Tables(lab / "metrics")
    rows = tables.rows("metadata", "experiment")
    assert {row.level for row in rows} == {"experiment"}
    assert len(rows) == 3 * len(tables.runs)
    assert rows == sorted(rows, key=lambda row: (row.series, row.experiment, row.variant))
    assert tables.are_simulated


def test_a_metric_that_was_not_measured_has_no_rows(lab: Path):
    assert Tables(lab / "metrics").rows("throughput", "experiment") == []


def test_tables_of_another_version_are_told_apart_by_their_columns(lab: Path):
    file = lab / "metrics" / "metrics" / "memory" / "part-0.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["p25", "variant"]), file)
    with pytest.raises(UnusableInputError, match="another version of thence: it has no column"):
        Tables(lab / "metrics").rows("memory", "experiment")
    assert not are_usable(lab / "metrics")


def test_metrics_that_are_not_complete_are_refused(lab: Path):
    (lab / "metrics" / "metrics.json").write_text('{"complete": false}')
    with pytest.raises(UnusableInputError, match="holds no complete metrics"):
        Tables(lab / "metrics")
    assert not are_usable(lab / "metrics")


def test_a_table_that_is_no_parquet_is_one_sentence(lab: Path):
    (lab / "metrics" / "runs" / "part-0.parquet").write_text("no")
    with pytest.raises(UnusableInputError, match=r"part-0\.parquet cannot be read"):
        Tables(lab / "metrics")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not what thence lab writes"),
        ('{"v": 2}', "has version 2, this thence reads 1"),
        ('{"variants": [{"name": "a", "role": "king"}]}', "is not what thence lab writes"),
    ],
)
def test_a_lab_json_that_cannot_be_used_is_one_sentence(lab: Path, text: str, sentence: str):
    (lab / "lab.json").write_text(text)
    with pytest.raises(UnusableInputError, match=sentence):
        read_lab(lab)


def test_without_a_lab_json_the_runs_name_the_variants(tmp_path: Path):
    tables = Tables(make_tables(tmp_path / "metrics", list(settings((4,)))))
    roles = {variant.name: variant.role for variant in variants_of(tables)}
    assert roles["tagged-at-once"] == "flagship"
    assert roles["graph"] == "rival"
    assert roles["tagged-compiled"] == "none"


def test_a_scenario_that_is_no_json_says_nothing(tmp_path: Path):
    runs = [dict(run, scenario="{") for run in settings((4,))]
    tables = Tables(make_tables(tmp_path / "metrics", runs))
    assert not tables.are_simulated


def test_one_real_run_makes_latencies_real(tmp_path: Path):
    runs = list(settings((4,)))
    runs[0] = dict(runs[0], scenario=json.dumps({"simulated": False}))
    assert not Tables(make_tables(tmp_path / "metrics", runs)).are_simulated
