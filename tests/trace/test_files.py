"""Where the bytes of a trace are: compressed, by URL, in folders of tables."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.trace.faults import info, records
from thence.causal.dot import Dot
from thence.errors import TraceError, UnusableInputError
from thence.trace import files, segments
from thence.trace.check import check_paths
from thence.trace.record import Record, RunInfo, info_to_json, record_to_json
from thence.trace.writer import RunWriter

AB = info("a", "b", stability=False)
MADE = records(a="send a:1; end", b="deliver a:1; end")


def lines(made: list[Record], node: str) -> bytes:
    return b"".join(record_to_json(record) + b"\n" for record in made if record.node == node)


def put(folder: Path, about: RunInfo = AB, info_name: str = "run.json") -> None:
    """The run with one log in each compression."""
    folder.mkdir(parents=True)
    (folder / info_name).write_bytes(info_to_json(about))
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(lines(MADE, "a")))
    with pa.output_stream(str(folder / "b.jsonl.zst"), compression="zstd") as stream:
        stream.write(lines(MADE, "b"))


def test_compressed_lines_are_read(tmp_path):
    put(tmp_path / "run")
    report = check_paths([tmp_path])
    assert (report.ok, report.events) == (True, 4)
    assert check_paths([tmp_path / "run" / "a.jsonl.gz"]).events == 2


@pytest.mark.parametrize("name", ["a.jsonl.gz", "b.jsonl.zst"])
def test_a_damaged_compressed_file_is_named(tmp_path, name):
    put(tmp_path / "run")
    path = tmp_path / "run" / name
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(TraceError, match=name):
        check_paths([tmp_path])


def test_a_url_is_read_like_a_path(tmp_path):
    put(tmp_path / "runs" / "one")
    put(tmp_path / "runs" / "below" / "two", info("a", "b", stability=False, run="r"))
    url = f"file://{tmp_path}/runs/one"
    assert check_paths([url]).events == 4
    assert check_paths([f"{url}/a.jsonl.gz"]).events == 2
    assert [folder for folder, _ in files.folders(f"file://{tmp_path}/runs")] == [
        f"file://{tmp_path}/runs/below/two",
        f"file://{tmp_path}/runs/one",
    ]


def test_a_url_finds_the_same_folders_as_a_path(tmp_path):
    # As text "a-b" is between "a" and "a/pictures", which was then read as a trace of its own.
    for name in ("a", "a-b", "a/pictures", "b c", "é", "x%20y", "what?", "c#2"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "x.jsonl").write_bytes(b"not a trace\n" if "/" in name else lines(MADE, "a"))
    found = [folder for folder, _ in files.folders(str(tmp_path))][1:]
    urls = [folder for folder, _ in files.folders(f"file://{tmp_path}")]
    assert [files.filesystem(url)[1] for url in urls] == found
    assert check_paths([f"file://{tmp_path}"]).events == check_paths([tmp_path]).events == 14


def test_a_url_finds_files_whose_names_are_escaped(tmp_path):
    # RunWriter escapes what a file system may not like, as in a later incarnation of a node.
    with RunWriter(tmp_path, info("A", "a#2", stability=False)) as run:
        run.log("A").append("send", 0, Dot("A", 1))
        run.log("a#2").append("deliver", 0, Dot("A", 1))
    names = sorted(path.name for path in tmp_path.glob("*.parquet"))
    assert any("%" in name for name in names)
    url = f"file://{tmp_path}"
    assert [files.name_of(files.join(url, name)) for name in names] == names
    assert check_paths([url]).to_json() == check_paths([tmp_path]).to_json()
    assert check_paths([files.join(url, names[0])]).events == 1


def test_the_query_of_a_url_stays_at_its_end():
    url = "s3://bucket/runs?endpoint_override=localhost:9000&scheme=http"
    joined = files.join(url, "a.jsonl")
    assert joined == "s3://bucket/runs/a.jsonl?endpoint_override=localhost:9000&scheme=http"
    assert files.parent(joined) == url
    assert files.name_of(joined) == "a.jsonl"


@pytest.mark.parametrize("url", ["nonsense://x/y", "file:///does/not/exist"])
def test_a_url_that_leads_nowhere_is_one_sentence(url):
    with pytest.raises(UnusableInputError) as error:
        check_paths([url])
    assert url in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("url", ["s3://", "gs://", "s3://?region=eu-west-1"])
def test_a_store_without_a_bucket_is_one_sentence(url):
    with pytest.raises(
        UnusableInputError, match=rf"^{re.escape(url)} names no bucket: expected (s3|gs)://BUCKET"
    ):
        files.kind_of(url)


def test_a_missing_library_of_hadoop_comes_with_what_to_set(monkeypatch):
    def missing(_):
        raise OSError("Unable to load libjvm\ndlopen(...) failed")

    monkeypatch.setattr(files.pafs, "FileSystem", type("FileSystem", (), {"from_uri": missing}))
    with pytest.raises(UnusableInputError) as caught:
        files.kind_of("hdfs://host/x")
    assert str(caught.value) == (
        "hdfs://host/x: Unable to load libjvm; set JAVA_HOME, HADOOP_HOME and CLASSPATH, "
        "see docs/howto/spark.md"
    )


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("gs://bucket/x", "gs://bucket/x?retry_limit_seconds=10"),
        ("gs://bucket/x?scheme=http", "gs://bucket/x?scheme=http&retry_limit_seconds=10"),
        ("gs://bucket/x?retry_limit_seconds=99", "gs://bucket/x?retry_limit_seconds=99"),
        ("s3://bucket/x", "s3://bucket/x"),
    ],
)
def test_the_first_look_at_a_store_does_not_wait_for_minutes(monkeypatch, url, asked):
    seen = []

    class Silent:
        type_name = "gcs"

        def get_file_info(self, _):
            raise OSError(
                "google::cloud::Status(UNAVAILABLE: Retry policy exhausted, with a last message of "
                "could not resolve hostname error_info={reason=, domain=})"
            )

    def from_uri(given):
        seen.append(given)
        return Silent(), "bucket/x"

    monkeypatch.setattr(files.pafs, "FileSystem", type("FileSystem", (), {"from_uri": from_uri}))
    with pytest.raises(UnusableInputError) as caught:
        files.kind_of(url)
    assert seen == [asked]
    assert str(caught.value) == f"{url}: could not resolve hostname"


def test_folders_of_tools_are_passed_over_and_a_table_may_hide_its_info(tmp_path):
    put(tmp_path / "events" / "run=r", info_name="_run.json")
    put(tmp_path / "_quarantine")
    put(tmp_path / ".hidden")
    report = check_paths([tmp_path])
    assert (report.runs, report.events, report.notes) == (1, 4, ())


def test_a_missing_info_is_noted(tmp_path):
    put(tmp_path / "run")
    (tmp_path / "run" / "run.json").unlink()
    report = check_paths([tmp_path])
    assert report.ok
    assert len(report.notes) == 1
    assert report.notes[0].startswith(f"{tmp_path / 'run'}: no run.json, so the members are")


def spoil_info(folder: Path, text: bytes | None, name: str = "run.json") -> None:
    """Put this text, or a folder (None), in the place of ``run.json``."""
    (folder / "run.json").unlink()
    if text is None:
        (folder / name).mkdir()
    else:
        (folder / name).write_bytes(text)


SPOILT_INFOS = {
    "not JSON": (b"nothing\n", "JSON is malformed"),
    "newer": (b'{"v": 2, "run": "r"}', "v: expected 1, got 2: a newer thence wrote it; upgrade"),
    "wrong types": (b'{"run": 5}', "Expected `str`, got `int`"),
    "byte order mark": (b'\xef\xbb\xbf{"run": "r"}', "JSON is malformed"),
    "empty": (b"", "truncated"),
    "deep": (b'{"run": "r", "x": ' + b"[" * 100_000, "nested too deeply"),
    "folder": (None, "expected a file, this is a folder"),
}


@pytest.mark.parametrize("name", ["run.json", "_run.json"])
@pytest.mark.parametrize(("text", "reason"), SPOILT_INFOS.values(), ids=SPOILT_INFOS.keys())
def test_an_info_that_is_there_and_says_nothing_is_not_said_to_be_absent(
    tmp_path, text, reason, name
):
    put(tmp_path / "run")
    spoil_info(tmp_path / "run", text, name)
    report = check_paths([tmp_path], keep_going=True)
    (item,) = report.quarantined
    assert (item.file, item.line) == (str(tmp_path / "run" / name), None)
    assert reason in item.reason
    assert report.notes == (
        f"{tmp_path / 'run'}: {name} cannot be used, so the members are taken to be the nodes "
        "seen, and what never happened is not missed",
    )
    log = str(tmp_path / "run" / "a.jsonl.gz")
    assert f"{name} cannot be used" in check_paths([log], keep_going=True).notes[0]
    with pytest.raises(TraceError, match=name):
        check_paths([f"file://{tmp_path}"])


def test_a_complete_run_without_the_log_of_a_member_is_unusable(tmp_path):
    put(tmp_path / "run", info("a", "b", "c", stability=False))
    with pytest.raises(TraceError, match="no log of c in complete r"):
        check_paths([tmp_path])
    assert check_paths([tmp_path], keep_going=True).quarantined_count == 1
    put(tmp_path / "running", info("a", "b", "c", stability=False, complete=False))
    assert check_paths([tmp_path / "running"]).ok


def test_records_of_another_run_than_the_info_names_are_noted(tmp_path):
    put(tmp_path / "run", info("a", "b", run="other", complete=False))
    report = check_paths([tmp_path])
    assert report.notes == (
        f"{tmp_path / 'run'}: records of run r, of which run.json says nothing",
    )


def test_a_log_that_was_never_sealed_is_noted(tmp_path):
    put(tmp_path / "run", info("a", "b", complete=False))
    for name in (".b-000001.jsonl.open", ".c-000000.jsonl.open", ".c-000000.parquet.partial"):
        (tmp_path / "run" / name).touch()
    for path in (str(tmp_path), f"file://{tmp_path}"):
        (note,) = check_paths([path]).notes
        assert "/run: .b-000001.jsonl.open and 1 more not read: a node runs, or was killed" in note


def test_a_newer_version_is_named_as_such(tmp_path):
    put(tmp_path / "run")
    text = (tmp_path / "run" / "run.json").read_text().replace('"v": 1', '"v": 2')
    (tmp_path / "run" / "run.json").write_text(text)
    with pytest.raises(TraceError, match="expected 1, got 2: a newer thence wrote it; upgrade"):
        check_paths([tmp_path])


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = str(tmp_path / "kept")

    def pieces():
        yield b"one"
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        files.write_file(path, pieces())
    assert list(tmp_path.iterdir()) == []
    files.write_file(path, [b"one", b"two"])
    assert files.read_bytes(path) == b"onetwo"
    assert bytes(files.map_file(path)) == b"onetwo"


def test_what_follows_a_line_that_is_too_long_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "LINE_BYTES_MAX", 200)
    good = lines(MADE, "a").splitlines(keepends=True)
    path = tmp_path / "a.jsonl"
    path.write_bytes(good[0] + b"x" * 950 + b"\n" + good[1])
    report = check_paths([path], keep_going=True)
    assert report.events == 2
    assert [(q.line, q.reason) for q in report.quarantined] == [(2, "longer than 200 bytes")]


def test_json_that_is_too_deep_is_set_aside(tmp_path):
    path = tmp_path / "a.jsonl"
    deep = b'{"payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    path.write_bytes(lines(MADE, "a") + deep)
    report = check_paths([path], keep_going=True)
    assert (report.events, report.quarantined_count) == (2, 1)


def test_a_null_among_recipients_is_set_aside(tmp_path):
    rows = [
        {"v": 1, "run": "r", "node": "a", "pos": pos, "kind": "send", "dot_node": "a",
         "dot_seq": pos + 1, "to": to}
        for pos, to in enumerate((["b"], ["b", None]))
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    report = check_paths([tmp_path], keep_going=True)
    assert report.events == 1
    assert [(q.line, q.reason) for q in report.quarantined] == [(2, "to: expected names")]


def test_two_may_write_one_file_at_the_same_time(tmp_path):
    path = str(tmp_path / "kept")

    def while_another_writes():
        yield b"same"
        files.write_file(path, [b"same"])

    files.write_file(path, while_another_writes())
    assert files.read_bytes(path) == b"same"
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


def test_what_is_below_a_folder():
    assert files.is_below("runs/one/a", "runs/one")
    assert files.is_below("runs/one/a", "runs/one/")
    assert not files.is_below("runs/one", "runs/one")
    assert not files.is_below("runs/one-more/a", "runs/one")
    assert files.is_below("what?/a", "what?")
    assert files.is_below("s3://bucket/runs/a?region=x", "s3://bucket/runs?region=x")
    assert not files.is_below("s3://bucket/runs?region=x", "s3://bucket/runs?region=x")


def test_the_parent_of_a_path():
    assert files.parent("runs/one/a.jsonl") == "runs/one"
    assert files.parent("s3://bucket/runs/a?region=x") == "s3://bucket/runs?region=x"
    assert files.parent("s3://bucket/runs?region=x") == "s3://bucket?region=x"
    for top in ("s3://bucket?region=x", "hdfs://host:9000", "hdfs://host:9000/", "s3://bucket/"):
        assert files.is_url(files.parent(top))
        assert files.parent(top).rstrip("/") == top.rstrip("/")


def test_a_path_that_tasks_can_use(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert files.absolute("runs") == str(tmp_path / "runs")
    assert files.absolute(tmp_path / "runs") == str(tmp_path / "runs")
    assert files.absolute("s3://bucket/runs") == "s3://bucket/runs"
