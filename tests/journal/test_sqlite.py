"""The journal in SQLite: whose it is, what is damaged, what is missing."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journal.places import PARTS, A, copy_journal
from tests.seeds import seeds
from thence.errors import JournalError, LimitError, LocalProtocolError
from thence.journal import sqlite
from thence.journal.base import Identity, Saved
from thence.journal.schema import FORMAT
from thence.journal.sqlite import SqliteJournal

CHUNK_BYTES = 700
EXPECTED = Saved(bytes(range(256)) * 10, [b"%d " % n * 40 for n in range(30)])
ROWS = [(b"%03d" % n, b"%d " % n * 20) for n in range(30)]


def fill(path: Path) -> SqliteJournal:
    """A journal that holds EXPECTED: a checkpoint of several parts, and commits after it."""
    journal = SqliteJournal(path, A)
    for n in range(50):
        journal.append(b"old %d" % n)
        journal.commit()
    assert EXPECTED.checkpoint is not None
    journal.checkpoint(b"", rows=[(b"%03d" % n, b"old") for n in range(-9, 9)])
    gone = [(b"%03d" % n, None) for n in range(-9, 0)]
    journal.checkpoint(EXPECTED.checkpoint, rows=[*gone, *ROWS])
    for n, record in enumerate(EXPECTED.records):
        journal.append(record)
        if n % 2:
            journal.commit()
    return journal


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A journal that was closed, and what one leaves that was not."""
    folder = tmp_path_factory.mktemp("states")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "CHUNK_BYTES", CHUNK_BYTES)
        fill(folder / "closed").close()
        journal = fill(folder / "open")
        copy_journal(folder / "open", folder / "crashed")
        journal.close()
    return {name: folder / name for name in ("closed", "crashed")}


def loaded(path: Path, *more: bytes) -> Saved:
    """What a journal holds once these records were added."""
    with contextlib.closing(SqliteJournal(path, A)) as journal:
        for record in more:
            journal.append(record)
        journal.commit()
        saved = journal.load()
        assert list(journal.rows()) == (ROWS if saved.checkpoint == EXPECTED.checkpoint else [])
        return saved


def refused(path: Path, match: str) -> None:
    """The journal cannot be opened, today or tomorrow, and the sentence names the file."""
    for _ in range(2):
        with pytest.raises(JournalError, match=match) as caught:
            SqliteJournal(path, A)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["closed", "crashed"])
def test_a_journal_can_move(states: dict[str, Path], tmp_path: Path, name: str):
    copy_journal(states[name], tmp_path / "j")
    assert loaded(tmp_path / "j") == EXPECTED
    assert os.listdir(tmp_path) == ["j"]


def test_a_damaged_value_of_the_shelf_is_not_given(tmp_path: Path):
    with contextlib.closing(SqliteJournal(tmp_path / "j", A)) as journal:
        journal.shelve([(1, b"one"), (2, b"two")])
    db = sqlite3.connect(tmp_path / "j", isolation_level=None)
    db.execute("UPDATE shelf SET data = ? WHERE number = 2", (b"six",))
    db.close()
    with contextlib.closing(SqliteJournal(tmp_path / "j", A)) as journal:
        assert journal.fetch(1) == b"one"
        with pytest.raises(JournalError, match="value 2 of its shelf"):
            journal.fetch(2)


def test_a_journal_from_before_there_were_shelves_gets_one(states: dict[str, Path], tmp_path: Path):
    copy_journal(states["closed"], tmp_path / "j")
    db = sqlite3.connect(tmp_path / "j", isolation_level=None)
    for table in ("shelf", "kept", "kept_large", "kept_total"):
        db.execute(f"DROP TABLE {table}")
    db.execute("PRAGMA user_version=1")
    db.close()
    with contextlib.closing(SqliteJournal(tmp_path / "j", A)) as journal:
        assert journal.load() == EXPECTED
        journal.shelve([(1, b"one")])
        assert journal.fetch(1) == b"one"


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("name", ["closed", "crashed"])
def test_a_changed_byte_is_an_error_or_changes_nothing(
    states: dict[str, Path], tmp_path: Path, name: str, seed: int
):
    draw = random.Random(seed)
    found = 0
    for number in range(40):
        path = tmp_path / f"{number}"
        copy_journal(states[name], path)
        part = draw.choice([part for part in PARTS if Path(f"{path}{part}").exists()])
        at = change_byte(Path(f"{path}{part}"), draw)
        more = Saved(EXPECTED.checkpoint, [*EXPECTED.records, b"more"])
        try:
            assert loaded(path) == EXPECTED, (part, at)
            assert loaded(path, b"more") == more, (part, at)
            assert loaded(path) == more, (part, at)
        except JournalError:
            found += 1
    assert found  # most bytes matter


