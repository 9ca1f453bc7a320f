"""One record and run.json: names, defaults, unknown fields, faults."""

from __future__ import annotations

import msgspec
import pytest

from thence.causal.dot import SEQ_MAX, Dot
from thence.trace.record import (
    CONTEXT_DOTS_MAX,
    KINDS,
    KINDS_WITH_DOT,
    Record,
    RunInfo,
    fault,
    info_from_json,
    info_to_json,
    record_from_json,
    record_to_json,
)


def record(**changes: object) -> Record:
    fields = {"run": "r", "node": "a", "pos": 0, "kind": "send", "dot": Dot("a", 1), "t_us": 5}
    return msgspec.convert(fields | changes, Record)


def test_a_line_names_its_fields_as_the_format_does():
    line = record_to_json(record(context=(Dot("b", 2),), **{"from": "b"}))
    assert line == (
        b'{"v":1,"run":"r","node":"a","pos":0,"kind":"send","dot":["a",1],'
        b'"context":[["b",2]],"t_us":5,"from":"b"}'
    )


def test_what_is_absent_is_not_written_but_version_and_time_are():
    assert record_to_json(Record(run="r", node="a", pos=1, kind="end")) == (
        b'{"v":1,"run":"r","node":"a","pos":1,"kind":"end","t_us":0}'
    )


def test_unknown_fields_and_kinds_survive():
    line = b'{"v":1,"run":"r","node":"a","pos":0,"kind":"novelty","t_us":1,"extra":7,"x":{"y":[1]}}'
    read = record_from_json(line)
    assert read.extra == {"extra": 7, "x": {"y": [1]}}
    assert fault(read) is None
    assert record_to_json(read) == line


def test_kinds_are_those_of_the_reference():
    assert len(set(KINDS)) == 13
    assert set(KINDS) >= KINDS_WITH_DOT


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"v": 2}, "v"),
        ({"pos": -1}, "pos"),
        ({"pos": 1 << 53}, "pos"),
        ({"node": ""}, "node"),
        ({"node": "a/s"}, "node"),
        ({"node": "x" * 2000}, "node"),
        ({"run": ""}, "run"),
        ({"kind": ""}, "kind"),
        ({"dot": None}, "dot"),
        ({"dot": Dot("a", 0)}, "dot"),
        ({"dot": Dot("a", SEQ_MAX + 1)}, "dot"),
        ({"dot": Dot("", 1)}, "dot"),
        ({"context": (Dot("a", 1), Dot("b", -4))}, "context[1]"),
        ({"context": (Dot("a", 1),) * (CONTEXT_DOTS_MAX + 1)}, "context"),
        ({"bytes": -1}, "bytes"),
        ({"t_us": 1 << 63}, "t_us"),
    ],
)
def test_a_fault_names_its_field(changes: dict[str, object], field: str):
    reason = fault(record(**changes))
    assert reason is not None
    assert reason.startswith(f"{field}: ")


def test_run_json_keeps_what_it_does_not_know():
    info = RunInfo(run="r", members=("a",), scenario={"nodes": 1}, extra={"host": "h", "run": "no"})
    text = info_to_json(info)
    read = info_from_json(text)
    assert read.run == "r"
    assert read.extra == {"host": "h"}
    assert info_to_json(read) == text


def test_run_json_defaults():
    info = info_from_json(b'{"v": 1, "run": "r"}')
    assert (info.guarantee, info.tags, info.complete, info.stability) == (
        "causal", "exact", False, True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'{"v": 2, "run": "r"}', b'{"run": 3}', b'{"run": "r", "tags": "odd"}']
)
def test_a_bad_run_json_is_a_value_error(text: bytes):
    with pytest.raises(ValueError):
        info_from_json(text)


def test_vectors_of_a_message_are_none_unless_run_json_says_so():
    assert info_from_json(b'{"run": "r"}').vectors == 0
    assert info_from_json(b'{"run": "r", "vectors": 2}').vectors == 2
    with pytest.raises(ValueError, match=r"vectors"):
        info_from_json(b'{"run": "r", "vectors": -1}')
