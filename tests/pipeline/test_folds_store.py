"""The state of a store at a cut, against replicas."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.client.meshes import QUICK, mesh, run
from tests.client.test_replica import crash
from tests.pipeline.folded import key_text, same
from tests.pipeline.oracles import frame_of, kernel_table, story_rows
from tests.pipeline.stores import (
    NAMES,
    Replay,
    Shown,
    StoreRun,
    cut_after,
    rows_in,
    shown,
)
from tests.seeds import seeds
from thence import Group
from thence.client.replica import Replica
from thence.config import TraceConfig
from thence.crdt import batch
from thence.crdt.expiry import AT, Expiry
from thence.crdt.keyspace import CLEAR, KEYS, PUBLISH, REMOVE
from thence.crdt.register_counter import INC, SET, RegisterCounter
from thence.crdt.set_aw import ADD, SetAw
from thence.errors import UnusableInputError
from thence.pipeline import folds
from thence.pipeline.folds import materialise
from thence.pipeline.folds_store import StoreFold
from thence.pipeline.ingest import ingest
from thence.pipeline.tables import read_events
from thence.trace.payload import payload_of

REGISTER, SETS, EXPIRY = RegisterCounter.CODE, SetAw.CODE, Expiry.CODE
COLUMNS = ["run", "key", "type", "operations", "state", "expires_ms"]


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of more than a few operations come in pieces."""
    monkeypatch.setattr("thence.client.replica.PAYLOAD_BYTES_MAX", 120)


def check(rows: list[dict[str, Any]], expected: Shown) -> None:
    """Whether these rows say what users see."""
    left = list(expected.items())
    for row in rows:
        found = [
            (key, each)
            for key, each in left
            if key_text(key) == row["key"]
            and each[::2] == (row["type"], row["expires_ms"])
            and same(each[1], json.loads(row["state"]))
        ]
        assert found, (row, expected)
        left.remove(found[0])
        assert row["operations"] > 0
    assert not left


def hooks(replica: Replica, data: Path) -> dict[str, Any]:
    """What a group is given whose replica is kept in a journal and handed to newcomers."""
    data.mkdir(exist_ok=True)
    return {"snapshot": replica.snapshot, "restore": replica.restore, "kept": replica, "data": data}


def folded(
    rows: list[dict[str, Any]], at: dict[str, int] | None = None, fold: StoreFold | None = None
) -> list[dict[str, Any]]:
    """The rows of a store, without Spark; at the end if there is no cut."""
    ends = {row["node"]: row["pos"] for row in sorted(rows, key=lambda row: row["pos"])}
    cut = ends if at is None else at
    cut_table = pa.table({"node": [*cut], "pos": pa.array(cut.values(), pa.int64())})
    table = kernel_table(rows).rename_columns({"payload": "carried_0"})
    found: list[dict[str, Any]] = folds._rows_of_run(
        "r", table, cut_table, StoreFold() if fold is None else fold
    ).to_pylist()
    return found