def change_byte(path: Path, draw: random.Random) -> int:
    """Change one byte; half of the time one of the first hundred, where the headers are."""
    text = bytearray(path.read_bytes())
    at = draw.randrange(min(len(text), draw.choice((100, len(text)))))
    text[at] ^= draw.randrange(1, 256)
    path.write_bytes(text)
    return at


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize(("name", "part"), [("closed", ""), ("crashed", ""), ("crashed", "-wal")])
def test_a_cut_file_is_refused(
    states: dict[str, Path], tmp_path: Path, name: str, part: str, share: float
):
    path = tmp_path / "j"
    copy_journal(states[name], path)
    os.truncate(f"{path}{part}", int(os.path.getsize(f"{path}{part}") * share))
    if (name, part) == ("crashed", "") and share:
        # The log may hold every page that was cut off: then nothing is lost.
        with contextlib.suppress(JournalError):
            assert loaded(path) == EXPECTED
        return
    refused(path, "damaged")


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        (("",), r"-mark is gone"),
        (("", "-wal"), r"-mark is gone"),
        (("", "-mark"), r"-wal is gone"),
        (("-wal",), r"it is gone, and .*-wal says"),
        (("-mark",), r"it is gone, and .*-mark says"),
        (("-wal", "-mark"), r"it is gone"),
    ],
)
def test_a_part_of_an_open_journal_is_refused(
    states: dict[str, Path], tmp_path: Path, parts: tuple[str, ...], match: str
):
    copy_journal(states["crashed"], tmp_path / "j", parts)
    refused(tmp_path / "j", match)


def test_what_is_brought_back_after_a_refusal_is_taken(states: dict[str, Path], tmp_path: Path):
    """Whoever forgot to copy a file copies it and starts again."""
    copy_journal(states["crashed"], tmp_path / "j", ("", "-mark"))
    refused(tmp_path / "j", "-wal is gone")
    copy_journal(states["crashed"], tmp_path / "j", ("-wal",))
    assert loaded(tmp_path / "j") == EXPECTED


def test_a_refusal_leaves_the_log_as_it_is(states: dict[str, Path], tmp_path: Path):
    """SQLite would remove it; who has a whole copy of the page, or a better eye, can go on."""
    path, wal = tmp_path / "j", tmp_path / "j-wal"
    copy_journal(states["crashed"], path)
    whole = wal.read_bytes()
    damaged = whole[:9000] + bytes(byte ^ 1 for byte in whole[9000:9100]) + whole[9100:]
    wal.write_bytes(damaged)
    refused(path, "-wal is damaged")
    assert wal.read_bytes() == damaged
    assert sorted(os.listdir(tmp_path)) == ["j", "j-mark", "j-wal"]
    wal.write_bytes(whole)
    assert loaded(path) == EXPECTED


def test_an_older_log_beside_a_newer_mark_is_refused(tmp_path: Path):
    journal = SqliteJournal(tmp_path / "j", A)
    journal.append(b"one")
    journal.commit()
    copy_journal(tmp_path / "j", tmp_path / "old")
    journal.append(b"two")
    journal.commit()
    copy_journal(tmp_path / "j", tmp_path / "old", ("-mark",))
    journal.close()
    refused(tmp_path / "old", "ends at commit 1 and was at 2")


def test_the_main_file_alone_says_that_the_journal_was_not_closed(tmp_path: Path):
    """Also when the process crashed right after it had opened a journal that was closed."""
    path = tmp_path / "j"
    fill(path).close()
    journal = SqliteJournal(path, A)
    copy_journal(path, tmp_path / "copy", ("",))
    journal.close()
    refused(tmp_path / "copy", "was not closed")


