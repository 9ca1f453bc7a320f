"""States of data types at cuts, against objects that are given exactly what is inside."""

from __future__ import annotations

import base64
import itertools
import json
import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.crdt.calls import CALLS, NODES, prepared
from tests.crdt.world import VectorStamp
from tests.pipeline.folded import same
from tests.pipeline.oracles import frame_of, kernel_table
from tests.seeds import seeds
from thence.crdt.base import Crdt
from thence.crdt.registry import CRDTS
from thence.errors import LocalProtocolError, UnusableInputError
from thence.pipeline import folds
from thence.pipeline.folding import ByKey
from thence.pipeline.folds import fold_named, materialise
from thence.pipeline.folds_crdt import TypeFold, key_text, op_of, readable

D = tuple[str, int]
Sent = tuple[str, tuple[Any, ...], VectorStamp]
"""Key, operation, stamp."""


class World:
    """Replicas of objects of one type under two keys, whose calls are payloads of a trace."""

    def __init__(self, kind: type[Crdt], seed: int, run: str = "r") -> None:
        self.kind = kind
        self.run = run
        self.draw = random.Random(seed)
        self.call = CALLS[kind.NAME](self.draw)
        self.names = NODES[: self.draw.randint(2, 4)]
        self.rows: list[dict[str, Any]] = []
        self.objects = {name: {key: kind() for key in "kl"} for name in self.names}
        self.past: dict[str, dict[str, int]] = {name: {} for name in self.names}
        self.sent: dict[D, Sent] = {}
        self.order: dict[str, list[D]] = {name: [] for name in self.names}
        """By log: what was sent or taken at each position."""
        for _ in range(40):
            name = self.draw.choice(self.names)
            if self.draw.random() < 0.4:
                self.send(name)
            else:
                self.deliver(name)

    def send(self, name: str) -> None:
        key = self.draw.choice("kl")
        at = self.objects[name][key]
        call = self.call(self.draw, at, name)
        if "inf" in repr(call):
            return  # JSON cannot say that
        try:
            op = prepared(at, call, name)
        except LocalProtocolError:
            return
        seq = self.past[name].get(name, 0) + 1
        stamp = VectorStamp(name, seq, 0, self.past[name])
        self.sent[name, seq] = (key, op, stamp)
        payload = json.dumps({"key": key, "op": said(call, self.draw)})
        self.log(name, "send", (name, seq), json.dumps(payload) if seq % 2 else payload)

    def deliver(self, name: str) -> None:
        past = self.past[name]
        ready = [
            dot
            for dot, (_, _, stamp) in self.sent.items()
            if dot[0] != name
            and past.get(dot[0], 0) == dot[1] - 1
            and all(past.get(o, 0) >= s for o, s in stamp.past.items() if o != dot[0])
        ]
        if ready:
            self.log(name, "deliver", self.draw.choice(ready), None)

    def log(self, name: str, kind: str, dot: D, payload: str | None) -> None:
        key, op, stamp = self.sent[dot]
        self.objects[name][key].effect(op, stamp)
        self.past[name][dot[0]] = dot[1]
        self.rows.append(
            {"run": self.run, "node": name, "pos": len(self.order[name]), "kind": kind,
             "dot_node": dot[0], "dot_seq": dot[1], "context": None, "t_us": 0, "payload": payload}
        )  # fmt: skip
        self.order[name].append(dot)

    def cut(self) -> dict[str, int]:
        """A consistent one: what some node had seen at some time, perhaps with another."""
        at: dict[str, int] = dict.fromkeys(self.names, -1)
        for name in self.draw.sample(self.names, self.draw.randint(1, 2)):
            upto = self.draw.randint(0, len(self.order[name]))
            for origin, seq in self.order[name][:upto]:
                at[origin] = max(at[origin], self.order[origin].index((origin, seq)))
        return at

    def inside(self, at: dict[str, int]) -> list[D]:
        """In a causal order that is not that of the fold."""
        dots = [dot for dot in self.sent if self.order[dot[0]].index(dot) <= at[dot[0]]]
        self.draw.shuffle(dots)
        return sorted(dots, key=lambda dot: sum(self.sent[dot][2].past.values()))

    def expected(self, at: dict[str, int]) -> dict[str, tuple[int, Any]]:
        found: dict[str, tuple[int, Crdt]] = {}
        for dot in self.inside(at):
            key, op, stamp = self.sent[dot]
            count, crdt = found.get(key, (0, self.kind()))
            crdt.effect(op, stamp)
            found[key] = (count + 1, crdt)
        return {key: (count, crdt.value()) for key, (count, crdt) in found.items()}


