"""JSON Lines: each fault alone in its file is set aside, as the checker's reader does it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.test_ingest import quarantined, record, rows_of
from thence.pipeline.ingest import ingest
from thence.trace.reader import read_segment
from thence.trace.record import record_to_json
from thence.trace.segments import Quarantine

GOOD: dict[str, Any] = {"v": 1, "run": "r", "node": "a", "pos": 1, "kind": "sample", "t_us": 3}
SEND: dict[str, Any] = GOOD | {"kind": "send", "dot": ["a", 1]}
HEAD = b'{"v":1,"run":"r","node":"a","pos":1,"kind":"sample",'


def line(record: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps(record | changes).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


FAULTS: dict[str, bytes] = {
    "a newer version": line(GOOD, v=2),
    "an older version": line(GOOD, v=0),
    "a version below zero": line(GOOD, v=-1),
    "a version of 31 bits": line(GOOD, v=1 << 31),
    "a version without end": line(GOOD, v=10**30),
    "a version that is null": line(GOOD, v=None),
    "a version that is text": line(GOOD, v="1"),
    "two versions, the last newer": b'{"v":1,' + line(GOOD, v=2)[1:],
    "no run": without("run"),
    "no node": without("node"),
    "no pos": without("pos"),
    "no kind": without("kind"),
    "an empty run": line(GOOD, run=""),
    "an empty node": line(GOOD, node=""),
    "a node with a slash": line(GOOD, node="a/b"),
    "a node of 1025 characters": line(GOOD, node="n" * 1025),
    "half a surrogate": HEAD.replace(b'"a"', b'"a\\ud800"') + b'"t_us":3}',
    "a pos below zero": line(GOOD, pos=-1),
    "a pos of 54 bits": line(GOOD, pos=1 << 53),
    "a pos of 65 bits": line(GOOD, pos=1 << 64),
    "a pos that is text": line(GOOD, pos="1"),
    "an empty kind": line(GOOD, kind=""),
    "a time of 65 bits": line(GOOD, t_us=1 << 63),
    "a time that is null": line(GOOD, t_us=None),
    "a time with a fraction": line(GOOD, t_us=1.5),
    "a send without dot": line(GOOD, kind="send"),
    "a dot of seq 0": line(SEND, dot=["a", 0]),
    "a dot of 41 bits": line(SEND, dot=["a", 1 << 40]),
    "a dot without name": line(SEND, dot=["", 1]),
    "a dot of one part": line(SEND, dot=["a"]),
    "a bad dot that is not needed": line(GOOD, dot=["a", 0]),
    "a context of seq 0": line(SEND, context=[["b", 0]]),
    "a context without name": line(SEND, context=[["", 1]]),
    "a context with null": line(SEND, context=[None]),
    "a context of 65537 dots": line(SEND, context=[["b", 1]] * 65537),
    "a stable of seq 0": line(GOOD, kind="snapshot", stable=[["b", 0]]),
    "bytes below zero": line(SEND, bytes=-1),
    "bytes of 64 bits": line(SEND, bytes=1 << 63),
    "words below zero": line(GOOD, words=-1),
    "a recipient that is null": line(SEND, to=[None]),
    "a peer that is a number": line(GOOD, kind="join", **{"from": 1}),
    "a stream that is a number": line(SEND, stream=1),
    "a payload out of range": HEAD + b'"payload":1e999}',
    "a payload that is no UTF-8": HEAD + b'"payload":"\xff"}',
    "brackets without end": HEAD + b'"payload":' + b"[" * 100_000,
    "brackets without end in a field of others": HEAD + b'"x":' + b"[" * 100_000,
    "no JSON": b"nonsense",
    "no object": b"[1, 2]",
    "a line that breaks off": HEAD,
    "a line of more than 32 MB": HEAD + b'"x":"' + b"x" * (1 << 25) + b'"}',
}
ONLY_HERE: dict[str, bytes] = {
    # What a checker need not keep: names of folders, and the values of fields of others.
    "a run that cannot be a folder": line(GOOD, run="r" * 500),
    "a field of others that is no UTF-8": HEAD + b'"x":"\xff"}',
    "a field of others out of range": HEAD + b'"x":' + b"9" * 6000 + b"}",
}
NO_FAULT: dict[str, bytes] = {
    "nothing else": line(GOOD),
    "no version": without("v"),
    "no time": without("t_us"),
    "a kind of others": line(GOOD, kind="rest"),
    "fields of others": line(GOOD, x={"y": 1}, extra=5),
    "two versions, the last ours": b'{"v":2,' + line(GOOD)[1:],
    "the last pos": line(GOOD, pos=(1 << 53) - 1),
    "a blank line": b" \t\r",
}


def set_aside(path: Path) -> list[int | None]:
    """The lines that the checker's reader sets aside."""
    quarantine = Quarantine()
    read_segment(str(path), quarantine)
    return [item.line for item in quarantine.listed]


@pytest.mark.parametrize("name", [*FAULTS, *ONLY_HERE, *NO_FAULT])
def test_a_fault_alone_in_its_file_is_set_aside_as_the_checker_does(tmp_path: Path, name: str):
    """Alone: nothing else in the batch makes anybody look at its rows one by one."""
    text = (FAULTS | ONLY_HERE | NO_FAULT)[name]
    good = record_to_json(record(0)) + b"\n"
    for at, file in enumerate((text, text + b"\n", good + text + b"\n" + good)):
        path = tmp_path / f"{at}.jsonl"
        path.write_bytes(file)
        bad = [] if name in NO_FAULT else [2 if at == 2 else 1]
        report = ingest(None, [path], tmp_path / f"table{at}")
        assert [each.line for each in report.listed] == bad
        assert report.quarantined == len(bad)
        assert report.ok is not bool(bad)
        assert set_aside(path) == ([] if name in ONLY_HERE else bad)


def test_a_log_of_a_newer_version_is_set_aside_and_the_reason_says_so(tmp_path: Path):
    lines = [line(GOOD, pos=pos, v=2) for pos in range(3)]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    report = ingest(None, [tmp_path / "a.jsonl"], tmp_path / "table")
    assert (report.taken, report.quarantined, report.ok) == (0, 3, False)
    reason = "v: expected 1, got 2: a newer thence wrote it; upgrade"
    found = [row[:4] for row in quarantined(tmp_path / "table")]
    assert found == [("a.jsonl", at, "r", reason) for at in (1, 2, 3)]
    assert rows_of(tmp_path / "table") == []


def test_a_line_without_end_is_one_line_and_what_follows_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("thence.trace.segments.LINE_BYTES_MAX", 1000)
    good = record_to_json(record(0))
    (tmp_path / "a.jsonl").write_bytes(b"x" * 3500 + b"\n" + good + b"\n")
    report = ingest(None, [tmp_path / "a.jsonl"], tmp_path / "table")
    assert (report.read, report.taken, report.quarantined) == (2, 1, 1)
    assert report.listed[0].line == 1
