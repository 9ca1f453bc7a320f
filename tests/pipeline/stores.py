"""Runs of real replicas that are traced, and replicas that are given exactly what a cut holds."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.client.meshes import mesh, run
from tests.crdt.calls import CALLS, prepared
from tests.pipeline.oracles import EVENTS, Truth
from thence import Group
from thence.causal.dot import Dot
from thence.client.replica import Replica
from thence.config import TraceConfig
from thence.crdt.base import Crdt
from thence.crdt.keyspace import Keyspace
from thence.crdt.register_counter import RegisterCounter
from thence.crdt.registry import CRDTS
from thence.errors import LocalProtocolError
from thence.trace.payload import bytes_of
from thence.trace.record import Record

NAMES = "abc"
STRANGER = "d"
"""A member that sends what is no batch."""
KEYS = (b"cart", b"\xff\x00", b"list", "cart", 7)
NONSENSE = (b"", b"\xc1", b"\x91\x01", b"\x93\x01\x00\x93\xa1k\x01\x92\x00\xc0", b"text",
            b"\x94\x02\x01\x01\xc4\x00", b"\x94\x02\x00\x01\xc4\x01x")  # fmt: skip
Shown = dict[Any, tuple[str, Any, int | None]]
"""By key: type, value, when it goes."""


def shown(keyspace: Keyspace) -> Shown:
    """What users see."""
    found: Shown = {}
    for key in keyspace:
        value = keyspace.get(key)
        is_object = isinstance(value, Crdt)
        kind = type(value) if is_object else RegisterCounter
        found[key] = kind.NAME, value.value() if is_object else value, keyspace.expiry_ms(key)
    return found


class StoreRun:
    """Replicas that did things at random; what they showed at moments, and in the end."""

    def __init__(self, folder: Path, seed: int, turns: int = 60, form: Any = "parquet") -> None:
        self.draw = random.Random(seed)
        self.calls = {name: call(self.draw) for name, call in CALLS.items()}
        # Few types to a key, so that those after the first are shown, too.
        self.kinds = {key: [*self.draw.sample(sorted(CRDTS), 3), "expiry"] for key in KEYS}
        self.turns = turns
        self.moments: list[tuple[dict[str, int], Shown]] = []
        """What a replica had seen, and what it showed."""
        self.ends: list[Shown] = []
        trace = TraceConfig(folder=str(folder), payload=True, form=form)
        run(self._main(trace))
        (self.folder,) = [path for path in folder.iterdir() if path.is_dir()]

    async def _main(self, trace: TraceConfig) -> None:
        async with mesh(NAMES + STRANGER, trace=trace) as groups:
            *members, stranger = groups
            replicas = [Replica() for _ in members]
            for replica, group in zip(replicas, members, strict=True):
                replica.attach(group)
            stranger.on_deliver(lambda tag: None)
            stranger.on_stable(lambda tag: None)
            for _ in range(self.turns):
                await self._turn(self.draw.choice(replicas), stranger)
            await quiet(replicas, stranger)
            self.ends = [shown(replica.keyspace) for replica in replicas]

    async def _turn(self, replica: Replica, stranger: Group) -> None:
        what = self.draw.random()
        if what < 0.05:
            await stranger.broadcast(self.draw.choice(NONSENSE))
        elif what < 0.4:
            await asyncio.sleep(self.draw.choice((0, 0, 0.001, 0.003)))
        else:
            for _ in range(self.draw.choice((1, 1, 2, 8))):
                self._do(replica)
        if self.draw.random() < 0.2:
            self.moments.append((replica.seen(), shown(replica.keyspace)))

    def _do(self, replica: Replica) -> None:
        key, what = self.draw.choice(KEYS), self.draw.random()
        try:
            if what < 0.02:
                replica.clear()
            elif what < 0.12:
                replica.remove(key)
            elif what < 0.17:
                replica.publish(b"news", b"\xff")
            else:
                self._update(replica, key)
        except LocalProtocolError:
            pass  # what a replica refuses is not sent

    def _update(self, replica: Replica, key: Any) -> None:
        kind = CRDTS[self.draw.choice(self.kinds[key])]
        child = replica.keyspace.child(key, kind.CODE)
        call = self.calls[kind.NAME](self.draw, child, replica.name)
        op = prepared(child or kind(), call, replica.name)
        replica.update(key, kind.CODE, op)


async def quiet(replicas: list[Replica], stranger: Group) -> None:
    """Until all have everything."""
    sent = stranger.sent
    while True:
        seen = [replica.seen() for replica in replicas]
        if all(each == seen[0] for each in seen) and seen[0].get(STRANGER, 0) == sent:
            return
        await asyncio.sleep(0.002)


# The logs.


def rows_in(folder: Path, run: str = "r") -> list[dict[str, Any]]:
    """The records of a run folder, by node and position."""
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.parquet")):
        rows += pq.read_table(path, columns=EVENTS.names).to_pylist()
    return [{**row, "run": run} for row in rows]


def records_in(rows: list[dict[str, Any]]) -> list[Record]:
    """The same as records."""
    return [
        Record(
            run=row["run"],
            node=row["node"],
            pos=row["pos"],
            kind=row["kind"],
            dot=Dot(row["dot_node"], row["dot_seq"]) if row["dot_node"] else None,
            context=tuple(Dot(**dot) for dot in row["context"] or ()),
            payload=row["payload"],
        )
        for row in rows
    ]


def cut_after(rows: list[dict[str, Any]], seen: dict[str, int]) -> dict[str, int]:
    """What a replica had seen, as a cut: each log up to the last message of it."""
    at = {row["node"]: -1 for row in rows}
    for row in rows:
        if row["kind"] == "send" and row["dot_seq"] == seen.get(row["node"], 0):
            at[row["node"]] = row["pos"]
    return at


class Past:
    """As much of one as stamps ask, by explicit sets."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.dots = truth.dots

    def node_of(self, packed: int) -> str:
        return self.dots[packed][0]

    def precedes(self, first: LoggedTag, second: LoggedTag) -> bool:
        return self.dots[first.packed] in self.truth.past(self.dots[second.packed])


class LoggedTag:
    """A message of a log as a replica is given it."""

    def __init__(self, past: Past, packed: int, payload: bytes) -> None:
        self.past = past
        self.packed = packed
        self.seq = past.dots[packed][1]
        self.payload = payload
        self.aside = None


class Replay:
    """Replicas that are given messages of a run, and nothing else."""

    def __init__(self, rows: list[dict[str, Any]], payload: Any) -> None:
        self.truth = Truth(records_in(rows))
        past = Past(self.truth)
        sent = {
            (row["dot_node"], row["dot_seq"]): bytes_of(payload(row["payload"]))
            for row in rows
            if row["kind"] == "send"
        }
        self.tags = {dot: LoggedTag(past, at, sent[dot]) for at, dot in enumerate(past.dots)}

    def at(self, cut: dict[str, int], draw: random.Random) -> Replica:
        """One that was given what is inside, in a causal order that is not that of a fold."""
        dots = list(self.truth.inside(cut))
        draw.shuffle(dots)
        dots.sort(key=lambda dot: len(self.truth.past(dot)))
        replica = Replica()
        for dot in dots:
            replica.delivered(self.tags[dot])
        return replica