def said(call: Any, draw: random.Random) -> Any:
    """A call as JSON can say it, types by number or by name."""
    if isinstance(call, tuple) and len(call) == 4 and call[0] == "update":
        kind = next(found for found in CRDTS.values() if found.CODE == call[2])
        inner = said(call[3], draw)
        return ["update", said(call[1], draw), draw.choice((kind.CODE, kind.NAME)), inner]
    if isinstance(call, list | tuple):
        return [said(each, draw) for each in call]
    return {"base64": base64.b64encode(call).decode()} if isinstance(call, bytes) else call


def states(world: World, at: dict[str, int]) -> dict[str, tuple[int, Any]]:
    cut_table = pa.table({"node": [*at], "pos": pa.array(at.values(), pa.int64())})
    table = kernel_table(world.rows).rename_columns({"payload": "carried_0"})
    fold = ByKey(TypeFold(world.kind))
    rows = folds._rows_of_run("r", table, cut_table, fold).to_pylist()
    return {row["key"]: (row["operations"], json.loads(row["state"])) for row in rows}


def check(found: dict[str, tuple[int, Any]], expected: dict[str, tuple[int, Any]]) -> None:
    assert found.keys() == expected.keys()
    for key, (count, state) in found.items():
        assert count == expected[key][0]
        assert same(expected[key][1], state), (key, expected[key][1], state)


@pytest.mark.parametrize("name", CRDTS)
@pytest.mark.parametrize("block", [2, 1 << 12])
def test_a_type_shows_at_a_cut_what_a_replica_shows(
    name: str, block: int, monkeypatch: pytest.MonkeyPatch
):
    """With small blocks much is stable before the end."""
    monkeypatch.setattr(folds, "BLOCK", block)
    shown = 0
    for seed in seeds(6):
        world = World(CRDTS[name], seed)
        for _ in range(3):
            at = world.cut()
            found = states(world, at)
            check(found, world.expected(at))
            shown += len(found)
        if not world.rows:
            continue
        whole = {node: len(order) - 1 for node, order in world.order.items()}
        check(states(world, whole), world.expected(whole))
        for node, objects in world.objects.items():  # what they say themselves, of what they saw
            seen = {o: world.order[o].index((o, s)) for o, s in world.past[node].items()}
            own = states(world, dict.fromkeys(world.names, -1) | seen)
            for key, (_, state) in own.items():
                assert same(objects[key].value(), state)
    assert shown > 6


def test_types_are_folded_on_spark_by_their_names(spark: SparkSession):
    worlds = [World(CRDTS[name], 1, name) for name in ("map_rw", "sequence", "set_aw")]
    rows = list(itertools.chain.from_iterable(world.rows for world in worlds))
    events = frame_of(spark, rows)
    cuts = {world.run: world.cut() for world in worlds}
    at = spark.createDataFrame(
        [(run, node, pos) for run, cut in cuts.items() for node, pos in cut.items()],
        "run string, node string, pos long",
    )
    for world in worlds:
        of_run = events.where(events.run == world.run)
        found = materialise(of_run, at.where(at.run == world.run), fold=world.kind.NAME).collect()
        rows_found = {row.key: (row.operations, json.loads(row.state)) for row in found}
        check(rows_found, world.expected(cuts[world.run]))


# Calls.