DAMAGES = {
    "a row is gone": "DELETE FROM log WHERE seq = 60",
    "the first row is gone": "DELETE FROM log WHERE seq = 53",
    "the last row is gone": "DELETE FROM log WHERE seq = (SELECT max(seq) FROM log)",
    "all rows are gone": "DELETE FROM log",
    "rows have later numbers": "UPDATE log SET seq = -seq WHERE seq > 60; "
    "UPDATE log SET seq = 5 - seq WHERE seq < 0",
    "two rows are swapped": "UPDATE log SET seq = CASE seq WHEN 60 THEN -1 ELSE 60 END "
    "WHERE seq IN (60, 61); UPDATE log SET seq = 61 WHERE seq = -1",
    "the blobs of two rows are swapped": "UPDATE log SET (crc, data) = "
    "(SELECT crc, data FROM log AS other WHERE other.seq = 121 - log.seq) WHERE seq IN (60, 61)",
    "a blob is another": "UPDATE log SET data = x'91c401ff' WHERE seq = 60",
    "a blob is text": "UPDATE log SET data = 'text' WHERE seq = 60",
    "a blob is null": "UPDATE log SET data = NULL WHERE seq = 60",
    "a row is added": "INSERT INTO log SELECT seq + 1, crc, data FROM log "
    "ORDER BY seq DESC LIMIT 1",
    "a part of the checkpoint is gone": "DELETE FROM checkpoint WHERE part = 1",
    "the last part of the checkpoint is gone": "DELETE FROM checkpoint WHERE part = 3",
    "the checkpoint is gone": "DELETE FROM checkpoint",
    "everything is gone": "DELETE FROM checkpoint; DELETE FROM log",
    "parts of the checkpoint are swapped": "UPDATE checkpoint SET (crc, data) = (SELECT crc, data "
    "FROM checkpoint AS other WHERE other.part = 3 - checkpoint.part) WHERE part IN (1, 2)",
    "the number of the checkpoint is text": "UPDATE checkpoint SET seq = 'text'",
    "the number of the checkpoint is another": "UPDATE checkpoint SET seq = seq + 1",
    "the number of parts is negative": "UPDATE checkpoint SET parts = -1",
    "the owner is gone": "DELETE FROM owner",
    "the owner is another": "UPDATE owner SET node = 'b'",
    "the owner is a blob": "UPDATE owner SET node = x'61'",
    "the last number is another": "UPDATE owner SET last = 0",
    "there are two owners": 'INSERT INTO owner SELECT 2, "group", node, open, last, crc FROM owner',
    "a table is gone": "DROP TABLE log",
    "a table has another name": "ALTER TABLE log RENAME TO lag",
    "a table is new": "CREATE TABLE more (n INTEGER)",
    "a trigger is new": "CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM log; END",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_what_is_not_as_it_was_written_is_refused(
    states: dict[str, Path], tmp_path: Path, damage: str
):
    path = tmp_path / "j"
    copy_journal(states["closed"], path)
    change(path, damage)
    refused(path, "damaged")


def test_a_free_page_that_is_not_free_is_refused(tmp_path: Path):
    """Nothing is lost yet, and the next commit would overwrite what is there."""
    path = tmp_path / "j"
    with contextlib.closing(SqliteJournal(path, A)) as journal:
        journal.checkpoint(bytes(100_000))
        journal.checkpoint(b"small")
    text = bytearray(path.read_bytes())
    trunk = int.from_bytes(text[32:36], "big")  # the first page of the list of free ones
    assert trunk > 4
    text[32:36] = (4).to_bytes(4, "big")
    path.write_bytes(text)
    refused(path, "damaged")


def change(path: Path, statements: str) -> None:
    db = sqlite3.connect(path)
    db.executescript(statements)
    db.commit()
    db.close()


def test_a_newer_format_is_refused(states: dict[str, Path], tmp_path: Path):
    copy_journal(states["closed"], tmp_path / "j")
    change(tmp_path / "j", f"PRAGMA user_version={FORMAT + 1}; DROP TABLE log")
    refused(tmp_path / "j", f"has format {FORMAT + 1} and this thence knows {FORMAT}")


def make_folder(path: Path) -> None:
    path.mkdir()


def make_database(path: Path) -> None:
    change(path, "CREATE TABLE t (n INTEGER)")


FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a folder": (make_folder, "not a file"),
    "an empty file": (Path.touch, "is empty"),
    "a text": (lambda path: path.write_text("to buy: milk\n" * 300), "damaged"),
    "a short text": (lambda path: path.write_text("milk"), "damaged"),
    "zeros": (lambda path: path.write_bytes(bytes(8192)), "damaged"),
    "another database": (make_database, "is not a journal"),
    "a pipe": (os.mkfifo, "not a file"),
    "a link to nothing": (lambda path: path.symlink_to("nothing"), "link to nothing"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "symbolic links"),
}


