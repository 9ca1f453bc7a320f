"""Rows of the application in SQLite: what is damaged, what is missing, older formats."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from pathlib import Path

import pytest

from tests.journal.places import A, copy_journal
from tests.journal.test_sqlite import EXPECTED, ROWS, change, fill, refused
from tests.seeds import seeds
from thence.errors import JournalError
from thence.journal import kept_table
from thence.journal.sqlite import SqliteJournal


@pytest.mark.parametrize("name", ["closed", "crashed"])
def test_a_journal_from_before_there_were_rows_gets_some(tmp_path: Path, name: str):
    journal = fill(tmp_path / "whole")
    if name == "closed":
        journal.close()
    copy_journal(tmp_path / "whole", tmp_path / "new")
    journal.close()
    db = sqlite3.connect(tmp_path / "new", isolation_level=None)
    db.execute("PRAGMA wal_autocheckpoint=0")  # what was not closed has a log
    for table in ("kept", "kept_large", "kept_total"):
        db.execute(f"DROP TABLE {table}")
    db.execute("PRAGMA user_version=2")
    path = tmp_path / "old"
    copy_journal(tmp_path / "new", path)
    db.close()
    for _ in range(2):
        with contextlib.closing(SqliteJournal(path, A)) as journal:
            assert journal.load() == EXPECTED
            assert list(journal.rows()) == []
    with contextlib.closing(SqliteJournal(path, A)) as journal:
        journal.checkpoint(b"new", rows=ROWS)
    with contextlib.closing(SqliteJournal(path, A)) as journal:
        assert list(journal.rows()) == ROWS


A_ROW = "WHERE \"key\" = x'303035'"
OTHER = "SELECT {} FROM kept AS other WHERE other.\"key\" = x'303036'"
ROW_DAMAGE = {
    "a changed value": f"UPDATE kept SET data = x'00' {A_ROW}",
    "a changed key": f"UPDATE kept SET \"key\" = x'00' {A_ROW}",
    "the value of another": f"UPDATE kept SET data = ({OTHER.format('data')}), "
    f"crc = ({OTHER.format('crc')}) {A_ROW}",
    "a missing row": f"DELETE FROM kept {A_ROW}",
    "no rows": "DELETE FROM kept",
    "a text": f"UPDATE kept SET data = 'text', crc = 'text' {A_ROW}",
    "nothing": f"UPDATE kept SET crc = NULL, data = NULL {A_ROW}",
}


@pytest.mark.parametrize("damage", ROW_DAMAGE.values(), ids=ROW_DAMAGE)
def test_damage_of_rows_is_found_when_they_are_read(tmp_path: Path, damage: str):
    fill(tmp_path / "j").close()
    change(tmp_path / "j", damage)
    with (
        contextlib.closing(SqliteJournal(tmp_path / "j", A)) as journal,
        pytest.raises(JournalError, match="of its application"),
    ):
        list(journal.rows())


def test_a_row_that_is_as_it_was_before_is_found(tmp_path: Path):
    """It is right by itself: SQLite could have lost the write of its page."""
    path = tmp_path / "j"
    with contextlib.closing(SqliteJournal(path, A)) as journal:
        journal.checkpoint(b"one", rows=[(b"a", b"1"), (b"b", b"1")])
    with contextlib.closing(sqlite3.connect(path)) as db:
        (old, _) = db.execute("SELECT * FROM kept").fetchall()
    with contextlib.closing(SqliteJournal(path, A)) as journal:
        journal.checkpoint(b"two", rows=[(b"a", b"2")])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("REPLACE INTO kept VALUES (?, ?, ?)", old)
    with (
        contextlib.closing(SqliteJournal(path, A)) as journal,
        pytest.raises(JournalError, match="of 2 rows"),
    ):
        list(journal.rows())


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM kept_total",
        "UPDATE kept_total SET count = count + 1",
        "UPDATE kept_total SET sum = 7",
        "UPDATE kept_total SET crc = 'text'",
        "UPDATE kept_total SET count = 'text'",
        "UPDATE kept_total SET sum = -1",
        "INSERT INTO kept_total VALUES (2, 0, 0, 0)",
    ],
)
def test_damage_of_the_number_of_rows_is_refused(tmp_path: Path, damage: str):
    fill(tmp_path / "j").close()
    change(tmp_path / "j", damage)
    refused(tmp_path / "j", "how many rows")


def test_the_number_of_rows_is_that_of_this_checkpoint(tmp_path: Path):
    path = tmp_path / "j"
    with contextlib.closing(SqliteJournal(path, A)) as journal:
        journal.checkpoint(b"one", rows=[(b"a", b"1")])
    with contextlib.closing(sqlite3.connect(path)) as db:
        old = [db.execute(f"SELECT * FROM {name}").fetchall() for name in ("kept", "kept_total")]
    with contextlib.closing(SqliteJournal(path, A)) as journal:
        journal.checkpoint(b"two", rows=[(b"a", b"2")])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executemany("REPLACE INTO kept VALUES (?, ?, ?)", old[0])
        db.executemany("REPLACE INTO kept_total VALUES (?, ?, ?, ?)", old[1])
    refused(path, "how many rows")


def test_a_row_that_is_too_large_breaks_the_journal_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kept_table, "ROW_BYTES_MAX", 1000)
    with contextlib.closing(SqliteJournal(tmp_path / "j", A)) as journal:
        journal.checkpoint(b"one", rows=[(b"a", b"1")])
        with pytest.raises(JournalError, match="a row of 1001 bytes does not go into"):
            journal.checkpoint(b"two", rows=[(b"a", bytes(1000))])
        with pytest.raises(JournalError, match="nothing more is written"):
            journal.commit()
    with contextlib.closing(SqliteJournal(tmp_path / "j", A)) as journal:
        assert list(journal.rows()) == [(b"a", b"1")]


@pytest.mark.parametrize("group", [{"GROUP_ROWS": 7}, {"GROUP_BYTES": 60}, {"KEYS_AT_A_TIME": 3}])
@pytest.mark.parametrize("seed", seeds(5))
def test_rows_are_the_same_however_they_are_grouped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: dict[str, int], seed: int
):
    for name, limit in group.items():
        monkeypatch.setattr(kept_table, name, limit)
    draw = random.Random(seed)
    expected: dict[bytes, bytes | None] = {}
    for _ in range(6):
        rows: list[tuple[bytes, bytes | None]] = [
            (b"%d" % draw.randrange(40), draw.choice((None, b"", draw.randbytes(20))))
            for _ in range(draw.choice((0, 1, 30)))
        ]
        expected.update(rows)
        with contextlib.closing(SqliteJournal(tmp_path / "j", A)) as journal:
            journal.checkpoint(b"", rows=rows)
        with contextlib.closing(SqliteJournal(tmp_path / "j", A)) as journal:
            left = sorted([(key, data) for key, data in expected.items() if data is not None])
            assert list(journal.rows()) == left


PAGE_ROW_BYTES_MAX = 1002
"""Of a row, within a page of 4 KiB; what is more is elsewhere, and is read in passing."""
SIZES = (0, 20, 500, 899, 900, 901, 5000, 300_000)
KEY_SIZES = (1, 255, 256, 257, 288, 5000)


@pytest.mark.parametrize("seed", seeds(5))
def test_a_key_is_found_without_reading_large_rows(tmp_path: Path, seed: int):
    """Deleting 50,000 small rows beside three of 8 MB would take 20 minutes."""
    draw = random.Random(seed)
    keys = [draw.randbytes(4) * 2000 for _ in range(12)]
    expected: dict[bytes, bytes | None] = {}
    for _ in range(6):
        rows: list[tuple[bytes, bytes | None]] = [
            (draw.choice(keys)[: draw.choice(KEY_SIZES)],
             draw.choice((None, draw.randbytes(draw.choice(SIZES)))))
            for _ in range(30)
        ]  # fmt: skip
        expected.update(rows)
        left = {key: data for key, data in expected.items() if data is not None}
        with contextlib.closing(SqliteJournal(tmp_path / "j", A)) as journal:
            journal.checkpoint(b"", rows=rows)
        with contextlib.closing(SqliteJournal(tmp_path / "j", A)) as journal:
            found = list(journal.rows())
            assert dict(found) == left
            assert len(found) == len(left)
        with contextlib.closing(sqlite3.connect(tmp_path / "j")) as db:
            sizes = 'SELECT max(length("key") + length(data)) FROM kept'
            assert db.execute(sizes).fetchone()[0] < PAGE_ROW_BYTES_MAX - 20
            places = "SELECT data FROM kept WHERE typeof(data) = 'integer' ORDER BY data"
            there = "SELECT id FROM kept_large ORDER BY id"
            assert db.execute(there).fetchall() == db.execute(places).fetchall()


LARGE = [(b"k" * 300, b"1"), (b"small", b"2"), (b"v", b"3" * 2000)]
LARGE_DAMAGE = {
    "a changed value": "UPDATE kept_large SET data = CAST(data || 'x' AS BLOB) WHERE id = 2",
    "a missing value": "DELETE FROM kept_large WHERE id = 2",
    "nothing": "UPDATE kept_large SET data = NULL WHERE id = 2",
    "a text": "UPDATE kept_large SET data = 'text' WHERE id = 2",
    "the value of another": "UPDATE kept SET data = 1 WHERE data = 2",
    "a key of no such length": "UPDATE kept_large SET data = x'ffffffffffffffff00' WHERE id = 2",
}


@pytest.mark.parametrize("damage", LARGE_DAMAGE.values(), ids=LARGE_DAMAGE)
def test_damage_of_large_rows_is_found_when_they_are_read(tmp_path: Path, damage: str):
    with contextlib.closing(SqliteJournal(tmp_path / "j", A)) as journal:
        journal.checkpoint(b"", rows=LARGE)
        assert list(journal.rows()) == LARGE
    change(tmp_path / "j", damage)
    with (
        contextlib.closing(SqliteJournal(tmp_path / "j", A)) as journal,
        pytest.raises(JournalError, match="of its application"),
    ):
        list(journal.rows())


def test_a_journal_whose_large_rows_are_among_the_others_keeps_them(tmp_path: Path):
    path = tmp_path / "j"
    with contextlib.closing(SqliteJournal(path, A)) as journal:
        journal.checkpoint(b"", rows=LARGE)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        crcs = dict(db.execute('SELECT substr("key", 1, 256), crc FROM kept').fetchall())
        db.execute("DELETE FROM kept")
        for key, data in LARGE:
            db.execute("INSERT INTO kept VALUES (?, ?, ?)", (key, crcs[key[:256]], data))
        db.execute("DROP TABLE kept_large")
        db.execute("PRAGMA user_version=3")
    for _ in range(2):
        with contextlib.closing(SqliteJournal(path, A)) as journal:
            assert list(journal.rows()) == LARGE
    with contextlib.closing(SqliteJournal(path, A)) as journal:
        journal.checkpoint(b"", rows=[(key, None) for key, _ in LARGE[:2]])
        assert list(journal.rows()) == LARGE[2:]
