"""States at cuts, against explicit sets over random executions."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tests.pipeline.oracles import (
    TALK,
    D,
    Truth,
    frame_of,
    kernel_table,
    many_runs,
    rows_of,
    story,
    story_rows,
)
from tests.trace.dynamics import dynamic_execution
from tests.trace.executions import execution, records_of
from thence.causal.dot import Dot
from thence.crdt.registry import CRDTS
from thence.errors import UnusableInputError
from thence.pipeline import folds
from thence.pipeline.folding import ByKey, Fold, Operation, TableFold, decode_json
from thence.pipeline.folds import FOLDS, fold_named, materialise

MAKERS = (execution, dynamic_execution)
SEEDS = 25


class Siblings:
    """The operations that no other one follows: what concurrent writers leave behind."""

    def initial(self) -> list[Operation]:
        return []

    def apply(self, state: list[Operation], operation: Operation) -> list[Operation]:
        return [old for old in state if not operation.follows(old.dot)] + [operation]

    def value(self, state: list[Operation]) -> list[str]:
        return sorted(str(operation.dot) for operation in state)


def by_parity(payload: str | None) -> tuple[str, Any] | None:
    """Keys from the text of a dot; every third message is no operation."""
    seq = int((payload or "").strip('"').rpartition(":")[2])
    return None if seq % 3 == 0 else (("even", "odd")[seq % 2], payload)


def text(dot: D) -> str:
    return f"{dot[0]}:{dot[1]}"


def expected(truth: Truth, at: dict[str, int]) -> dict[str, list[D]]:
    """By key: the messages inside the cut, in causal order."""
    depths = truth.depths()
    found: dict[str, list[D]] = {}
    for dot in sorted(truth.inside(at), key=lambda d: (depths[d] or 0, d)):
        if dot[1] % 3:
            found.setdefault(("even", "odd")[dot[1] % 2], []).append(dot)
    return found


def test_states_at_random_consistent_cuts_are_those_of_the_sets(spark: SparkSession):
    runs, events = many_runs(spark, MAKERS, SEEDS)
    events = events.selectExpr("*", "concat('\"', dot_node, ':', dot_seq, '\"') AS sent")
    events = events.drop("payload").withColumnRenamed("sent", "payload")
    rng = random.Random(4)
    cuts = {
        run: truth.greatest({node: rng.randint(-1, end) for node, end in truth.ends.items()})
        for run, truth in runs.items()
    }
    rows = [(run, node, pos) for run, at in cuts.items() for node, pos in at.items()]
    at = spark.createDataFrame(rows, "run string, node string, pos long")
    logs = materialise(events, at, decode=by_parity).collect()
    siblings = materialise(events, at, Siblings(), by_parity, check=False).collect()
    states = {run: expected(truth, cuts[run]) for run, truth in runs.items()}
    assert {(row.run, row.key): json.loads(row.state) for row in logs} == {
        (run, key): [{"dot": text(dot), "value": f'"{text(dot)}"'} for dot in dots]
        for run, keys in states.items()
        for key, dots in keys.items()
    }
    assert {(row.run, row.key): (row.operations, json.loads(row.state)) for row in siblings} == {
        (run, key): (
            len(dots),
            sorted(text(d) for d in dots if not any(d in runs[run].past(e) for e in dots)),
        )
        for run, keys in states.items()
        for key, dots in keys.items()
    }


def test_without_a_cut_it_is_the_latest_consistent_one(spark: SparkSession):
    lost = story(spark, *TALK, "cy deliver dan:1", "cy send cy:2")
    (row,) = materialise(lost, fold="last").collect()
    assert tuple(row) == ("r", "", 4, '"ann:2"')


def test_a_cut_that_is_not_consistent_is_an_error_before_any_state_is_made(spark: SparkSession):
    talk = story(spark, *TALK)
    with pytest.raises(UnusableInputError) as error:
        materialise(talk, {"ann": 2, "cy": 0})
    assert str(error.value) == (
        "run r: not a consistent cut: bob:1 is not inside, and ann at position 1 depends on it; "
        "it was sent at position 1"
    )
    with pytest.raises(PythonException, match="run r: not a consistent cut: bob:1 is not inside"):
        materialise(talk, {"ann": 2, "cy": 0}, check=False).collect()


def test_a_node_without_a_log_is_an_error(spark: SparkSession):
    with pytest.raises(UnusableInputError, match="run r: the cut has records of zz, but"):
        materialise(story(spark, *TALK), {"ann": 0, "zz": 4})


def test_a_payload_that_is_not_json_needs_a_decode(spark: SparkSession):
    rows = story_rows("ann send ann:1")
    rows[0]["payload"] = "plus 3"
    frame = frame_of(spark, rows)
    with pytest.raises(PythonException, match=r"the payload of ann:1 is not JSON .*give .*decode"):
        materialise(frame).collect()
    (row,) = materialise(frame, fold="last", decode=lambda text: ("x", text)).collect()
    assert (row.key, row.state) == ("x", '"plus 3"')


class Halves:
    """No apply."""

    def initial(self) -> int:
        return 0

    def value(self, state: int) -> int:
        return state


@pytest.mark.parametrize(
    ("fold", "sentence"),
    [
        (Siblings, r"got the class Siblings: give Siblings\(\)"),
        (Halves(), r"Halves is no fold: it has no apply \(a fold has initial, apply, value\)"),
        (None, "NoneType is no fold: it has no initial, apply, value"),
        (len, "is no fold"),
    ],
)
def test_what_is_no_fold_is_told_before_any_task(spark: SparkSession, fold: Any, sentence: str):
    with pytest.raises(UnusableInputError, match=sentence):
        materialise(story(spark, *TALK), fold=fold)


def test_what_is_no_function_is_no_decode(spark: SparkSession):
    with pytest.raises(UnusableInputError, match="a function as decode, got str"):
        materialise(story(spark, *TALK), decode="json")  # type: ignore[arg-type]


# Without Spark.


class Fails(Siblings):
    """Raises in the method named."""

    def __init__(self, method: str) -> None:
        self.method = method

    def apply(self, state: Any, operation: Operation) -> Any:
        if self.method == "apply" and operation.dot.seq == 2:
            raise ZeroDivisionError("division by zero")
        return super().apply(state, operation)

    def value(self, state: Any) -> Any:
        if self.method == "value":
            raise IndexError("list index out of range")
        return object()


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("apply", "run r: the fold Fails failed at ann:2, key 'k': ZeroDivisionError: division"),
        ("value", "run r: the value of the fold Fails failed for key 'k': IndexError: list"),
        ("encode", "run r: the value of the fold Fails failed for key 'k': TypeError: Encoding"),
    ],
)
def test_a_fold_that_raises_is_told_with_run_dot_and_key(method: str, sentence: str):
    with pytest.raises(UnusableInputError, match=sentence):
        states(("ann send ann:1", "ann send ann:2"), Fails(method), lambda _: ("k", 1))


@pytest.mark.parametrize("given", ["ab", (3, 1), ("k", 1, 2), ("k",), ["k", 1], 7])
def test_a_decode_gives_a_pair_with_a_text(given: Any):
    with pytest.raises(UnusableInputError) as caught:
        states(("ann send ann:1",), FOLDS["last"], lambda _: given)
    assert str(caught.value) == (
        f"run r: decode gave {given!r} for ann:1: expected (key, operation) with a text as key, "
        "or None"
    )


def test_a_decode_that_raises_is_told_with_run_and_dot():
    with pytest.raises(UnusableInputError, match="run r: decode failed at ann:1: KeyError: 'x'"):
        states(("ann send ann:1",), FOLDS["last"], lambda _: {}["x"])


def states(lines: tuple[str, ...], fold: Any, decode: Any = decode_json) -> list[tuple]:
    is_table = isinstance(fold, TableFold)
    rows = story_rows(*lines)
    table = kernel_table(rows).rename_columns({"payload": "carried_0"})
    ends = {row["node"]: row["pos"] for row in rows}
    at = pa.table({"node": [*ends], "pos": [*ends.values()]})
    found = folds._rows_of_run("r", table, at, fold if is_table else ByKey(fold, decode))
    return [tuple(row.values())[1:] for row in found.to_pylist()]


def test_built_in_folds_read_as_they_should():
    assert states(TALK, FOLDS["count"]) == [("", 4, "4")]
    assert states(TALK, FOLDS["last"]) == [("", 4, '"ann:2"')]
    assert states(TALK, FOLDS["log"], lambda payload: ("k", 1))[0][2] == (
        '[{"dot":"ann:1","value":1},{"dot":"cy:1","value":1},'
        '{"dot":"bob:1","value":1},{"dot":"ann:2","value":1}]'
    )


def test_every_built_in_fold_is_one():
    assert all(isinstance(fold, Fold) != isinstance(fold, TableFold) for fold in FOLDS.values())
    assert isinstance(Siblings(), Fold)
    assert isinstance(Dots(), TableFold)


def test_what_sets_and_mappings_read_as_does_not_depend_on_their_order():
    class Names:
        def initial(self) -> set[str]:
            return set()

        def apply(self, state: set[str], operation: Operation) -> set[str]:
            return state | {operation.value}

        def value(self, state: set[str]) -> dict[str, set[str]]:
            return {"z": state, "a": set()}

    assert states(TALK, Names()) == [("", 4, '{"a":[],"z":["ann:1","ann:2","bob:1","cy:1"]}')]


def test_an_operation_follows_its_past_and_neither_itself_nor_what_is_beside_it():
    seen: dict[Dot, Operation] = {}

    class Keep(Siblings):
        def apply(self, state: list[Operation], operation: Operation) -> list[Operation]:
            seen[operation.dot] = operation
            return state

    states(TALK, Keep())
    ann_2 = seen[Dot("ann", 2)]
    followed = {str(dot) for dot in seen if ann_2.follows(dot)}
    assert followed == {"ann:1", "bob:1"}
    assert not ann_2.follows(Dot("zz", 1))
    assert not seen[Dot("cy", 1)].follows(Dot("ann", 1))


def test_logs_that_contradict_each_other_have_no_state():
    knot = ("ann deliver bob:1", "ann send ann:1", "bob deliver ann:1", "bob send bob:1")
    with pytest.raises(UnusableInputError, match="put ann:1, or something before it, before itsel"):
        states(knot, FOLDS["log"])


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (None, ("", None)),
        ("3", ("", 3)),
        ('{"key": "cart", "op": ["add", 1]}', ("cart", ["add", 1])),
        ('{"key": [2, "x"], "op": null}', ('[2,"x"]', None)),
        ('{"key": "cart"}', ("", {"key": "cart"})),
    ],
)
def test_a_payload_names_its_key_or_has_none(payload: str | None, found: tuple):
    assert decode_json(payload) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"key": "cart", "op": ["add", 1]}', ("cart", ["add", 1])),
        ("{}", ("", "{}")),
        ("{", ("", "{")),
        ("{" * 100_000, ("", "{" * 100_000)),
        ('["add", 1]', ("", '["add", 1]')),
    ],
)
def test_what_a_node_sent_as_text_may_be_the_json_of_an_operation(text: str, found: tuple):
    assert decode_json(json.dumps(text)) == found


def test_a_fold_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(UnusableInputError) as caught:
        fold_named("aw_set")
    assert str(caught.value) == (
        f"no fold is named aw_set: there are count, last, log, store and the data types "
        f"{', '.join(CRDTS)}"
    )


def test_every_data_type_is_a_fold_by_its_name():
    assert all(isinstance(fold_named(name), Fold) for name in CRDTS)
    assert not set(FOLDS) & set(CRDTS)
    assert fold_named("count") is FOLDS["count"]


# Folds with rows of their own.


class Dots:
    """A row for each message: its dot, and how many it follows."""

    columns = StructType([StructField("dot", StringType()), StructField("follows", LongType())])

    def initial(self) -> list[Operation]:
        return []

    def apply(self, state: list[Operation], operation: Operation) -> list[Operation]:
        return [*state, operation]

    def rows(self, state: list[Operation]) -> list[tuple[Any, ...]]:
        return [
            (str(new.dot), sum(new.follows(old.dot) for old in state), *self.more) for new in state
        ]

    more: tuple[Any, ...] = ()


class Refuses(Dots):
    """Raises what it was given."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def apply(self, state: Any, operation: Operation) -> Any:
        raise self.error


