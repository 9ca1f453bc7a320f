"""What a PATH may be."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import msgspec
import pytest

from tests.trace.faults import info, records
from tests.web.traces import renamed_run, write
from thence.crdt import batch
from thence.crdt.keyspace import CLEAR, KEYS
from thence.crdt.registry import CRDTS
from thence.errors import UnusableInputError
from thence.trace.payload import payload_of
from thence.trace.record import record_to_json
from thence.web.execution import Execution
from thence.web.runs import Viewer
from thence.web.sources import find_sources
from thence.web.texts import Texts

SHIVIZ = Path(__file__).parent.parent / "data" / "shiviz"
TEN = records(a="send a:1; deliver b:1; end", b="deliver a:1; send b:1 < a:1; end")


def loaded(path: Path, work: Path) -> list[Execution]:
    executions = []
    for source in find_sources(str(path), work):
        read = source.read()
        assert read.columns is not None
        executions.append(Execution(read.columns, read.info, read.notes))
    return executions


@pytest.mark.parametrize(
    ("name", "hosts", "events"),
    [
        ("simple-reliable-broadcast.log", 3, 39),
        ("reliable-broadcast.log", 4, 116),
        ("chord.log", 8, 1235),
        ("simpledb.log", 5, 509),
    ],
)
def test_logs_of_shiviz_open_without_being_told_how(
    name: str, hosts: int, events: int, tmp_path: Path
):
    (found,) = loaded(SHIVIZ / name, tmp_path)
    assert len(found.names) == hosts
    assert found.summary()["messages"] == events


def test_a_log_of_shiviz_opens_with_its_expression(tmp_path: Path):
    file = tmp_path / "mine.log"
    file.write_text('x 1 "hello" {"x":1}\ny 2 "got it" {"x":1,"y":1}\n')
    with pytest.raises(UnusableInputError, match="--parser says how"):
        find_sources(str(file), tmp_path)
    settings = {"expression": r'(?<host>\w) \d "(?<event>.*)" (?<clock>{.*})'}
    (source,) = find_sources(str(file), tmp_path, settings=settings)
    read = source.read()
    assert read.columns is not None
    run = Execution(read.columns, read.info)
    assert run.order.before(run.row("x", 0), run.row("y", 1))
    texts = Texts(run, source.records)
    assert texts.search("hello")["count"] == 1


def test_the_whole_of_a_long_payload_is_searched(tmp_path: Path):
    made = [msgspec.structs.replace(TEN[0], payload="x" * 10_000 + "needle")]
    write(tmp_path, made, info("a", complete=False))
    (source,) = find_sources(str(tmp_path), tmp_path)
    read = source.read()
    assert read.columns is not None
    texts = Texts(Execution(read.columns, read.info), source.records)
    assert texts.search("NEEDLE")["count"] == 1
    assert len(texts.of(0)["payload"]) < 5000


def test_batches_are_searched_and_shown_as_their_operations(tmp_path: Path):
    cart = CRDTS["set_aw"]()
    items = [b"cart", cart.CODE, cart.prepare("add", b"oat milk"), b"cart", KEYS, (CLEAR,)]
    (whole,) = batch.encode(0, items, 1 << 20)
    pieces = batch.encode(0, [*items[:2], cart.prepare("add", b"x" * 99 + b"rice")], 100)
    sends = records(a="send a:1; send a:2 < a:1; send a:3 < a:2; send a:4 < a:3")
    given = [payload_of(data) for data in (whole, *pieces)] + [{"base64": "/w=="}]
    made = [msgspec.structs.replace(r, payload=p) for r, p in zip(sends, given, strict=True)]
    write(tmp_path, made, info("a", complete=False))
    (source,) = find_sources(str(tmp_path), tmp_path)
    read = source.read()
    assert read.columns is not None
    texts = Texts(Execution(read.columns, read.info), source.records)
    (hit,) = texts.search("Oat Milk")["hits"]
    assert hit["text"] == "cart: set_aw add oat milk\ncart: keyspace clear"
    assert texts.of(0)["payload"] == hit["text"]
    assert [hit["pos"] for hit in texts.search("rice")["hits"]] == [2]
    assert texts.of(2)["payload"].startswith("piece 2 of 2 of a batch: ")
    assert texts.of(3)["payload"] == '{"base64":"/w=="}'


def test_a_folder_of_runs_is_all_of_them(tmp_path: Path):
    for name in ("one", "two"):
        made = renamed_run(TEN, name)
        write(tmp_path / name, made, info("a", "b", run=name, stability=False))
    with Viewer([str(tmp_path)]) as viewer:
        assert [each["title"] for each in viewer.listing()] == ["one", "two"]
        assert viewer.execution(1)[1].columns.run == "two"


def test_a_compressed_segment_alone_opens(tmp_path: Path):
    path = tmp_path / "all.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(record_to_json(record) for record in TEN)))
    (found,) = loaded(path, tmp_path)
    assert found.names == ("a", "b")


def test_records_of_several_runs_in_one_file_are_several(tmp_path: Path):
    made = renamed_run(TEN, "one") + renamed_run(TEN, "two")
    path = tmp_path / "all.jsonl"
    path.write_bytes(b"\n".join(record_to_json(record) for record in made) + b"\n")
    assert [found.columns.run for found in loaded(path, tmp_path)] == ["one", "two"]


def test_what_is_no_trace_is_said(tmp_path: Path):
    with pytest.raises(UnusableInputError, match="holds no trace"):
        find_sources(str(tmp_path), tmp_path)
    with pytest.raises(UnusableInputError, match="does not exist"):
        find_sources(str(tmp_path / "nothing"), tmp_path)
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG\r\n\x00\xff")
    with pytest.raises(UnusableInputError, match="is not a trace"):
        find_sources(str(picture), tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([{"id": n, "x": {"y": [n]}} for n in range(20_000)]),
        "a {" + "a" * 100_000 + "\n" + " {" * 100_000,
        "x" * 200_000,
    ],
    ids=["json", "braces", "word"],
)
def test_a_long_line_that_is_no_trace_is_said_soon(text: str, tmp_path: Path):
    file = tmp_path / "long"
    file.write_text(text)
    began = time.process_time()
    with pytest.raises(UnusableInputError, match="is not a trace"):
        find_sources(str(file), tmp_path)
    assert time.process_time() - began < 20


def test_a_line_an_event_is_not_taken_for_two(tmp_path: Path):
    file = tmp_path / "lines.log"
    file.write_text('x {"x":1} said\ny {"x":1,"y":1} heard\nx {"x":2} more\ny {"x":1,"y":2} so\n')
    (run,) = loaded(file, tmp_path)
    assert run.summary()["messages"] == 4
    assert run.order.before(run.row("x", 0), run.row("y", 1))


def test_an_event_may_have_braces_of_its_own(tmp_path: Path):
    file = tmp_path / "braces.log"
    file.write_text('x {"x":1} sent {"to": "y"} and {more}\ny {"x":1,"y":1} took it\n')
    (run,) = loaded(file, tmp_path)
    assert run.order.before(run.row("x", 0), run.row("y", 1))


def test_a_source_is_marked_anew_only_when_something_changed(tmp_path: Path):
    write(tmp_path, TEN, info("a", "b", complete=False))
    (source,) = find_sources(str(tmp_path), tmp_path, live=True)
    before = source.mark()
    assert source.mark() == before
    with (tmp_path / "a-000000.jsonl").open("ab") as log:
        log.write(b"\n")
    assert source.mark() != before


def test_payloads_that_are_not_there_are_not_looked_for_in_parquet(tmp_path: Path):
    from thence.cli.simulate import run_to
    from thence.sim.run import SimulationOptions
    from thence.sim.workload import WorkloadOptions

    run_to(tmp_path / "run", SimulationOptions(workload=WorkloadOptions(messages=3)))
    (source,) = find_sources(str(tmp_path / "run"), tmp_path)
    source.read()
    assert list(source.records(only_texts=True)) == []
    assert len(list(source.records())) > 0
