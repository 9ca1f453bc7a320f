"""The streaming job on Spark: the same findings as the check, while the run is written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.test_stream_run import as_violation
from thence.causal.dot import Dot
from thence.cli.follow import follow_folders
from thence.errors import UnusableInputError
from thence.pipeline.stream import findings, follow
from thence.pipeline.stream_pages import Pages
from thence.pipeline.stream_run import Finding
from thence.pipeline.stream_sink import Sink
from thence.trace.check import check_paths
from thence.trace.record import RunInfo
from thence.trace.verdict import Violation
from thence.trace.writer import RunWriter


def write_some(folder: Path, run: str, wrong: bool, half: threading.Event | None = None) -> None:
    """Two nodes and some messages in segments of three records; ``wrong``: one out of order.

    ``half``: what to wait for after the first half.
    """
    about = RunInfo(run=run, members=("a", "b"), stability=False)
    with RunWriter(folder, about, segment_records=3) as writer:
        a, b = writer.log("a"), writer.log("b")
        order = [1, 3, 2, 4, 5, 6] if wrong else [1, 2, 3, 4, 5, 6]
        for seq in range(1, 7):
            a.append("send", seq, Dot("a", seq), [Dot("a", seq - 1)] if seq > 1 else [])
            b.append("deliver", seq, Dot("a", order[seq - 1]))
            if seq == 3 and half is not None:
                assert half.wait(120)
        for log in (a, b):
            log.append("end", 99)


def committed(out: Path) -> list[Finding]:
    sink = Sink(str(out))
    return [finding for name in sink.fresh() for finding in sink.rows(name)]


def violations(out: Path) -> list[Violation]:
    """Of committed batches, in order, repeated ones included."""
    return sorted(as_violation(one) for one in committed(out) if one.what == "violation")


def test_runs_are_judged_while_they_are_written(spark: SparkSession, tmp_path: Path):
    """Two at a time, one of them broken, and a line that is no record.

    Then as after a SIGKILL between the sink's commit of the last batch and the query's: it is
    done again, and nothing comes twice.
    """
    root, out, checkpoint = tmp_path / "runs", tmp_path / "out", tmp_path / "checkpoint"
    root.mkdir()
    half = threading.Event()
    names = ("one", "two")
    writers = [
        threading.Thread(target=write_some, args=(root / name, name, name == "two", half))
        for name in names
    ]
    for writer in writers:
        writer.start()
    while not all((root / name / "b-000000.parquet").exists() for name in names):
        time.sleep(0.01)
    query = follow(spark, str(root), str(checkpoint), str(out), interval_s=0.1, partitions=1)
    query.processAllAvailable()
    assert [v.rule for v in violations(out)] == ["deliver-early"], "told while they go on"
    assert not [one for one in committed(out) if one.what == "closed"]
    half.set()
    for writer in writers:
        writer.join()
    (root / "three").mkdir()
    (root / "three" / "run.json").write_text('{"run": "three", "members": ["a"]}')
    (root / "three" / "a.jsonl").write_text("nonsense\n")
    query.processAllAvailable()
    query.stop()
    expected = sorted(check_paths([root / name for name in names]).violations)
    assert violations(out) == expected != []
    commits = checkpoint / "spark" / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    query = follow(spark, str(root), str(checkpoint), str(out), interval_s=0.1, partitions=1)
    query.processAllAvailable()
    query.stop()
    assert (commits / f"{last}").exists()
    assert violations(out) == expected
    table = findings(spark, str(out)).collect()
    assert {row.run: row.violations for row in table if row.what == "closed"} == {
        "one": 0,
        "two": 1,
    }
    (aside,) = [row for row in table if row.what == "quarantine"]
    assert (aside.file, aside.line) == (str(root / "three" / "a.jsonl"), 1)


FOLLOW = """
import sys
from thence.cli.follow import follow_folders
root, checkpoint = sys.argv[1:]
sys.exit(follow_folders([root], checkpoint=checkpoint, master="local[1]"))
"""


def test_a_job_that_is_killed_in_the_middle_of_a_batch_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path, capsys
):
    """The task of the second batch reads a named pipe, so it is known to be at work."""
    root, checkpoint = tmp_path / "runs", tmp_path / "checkpoint"
    write_some(root / "one", "one", wrong=True)
    command = [sys.executable, "-c", FOLLOW, str(root), str(checkpoint)]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert job.stdout is not None
        printed = [job.stdout.readline() for _ in range(2)]
        write_some(tmp_path / "two", "two", wrong=True)
        write_some(tmp_path / "three", "three", wrong=True)
        pipe = tmp_path / "two" / "b-000001.parquet"
        real = pipe.rename(tmp_path / "real")
        os.mkfifo(pipe)
        for name in ("two", "three"):
            (tmp_path / name).rename(root / name)
        wait_for_reader(root / "two" / pipe.name, job)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
    before = violations(checkpoint / "findings")
    assert [v.run for v in before] == ["one"]
    assert printed[0].startswith("one b at 1: ")
    real.replace(root / "two" / pipe.name)

    stopper = threading.Thread(target=terminate_when_closed, args=(checkpoint / "findings", 3))
    stopper.start()
    assert follow_folders([str(root)], checkpoint=str(checkpoint)) == 1
    stopper.join()
    assert violations(checkpoint / "findings") == sorted(check_paths([root]).violations)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[0] for line in lines if "[deliver-early]" in line) == [
        "three",
        "two",
    ]
    assert lines[-1] == "NOT ok: 3 violations: 3 runs closed, 0 open, 42 events in closed runs"


def wait_for_reader(pipe: Path, job: subprocess.Popen[str]) -> None:
    """Until somebody has opened the pipe to read it."""
    while job.poll() is None:
        try:
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            return
        except OSError:
            time.sleep(0.02)
    raise AssertionError("the job ended by itself")


def terminate_when_closed(out: Path, runs: int) -> None:
    """Send this process a SIGTERM, which the command takes as the wish to end."""
    while sum(one.what == "closed" for one in committed(out)) < runs:
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)


def test_the_command_prints_what_it_finds_and_returns_when_all_is_closed(
    spark: SparkSession, tmp_path: Path, capsys
):
    root = tmp_path / "runs"
    write_some(root / "one", "one", wrong=True)
    write_some(root / "two", "two", wrong=False)
    assert follow_folders([str(root)], until_closed=True, as_json=True) == 1
    captured = capsys.readouterr()
    made = [json.loads(line) for line in captured.out.splitlines()]
    assert [one["what"] for one in made] == ["opened"] * 2 + ["violation"] + ["closed"] * 2 + [
        "summary"
    ]
    assert made[2] == {
        "what": "violation", "run": "one", "node": "b", "pos": 1, "rule": "deliver-early",
        "dot": ["a", 3], "missing": ["a", 2],
        "why": "b delivered a:3 before a:2, which precedes it",
    }  # fmt: skip
    assert made[-1] == {
        "what": "summary", "ok": False, "closed": 2, "open": 0, "events": 28, "violations": 1,
        "quarantined": 0,
    }  # fmt: skip
    assert captured.err == ""


def test_folders_that_cannot_be_used_are_told_in_one_sentence(spark: SparkSession, tmp_path: Path):
    root = tmp_path / "runs"
    root.mkdir()
    with pytest.raises(UnusableInputError, match="is not a folder"):
        follow_folders([str(tmp_path / "absent")])
    with pytest.raises(UnusableInputError, match="which is watched"):
        follow(spark, str(root), str(root / "checkpoint"), str(tmp_path / "out"))
    with pytest.raises(UnusableInputError, match="which is watched"):
        follow(spark, str(root), str(root / "_checkpoint"), str(root))
    (tmp_path / "used" / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(UnusableInputError, match="findings of another checkpoint"):
        follow(spark, str(root), str(tmp_path / "fresh"), str(tmp_path / "used"))
    Pages(str(tmp_path / "old" / "table")).append(str(tmp_path / "first"))
    with pytest.raises(UnusableInputError, match=r"goes with the findings in .*first"):
        follow(spark, str(root), str(tmp_path / "old"), str(tmp_path / "second"))
    with pytest.raises(UnusableInputError, match="needs --checkpoint"):
        follow_folders([str(root)], master="spark://somewhere:7077")
