"""The state of a keyspace as rows of a journal, of which a large key takes several."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import msgspec
import pytest

import thence.client.replica_snapshot
from tests.client.meshes import run, until
from tests.client.test_replica import LISTS, crash, opened, state
from thence import Group
from thence.client.replica import Replica
from thence.config import JournalConfig
from thence.crdt import batch
from thence.crdt.children import REGISTER
from thence.crdt.register_counter import SET
from thence.crdt.sequence import INSERT
from thence.errors import JournalError


async def compacted(group: Group) -> None:
    """Until a checkpoint was made."""
    await group.synced()
    await until(lambda: group.driver.journal_bytes < 4096)


def test_what_is_larger_than_a_row_is_in_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(thence.client.replica_snapshot, "ROW_BYTES_MAX", 1000)
    texts = {size: [b"%09d" % number for number in range(size)] for size in (10, 250, 800)}

    often = JournalConfig(checkpoint_bytes=4096)

    async def main() -> None:
        lives = [800, 250, 800, 10, 250, 0]
        for at, size in enumerate(lives):
            group, replica = await opened("a", tmp_path, {}, often)
            before = lives[at - 1] if at else 0
            assert state(replica) == ({b"l": texts[before], b"x": bytes(5000)} if before else {})
            if before:
                replica.remove(b"l")
            if size:
                replica.update(b"l", LISTS, (INSERT, 0, texts[size]))
            replica.update(b"x", REGISTER, (SET, bytes(5000)))
            await compacted(group)
            if not size:
                replica.remove(b"x")
            await group.aclose()
            other = Replica()
            other.restore(iter(list(replica.snapshot())))
            other.begin(lambda node, seq: None, ())
            assert state(other) == state(replica)
        group, replica = await opened("a", tmp_path, {}, often)
        assert state(replica) == {}
        for size, more in ((12_000, 100_000), (9_000, 500_000)):
            replica.update(b"y", REGISTER, (SET, bytes(size)))
            replica.update(b"z", REGISTER, (SET, bytes(more)))  # enough for a checkpoint
            await compacted(group)
        await group.aclose()
        with sqlite3.connect(next((tmp_path / "a").glob("*.journal"))) as db:
            keys = [key for (key,) in db.execute('SELECT "key" FROM kept')]
        pieces = [key[5:] for key in keys if key[:1] == b"\xc1"]
        assert pieces.count(b"\xc4\x01y") == 9
        assert set(pieces) == {b"", b"\xc4\x01y", b"\xc4\x01z"}

    (tmp_path / "a").mkdir()
    run(main())


def test_a_row_with_a_piece_missing_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(thence.client.replica_snapshot, "ROW_BYTES_MAX", 10)
    replica = Replica()
    replica.keyspace.write(b"k", bytes(100))
    (chunk,) = replica.snapshot()
    meta, *pieces = msgspec.msgpack.decode(chunk)
    assert len(pieces) == 11
    draw = random.Random(3)
    for _ in range(20):
        draw.shuffle(pieces)
        Replica().restore(iter([msgspec.msgpack.encode([meta, *pieces])]))
        left = [meta, *pieces[1:]]
        with pytest.raises(JournalError, match="pieces are missing of 1 rows"):
            Replica().restore(iter([msgspec.msgpack.encode(left)]))
    last, *rest = sorted(pieces)
    wrong = [meta, *rest, (b"\xc1\0\0\0\x63" + last[0][5:], b"")]
    with pytest.raises(JournalError, match="not those that were written"):
        Replica().restore(iter([msgspec.msgpack.encode(wrong)]))
    with pytest.raises(JournalError, match="cannot be read"):
        Replica().restore(iter([msgspec.msgpack.encode([meta, (b"\xa1k", b"\xc1")])]))


def test_what_was_sent_on_a_stream_is_no_batch_after_a_restart(tmp_path: Path):
    payload = batch.encode(0, [b"x", REGISTER, (SET, b"never stable")], 1000)[0]

    async def main() -> None:
        group, replica = await opened("a", tmp_path, {})
        await group.broadcast(payload, stream="s")
        replica.update(b"y", REGISTER, (SET, b"1"))
        await group.synced()
        before, seen = state(replica), replica.seen()
        await crash(group)
        group, replica = await opened("a", tmp_path, {})
        assert (state(replica), replica.seen()) == (before, seen) == ({b"y": b"1"}, {"a": 1})
        await group.aclose()

    (tmp_path / "a").mkdir()
    run(main())