@pytest.mark.parametrize(
    ("name", "call", "op"),
    [
        ("set_aw", ["add", "milk"], (0, "milk")),
        ("set_aw", ["add", {"base64": "/w=="}, 3.0], (0, b"\xff", 3)),
        ("counter_pn", ["inc"], (0, 1)),
        ("sequence", ["insert", 7, "x"], (0, 7, "x")),
        ("sequence", ["insert", 0, [{"base64": "eA=="}]], (0, 0, [b"x"])),
        ("counter_bounded", ["dec", 3], (1, 3)),
        ("counter_bounded", ["dec"], (1, 1)),
        ("counter_ranged", ["inc"], (0, 1)),
        ("map_uw", ["update", 2.0, "counter_resettable", ["inc"]], (0, 2, 7, (0, 1))),
        ("map_rw", ["update", "f", 3, ["remove", "g"]], (0, "f", 3, (1, "g"))),
        ("zset_uw", ["update", "m", "register_counter", ["set", 2]], (0, "m", 1, (0, 2))),
    ],
)
def test_a_call_is_an_operation_whatever_the_state_is(name: str, call: Any, op: Any):
    assert op_of(CRDTS[name], call) == op


def nested(depth: int) -> Any:
    call: Any = ["clear"]
    for _ in range(depth):
        call = ["update", "f", "map_uw", call]
    return call


@pytest.mark.parametrize(
    ("name", "call", "sentence"),
    [
        ("set_aw", "add", r"an operation is \[name, argument, ...\], not 'add'"),
        ("set_aw", [], r"an operation is \[name, argument"),
        ("set_aw", [0, "milk"], r"an operation is \[name, argument"),
        ("set_aw", None, r"an operation is \[name, argument"),
        ("set_aw", ["push", "milk"], "set_aw has no operation 'push'; it has add, remove, clear"),
        ("set_aw", ["add"], "set_aw.add: expected one element or more"),
        ("set_aw", ["add", ["milk"]], "set_aw.add: expected|an element is"),
        ("set_aw", ["add", {"x": 1}], "{'x': 1} is no argument: expected text or"),
        ("map_uw", ["update", "f", "counter_pn", ["inc"]], "counter_pn cannot be reset"),
        ("map_uw", ["update", "f", "nothing", ["inc"]], "no type is named nothing"),
        ("map_uw", nested(20), "at most 16 maps inside one another"),
        ("zset_uw", ["update", "m", "set_aw", ["add", 1]], "zset_uw.update: a member has a regi"),
    ],
)
def test_a_call_that_makes_no_sense_is_told(name: str, call: Any, sentence: str):
    with pytest.raises(LocalProtocolError, match=sentence):
        op_of(CRDTS[name], call)


def test_a_call_that_makes_no_sense_is_told_with_run_dot_and_key():
    world = World(CRDTS["set_aw"], 1)
    world.rows[0]["payload"] = '{"key": "k", "op": ["push", 1]}'
    first = f"{world.rows[0]['dot_node']}:1"
    with pytest.raises(UnusableInputError) as caught:
        states(world, {node: len(order) - 1 for node, order in world.order.items()})
    assert str(caught.value) == (
        f"run r: the fold set_aw failed at {first}, key 'k': LocalProtocolError: set_aw has no "
        "operation 'push'; it has add, remove, clear"
    )


def test_a_payload_without_a_call_is_told():
    fold = fold_named("set_aw")
    assert isinstance(fold, TypeFold)
    with pytest.raises(LocalProtocolError, match=r"not {'base64': 'aaaaaaa.*[.][.][.]$"):
        op_of(fold.kind, {"base64": "a" * 1000})


# Values.


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"b", b"a", 3, 2.5, -1, b"\xff"}, [-1, 2.5, 3, "a", "b", {"base64": "/w=="}]),
        ({"f": {1, 2}, 7: b"x", b"\xff": None}, {"7": "x", "f": [1, 2], '{"base64":"/w=="}': None}),
        ({"f": 1, b"f": {3}}, [["f", 1], ["f", [3]]]),
        ([True, None, float("inf"), float("-inf")], [True, None, "inf", "-inf"]),
        ({True, None}, [False, None]),
        ("text", "text"),
        (2**70, 2**70),
    ],
)
def test_values_read_as_json(value: Any, found: Any):
    if value == {True, None}:
        value, found = {None, 5, False}, [False, None, 5]
    assert readable(value) == found
    assert repr(readable(value)) == repr(found)


def test_keys_read_as_texts():
    assert [key_text(key) for key in ("a", b"a", b"\xff", 3, 2.5)] == [
        "a", "a", '{"base64":"/w=="}', "3", "2.5"
    ]  # fmt: skip