DOTS_OF_TALK = [("ann:1", 0), ("cy:1", 0), ("bob:1", 1), ("ann:2", 2)]


def test_a_fold_may_have_rows_of_its_own(spark: SparkSession):
    found = materialise(story(spark, *TALK), fold=Dots())
    assert found.schema.names == ["run", "dot", "follows"]
    assert [tuple(row) for row in found.collect()] == [("r", *row) for row in DOTS_OF_TALK]
    assert states(TALK, Dots()) == DOTS_OF_TALK


def test_a_fold_with_rows_of_its_own_takes_no_decode(spark: SparkSession):
    with pytest.raises(UnusableInputError, match="Dots reads payloads itself: it takes no decode"):
        materialise(story(spark, *TALK), fold=Dots(), decode=by_parity)


@pytest.mark.parametrize(
    ("fold", "sentence"),
    [
        (Refuses(KeyError("x")), "run r: the fold Refuses failed at ann:1: KeyError: 'x'"),
        (Refuses(UnusableInputError("it rains")), "run r: it rains"),
    ],
)
def test_a_fold_with_rows_that_raises_is_told_with_run_and_dot(fold: Dots, sentence: str):
    with pytest.raises(UnusableInputError) as caught:
        states(TALK, fold)
    assert str(caught.value) == sentence


