"""A run of a stream without Spark: files in, findings out, the same set as the check's."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

import thence.pipeline.stream_run as stream_run
from tests.pipeline.runs import write_run
from tests.seeds import seeds
from tests.trace.dynamics import broken_dynamic
from tests.trace.executions import broken, records_of
from tests.trace.faults import info, records
from tests.trace.test_files import SPOILT_INFOS, spoil_info
from thence.causal.dot import Dot
from thence.errors import LimitError
from thence.pipeline.stream_files import Entry, FileLog
from thence.pipeline.stream_run import Finding, RunFollower
from thence.trace import segments
from thence.trace.check import check_paths
from thence.trace.record import RunInfo, record_to_json
from thence.trace.verdict import Violation
from thence.trace.writer import RunWriter, mark_closed, write_info


class Followed:
    """A folder that is followed by hand, as the job does it, dumped after every batch."""

    def __init__(self, root: Path) -> None:
        self.log = FileLog([str(root)], str(root.parent / "store"))
        self.taken = 0
        self.saved: dict[str, bytes] = {}
        self.findings: list[Finding] = []

    def batch(self, limit: int = 10**6) -> list[Finding]:
        """Take what is new, or the first of it."""
        end = min(self.log.discover(), self.taken + limit)
        groups: dict[str, list[Entry]] = {}
        for entry in self.log.entries[self.taken : end]:
            groups.setdefault(entry.group, []).append(entry)
        self.taken = end
        new = []
        for group, entries in groups.items():
            follower = RunFollower(group, self.saved.get(group, b""))
            new += follower.take(entries)
            self.saved[group] = follower.dump()
        self.findings += new
        return new

    def of(self, what: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.what == what]

    def violations(self) -> list[Violation]:
        return sorted(as_violation(finding) for finding in self.of("violation"))


def as_violation(finding: Finding) -> Violation:
    def dot(node: str | None, seq: int | None) -> Dot | None:
        return None if node is None else Dot(node, seq)

    return Violation(
        finding.run, finding.node, finding.pos, finding.rule,
        dot(finding.dot_node, finding.dot_seq), dot(finding.missing_node, finding.missing_seq),
        finding.why,
    )  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("make", [broken, broken_dynamic])
def test_files_in_any_batches_give_what_the_check_of_the_whole_run_gives(root: Path, make):
    reasons: Counter[bool] = Counter()
    for seed in seeds(60):
        logs, about = make(seed)
        made = records_of(logs)
        if not made:
            continue
        rng = random.Random(seed)
        shutil.rmtree(root)
        shutil.rmtree(root.parent / "store", ignore_errors=True)
        write_run(root / "r", made, about, seed)
        followed = Followed(root)
        if rng.random() < 0.5:
            while followed.batch(rng.randint(1, 3)):
                pass
        mark_closed(root / "r")
        followed.batch()
        report = check_paths([root], keep_going=True)
        expected = sorted(report.violations)
        assert followed.violations() == expected, f"seed {seed}"
        aside = [(finding.file, finding.reason) for finding in followed.of("quarantine")]
        assert aside == [(item.file, item.reason) for item in report.quarantined], f"seed {seed}"
        (closed,) = followed.of("closed")
        assert (closed.violations, closed.events) == (len(expected), len(made)), f"seed {seed}"
        reasons[closed.why is not None] += 1
    assert reasons[True], "some are checked as a whole"
    assert reasons[False] > 5 * reasons[True]


def test_a_run_written_in_small_segments_is_followed_while_it_is_written(root: Path):
    about = RunInfo(run="r", members=("a", "b"))
    writer = RunWriter(root / "r", about, segment_records=2)
    followed = Followed(root)
    assert [finding.what for finding in followed.batch()] == ["opened"]
    a, b = writer.log("a"), writer.log("b")
    a.append("send", 0, Dot("a", 1), [])
    a.append("send", 1, Dot("a", 2), [Dot("a", 1)])
    assert followed.batch() == []
    b.append("deliver", 0, Dot("a", 2))
    b.append("deliver", 1, Dot("a", 1))
    assert [finding.rule for finding in followed.batch()] == ["deliver-early"]
    writer.close(end_t_us=5)
    followed.batch()
    assert followed.violations() == sorted(check_paths([root]).violations)
    assert [finding.run for finding in followed.of("closed")] == ["r"]


def test_a_run_is_closed_when_all_its_folders_are(root: Path):
    """Each node keeps its own folder; a folder counts from its run.json on, segments or not."""
    for name in ("a", "b"):
        (root / name).mkdir()
        write_info(root / name, info("a", "b"))
    made = records(a="send a:1; end", b="end")
    followed = Followed(root)
    (root / "a" / "a.jsonl").write_bytes(b"\n".join(map(record_to_json, made[:2])))
    mark_closed(root / "a")
    followed.batch()
    assert followed.of("closed") == []
    (root / "b" / "b.jsonl").write_bytes(record_to_json(made[2]))
    mark_closed(root / "b")
    followed.batch()
    assert len(followed.of("closed")) == 1
    assert [finding.rule for finding in followed.of("violation")] == ["deliver-missing"]


def test_what_cannot_be_read_is_set_aside_with_file_line_and_reason(root: Path):
    folder = root / "r"
    folder.mkdir()
    write_info(folder, info("a"))
    good = record_to_json(records(a="send a:1")[0])
    (folder / "a.jsonl").write_bytes(good + b"\nnonsense\n")
    (folder / "b.parquet").write_bytes(b"PAR1 not really")
    followed = Followed(root)
    followed.batch()
    first, second = followed.of("quarantine")
    assert (first.file, first.line) == (str(folder / "a.jsonl"), 2)
    assert (second.file, second.line) == (str(folder / "b.parquet"), None)
    assert "not a readable Parquet segment" in (second.reason or "")


def test_one_log_in_two_folders_is_set_aside(root: Path):
    for name in ("one", "two"):
        (root / name).mkdir()
        write_info(root / name, info("a"))
        line = record_to_json(records(a="send a:1")[0])
        (root / name / "a.jsonl").write_bytes(line)
    followed = Followed(root)
    followed.batch()
    (aside,) = followed.of("quarantine")
    assert aside.file == str(root / "two" / "a.jsonl")
    assert "holds a log of a in the same run" in (aside.reason or "")


def test_what_comes_after_the_end_is_set_aside(root: Path):
    writer = RunWriter(root / "r", info("a"))
    writer.log("a").append("end", 0)
    writer.close()
    followed = Followed(root)
    followed.batch()
    (root / "r" / "late.jsonl").write_bytes(record_to_json(records(a="send a:1")[0]))
    followed.batch()
    (aside,) = followed.of("quarantine")
    assert "had been closed before this came" in (aside.reason or "")
    assert len(followed.of("closed")) == 1


def test_a_folder_without_run_json_is_judged_when_it_is_closed(root: Path):
    (root / "r").mkdir()
    made = records(a="send a:1; send a:2 < a:1", b="deliver a:2; deliver a:1")
    (root / "r" / "all.jsonl").write_bytes(b"\n".join(map(record_to_json, made)))
    followed = Followed(root)
    (note,) = followed.batch()
    assert (note.what, "no run.json" in (note.reason or "")) == ("note", True)
    mark_closed(root / "r")
    followed.batch()
    assert [finding.rule for finding in followed.of("violation")] == ["deliver-early"]
    assert followed.violations() == sorted(check_paths([root]).violations)


@pytest.mark.parametrize("text", [text for text, _ in SPOILT_INFOS.values()], ids=SPOILT_INFOS)
def test_a_run_json_that_says_nothing_is_told_as_by_the_check(root: Path, text: bytes | None):
    made = records(a="send a:1; send a:2 < a:1", b="deliver a:2; deliver a:1")
    write_run(root / "r", made, info("a", "b"), 2)
    spoil_info(root / "r", text)
    followed = Followed(root)
    first = [(finding.what, finding.file) for finding in followed.batch()]
    assert first == [("quarantine", str(root / "r" / "run.json"))]
    mark_closed(root / "r")
    followed.batch()
    report = check_paths([root], keep_going=True)
    aside = [(finding.file, finding.line, finding.reason) for finding in followed.of("quarantine")]
    assert aside == [(item.file, item.line, item.reason) for item in report.quarantined]
    assert [finding.reason for finding in followed.of("note")] == list(report.notes)
    assert followed.violations() == sorted(report.violations)


def test_a_run_is_complete_when_all_its_folders_say_so(root: Path):
    made = records(a="send a:1; end", b="end")  # b lacks a:1
    for name, complete in (("a", True), ("b", False)):
        (root / name).mkdir()
        write_info(root / name, info("a", "b", complete=complete, stability=False))
        mine = [record_to_json(record) for record in made if record.node == name]
        (root / name / f"{name}.jsonl").write_bytes(b"\n".join(mine))
        mark_closed(root / name)
    followed = Followed(root)
    followed.batch()
    assert followed.violations() == []
    assert check_paths([root]).ok


def test_a_table_may_hide_its_info(root: Path):
    made = records(a="send a:1; send a:2 < a:1; end", b="deliver a:2; deliver a:1; end")
    write_run(root / "r", made, info("a", "b", "c", run="r", complete=False), 2)
    (root / "r" / "run.json").rename(root / "r" / "_run.json")
    followed = Followed(root)
    followed.batch()
    assert [finding.run for finding in followed.of("opened")] == ["r"]
    assert [finding.rule for finding in followed.of("violation")] == ["deliver-early"]
    mark_closed(root / "r")
    followed.batch()
    assert followed.of("note") == []
    assert followed.violations() == sorted(check_paths([root]).violations)


def test_files_of_one_batch_are_taken_by_name(root: Path):
    """Of two records with one position the first one read counts."""
    (root / "r").mkdir()
    write_info(root / "r", info("a", complete=False))
    for name, text in (("1", "send a:1; send a:2 < a:1"), ("2", "send a:7")):
        lines = b"\n".join(map(record_to_json, records(a=text)))
        (root / "r" / f"{name}.jsonl").write_bytes(lines)
    mark_closed(root / "r")
    log = FileLog([str(root)], str(root.parent / "store"))
    log.discover()
    found = list(RunFollower("run r").take(log.entries[::-1]))
    expected = check_paths([root]).violations
    assert [one.rule for one in expected] == ["log-gap"]
    assert [as_violation(one) for one in found if one.what == "violation"] == list(expected)


BACK = "send a:1; send a:3 < a:1; send a:2 < a:3; deliver a:1; deliver a:1; end"
"""A log that cannot be followed: its sender goes back."""


def back(root: Path) -> Followed:
    write_run(root / "r", records(a=BACK), info("a", stability=False), 2)
    mark_closed(root / "r")
    return Followed(root)


def test_violations_that_are_not_listed_are_counted(root: Path, monkeypatch):
    monkeypatch.setattr(stream_run, "LISTED_MAX", 2)
    followed = back(root)
    followed.batch()
    total = sum(check_paths([root]).counts.values())
    (closed,) = followed.of("closed")
    assert closed.why == "a went back to a:2"
    assert (closed.violations, total > 2) == (total, True)
    (note,) = followed.of("note")
    assert note.reason == f"r: {total} violations, of which the first are listed"


def test_a_whole_check_that_fails_is_told(root: Path, monkeypatch):
    def too_much(*_, **__):
        raise LimitError("run r: too much")

    monkeypatch.setattr(stream_run, "check_run", too_much)
    followed = back(root)
    followed.batch()
    (aside,) = followed.of("quarantine")
    assert (aside.file, aside.line, aside.reason) == (str(root / "r"), None, "run r: too much")
    assert len(followed.of("closed")) == 1


def test_bad_lines_beyond_the_listed_ones_are_counted(root: Path, monkeypatch):
    monkeypatch.setattr(segments, "LISTED_MAX", 3)
    (root / "r").mkdir()
    write_info(root / "r", info("a"))
    (root / "r" / "a.jsonl").write_bytes(b"nonsense\n" * 10)
    followed = Followed(root)
    followed.batch()
    *listed, more = followed.of("quarantine")
    assert [one.line for one in listed] == [1, 2, 3]
    assert (more.reason, more.events, more.line) == ("7 more lines like these", 7, None)


def test_the_logs_of_a_batch_are_fed_side_by_side(root: Path, monkeypatch):
    """One whole log after the other would have all of the first wait."""
    monkeypatch.setattr(stream_run, "FEED_RECORDS", 4)
    monkeypatch.setattr("thence.trace.online.WAITING_RECORDS_MAX", 12)
    rounds = 100
    text = {"a": "", "b": ""}
    for turn in range(1, rounds + 1):
        before = f" < b:{turn - 1}" if turn > 1 else ""
        text["a"] += f"send a:{turn}{before}; deliver b:{turn};"
        text["b"] += f"deliver a:{turn}; send b:{turn} < a:{turn};"
    (root / "r").mkdir()
    write_info(root / "r", info("a", "b", stability=False))
    for name, events in text.items():
        made = records(**{name: events + "end"})
        (root / "r" / f"{name}.jsonl").write_bytes(b"\n".join(map(record_to_json, made)))
    mark_closed(root / "r")
    followed = Followed(root)
    followed.batch()
    (closed,) = followed.of("closed")
    assert (closed.violations, closed.why, closed.events) == (0, None, 4 * rounds + 2)


def test_a_state_of_another_version_is_refused():
    from thence.errors import UnusableInputError

    follower = RunFollower("run r")
    data = follower.dump().replace(b"\xa1v\x01", b"\xa1v\x63")
    with pytest.raises(UnusableInputError, match="another version"):
        RunFollower("run r", data)


def test_the_limits_are_those_of_the_reference(request):
    from thence.pipeline import stream_source
    from thence.trace import online

    page = (request.config.rootpath / "docs/reference/streaming.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.count("|") == 4]
    said = {row[2].strip(" `"): row[1].strip() for row in rows if row[1].strip()[0].isdigit()}
    named = {
        "WAITING_RECORDS_MAX": online.WAITING_RECORDS_MAX,
        "VECTOR_ENTRIES_MAX": online.VECTOR_ENTRIES_MAX,
        "PENDING_MAX": online.PENDING_MAX,
        "TOLD_MAX": online.TOLD_MAX,
        "FILES_PER_BATCH_MAX": stream_source.FILES_PER_BATCH_MAX,
        "LISTED_MAX": stream_run.LISTED_MAX,
    }
    assert said == {name: f"{value:,}" for name, value in named.items()}