@pytest.mark.parametrize(("make", "match"), FOREIGN.values(), ids=FOREIGN.keys())
def test_what_is_no_journal_is_refused_and_left_alone(
    tmp_path: Path, make: Callable[[Path], object], match: str
):
    path = tmp_path / "j"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    refused(path, match)
    assert os.listdir(tmp_path) == ["j"]
    assert before is None or path.read_bytes() == before


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path):
    with pytest.raises(JournalError, match="is not there: make it"):
        SqliteJournal(tmp_path / "disk" / "j", A)
    assert not os.listdir(tmp_path)


def test_a_name_may_have_any_character(tmp_path: Path):
    path = tmp_path / "a?b#c%20 é'.journal"
    fill(path).close()
    assert os.listdir(tmp_path) == [path.name]
    assert loaded(path) == EXPECTED


def test_another_process_gets_a_sentence(tmp_path: Path):
    path = tmp_path / "j"
    journal = fill(path)
    script = f"""
from thence.errors import JournalError
from thence.journal.sqlite import SqliteJournal
from thence.journal.base import Identity
try:
    SqliteJournal({str(path)!r}, Identity("g", "a"))
except JournalError as error:
    print(error)
"""
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert f"{path} is in use: a node of this name runs already" in said.stdout
    journal.append(b"more")
    journal.commit()
    journal.close()
    assert loaded(path).records == [*EXPECTED.records, b"more"]


def test_the_identity_is_that_of_the_files_not_of_their_name(tmp_path: Path):
    fill(tmp_path / "a").close()
    os.rename(tmp_path / "a", tmp_path / "b")
    with pytest.raises(JournalError, match="of a in g, not of b in g"):
        SqliteJournal(tmp_path / "b", Identity("g", "b"))


def test_limits_are_said_and_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sqlite, "STAGED_BYTES_MAX", 10)
    monkeypatch.setattr(sqlite, "CHECKPOINT_BYTES_MAX", 10)
    journal = SqliteJournal(tmp_path / "j", A)
    journal.append(b"12345678")
    with pytest.raises(LimitError, match="at most 10 bytes"):
        journal.append(b"901")
    with pytest.raises(LimitError, match="at most 10 bytes"):
        journal.checkpoint(b"12345678901")
    journal.append(b"90")
    journal.commit()
    journal.append(b"1")
    journal.close()
    assert loaded(tmp_path / "j") == Saved(None, [b"12345678", b"90", b"1"])


def test_a_large_checkpoint_is_kept_in_parts(tmp_path: Path):
    state = random.Random(1).randbytes(3 * sqlite.CHUNK_BYTES + 1)
    journal = SqliteJournal(tmp_path / "j", A)
    journal.checkpoint(state)
    journal.checkpoint(state[::-1])
    assert journal.load() == Saved(state[::-1], [])
    journal.close()
    db = sqlite3.connect(tmp_path / "j")
    assert db.execute("SELECT count(*), max(length(data)) FROM checkpoint").fetchall() == [
        (4, sqlite.CHUNK_BYTES)
    ]
    db.close()


def test_durability_is_one_of_two(tmp_path: Path):
    with pytest.raises(LocalProtocolError, match="process or power"):
        SqliteJournal(tmp_path / "j", A, "disk")  # type: ignore[arg-type]
    for durability, level in (("process", 1), ("power", 2)):
        journal = SqliteJournal(tmp_path / "j", A, durability)  # type: ignore[arg-type]
        assert journal._db.execute("PRAGMA synchronous").fetchone() == (level,)
        journal.close()