def test_rows_that_are_not_as_the_columns_are_told():
    wrong = Dots()
    wrong.more = ("and more",)
    with pytest.raises(UnusableInputError, match="run r: the fold Dots failed to give rows: Val"):
        states(TALK, wrong)


class Behind:
    """Notes what it is told about what is to come."""

    def initial(self) -> list[Any]:
        return []

    def apply(self, state: list[Any], operation: Operation) -> list[Any]:
        return [*state, operation]

    def stabilise(self, state: list[Any], behind: dict[str, int]) -> bool:
        state.append(dict(behind))
        return True

    def value(self, state: list[Any]) -> list[str]:
        """What was said wrongly, or not said."""
        wrong = []
        for at, said in enumerate(state):
            if isinstance(said, dict):
                later = [op for op in state[at:] if isinstance(op, Operation)]
                for op in state[:at]:
                    if isinstance(op, Operation):
                        is_told = op.dot.seq <= said[op.dot.node]
                        if is_told != all(each.follows(op.dot) for each in later):
                            wrong.append(f"{op.dot} {said}")
        return wrong or ["all right", sum(isinstance(each, dict) for each in state)]


@pytest.mark.parametrize("make", MAKERS)
def test_a_fold_is_told_what_all_that_is_to_come_follows(
    make: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(folds, "BLOCK", 3)
    told = 0
    for seed in range(100):
        records = records_of(make(seed)[0])
        truth = Truth(records)
        at = truth.greatest(truth.ends)
        cut_table = pa.table({"node": [*at], "pos": pa.array(at.values(), pa.int64())})
        table = kernel_table(rows_of(records, "r")).rename_columns({"payload": "carried_0"})
        fold = ByKey(Behind(), lambda payload: ("k", payload))
        for row in folds._rows_of_run("r", table, cut_table, fold).to_pylist():
            verdict, times = json.loads(row["state"])
            assert verdict == "all right"
            told += times
    assert told > 50


def test_keys_in_which_all_is_stable_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    class Once(Behind):
        def stabilise(self, state: list[Any], behind: dict[str, int]) -> bool:
            asked.append(str(state[0].dot))
            return False

    monkeypatch.setattr(folds, "BLOCK", 1)
    states(TALK, Once(), lambda payload: (payload, None))
    assert asked == ["ann:1", "cy:1", "bob:1"]