@pytest.mark.parametrize("seed", seeds(6))
def test_a_store_at_a_cut_is_what_a_replica_shows_that_was_given_it(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(folds, "BLOCK", 7)  # so that most is stable before the end
    made = StoreRun(tmp_path, seed)
    rows = rows_in(made.folder)
    replay = Replay(rows, msgspec.json.decode)
    ends = replay.truth.ends
    assert len(made.ends) == len(NAMES)
    for end in made.ends:
        check(folded(rows), end)
    for seen, said in made.moments:
        check(folded(rows, cut_after(rows, seen)), said)
    draw = random.Random(seed)
    for _ in range(12):
        at = replay.truth.greatest({node: draw.randint(-1, end) for node, end in ends.items()})
        check(folded(rows, at), shown(replay.at(at, draw).keyspace))
    assert sum(len(said) > 1 for _, said in made.moments) > 2


def test_a_store_at_cuts_on_spark(spark: SparkSession, tmp_path: Path):
    """The segments as they are, and as ``thence ingest`` takes them."""
    made = StoreRun(tmp_path / "runs", 11)
    events = spark.read.parquet(str(made.folder / "*.parquet"))
    found = materialise(events, fold="store")
    assert found.schema.names == COLUMNS
    for end in made.ends:
        check([row.asDict() for row in found.collect()], end)
    rows = rows_in(made.folder, made.folder.name)
    seen, said = made.moments[len(made.moments) // 2]
    early = materialise(events, cut_after(rows, seen), "store")
    check([row.asDict() for row in early.collect()], said)


def test_what_is_not_for_everyone_is_no_part_of_a_store(spark: SparkSession, tmp_path: Path):
    shows = {}

    async def main() -> None:
        async with mesh("abc", trace=TraceConfig(folder=str(tmp_path), payload=True)) as groups:
            members = [Replica(), Replica()]
            for replica, group in zip(members, groups, strict=False):
                replica.attach(group)
            groups[2].on_deliver(lambda tag: None)

            def payload(key: bytes) -> bytes:
                return batch.encode(0, [key, REGISTER, (INC, 5)], 1000)[0]

            await groups[2].send(payload(b"for one"), ["a"])
            await groups[2].broadcast(payload(b"never stable"), stream="s")
            await groups[2].broadcast(payload(b"for all"))
            async with asyncio.timeout(10):
                while not all([b"for all" in replica.keyspace.kept() for replica in members]):
                    await asyncio.sleep(0.005)
                while sum([replica.counts["ignored"] for replica in members]) < 3:
                    await asyncio.sleep(0.005)
            shows.update(shown(members[0].keyspace))

    run(main())
    (folder,) = tmp_path.iterdir()
    found = materialise(spark.read.parquet(str(folder / "*.parquet")), fold="store").collect()
    assert shows.keys() == {b"for all"}
    check([row.asDict() for row in found], shows)


def test_a_store_from_ingested_json_lines(spark: SparkSession, tmp_path: Path):
    made = StoreRun(tmp_path / "runs", 12, turns=30, form="jsonl")
    ingest(spark, [str(made.folder)], str(tmp_path / "table"))
    found = materialise(read_events(spark, tmp_path / "table"), fold="store").collect()
    check([row.asDict() for row in found], made.ends[0])


def test_a_store_whose_nodes_are_killed_and_joined(tmp_path: Path):
    """What a node took back after a crash it takes again; what a newcomer was handed is in the
    logs of those who sent it."""
    first = {}

    async def main() -> None:
        trace = TraceConfig(folder=str(tmp_path / "trace"), payload=True)
        how = {"timing": QUICK, "trace": trace}
        a, b = Replica(), Replica()
        groups = [Group("a", listen="mem://a", elastic=True, **how, **hooks(a, tmp_path / "a"))]
        await groups[0].start()
        a.attach(groups[0])
        for number in range(200):
            a.update(b"%d" % (number % 50), REGISTER, (SET, number))
            a.update(b"s", SETS, (ADD, number))
            if number % 7 == 0:
                a.remove(b"%d" % (number % 11))
                await asyncio.sleep(0)
        groups.append(
            Group("b", listen="mem://b", join="mem://a", **how, **hooks(b, tmp_path / "b"))
        )
        await groups[1].start()
        b.attach(groups[1])
        for number in range(60):
            b.update(b"n", REGISTER, (INC, 1))
            a.update(b"s", SETS, (ADD, -number))
            await asyncio.sleep(0)
        await groups[1].synced()
        await crash(groups[1])
        a.update(b"n", REGISTER, (INC, 100))
        b = Replica()
        groups[1] = Group("b", listen="mem://b", join="mem://a", **how, **hooks(b, tmp_path / "b"))
        await groups[1].start()
        b.attach(groups[1])
        b.update(b"n", REGISTER, (INC, 1000))
        while a.keyspace.get(b"n") != 1160 or b.seen() != a.seen():
            await asyncio.sleep(0.005)
        first.update(shown(a.keyspace))
        assert shown(b.keyspace) == first
        for group in groups:
            await group.aclose()

    run(main())
    (folder,) = (tmp_path / "trace").iterdir()
    rows = rows_in(folder)
    assert {"snapshot", "restart"} <= {row["kind"] for row in rows}
    check(folded(rows), first)


# Stories.


def sent(*lines: str, **payloads: Any) -> list[dict[str, Any]]:
    """Rows from lines; ``ann_1=[...]`` is the batch that ann:1 was, or its bytes."""
    rows = story_rows(*lines)
    for row in rows:
        given = payloads.get(f"{row['dot_node']}_{row['dot_seq']}")
        if row["kind"] == "send" and given is not None:
            data = given if isinstance(given, bytes) else batch.encode(5, given, 1 << 20)[0]
            row["payload"] = msgspec.json.encode(payload_of(data)).decode()
    return rows


def values(rows: list[dict[str, Any]], **how: Any) -> list[tuple[Any, ...]]:
    found = folded(rows, fold=StoreFold(**how))
    return [tuple(row[name] for name in COLUMNS[1:]) for row in found]


BATCH = [
    b"n", REGISTER, (INC, 5), b"n", REGISTER, (INC, 1), b"s", SETS, (ADD, b"y", b"\xff"),
    b"s", EXPIRY, (AT, 900), b"news", KEYS, (PUBLISH, b"!"), b"gone", REGISTER, (SET, b"x"),
    b"gone", KEYS, (REMOVE,), b"gone", EXPIRY, (AT, 5),
]  # fmt: skip


def test_a_key_has_its_type_its_operations_and_when_it_goes():
    rows = sent("ann send ann:1", ann_1=BATCH)
    assert values(rows) == [
        ("n", "register_counter", 2, "6", None),
        ("s", "set_aw", 2, '["y",{"base64":"/w=="}]', 900),
    ]


@pytest.mark.parametrize(("now_ms", "keys"), [(None, "ns"), (899, "ns"), (900, "n"), (901, "n")])
def test_keys_that_are_over_can_be_left_out(now_ms: int | None, keys: str):
    rows = sent("ann send ann:1", ann_1=BATCH)
    assert [row[0] for row in values(rows, now_ms=now_ms)] == list(keys)


def test_a_batch_takes_effect_with_its_last_piece():
    pieces = batch.encode(5, [b"k", REGISTER, (SET, b"v" * 100)], 64)
    lines = [f"ann send ann:{number}" for number, _ in enumerate(pieces, 1)]
    payloads = {f"ann_{number}": piece for number, piece in enumerate(pieces, 1)}
    rows = sent(*lines, "bob send bob:1", bob_1=[b"b", REGISTER, (INC, 1)], **payloads)
    assert len(pieces) > 2
    assert [row[0] for row in values(rows)] == ["b", "k"]
    assert values(rows[:-2] + rows[-1:]) == [("b", "register_counter", 1, "1", None)]
    assert values([*rows[:-1], {**rows[-1], "payload": '"text"'}])[0][0] == "k"


def test_what_is_cleared_is_gone_and_what_is_beside_stays():
    rows = sent(
        "ann send ann:1",
        "bob deliver ann:1",
        "bob send bob:1",
        "cy deliver ann:1",
        "cy send cy:1",
        ann_1=[b"x", REGISTER, (SET, 1), b"y", REGISTER, (SET, 1)],
        bob_1=[b"", KEYS, (CLEAR,)],
        cy_1=[b"y", REGISTER, (INC, 1)],
    )
    assert values(rows) == [("y", "register_counter", 2, "1", None)]


def test_of_concurrent_writes_the_later_clock_counts():
    late = batch.encode(9, [b"x", REGISTER, (SET, b"late")], 1 << 20)[0]
    soon = batch.encode(8, [b"x", REGISTER, (SET, b"soon")], 1 << 20)[0]
    for first, second in ((late, soon), (soon, late)):
        rows = sent("ann send ann:1", "bob send bob:1", ann_1=first, bob_1=second)
        assert values(rows) == [("x", "register_counter", 2, '"late"', None)]


def test_keys_that_read_the_same_are_rows_of_their_own():
    rows = sent("ann send ann:1", ann_1=["k", REGISTER, (SET, 1), b"k", REGISTER, (SET, 2)])
    assert [row[:1] + row[3:4] for row in values(rows)] == [("k", "2"), ("k", "1")]


def test_what_is_of_a_stream_is_no_batch_and_needs_no_payload():
    rows = sent("ann send ann:1", "bob send bob/s:1 [ann:1]", ann_1=BATCH)
    for payload in (rows[0]["payload"], None):
        rows[1]["payload"] = payload
        assert [row[:3] for row in values(rows)] == [
            ("n", "register_counter", 2), ("s", "set_aw", 2),
        ]  # fmt: skip


@pytest.mark.parametrize("data", [b"", b"text", b"\xc1", b"\x91\x01", b"\x91\x03"])
def test_what_is_no_batch_is_ignored(data: bytes):
    rows = sent("ann send ann:1", "bob send bob:1", ann_1=BATCH, bob_1=data)
    assert [row[0] for row in values(rows)] == ["n", "s"]


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        (None, "run r: ann:1 has no payload: nodes log what they send with trace.payload only"),
        (
            '{"key":"x","op":1}',
            'run r: the payload of ann:1 is none of a store: expected text or {"',
        ),
        ('{"base64":"x"}', "run r: the payload of ann:1 is none of a store: "),
        ("{", "run r: the payload of ann:1 is none of a store: "),
    ],
)
def test_a_trace_that_cannot_be_of_a_store_is_told(payload: str | None, sentence: str):
    rows = sent("ann send ann:1")
    rows[0]["payload"] = payload
    with pytest.raises(UnusableInputError) as caught:
        folded(rows)
    assert str(caught.value).startswith(sentence)


def test_a_trace_without_payloads_is_told_on_spark(spark: SparkSession):
    rows = [{**row, "payload": None} for row in story_rows("ann send ann:1")]
    with pytest.raises(Exception, match="run r: ann:1 has no payload"):
        materialise(frame_of(spark, rows), fold="store").collect()
