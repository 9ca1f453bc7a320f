"""A journal in one SQLite file.

Theory of operation.  The file is in WAL mode and locked for as long as it is open.  One commit is
one row: the staged records as one blob, a number that is one more than the last, and a checksum
over both that also depends on whose journal it is, so a row that is missing, moved or damaged is
found.  A checkpoint takes a number too, and replaces every row in one transaction.  Rows of the
shelf have no number of that kind: one that is missing is found when it is asked for.

What SQLite does not notice is a write-ahead log that was lost or cut: it opens the file as it was
some commits ago.  A node that went on from there would use its own dots again.  Two things stand
against that.  While the journal is open, its row in ``owner`` says so, in the main file; and a mark
beside it (mark.py) has the number of the last commit.  A journal that was not closed and has no
mark, or ends before its mark, is refused.  A closed one is one file, and holds its last number.

What cannot be found out: that all its files together are an older copy, and that all are gone.

A commit that raised is not there, with one exception: when the disk took the bytes and then failed
to confirm them, it may be, as if the process had crashed right after.  Either way nothing more is
written, and whoever waits to send until a commit has returned has sent nothing of it.

One caller at a time; not across a fork.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

from thence.errors import JournalError, LimitError, LocalProtocolError
from thence.journal import kept_table, shelf_table
from thence.journal.base import Identity, Saved
from thence.journal.files import is_there
from thence.journal.kept_table import Total
from thence.journal.mark import Mark, read_mark, sync_folder
from thence.journal.reasons import FOREIGN, damaged, reason
from thence.journal.schema import APPLICATION_ID, FORMAT, LACKING, SCHEMA

Durability = Literal["process", "power"]
"""What a commit survives: the end of the process (kill -9), or of the power supply too."""

STAGED_BYTES_MAX: Final = 1 << 28  # a blob of SQLite ends at 10**9
CHECKPOINT_BYTES_MAX: Final = 1 << 32
CHUNK_BYTES: Final = 1 << 20
WAL_BYTES_KEPT: Final = 1 << 24  # a longer log is cut when it is started again
_NUMBERS: Final = struct.Struct("<QQQ")


class SqliteJournal:
    """One node's memory in one group, in the file ``path`` (see ``thence.journal.base``).

    A path where nothing is becomes a new journal; its folder has to be there.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        identity: Identity,
        durability: Durability = "process",
    ) -> None:
        if durability not in get_args(Durability):
            raise LocalProtocolError(f"durability: expected process or power, got {durability!r}")
        self.path = os.fspath(path)
        self.identity = identity
        self.durability: str = durability
        self.log_bytes = 0
        self._seed = zlib.crc32(msgspec.msgpack.encode([identity.group, identity.node]))
        self._staged: list[bytes] = []
        self._staged_bytes = 0
        self._last = 0
        self._total = Total()
        self._failed: JournalError | None = None
        self._closed = False
        self._locked = False
        self._mark: Mark | None = None
        self._mark_path = f"{self.path}-mark"
        if not is_there(self.path, (self._mark_path, f"{self.path}-wal")):
            self._create()
        try:
            self._db = sqlite3.connect(
                f"{Path(self.path).absolute().as_uri()}?mode=rw",  # never make an empty one
                uri=True,
                timeout=0,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise self._reason(error) from error
        try:
            self._open(durability)
        except BaseException as error:
            self._refuse()
            if isinstance(error, FOREIGN):
                raise self._reason(error) from error
            raise

    # ---- the protocol ----------------------------------------------------------------------------

    def load(self) -> Saved:
        """Everything that was committed."""
        self._must_be_usable()
        try:
            checkpoint, _ = self._checkpoint()
            records = [record for _, batch in self._batches() for record in batch]
        except FOREIGN as error:
            raise self._reason(error) from error
        return Saved(checkpoint, records)

    def append(self, record: bytes) -> None:
        """Stage a record; LimitError when one commit would hold more than STAGED_BYTES_MAX."""
        self._must_be_usable()
        size = len(record)
        if self._staged_bytes + size > STAGED_BYTES_MAX:
            raise LimitError(f"a commit to {self.path} holds at most {STAGED_BYTES_MAX} bytes")
        self._staged.append(record)
        self._staged_bytes += size
        self.log_bytes += size

    def commit(self) -> None:
        """Make what is staged durable; nothing is written when nothing is staged."""
        self._must_be_usable()
        if not self._staged:
            return
        number = self._last + 1
        data = msgspec.msgpack.encode(self._staged)
        try:
            self._db.execute(
                "INSERT INTO log VALUES (?, ?, ?)", (number, self._crc(data, number), data)
            )
            self._committed(number)
        except BaseException as error:
            raise self._fail(error) from error

    def checkpoint(
        self,
        state: bytes,
        shelved: Iterable[tuple[int, int]] = (),
        rows: Iterable[tuple[bytes, bytes | None]] = (),
    ) -> None:
        """Replace everything by ``state``, the shelf by these ranges of it, and these rows;
        LimitError above CHECKPOINT_BYTES_MAX."""
        self._must_be_usable()
        if len(state) > CHECKPOINT_BYTES_MAX:
            raise LimitError(f"a checkpoint holds at most {CHECKPOINT_BYTES_MAX} bytes")
        number = self._last + 1
        starts = range(0, max(1, len(state)), CHUNK_BYTES)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM log")
            self._db.execute("DELETE FROM checkpoint")
            for part, start in enumerate(starts):
                data = state[start : start + CHUNK_BYTES]
                crc = self._crc(data, number, part, len(starts))
                row = (part, len(starts), number, crc, data)
                self._db.execute("INSERT INTO checkpoint VALUES (?, ?, ?, ?, ?)", row)
            shelf_table.keep(self._db, shelved)
            total = kept_table.put(self._db, rows, self._seed, self._total)
            kept_table.write_total(self._db, total, self._total_crc(total, number))
            self._db.execute("COMMIT")
            self._committed(number)
        except BaseException as error:
            raise self._fail(error) from error
        self._total = total
        self.log_bytes = 0

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """All rows of the application, by key."""
        self._must_be_usable()
        try:
            yield from kept_table.read(self._db, self._seed, self._total)
        except LookupError as error:
            raise self._damaged(str(error)) from None
        except FOREIGN as error:
            raise self._reason(error) from error

    def shelve(self, values: Iterable[tuple[int, bytes]]) -> None:
        """Put values on the shelf, all in one transaction."""
        self._must_be_usable()
        rows = [(number, self._crc(data, number), data) for number, data in values]
        try:
            shelf_table.put(self._db, rows)
        except BaseException as error:
            raise self._fail(error) from error

    def fetch(self, number: int) -> bytes:
        """A value from the shelf."""
        self._must_be_usable()
        try:
            crc, data = shelf_table.get(self._db, number) or (None, None)
        except FOREIGN as error:
            raise self._reason(error) from error
        if not isinstance(data, bytes) or not self._intact(crc, data, number):
            raise self._damaged(f"value {number} of its shelf is not there as it was written")
        return data

    def shelved(self) -> list[tuple[int, int]]:
        """The numbers on the shelf and how many bytes each has."""
        self._must_be_usable()
        try:
            return shelf_table.sizes(self._db)
        except FOREIGN as error:
            raise self._reason(error) from error

    def close(self) -> None:
        """Commit and let go of the file, which then is the whole journal.

        After a commit that failed it only lets go.
        """
        if self._closed:
            return
        try:
            if self._failed is None:
                self.commit()
                self._settle()
        finally:
            self._closed = True
            self._let_go()

    # ---- writing ---------------------------------------------------------------------------------

    def _committed(self, number: int) -> None:
        assert self._mark is not None
        self._mark.write(number)
        self._last = number
        self._staged = []
        self._staged_bytes = 0

    def _fail(self, error: BaseException) -> BaseException:
        """Note that no more can be written, and give what to raise."""
        why = self._reason(error) if isinstance(error, FOREIGN) else error
        if isinstance(error, kept_table.TooLargeError):
            why = JournalError(f"a row of {error} bytes does not go into the journal {self.path}")
        said = why if isinstance(why, JournalError) else f"a commit broke off: {error!r}"
        self._failed = JournalError(
            f"{said}; nothing more is written to it, and what was committed before is there"
        )
        try:
            self._db.rollback()
        except sqlite3.Error:
            pass  # the transaction ends with the connection
        return self._failed if isinstance(why, JournalError) else error

    def _settle(self) -> None:
        """Write into the one main file that it is whole, and how far it goes."""
        try:
            self._write_owner(is_open=False)
            if self._one("PRAGMA wal_checkpoint(TRUNCATE)") == 0 and self._mark is not None:
                self._db.close()
                self._mark.remove()
        except BaseException as error:
            raise self._fail(error) from error

    def _refuse(self) -> None:
        """Let go of a journal that is not to be used, without its log being lost.

        SQLite moves what it can read of the log into the main file as it closes, and removes the
        log, with what it could not read; so for that moment it is called something else.
        """
        wal, kept = f"{self.path}-wal", f"{self.path}-wal.kept"
        try:
            if self._locked:
                os.rename(wal, kept)
        except OSError:
            pass  # there is none, or the system does not rename open files
        self._let_go()
        if self._locked and os.path.exists(kept):
            os.replace(kept, wal)

    def _let_go(self) -> None:
        try:
            self._db.close()
        except sqlite3.Error:
            pass  # what was committed is in the file and its log
        if self._mark is not None:
            self._mark.close()

    def _must_be_usable(self) -> None:
        if self._failed is not None:
            raise self._failed
        if self._closed:
            raise LocalProtocolError(f"the journal {self.path} is closed")

    def _crc(self, data: bytes, number: int, part: int = 0, parts: int = 0) -> int:
        return zlib.crc32(data, zlib.crc32(_NUMBERS.pack(number, part, parts), self._seed))

    def _total_crc(self, total: Total, number: int) -> int:
        return self._crc(b"", number, total.count, total.sum)

    # ---- opening ---------------------------------------------------------------------------------

    def _create(self) -> None:
        """Make an empty journal under another name and put it in place, unless one came first."""
        folder, name = os.path.split(os.path.abspath(self.path))
        if not os.path.isdir(folder):
            # Making it would hide that the disk with the journal is not mounted.
            raise JournalError(f"{folder}, the folder of the journal {name}, is not there: make it")
        fresh = os.path.join(folder, f".{name}.{os.getpid()}.new")
        try:
            if os.path.exists(fresh):
                os.remove(fresh)  # of a crashed process with this number
            db = sqlite3.connect(fresh, isolation_level=None)
            try:
                db.execute("PRAGMA journal_mode=WAL")
                db.execute("BEGIN")
                db.execute(f"PRAGMA application_id={APPLICATION_ID}")
                db.execute(f"PRAGMA user_version={FORMAT}")
                for statement in SCHEMA.values():
                    db.execute(statement)
                db.execute("INSERT INTO owner VALUES (?, ?, ?, ?, ?, ?)", self._owner_row(False))
                kept_table.write_total(db, Total(), self._total_crc(Total(), 0))
                db.execute("COMMIT")
            finally:
                db.close()
            try:
                os.link(fresh, self.path)  # a rename would replace what is there
            except FileExistsError:
                pass
            os.remove(fresh)
            sync_folder(self.path)
        except (sqlite3.Error, OSError) as error:
            raise self._reason(error) from error

    def _open(self, durability: Durability) -> None:
        """Lock the file, look at everything in it, and say in it that it is open.

        Nothing is changed before all was found right.
        """
        one = self._one
        one("PRAGMA locking_mode=EXCLUSIVE")
        one(f"PRAGMA synchronous={'FULL' if durability == 'power' else 'NORMAL'}")
        one(f"PRAGMA fullfsync={int(durability == 'power')}")
        application = one("PRAGMA application_id")
        self._locked = True
        if application != APPLICATION_ID:
            raise JournalError(f"{self.path} is not a journal: give the journal a path of its own")
        version = one("PRAGMA user_version")
        if version not in LACKING:
            raise JournalError(
                f"{self.path} has format {version} and this thence knows {FORMAT}: "
                "start the node with the thence that wrote it, or a newer one"
            )
        found = dict(self._db.execute("SELECT name, sql FROM sqlite_schema"))
        lacks = LACKING[version]
        if found != {name: sql for name, sql in SCHEMA.items() if name not in lacks}:
            raise self._damaged("its tables are not those of a journal")
        if (report := one("PRAGMA integrity_check(1)")) != "ok":
            raise self._damaged(str(report))
        was_open = self._verify(has_rows="kept" not in lacks)
        if one("PRAGMA journal_mode=WAL") != "wal":
            raise self._damaged("SQLite cannot keep a write-ahead log for it")
        one(f"PRAGMA journal_size_limit={WAL_BYTES_KEPT}")
        if lacks:
            self._modernise(lacks)
        self._mark = Mark(self._mark_path, self._last)
        if not was_open:
            self._write_owner(is_open=True)
        one("PRAGMA wal_checkpoint(FULL)")  # the main file alone has to say that it is open

    def _modernise(self, tables: tuple[str, ...]) -> None:
        """Make the tables that it lacks."""
        self._db.execute("BEGIN IMMEDIATE")
        for table in tables:
            self._db.execute(SCHEMA[table])
        if "kept" in tables:  # there are no rows then
            crc = self._total_crc(Total(), self._checkpoint()[1])
            kept_table.write_total(self._db, Total(), crc)
        else:
            kept_table.move_large(self._db)
        self._db.execute(f"PRAGMA user_version={FORMAT}")
        self._db.execute("COMMIT")

    def _verify(self, has_rows: bool) -> bool:
        """Check owner, rows and mark, and set the numbers; whether it was not closed."""
        rows = self._db.execute("SELECT * FROM owner").fetchall()
        if len(rows) != 1 or len(rows[0]) != 6:
            raise self._damaged("it does not say whose it is")
        _, group, node, is_open, last, crc = rows[0]
        try:
            intact = crc == _owner_crc(group, node, is_open, last)
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
            intact = False
        if not intact:
            raise self._damaged("what it says of its owner is not what was written")
        if Identity(group, node) != self.identity:
            raise JournalError(
                f"{self.path} is the journal of {node} in {group}, not of {self.identity.node} in "
                f"{self.identity.group}: every node has its own in every group"
            )
        _, self._last = self._checkpoint()
        if has_rows:
            self._total = self._read_total(self._last)
        for number, batch in self._batches():
            self._last = number
            self.log_bytes += sum(map(len, batch))
        if self._last < last:
            raise self._damaged(f"it ends at commit {self._last} of {last}")
        self._verify_mark(bool(is_open))
        return bool(is_open)

    def _verify_mark(self, is_open: bool) -> None:
        try:
            mark = read_mark(self._mark_path)
        except ValueError as error:
            raise self._damaged(str(error)) from None
        if mark is None and is_open:
            raise self._damaged(
                f"it was not closed and {self._mark_path} is gone: a journal in use is that file, "
                f"{self.path} and {self.path}-wal together"
            )
        if mark is not None and self._last < mark:
            wal = f"{self.path}-wal"
            state = "is damaged" if os.path.exists(wal) and os.path.getsize(wal) else "is gone"
            raise self._damaged(
                f"it ends at commit {self._last} and was at {mark}: {wal} {state}, or power failed"
            )

    # ---- reading ---------------------------------------------------------------------------------

    def _checkpoint(self) -> tuple[bytes | None, int]:
        """The state and its number; (None, 0) when there is none."""
        rows = self._db.execute("SELECT part, parts, seq, crc, data FROM checkpoint ORDER BY part")
        pieces: list[bytes] = []
        number = parts = 0
        for part, parts, seq, crc, data in rows:
            number = number or seq
            if (part, seq) != (len(pieces), number) or not self._intact(
                crc, data, seq, part, parts
            ):
                raise self._damaged(f"part {len(pieces)} of the checkpoint is not what was written")
            pieces.append(data)
        if len(pieces) != parts:
            raise self._damaged(f"the checkpoint has {len(pieces)} of {parts} parts")
        return (b"".join(pieces), number) if pieces else (None, 0)

    def _read_total(self, number: int) -> Total:
        """What the checkpoint of this number says of rows."""
        found = kept_table.read_total(self._db, lambda total: self._total_crc(total, number))
        if found is None:
            raise self._damaged("it does not say how many rows its application has")
        return found

    def _batches(self) -> Iterator[tuple[int, list[bytes]]]:
        """(number, records) of each commit since the checkpoint."""
        number = self._one("SELECT max(seq) FROM checkpoint") or 0
        for seq, crc, data in self._db.execute("SELECT seq, crc, data FROM log ORDER BY seq"):
            number += 1
            if seq != number or not self._intact(crc, data, number):
                raise self._damaged(f"commit {number} is not there as it was written")
            try:
                yield number, msgspec.msgpack.decode(data, type=list[bytes])
            except msgspec.MsgspecError as error:
                raise self._damaged(f"commit {number}: {error}") from None

    def _intact(
        self, crc: object, data: object, number: int, part: int = 0, parts: int = 0
    ) -> bool:
        try:
            return isinstance(data, bytes) and crc == self._crc(data, number, part, parts)
        except struct.error:  # not numbers, or not such as are written
            return False

    def _one(self, statement: str) -> Any:
        row = self._db.execute(statement).fetchone()
        return None if row is None else row[0]

    def _owner_row(self, is_open: bool) -> tuple[int, str, str, int, int, int]:
        group, node = self.identity.group, self.identity.node
        crc = _owner_crc(group, node, int(is_open), self._last)
        return 1, group, node, int(is_open), self._last, crc

    def _write_owner(self, is_open: bool) -> None:
        self._db.execute("REPLACE INTO owner VALUES (?, ?, ?, ?, ?, ?)", self._owner_row(is_open))

    # ---- what is wrong ---------------------------------------------------------------------------

    def _damaged(self, what: str) -> JournalError:
        return damaged(self.path, what)

    def _reason(self, error: Exception) -> JournalError:
        return reason(self.path, error)


def _owner_crc(group: str, node: str, is_open: int, last: int) -> int:
    return zlib.crc32(msgspec.msgpack.encode([group, node, is_open, last]))
