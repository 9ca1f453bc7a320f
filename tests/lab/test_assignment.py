"""A run on many workers, without sockets: what the coordinator does, and what it does not take."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from thence.errors import UnusableInputError
from thence.lab.assignment import ANSWER_S, Assignment, Effects, Seat, deal
from thence.lab.orders import GroupOrders, NodeOrders
from thence.lab.watch import STALL_S, Counts
from thence.lab.worker_messages import (
    FILES_MAX,
    PIECE_BYTES,
    RUN_BYTES_MAX,
    Drop,
    Failed,
    Fetch,
    FromWorker,
    LogFile,
    Piece,
    Prepare,
    Prepared,
    Start,
    Stop,
    Stopped,
    Told,
)

RUN = 7
ORDERS = GroupOrders(
    group="g", nodes=tuple(NodeOrders(name=name, send=1) for name in "abc"), engine="tagged",
    interval_ms=1.0, seed=1, sample_ms=100.0,
)  # fmt: skip
WORKERS = {"w1": Seat("10.0.0.1", 64), "w2": Seat("10.0.0.2", 64)}
ALL = Counts(1, 2, 3)
LOG = b"x" * (PIECE_BYTES + 10)


def log(name: str, data: bytes = LOG) -> LogFile:
    return LogFile(name, len(data), hashlib.sha256(data).digest())


class Lab:
    """An assignment, and what it wants done."""

    def __init__(self) -> None:
        self.it = Assignment(RUN, ORDERS, WORKERS, 0.0)
        self.now = 0.0
        self.sent: list[tuple[str, Any]] = []
        self.written: dict[str, bytes] = {}
        self.whole: list[str] = []
        self._do(self.it.begin)

    def _do(self, step: Any, *given: Any) -> None:
        out = Effects()
        step(*given, out)
        self.sent = list(out.send)
        for write in out.write:
            self.written[write.file] = self.written.get(write.file, b"") + write.data
            if write.is_last:
                self.whole.append(write.file)

    def say(self, worker: str, message: FromWorker) -> None:
        self._do(self.it.receive, worker, message, self.now)

    def tick(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self._do(self.it.tick, self.now)

    # How far a run is that goes well.

    def running(self) -> Lab:
        self.say("w1", Prepared(RUN, {"a": 7001, "c": 7002}))
        self.say("w2", Prepared(RUN, {"b": 7001}))
        return self

    def stopping(self) -> Lab:
        self.running()
        self.say("w1", Told(RUN, {"a": ALL, "c": ALL}))
        self.say("w2", Told(RUN, {"b": ALL}))
        self.tick()
        return self

    def sending(self) -> Lab:
        self.stopping()
        self.say("w1", Stopped(RUN, (log("a-000000.parquet"), log("c-000000.parquet"))))
        return self


def test_nodes_are_dealt_out_in_turn_while_there_are_seats():
    names = list("abcdef")
    assert deal(names, {"w1": Seat("", 9), "w2": Seat("", 9)}) == {"w1": list("ace"),
                                                                  "w2": list("bdf")}  # fmt: skip
    assert deal(names, {"w1": Seat("", 1), "w2": Seat("", 9)}) == {"w1": ["a"],
                                                                  "w2": list("bcdef")}  # fmt: skip
    assert deal(["a"], {"w1": Seat("", 9), "w2": Seat("", 9)}) == {"w1": ["a"]}
    with pytest.raises(UnusableInputError, match="6 nodes need seats, and the workers have 5"):
        deal(names, {"w1": Seat("", 5)})


def test_a_run_that_goes_well():
    lab = Lab()
    assert [(to, each.names) for to, each in lab.sent if isinstance(each, Prepare)] == [
        ("w1", ("a", "c")), ("w2", ("b",)),
    ]  # fmt: skip
    lab.say("w1", Prepared(RUN, {"a": 7001, "c": 7002}))
    assert lab.sent == []
    lab.say("w2", Prepared(RUN, {"b": 7001}))
    addresses = {
        "a": "tcp://10.0.0.1:7001", "b": "tcp://10.0.0.2:7001", "c": "tcp://10.0.0.1:7002",
    }  # fmt: skip
    assert lab.sent == [("w1", Start(RUN, addresses)), ("w2", Start(RUN, addresses))]
    lab.say("w1", Told(RUN, {"a": ALL}))
    lab.say("w2", Told(RUN, {"b": ALL}))
    lab.tick()
    assert lab.sent == [], "c is not done"
    assert lab.it.delivered == 4
    lab.say("w1", Told(RUN, {"a": ALL, "c": ALL}))
    lab.tick()
    assert lab.sent == [("w1", Stop(RUN)), ("w2", Stop(RUN))]
    lab.say("w1", Stopped(RUN, (log("a-000000.parquet"), log("c-000000.parquet", b"z"))))
    assert lab.sent == [("w1", Fetch(RUN, "a-000000.parquet", 0))]
    lab.say("w1", Piece(RUN, "a-000000.parquet", 0, LOG[:PIECE_BYTES]))
    assert lab.sent == [("w1", Fetch(RUN, "a-000000.parquet", PIECE_BYTES))]
    assert lab.whole == []
    lab.say("w1", Piece(RUN, "a-000000.parquet", PIECE_BYTES, LOG[PIECE_BYTES:]))
    assert lab.sent == [("w1", Fetch(RUN, "c-000000.parquet", 0))]
    lab.say("w1", Piece(RUN, "c-000000.parquet", 0, b"z"))
    assert not lab.it.is_done
    lab.say("w2", Stopped(RUN, (log("b-000000.parquet", b"y"),)))
    lab.say("w2", Piece(RUN, "b-000000.parquet", 0, b"y"))
    assert lab.it.is_done
    assert not lab.it.failed
    assert lab.written == {"a-000000.parquet": LOG, "b-000000.parquet": b"y",
                           "c-000000.parquet": b"z"}  # fmt: skip
    out = Effects()
    lab.it.drop(out)
    assert out.send == [("w1", Drop(RUN)), ("w2", Drop(RUN))]


def test_a_worker_that_is_lost_fails_the_run_by_name():
    lab = Lab().running()
    lab.it.lost("w2", "it closed the connection")
    assert lab.it.failed == "worker w2 is gone in the middle of g: it closed the connection"
    assert not lab.it.bad
    lab.say("w1", Told(RUN, {"x": ALL}))
    assert "w2" in lab.it.failed, "the first reason stays"


def test_a_worker_that_is_lost_after_its_logs_are_here_does_no_harm():
    lab = Lab().sending()
    lab.say("w2", Stopped(RUN, (log("b-000000.parquet", b"y"),)))
    lab.say("w2", Piece(RUN, "b-000000.parquet", 0, b"y"))
    lab.it.lost("w2", "")
    assert not lab.it.failed


def test_a_node_that_fails_fails_the_run():
    lab = Lab().running()
    lab.say("w2", Failed(RUN, "node b ended with exit code 2" + "!" * 9999))
    assert lab.it.failed.startswith("worker w2: node b ended with exit code 2!")
    assert len(lab.it.failed) < 3000


def test_what_a_worker_says_has_no_say_in_a_terminal():
    lab = Lab().running()
    lab.say("w2", Failed(RUN, "\x1b[2Jnothing\nhappened"))
    assert lab.it.failed == r"worker w2: '\x1b[2Jnothing\nhappened'"


def test_what_is_late_of_a_former_run_is_not_heard():
    lab = Lab()
    lab.say("w1", Failed(RUN - 1, "old"))
    lab.say("w1", Told(RUN - 1, {"x": ALL}))
    lab.say("stranger", Failed(RUN, "who is this"))
    assert not lab.it.failed


@pytest.mark.parametrize("stage", ["prepare", "stop", "send"])
def test_a_worker_that_does_not_answer_fails_the_run(stage: str):
    lab = {"prepare": Lab, "stop": Lab().stopping, "send": Lab().sending}[stage]()
    lab.tick(ANSWER_S)
    assert not lab.it.failed
    lab.tick(0.1)
    assert "did not answer within" in lab.it.failed
    assert not lab.sent


def test_a_group_without_progress_fails_the_run():
    lab = Lab().running()
    lab.tick(STALL_S + 1)
    assert "no progress" in lab.it.failed


HUGE = RUN_BYTES_MAX // 2 + 1
MANY = tuple(log(f"b-{number:06d}.parquet") for number in range(FILES_MAX + 1))
FILES: list[tuple[tuple[LogFile, ...], str]] = [
    ((log("../b-000000.parquet"),), "no log of a node of its own"),
    ((log("/etc/passwd"),), "no log of a node of its own"),
    ((log("a-000000.parquet"),), "no log of a node of its own"),
    ((log("b/x-000000.parquet"),), "no log of a node of its own"),
    ((log("b-000000.parquet\n"),), "no log of a node of its own"),
    ((log("b-٠٠٠٠٠٠.parquet"),), "no log of a node of its own"),
    ((log("run.json"),), "no log of a node of its own"),
    ((log("b-000000.jsonl"),), "no log of a node of its own"),
    ((log("b-000000.parquet"), log("b-000000.parquet")), "is there twice"),
    ((LogFile("b-000000.parquet", 0, b""),), "no bytes"),
    ((LogFile("b-000000.parquet", -5, b""),), "no bytes"),
    ((LogFile("b-000000.parquet", HUGE, b""), LogFile("b-000001.parquet", HUGE, b"")), "larger"),
    (MANY, "at most"),
    ((), "no log of b"),
]


@pytest.mark.parametrize(("files", "why"), FILES)
def test_only_logs_of_its_own_nodes_are_taken_from_a_worker(files: tuple[LogFile, ...], why: str):
    lab = Lab().stopping()
    lab.say("w2", Stopped(RUN, files))
    assert why in lab.it.failed
    assert lab.it.failed.startswith("worker w2 broke the rules: ")
    assert lab.it.bad == "w2"
    assert not lab.sent


FIRST = LOG[:PIECE_BYTES]
PIECES: list[tuple[list[FromWorker], str]] = [
    ([Piece(RUN, "c-000000.parquet", 0, FIRST)], "another piece"),
    ([Piece(RUN, "a-000000.parquet", 1, FIRST)], "another piece"),
    ([Piece(RUN, "a-000000.parquet", 0, FIRST[:-1])], "wrong size"),
    ([Piece(RUN, "a-000000.parquet", 0, LOG)], "wrong size"),
    ([Piece(RUN, "a-000000.parquet", 0, FIRST)] * 2, "another piece"),
    ([Piece(RUN, "a-000000.parquet", 0, FIRST),
      Piece(RUN, "a-000000.parquet", PIECE_BYTES, b"y" * 10)], "another checksum"),
    ([Stopped(RUN, (log("a-000000.parquet"),))], "not asked to stop"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "why"), PIECES)
def test_only_the_piece_that_was_asked_for_is_taken(said: list[FromWorker], why: str):
    lab = Lab().sending()
    for each in said:
        lab.say("w1", each)
    assert why in lab.it.failed
    assert lab.it.bad == "w1"
    assert lab.whole == []


EARLY: list[tuple[FromWorker, str]] = [
    (Told(RUN, {"a": ALL}), "not started"),
    (Stopped(RUN, ()), "not asked to stop"),
    (Piece(RUN, "a-000000.parquet", 0, b""), "nobody asked for"),
    (Prepared(RUN, {"a": 1}), "other nodes"),
    (Prepared(RUN, {"a": 1, "b": 2}), "other nodes"),
    (Prepared(RUN, {"a": 1, "c": 0}), "ports"),
    (Prepared(RUN, {"a": 1, "c": 65536}), "ports"),
    (Told(RUN + 1, {}), "a run that there is not"),
]


@pytest.mark.parametrize(("said", "why"), EARLY)
def test_what_was_not_asked_for_fails_the_run(said: FromWorker, why: str):
    lab = Lab()
    lab.say("w1", said)
    assert why in lab.it.failed


@pytest.mark.parametrize(
    ("said", "why"),
    [(Told(RUN, {"b": ALL}), "not its own"), (Told(RUN, {"a": Counts(-1, 0, 0)}), "less than"),
     (Prepared(RUN, {"a": 1, "c": 2}), "not asked to prepare")],
)  # fmt: skip
def test_a_worker_tells_of_its_own_nodes_only(said: FromWorker, why: str):
    lab = Lab().running()
    lab.say("w1", said)
    assert why in lab.it.failed
