"""What the online checker holds: bounded by what is not stable, and exact in a dump."""

from __future__ import annotations

from statistics import mean

import msgspec
import pytest

import thence.trace.online as online
from tests.trace.faults import found_by_checker, info, records
from tests.trace.test_online import as_found
from thence.errors import LocalProtocolError, UnusableInputError
from thence.sim.run import SimulationOptions, run_info, simulate
from thence.sim.workload import WorkloadOptions
from thence.trace.check import check_run
from thence.trace.columns import gather_runs
from thence.trace.online import OnlineChecker
from thence.trace.record import Record, RunInfo
from thence.trace.segments import part_of_records
from thence.trace.writer import RunWriter

FEED = 500


class Collected(RunWriter):
    """The records of a simulation in the order in which they were logged."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.logs: dict[str, CollectedLog] = {}

    def log(self, node: str):
        return self.logs.setdefault(node, CollectedLog(node, self.records))


class CollectedLog:
    def __init__(self, node: str, made: list[Record]) -> None:
        self.node, self.made, self.pos, self.ended = node, made, 0, False

    def append(self, kind, t_us, dot=None, context=None, *more, **others) -> int:
        context = None if context is None else tuple(context)
        self.made.append(
            Record(run="r", node=self.node, pos=self.pos, kind=kind, dot=dot, context=context)
        )
        self.pos += 1
        return self.pos - 1


def simulated(messages: int, **more) -> tuple[list[Record], RunInfo]:
    """A correct run of four nodes, each of which sends so many messages."""
    phantom_ms = more.pop("phantom_ms", 0.0)
    workload = WorkloadOptions(messages=messages, phantom_ms=phantom_ms)
    options = SimulationOptions(nodes=4, workload=workload, **more)
    trace = Collected()
    simulate(options, trace, check=False)
    about = msgspec.structs.replace(run_info(options), run="r", complete=True)
    return trace.records, about


def held(made: list[Record], about: RunInfo, retain: int = 8) -> list[tuple[int, int]]:
    """(messages kept, bytes of the dump) after each feed."""
    checker = OnlineChecker("r", about, retain=retain)
    sizes = []
    for at in range(0, len(made), FEED):
        assert checker.feed(made[at : at + FEED]) == []
        sizes.append((checker.counters().dots, len(checker.dump())))
    assert checker.close(about) == []
    assert not checker.needs_batch
    return sizes


@pytest.mark.parametrize("phantom_ms", [0.0, 20.0])
def test_what_is_held_stays_flat_while_the_run_grows_twenty_times(phantom_ms: float):
    """On average; extremes are rarer in a short run.  In a dump large numbers are longer."""
    short, long = (held(*simulated(count, phantom_ms=phantom_ms)) for count in (50, 1000))
    assert len(long) > 18 * len(short)
    for which in (0, 1):
        assert mean(size[which] for size in long) < 2 * mean(size[which] for size in short)


def test_without_stability_a_message_is_forgotten_when_everyone_has_it():
    made, about = simulated(500)
    plain = [record for record in made if record.kind != "stable"]
    positions: dict[str, int] = {}
    dense = []
    for record in plain:
        pos = positions[record.node] = positions.get(record.node, -1) + 1
        dense.append(msgspec.structs.replace(record, pos=pos))
    sizes = held(dense, msgspec.structs.replace(about, stability=False))
    assert max(dots for dots, _ in sizes) < 200


def test_a_member_that_is_never_told_holds_everything():
    made, about = simulated(100)
    quiet = [r for r in made if not (r.node == "b" and r.kind == "stable")]
    dense, pos = [], 0
    for record in quiet:
        if record.node == "b":
            record = msgspec.structs.replace(record, pos=pos)
            pos += 1
        dense.append(record)
    checker = OnlineChecker("r", about, retain=1)
    checker.feed(dense)
    assert checker.counters().dots == 400
    found = checker.close(about)
    assert {v.rule for v in found} == {"stable-missing"}


def test_a_hole_that_a_snapshot_covers_is_not_counted_number_by_number():
    # A million violations, and 500 MB, came of these five records.
    made = records(a="send a:1; send a:1000000 < a:1; end", b="snapshot < a:1000000; end")
    about = info("a", "b", tags="none")
    checker = OnlineChecker("r", about)
    found = as_found(checker.feed(made) + checker.close(about))
    assert not checker.needs_batch
    untold = [("b", 2, "stable-missing", ("a", seq), None) for seq in (1, 1_000_000)]
    assert found == [("a", 1, "send-gap", ("a", 1_000_000), ("a", 2)), *untold]
    assert found_by_checker(made, about) == found


def test_the_rest_of_a_whole_check_is_what_was_not_told():
    about = info("a", "b", complete=False)
    made = records(
        a="send a:1; send a:3 < a:1; send a:2 < a:3", b="deliver a:3; deliver a:1; deliver a:1"
    )
    checker = OnlineChecker("r", about)
    told = checker.feed(made) + checker.close(about)
    assert checker.needs_batch
    whole = check_run(gather_runs([part_of_records(made)], about.members)[0], about).violations
    rest, denied = checker.rest_of(whole)
    assert sorted(told + rest) == sorted(whole)
    assert (denied, bool(told), bool(rest)) == (0, True, True)
    assert checker.rest_of(whole) == ([], 0)


def test_a_run_json_that_changes_needs_the_whole_run_and_says_what_no_longer_holds():
    made = records(a="send a:1; stable a:1", b="deliver a:1; send b:1 < a:1")
    checker = OnlineChecker("r", info("a", "b"))
    assert [v.rule for v in checker.feed(made)] == ["stable-early"]
    assert checker.close(info("a")) == []
    assert "run.json" in checker.needs_batch
    assert checker.rest_of([]) == ([], 1)


def test_records_wait_until_it_is_known_who_the_members_are():
    made = records(a="send a:1; stable a:1", b="deliver a:1; send b:1 < a:1")
    checker = OnlineChecker("r")
    assert checker.feed(made) == []
    assert [v.rule for v in checker.begin(info("a", "b"))] == ["stable-early"]


def test_more_waiting_records_than_the_limit_need_the_whole_run(monkeypatch):
    monkeypatch.setattr(online, "WAITING_RECORDS_MAX", 3)
    checker = OnlineChecker("r", info("a", "b"))
    assert checker.feed(records(b="deliver a:1; deliver a:2; deliver a:3; deliver a:4")) == []
    assert checker.needs_batch == "more than 3 records wait for others"
    assert checker.counters().waiting == 0, "nothing is kept any more"


def test_more_unstable_messages_than_the_limit_need_the_whole_run(monkeypatch):
    monkeypatch.setattr(online, "VECTOR_ENTRIES_MAX", 2)
    checker = OnlineChecker("r", info("a", "b"))
    checker.feed(records(a="send a:1; send a:2 < a:1; send a:3 < a:2"))
    assert checker.needs_batch == "3 messages are not stable everywhere"


def test_more_undecided_violations_than_the_limit_need_the_whole_run(monkeypatch):
    monkeypatch.setattr(online, "PENDING_MAX", 1)
    checker = OnlineChecker("r", info("a", "b"))
    checker.feed(records(a="send a:1; stable a:1; send a:2 < a:1; stable a:2"))
    assert checker.needs_batch == "more than 1 violations are undecided"


def test_more_violations_than_the_limit_wait_for_the_end_of_the_run(monkeypatch):
    monkeypatch.setattr(online, "TOLD_MAX", 2)
    checker = OnlineChecker("r", info("a", "b"))
    first = checker.feed(records(b="deliver b:1; deliver b:2; deliver b:3"))
    assert [v.rule for v in first] == ["deliver-own"] * 3
    assert checker.needs_batch == "more than 2 violations were told"
    assert checker.counters().told == 3
    rest, denied = checker.rest_of([*first, *first[:0]])
    assert (rest, denied) == ([], 0), "and none of them comes again"


def test_a_dump_goes_on_where_it_was():
    about = info("a", "b")
    made = records(a="send a:1; send a:2 < a:1; stable a:2; end", b="deliver a:2; deliver a:1; end")
    whole = OnlineChecker("r", about)
    expected = [v for record in made for v in whole.feed([record])] + whole.close(about)
    checker, told = OnlineChecker("r", about), []
    for record in made:
        told += checker.feed([record])
        data = checker.dump()
        checker = OnlineChecker.load(data)
        assert checker.dump() == data
    assert told + checker.close(about) == expected
    assert expected


def test_a_dump_of_another_version_is_refused_in_one_sentence():
    data = msgspec.msgpack.decode(OnlineChecker("r").dump())
    data["v"] = 99
    with pytest.raises(UnusableInputError, match="version 99"):
        OnlineChecker.load(msgspec.msgpack.encode(data))
    with pytest.raises(UnusableInputError, match="no state of the online checker"):
        OnlineChecker.load(b"nonsense")


def test_a_closed_run_takes_nothing_more():
    checker = OnlineChecker("r", info("a"))
    checker.close(info("a"))
    assert checker.closed
    assert checker.close(info("a")) == []
    with pytest.raises(LocalProtocolError, match="closed"):
        checker.feed([])
    with pytest.raises(LocalProtocolError, match="at least 1"):
        OnlineChecker("r", retain=0)
