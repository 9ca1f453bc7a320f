"""What an ingest says of its inputs beyond their lines: what a check would object to."""

from __future__ import annotations

from pathlib import Path

from tests.pipeline.test_ingest import record, write_records
from thence.pipeline.ingest import ingest
from thence.pipeline.tables import EVENTS
from thence.trace.check import check_paths
from thence.trace.record import RunInfo, info_to_json


def run_folder(folder: Path, nodes: str, complete: bool = True, run: str = "r") -> Path:
    """A run of the members a, b and c, with the logs of some of them."""
    for node in nodes:
        write_records(folder / f"{node}.jsonl", [record(0, node, run)])
    info = RunInfo(run=run, members=("a", "b", "c"), complete=complete)
    (folder / "run.json").write_bytes(info_to_json(info))
    return folder


def test_a_log_that_a_complete_run_lacks_is_noted_as_the_check_says_it(tmp_path: Path):
    raw, table = run_folder(tmp_path / "raw", "a"), tmp_path / "table"
    (said,) = check_paths([raw], keep_going=True).quarantined
    for _ in range(2):  # the second time everything is there already
        report = ingest(None, [raw], table)
        assert report.ok, "what is there was taken"
        assert report.notes == (f"{raw}: no log of b, c in complete r",)
        assert report.notes == (f"{said.file}: {said.reason}",)
    (later,) = check_paths([table / EVENTS], keep_going=True).quarantined
    assert later.reason == said.reason


def test_a_log_that_comes_later_or_from_elsewhere_is_not_missed(tmp_path: Path):
    table = tmp_path / "table"
    run_folder(tmp_path / "raw/one", "a")
    run_folder(tmp_path / "raw/two", "b")
    first = ingest(None, [tmp_path / "raw/one"], table)
    assert first.notes == (f"{tmp_path / 'raw/one'}: no log of b, c in complete r",)
    second = ingest(None, [tmp_path / "raw/two"], table)
    assert second.notes == (f"{tmp_path / 'raw/two'}: no log of c in complete r",)
    write_records(tmp_path / "raw/two/c.jsonl", [record(0, "c")])
    assert ingest(None, [tmp_path / "raw"], table).notes == ()


def test_a_run_that_goes_on_or_one_file_of_it_lacks_nothing(tmp_path: Path):
    raw = run_folder(tmp_path / "raw", "a", complete=False)
    assert ingest(None, [raw], tmp_path / "table").notes == ()
    whole = run_folder(tmp_path / "whole", "a")
    assert ingest(None, [whole / "a.jsonl"], tmp_path / "other").notes == ()


def test_a_folder_without_run_json_is_noted(tmp_path: Path):
    write_records(tmp_path / "raw/a.jsonl", [record(0)])
    report = ingest(None, [tmp_path / "raw"], tmp_path / "table")
    assert report.ok
    assert report.notes == check_paths([tmp_path / "raw"]).notes
    assert report.notes[0].startswith(f"{tmp_path / 'raw'}: no run.json, so the members are taken")


def test_records_of_a_run_that_run_json_does_not_name_are_noted(tmp_path: Path):
    raw = run_folder(tmp_path / "raw", "abc")
    write_records(raw / "d.jsonl", [record(0, "d", "other")])
    report = ingest(None, [raw], tmp_path / "table")
    assert report.notes == (f"{raw}: records of run other, of which run.json says nothing",)
