"""An ingest killed at any step leaves nothing half, and the next one completes it."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.pipeline.test_ingest import record, rows_of, snapshot, write_records
from thence.pipeline.ingest import ingest
from thence.pipeline.ingest_files import TableFiles
from thence.pipeline.tables import EVENTS, STAGING
from thence.trace.record import RunInfo, info_to_json

STEPS = ("create", "move", "remove", "make_folder", "remove_folder")


class Killed(BaseException):
    """Stands for SIGKILL: nothing in thence catches it."""


class Killer:
    """Lets so many changes of the table's files happen, and then none at all.

    ``torn``: the step at which it happens is half done, as far as such a step can be.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: int, torn: bool) -> None:
        self.left = steps
        self._torn = torn
        for name in STEPS:
            monkeypatch.setattr(TableFiles, name, self._dying(name, getattr(TableFiles, name)))

    def _dying(self, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(files: TableFiles, *given: Any) -> Any:
            self.left -= 1
            if self.left >= 0:
                return step(files, *given)
            if self.left == -1 and self._torn:
                tear(files, name, step, *given)
            raise Killed

        return run


def tear(files: TableFiles, name: str, step: Callable[..., Any], *given: Any) -> None:
    """Half of a step: a file with a beginning, a folder with some of its files left."""
    if name == "create":
        with step(files, *given) as stream:
            stream.write(b"PAR1")
    elif name == "remove_folder":
        below = sorted(path for path in Path(files.path(given[0])).rglob("*") if path.is_file())
        for path in below[::2]:
            path.unlink()


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """A table with one ingest, and inputs that bring something new of every kind."""
    raw = tmp_path / "raw"
    (raw / "r").mkdir(parents=True)
    write_records(raw / "r" / "a-0.jsonl", [record(0), record(2)])
    (raw / "r" / "run.json").write_bytes(info_to_json(RunInfo(run="r", members=("a", "b"))))
    whole = raw / "r" / "b-0.parquet"
    write_records(whole, [record(pos, "b") for pos in range(3)])
    text = whole.read_bytes()
    whole.write_bytes(text[:100])
    assert ingest(None, [raw], tmp_path / "base").unreadable == 1
    whole.write_bytes(text)
    write_records(raw / "r" / "a-1.jsonl", [record(1), record(3)])
    write_records(raw / "s" / "a.jsonl.gz", [record(0, run="s")])
    with (raw / "r" / "a-1.jsonl").open("ab") as file:
        file.write(b"nonsense\n")
    info = RunInfo(run="r", members=("a", "b"), complete=True)
    (raw / "r" / "run.json").write_bytes(info_to_json(info))
    shutil.copytree(tmp_path / "base", tmp_path / "expected")
    report = ingest(None, [raw], tmp_path / "expected")
    assert (report.segments, report.events, report.quarantined) == (3, 6, 1)
    return tmp_path


def assert_nothing_is_half(table: Path) -> None:
    """Every file a reader sees is whole."""
    for file in table.rglob("*.parquet"):
        if file.relative_to(table).parts[0] != STAGING:
            pq.ParquetFile(file).read()


def killed_at_every_step(case: Path, base: str, torn: bool, steps_min: int = 25) -> Iterator[Path]:
    """The table as each kill leaves it, until there is a run without one."""
    for steps in itertools.count():
        table = case / "table"
        shutil.rmtree(table, ignore_errors=True)
        if base:
            shutil.copytree(case / base, table)
        with pytest.MonkeyPatch.context() as patch:
            killer = Killer(patch, steps, torn)
            try:
                ingest(None, [case / "raw"], table)
            except Killed:
                pass
        if killer.left >= 0:
            assert steps > steps_min  # it did go through the steps one by one
            return
        yield table


@pytest.mark.parametrize("torn", [False, True], ids=["between", "inside"])
def test_a_kill_at_any_step_is_made_good_by_the_next_ingest(case: Path, torn: bool):
    expected = snapshot(case / "expected")
    for table in killed_at_every_step(case, "base", torn):
        assert_nothing_is_half(table)
        ingest(None, [case / "raw"], table)
        assert snapshot(table) == expected
        assert not os.listdir(table / STAGING)


def test_a_kill_while_a_new_table_is_made_is_made_good_too(case: Path):
    ingest(None, [case / "raw"], case / "whole")
    expected = rows_of(case / "whole")
    for table in killed_at_every_step(case, "", torn=True):
        ingest(None, [case / "raw"], table)
        assert rows_of(table) == expected


def test_a_kill_while_a_kill_is_made_good_is_made_good(case: Path):
    """The second ingest dies as well, at each of its steps."""
    shutil.copytree(case / "base", case / "half")
    with pytest.MonkeyPatch.context() as patch:
        Killer(patch, 24, torn=False)
        with pytest.raises(Killed):
            ingest(None, [case / "raw"], case / "half")
    for table in killed_at_every_step(case, "half", torn=False, steps_min=8):
        ingest(None, [case / "raw"], table)
        assert snapshot(table) == snapshot(case / "expected")


def test_before_the_commit_nothing_is_visible_after_it_everything_will_be(case: Path):
    """Two sorts of kills: those after which the new events are not there, and those after which
    the next ingest finds them there.
    """
    seen = set()
    for table in killed_at_every_step(case, "base", torn=False):
        planned = list((table / STAGING).glob("*/plan.json"))
        assert planned or len(rows_of(table)) == 2
        report = ingest(None, [case / "raw"], table)
        seen.add((bool(planned), report.segments))
    assert seen == {(False, 3), (True, 0)}


PROGRAM = """
import os, signal, sys
from thence.pipeline.ingest import ingest
from thence.pipeline.ingest_files import TableFiles
left = int(sys.argv[3])
def dying(step):
    def run(*given):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(*given)
    return run
for name in {steps!r}:
    setattr(TableFiles, name, dying(getattr(TableFiles, name)))
ingest(None, [sys.argv[1]], sys.argv[2])
"""


@pytest.mark.parametrize("steps", [8, 18, 24])
def test_a_process_that_is_really_killed_leaves_no_lock_and_nothing_half(case: Path, steps: int):
    table = case / "table"
    shutil.copytree(case / "base", table)
    program = PROGRAM.format(steps=STEPS)
    words = [sys.executable, "-c", program, str(case / "raw"), str(table), str(steps)]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert_nothing_is_half(table)
    ingest(None, [case / "raw"], table)
    assert snapshot(table) == snapshot(case / "expected")


def test_staged_files_that_somebody_removed_are_named(case: Path):
    for table in killed_at_every_step(case, "base", torn=False):
        if list((table / STAGING).glob("*/plan.json")):
            break
    shutil.rmtree(next((table / STAGING).iterdir()) / "logs")
    with pytest.raises(Exception, match=r"is lost: an ingest was killed") as caught:
        ingest(None, [case / "raw"], table)
    assert EVENTS in str(caught.value)
