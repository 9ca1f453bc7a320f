"""ShiViz logs become traces in which "happens before" is what the clocks say."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.test_ingest import quarantined, rows_of, snapshot
from thence.errors import UnusableInputError
from thence.pipeline.importers import IMPORTERS, shiviz, shiviz_clocks, text_importer
from thence.pipeline.importers.shiviz_expression import compile_expression
from thence.pipeline.ingest import ingest
from thence.pipeline.tables import EVENTS
from thence.trace.check import check_paths
from thence.trace.reader import read_records
from thence.trace.record import Record, RunInfo, info_to_json, record_to_json
from thence.trace.verdict import Report

DATA = Path(__file__).parent.parent / "data" / "shiviz"
AKKA = (
    r"\[\w+\] \[(?<date>([^ ]+ [^ ]+))\] [^ ]+ \[akka://Broadcast/user/(?<host>\w+)\] "
    r"(?<clock>.*\}) (?<event>.*)"
)
CHORD = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"
# name: expression, events, hosts, lines that no match covers
LOGS: dict[str, tuple[str, int, int, list[int]]] = {
    "simple-reliable-broadcast.log": (AKKA, 39, 3, []),
    # Line 8: "was not delivered. [1] dead letters encountered", a message without a clock.
    "reliable-broadcast.log": (AKKA, 116, 4, [8]),
    "chord.log": (CHORD, 1235, 8, []),
    "simpledb.log": (r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})", 509, 5, []),
}
PLAIN = r"(?<host>\w+) (?<clock>\{.*?\}) (?<event>.*)"
Clocks = dict[tuple[str, int], dict[str, int]]


class Kept:
    """What an importer gives, in lists."""

    def __init__(self) -> None:
        self.infos: list[RunInfo] = []
        self.records: list[Record] = []
        self.lines: list[int] = []
        self.taken: list[int] = []
        self.aside: list[tuple[int, str]] = []
        self.remarks: list[tuple[int, str]] = []

    def run(self, info: RunInfo) -> None:
        self.infos.append(info)

    def record(self, record: Record) -> None:
        self.records.append(record)

    def found(self, line: int) -> None:
        self.lines.append(line)

    def took(self, line: int) -> None:
        self.taken.append(line)

    def set_aside(self, line: int, reason: str, text: str, run: str | None = None) -> None:
        self.aside.append((line, reason))

    def remark(self, line: int, reason: str) -> None:
        self.remarks.append((line, reason))


def translated(text: str, expression: str = PLAIN, **more: str) -> Kept:
    """A text through the importer; what it found is taken or set aside."""
    kept = Kept()
    shiviz.translate(text, "log", {"expression": expression, **more}, kept)
    assert len(kept.lines) == len(kept.taken) + len(kept.aside)
    return kept


def checked(kept: Kept, folder: Path) -> Report:
    """What the checker says of the trace."""
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_bytes(info_to_json(kept.infos[0]))
    (folder / "a.jsonl").write_bytes(b"\n".join(map(record_to_json, kept.records)))
    return check_paths([folder])


def pasts_of(records: list[Record]) -> Clocks:
    """The past of every send by the definition of the trace reference, each dot in its own."""
    logs: dict[str, list[Record]] = {}
    for each in records:
        logs.setdefault(each.node, []).append(each)
    at = dict.fromkeys(logs, 0)
    taken: dict[str, dict[str, int]] = {node: {} for node in logs}
    found: Clocks = {}
    while any(at[node] < len(log) for node, log in logs.items()):
        before = sum(at.values())
        for node, log in logs.items():
            while at[node] < len(log):
                each = log[at[node]]
                assert each.dot is not None
                dot = (each.dot.node, each.dot.seq)
                if each.kind == "deliver":
                    if dot not in found:
                        break
                    for name, seq in found[dot].items():
                        taken[node][name] = max(seq, taken[node].get(name, 0))
                else:
                    taken[node][dot[0]] = dot[1]
                    found[dot] = dict(taken[node])
                at[node] += 1
        assert sum(at.values()) > before, "the deliveries wait for each other"
    return found


def clocks_in(text: str, expression: str) -> Clocks:
    """The clocks as they stand in the text."""
    pattern = compile_expression(expression, "expression")
    return {
        (found["host"], json.loads(found["clock"])[found["host"]]): json.loads(found["clock"])
        for found in pattern.finditer(text)
    }


def less(one: dict[str, int], other: dict[str, int]) -> bool:
    """Whether one clock is before another."""
    return one != other and all(seq <= other.get(name, 0) for name, seq in one.items())


@pytest.mark.parametrize("name", LOGS)
def test_a_real_log_is_imported_whole_and_breaks_no_rule(tmp_path: Path, name: str):
    """All four are clean: their clocks are those of a correct implementation."""
    expression, events, hosts, uncovered = LOGS[name]
    report = ingest(
        None, [DATA / name], tmp_path, importer="shiviz", settings={"expression": expression}
    )
    assert (report.taken, report.nodes, report.quarantined) == (events, hosts, len(uncovered))
    assert report.runs == (name.removesuffix(".log"),)
    assert report.remarks_count == 0
    assert [line for _, line, *_ in quarantined(tmp_path)] == uncovered
    verdict = check_paths([tmp_path / EVENTS])
    assert verdict.ok
    assert verdict.events == report.events
    records = list(read_records([tmp_path / EVENTS]))
    assert sum(each.kind == "send" for each in records) == events


@pytest.mark.parametrize("name", LOGS)
def test_happens_before_in_the_trace_is_the_order_of_the_clocks(name: str):
    text = (DATA / name).read_text()
    clocks = clocks_in(text, LOGS[name][0])
    pasts = pasts_of(translated(text, LOGS[name][0]).records)
    assert set(pasts) == set(clocks)
    rng = random.Random(name)
    dots = sorted(clocks)
    for _ in range(3000):
        one, other = rng.choice(dots), rng.choice(dots)
        before = one != other and pasts[other].get(one[0], 0) >= one[1]
        assert before == less(clocks[one], clocks[other])


@pytest.mark.parametrize("name", LOGS)
def test_contexts_are_the_maximal_dots_before_an_event(name: str):
    """By brute force over all events before it; a sample of the larger logs."""
    text = (DATA / name).read_text()
    clocks = clocks_in(text, LOGS[name][0])
    sends = [each for each in translated(text, LOGS[name][0]).records if each.kind == "send"]
    for each in random.Random(name).sample(sends, min(len(sends), 15)):
        assert each.dot is not None
        mine = clocks[each.dot.node, each.dot.seq]
        before = [dot for dot, clock in clocks.items() if less(clock, mine)]
        latest = {
            dot for dot in before if not any(less(clocks[dot], clocks[other]) for other in before)
        }
        assert {(dot.node, dot.seq) for dot in each.context or ()} == latest


def test_the_run_says_what_it_is_and_events_keep_what_was_found(tmp_path: Path):
    name = "simple-reliable-broadcast.log"
    settings_ = {"expression": AKKA}
    ingest(None, [DATA / name], tmp_path, importer="shiviz", settings=settings_)
    (folder,) = (tmp_path / EVENTS).iterdir()
    info = json.loads((folder / "_run.json").read_bytes())
    assert info["members"] == ["node0", "node1", "node2"]
    assert (info["guarantee"], info["tags"]) == ("causal", "exact")
    assert (info["stability"], info["complete"]) == (False, False)
    assert info["scenario"]["importer"] == "shiviz"
    assert info["scenario"]["source"] == "simple-reliable-broadcast"
    (first, *_) = [row for row in rows_of(tmp_path) if row["kind"] == "send"]
    assert json.loads(first["payload"]) == "Initiating RBBroadcast(DataMessage(1,Message1))"
    assert json.loads(first["extra"]) == {"line": 1, "date": "10/13/2014 14:37:20.543"}


def log_of(*events: str) -> str:
    return "".join(f"{event}\n" for event in events)


def test_an_event_delivers_what_its_clock_names_for_the_first_time():
    text = log_of('a {"a":1} one', 'b {"b":1, "a":1} two', 'c {"c":1, "b":1, "a":1} three')
    found = [
        (each.node, each.pos, each.kind, str(each.dot), [str(dot) for dot in each.context or ()])
        for each in translated(text).records
    ]
    assert found == [
        ("a", 0, "send", "a:1", []),
        ("b", 0, "deliver", "a:1", []),
        ("b", 1, "send", "b:1", ["a:1"]),
        ("c", 0, "deliver", "a:1", []),
        ("c", 1, "deliver", "b:1", []),
        ("c", 2, "send", "c:1", ["b:1"]),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('a {"a":} x', "clock: expected a JSON object of numbers"),
        ('a {"a":"1"} x', "clock: expected a JSON object of numbers"),
        ('a {"a":1.5} x', "clock: expected a JSON object of numbers"),
        ('a {"b":1} x', "clock: no entry of its own host 'a'"),
        ('a {"a":0} x', "clock: the entry of its own host 'a' is 0"),
        ('a {"a":1, "b":-1} x', "clock: expected entries from 0 to 2**40-1, got -1 for 'b'"),
        ('a {"a":1099511627776} x', "clock: expected entries from 0 to 2**40-1"),
        ('a {"a":1, "":1} x', "host: expected a name, got ''"),
        ('b {"b":1} x', "clock: b:1 is already the event of line 1"),
        ('b {"b":20000} x', "clock: the own entry goes from 1 to 20000, more than 10000"),
        ("nothing of the sort", "no match of the expression covers this line"),
    ],
)
def test_what_has_no_place_in_a_trace_is_set_aside(tmp_path: Path, line: str, reason: str):
    kept = translated(log_of('b {"b":1} first', line))
    assert len(kept.aside) == 1
    assert kept.aside[0][0] == 2
    assert kept.aside[0][1].startswith(reason)
    assert len(kept.records) == 1
    assert checked(kept, tmp_path).ok


def test_a_missing_event_is_reported_by_the_check_where_it_is_missed(tmp_path: Path):
    """Line 2 of the log got lost: a:2 was never sent, and b and c took it."""
    text = log_of(
        'a {"a":1} x',
        'a {"a":3} x',
        'b {"b":1, "a":3} x',
        'c {"c":1, "a":2} x',
        'b {"b":2, "a":3} y',
    )
    kept = translated(text)
    assert kept.remarks == [(2, "the own entry goes from 1 to 3")]
    report = checked(kept, tmp_path)
    found = [(each.node, each.rule, str(each.dot)) for each in report.violations]
    assert found == [
        ("a", "send-gap", "a:3"),
        ("b", "deliver-unsent", "a:2"),
        ("c", "deliver-unsent", "a:2"),
    ]


def test_an_entry_that_goes_backwards_takes_nothing_back(tmp_path: Path):
    text = log_of('b {"b":1} x', 'b {"b":2} x', 'a {"a":1, "b":2} x', 'a {"a":2, "b":1} x',
                  'a {"a":3} x')  # fmt: skip
    kept = translated(text)
    assert kept.remarks == [
        (4, "the entry of b goes from 2 to 1"),
        (5, "the entry of b goes from 1 to 0"),
    ]
    assert not kept.aside
    assert checked(kept, tmp_path).ok


def test_events_after_the_end_of_a_log_are_remarked_and_not_delivered(tmp_path: Path):
    text = log_of('b {"b":1} x', 'a {"a":1, "b":5, "z":2} x', 'a {"a":2, "b":5, "z":2} x')
    kept = translated(text)
    assert kept.remarks == [
        (2, "the clock names b:5, and the log of b ends with 1"),
        (2, "the clock names z:2, and the log has no events of z"),
    ]
    assert [str(each.dot) for each in kept.records if each.kind == "deliver"] == ["b:1"]
    assert checked(kept, tmp_path).ok


def test_a_clock_that_forgets_a_cause_is_found_by_the_check(tmp_path: Path):
    """c names b's event and not a's, which b had taken: no vector clock."""
    text = log_of('a {"a":1} x', 'b {"b":1, "a":1} x', 'c {"c":1, "b":1} x', 'c {"c":2, "b":1} x')
    kept = translated(text)
    assert kept.remarks == [(3, "the clock names b:1 and not a:1, which precedes it")]
    found = [
        (each.node, each.pos, each.rule, str(each.dot), str(each.missing))
        for each in checked(kept, tmp_path).violations
    ]
    assert found == [("c", 0, "deliver-early", "b:1", "a:1")]


def test_clocks_that_contradict_each_other_are_remarked_and_judged(tmp_path: Path):
    kept = translated(log_of('a {"a":1, "b":1} x', 'b {"b":1, "a":1} x', 'c {"c":1} x'))
    reason = "by the clocks, this event is in its own past"
    assert kept.remarks == [(1, reason), (2, reason)]
    assert not kept.aside
    assert not checked(kept, tmp_path).ok


def test_the_order_in_the_text_does_not_matter():
    lines = ['a {"a":1} x', 'b {"b":1, "a":2} x', 'a {"a":2} x', 'a {"a":3, "b":1} x']
    straight = translated(log_of(*lines)).records
    for seed in range(5):
        shuffled = random.Random(seed).sample(lines, len(lines))
        records = translated(log_of(*shuffled)).records
        assert [msg(each) for each in records] == [msg(each) for each in straight]


def msg(each: Record) -> tuple[Any, ...]:
    """A record without the line it came from."""
    return each.node, each.pos, each.kind, each.dot, each.context


def test_a_gap_that_is_too_wide_ends_the_log_of_its_host(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shiviz_clocks, "GAP_EVENTS_MAX", 2)
    text = log_of('a {"a":1} x', 'a {"a":5} x', 'a {"a":6} x', 'b {"b":1, "a":6} x')
    kept = translated(text)
    assert [line for line, _ in kept.aside] == [2, 3]
    assert kept.remarks == [(4, "the clock names a:6, and the log of a ends with 1")]


@st.composite
def executions(draw: st.DrawFn) -> list[tuple[str, dict[str, int]]]:
    """Events of a correct vector clock implementation, in the order in which they happened."""
    hosts = draw(st.sampled_from(["ab", "abc", "abcd"]))
    clocks: dict[str, dict[str, int]] = {host: {} for host in hosts}
    sent: list[dict[str, int]] = []
    events = []
    for host in draw(st.lists(st.sampled_from(hosts), min_size=1, max_size=30)):
        if sent and draw(st.booleans()):
            for name, seq in draw(st.sampled_from(sent)).items():
                clocks[host][name] = max(seq, clocks[host].get(name, 0))
        clocks[host][host] = clocks[host].get(host, 0) + 1
        sent.append(dict(clocks[host]))
        events.append((host, dict(clocks[host])))
    return events


@settings(max_examples=80)
@given(events=executions(), seed=st.integers(0, 99))
def test_correct_clocks_give_clean_traces_with_the_same_order(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, dict[str, int]]], seed: int
):
    lines = [f"{host} {json.dumps(clock)} x" for host, clock in events]
    random.Random(seed).shuffle(lines)
    kept = translated(log_of(*lines))
    assert not kept.aside
    assert not kept.remarks
    assert checked(kept, tmp_path_factory.mktemp("run")).ok
    clocks = {(host, clock[host]): clock for host, clock in events}
    assert pasts_of(kept.records) == clocks


@settings(max_examples=80)
@given(
    events=executions(),
    faults=st.lists(st.tuples(st.integers(0, 29), st.sampled_from("abcd"), st.integers(0, 9))),
)
def test_whatever_the_clocks_say_all_is_counted_and_the_rest_can_be_checked(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[str, dict[str, int]]],
    faults: list[tuple[int, str, int]],
):
    for at, host, value in faults:
        events[at % len(events)][1][host] = value
    kept = translated(log_of(*(f"{host} {json.dumps(clock)} x" for host, clock in events)))
    assert len(kept.taken) + len(kept.aside) == len(events)
    if kept.records:
        report = checked(kept, tmp_path_factory.mktemp("run"))
        # Contexts and positions are ours, so they are right whatever the clocks are; events that
        # are in their own past have none that is.
        rules = {"send-gap", "deliver-unsent", "deliver-early"}
        if any("in its own past" in reason for _, reason in kept.remarks):
            rules.add("context-wrong")
        assert set(report.counts) <= rules


def test_a_delimiter_makes_runs(tmp_path: Path):
    text = log_of('a {"a":1} x', "=== second ===", 'a {"a":1} y', "=== ===", "=== second ===",
                  'b {"b":1} z')  # fmt: skip
    kept = translated(text, delimiter=r"^=== (?<trace>\w+)? ?===$")
    assert [info.run for info in kept.infos] == ["log-1", "log-second", "log-second-3"]
    assert [(each.run, each.payload) for each in kept.records] == [
        ("log-1", "x"), ("log-second", "y"), ("log-second-3", "z")
    ]  # fmt: skip
    assert not kept.aside
    numbered = translated(text, delimiter="^===.*$")
    assert [info.run for info in numbered.infos] == ["log-1", "log-2", "log-3"]


def test_files_with_one_name_for_the_run_are_one_text(tmp_path: Path):
    """One log for each host, as tools write them: lines are those of each file."""
    (tmp_path / "a.log").write_text('a {"a":1} x\nnonsense\na {"a":2, "b":1} x')
    (tmp_path / "b.log").write_text('b {"b":1, "a":1} x\n\nmore nonsense\n')
    table = tmp_path / "table"
    given_ = {"importer": "shiviz", "settings": {"expression": PLAIN}, "run": "both"}
    report = ingest(None, [tmp_path / "a.log", tmp_path / "b.log"], table, **given_)
    assert (report.runs, report.taken, report.quarantined) == (("both",), 3, 2)
    found = [(file, line) for file, line, *_ in quarantined(table)]
    assert found == [("a.log", 2), ("b.log", 3)]
    assert check_paths([table / EVENTS]).ok
    before = snapshot(table)
    assert (
        ingest(None, [tmp_path / "a.log", tmp_path / "b.log"], table, **given_).segments_there == 2
    )
    (tmp_path / "c.log").write_text('c {"c":1} x')
    with pytest.raises(UnusableInputError, match=r"c\.log comes after other files of the run both"):
        ingest(None, [tmp_path], table, **given_)
    with pytest.raises(UnusableInputError, match=r"a\.log was ingested as shiviz"):
        ingest(None, [tmp_path / "a.log"], table, importer="shiviz", settings={"expression": CHORD})
    assert snapshot(table) == before


def test_another_import_under_a_name_that_is_taken_is_refused(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name).write_text(f'a {{"a":1}} {name}\n')
    given_ = {"importer": "shiviz", "settings": {"expression": PLAIN}, "run": "r"}
    ingest(None, [tmp_path / "one"], tmp_path / "table", **given_)
    with pytest.raises(UnusableInputError, match="both hold a log of a in the run r"):
        ingest(None, [tmp_path / "two"], tmp_path / "table", **given_)


def test_two_files_of_one_name_are_refused_before_anything_is_read(tmp_path: Path):
    (tmp_path / "x.log").write_text('a {"a":1} x')
    (tmp_path / "x.txt").write_text('a {"a":1} y')
    with pytest.raises(UnusableInputError, match="would both be the run x"):
        ingest(None, [tmp_path], tmp_path / "t", importer="shiviz", settings={"expression": PLAIN})


def test_an_expression_that_finds_nothing_leaves_the_file_for_a_better_one(tmp_path: Path):
    (tmp_path / "x.log").write_text('a {"a":1} x\r\nb {"b":1} y\r\n')
    paths, table = [tmp_path / "x.log"], tmp_path / "table"
    report = ingest(None, paths, table, importer="shiviz", settings={"expression": CHORD})
    assert (report.unreadable, report.events) == (1, 0)
    assert "finds no event; the text begins with 'a {" in report.listed[0].reason
    report = ingest(None, paths, table, importer="shiviz", settings={"expression": PLAIN})
    assert (report.taken, report.ok) == (2, True)
    assert not quarantined(table)


def test_hosts_with_slashes_become_nodes_and_not_streams(tmp_path: Path):
    kept = translated(
        'x/y {"x/y":1} e\nz {"z":1, "x/y":1} e\n', r"(?<host>\S+) (?<clock>{.*}) (?<event>.*)"
    )
    assert [each.node for each in kept.records] == ["x%2Fy", "z", "z"]
    assert checked(kept, tmp_path).ok


def test_groups_that_have_the_name_of_a_field_are_kept_apart():
    expression = r"(?<node>\d+) (?<host>\w+) (?<clock>{.*}) (?<event>.*)"
    (only,) = translated('7 a {"a":1} x\n', expression).records
    assert only.extra == {"line": 1, "node_": "7"}


def test_settings_that_do_not_exist_are_named():
    with pytest.raises(UnusableInputError, match="shiviz has no setting 'x'"):
        shiviz.check({"expression": PLAIN, "x": "1"})
    with pytest.raises(UnusableInputError, match="needs an expression"):
        shiviz.check({})
    with pytest.raises(UnusableInputError, match=r"no importer 'csv' for text: expected shiviz"):
        text_importer("csv")


def importer_files() -> Iterator[str]:
    folder = Path(shiviz.__file__).parent
    yield from (path.stem for path in folder.glob("*.py") if "_" not in path.stem)


def test_the_table_of_importers_is_the_folder():
    assert sorted(importer_files()) == sorted(IMPORTERS)
    assert {each.module.rpartition(".")[2] for each in IMPORTERS.values()} == set(IMPORTERS)
