"""Payloads are in a trace as they were sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thence.client.tracing import Tracing
from thence.message import PAYLOAD_BYTES_MAX, Message
from thence.trace.check import check_paths
from thence.trace.payload import TEXT_BYTES_MAX, bytes_of, payload_of
from thence.trace.record import record_from_json
from thence.trace.resumable import ResumableLog

BYTES = [b"", b"tea", "hé\x00\ufeff".encode(), b"\x93\x01\xc0", b'{"base64": "kwHA"}', b"\\xff"]


class Tag:
    """As much of one as a trace looks at."""

    def __init__(self, seq: int, payload: bytes) -> None:
        self.origin, self.seq, self.packed, self.payload = 0, seq, seq, payload


def traced(folder: Path, payloads: list[bytes], form: Any, shown: bool = True) -> None:
    """The log of a node that sent these."""
    log = ResumableLog(folder, "r", "a", form=form)
    trace = Tracing(log, ("a",), payloads=shown)
    for seq, payload in enumerate(payloads, 1):
        message = Message(0, seq, (), payload)
        trace.sent(seq, Tag(seq, payload), message)
    log.seal(log.flush())


def payloads_in(folder: Path, form: str) -> list[Any]:
    (path,) = folder.glob(f"*.{form}")
    if form == "jsonl":
        return [record_from_json(line).payload for line in path.read_bytes().splitlines()]
    texts = pq.read_table(path)["payload"].to_pylist()
    return [None if text is None else msgspec.json.decode(text) for text in texts]


@given(st.binary() | st.text().map(str.encode))
@example(b"")
@example(b'{"base64": "kwHA"}')
def test_bytes_come_back_as_they_were(data: bytes):
    written = msgspec.json.encode(payload_of(data))
    assert bytes_of(msgspec.json.decode(written)) == data


def test_text_stays_text():
    assert [payload_of(data) for data in BYTES] == [
        "", "tea", "hé\x00\ufeff", {"base64": "kwHA"}, '{"base64": "kwHA"}', "\\xff"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "payload",
    [None, 3, ["a"], {}, {"base64": 3}, {"base64": "kw"}, {"base64": "é"}, {"base64": "", "x": 1}],
)
def test_what_no_bytes_are_written_as_is_told(payload: Any):
    with pytest.raises(ValueError):
        bytes_of(payload)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_node_logs_what_it_sent(tmp_path: Path, form: str):
    traced(tmp_path, BYTES, form)
    assert [bytes_of(payload) for payload in payloads_in(tmp_path, form)] == BYTES


def test_a_node_logs_no_payload_unasked(tmp_path: Path):
    traced(tmp_path, BYTES, "jsonl", shown=False)
    assert payloads_in(tmp_path, "jsonl") == [None] * len(BYTES)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_the_largest_payloads_fit_a_line(tmp_path: Path, form: str):
    large = [b"\xff" * PAYLOAD_BYTES_MAX, bytes(PAYLOAD_BYTES_MAX), bytes(TEXT_BYTES_MAX)]
    traced(tmp_path, large, form)
    assert check_paths(tmp_path).events == len(large)
    found = [bytes_of(payload) for payload in payloads_in(tmp_path, form)]
    assert [len(each) for each in found] == [len(each) for each in large]
    assert all(a == b for a, b in zip(found, large, strict=True))
