"""The journal in SQLite on a disk that is full, and in a process that is killed."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.journal.places import A, hash_of
from tests.seeds import seeds
from thence.journal.sqlite import SqliteJournal

KILLS = 25
RECORDS_MAX = 200_000  # more than a disk of DISK_BYTES holds
DISK_BYTES = 1 << 20


def number_of(record: bytes) -> int:
    return int(record.split()[0])


def check_dense(path: Path, at_least: int) -> int:
    """The checkpoint and the records go on from one another, and how far; nothing is missing."""
    journal = SqliteJournal(path, A)
    saved = journal.load()
    first = number_of(saved.checkpoint) + 1 if saved.checkpoint is not None else 0
    digest = int(saved.checkpoint.split()[1]) if saved.checkpoint is not None else 0
    assert sum([hash_of(key, value) for key, value in journal.rows()]) == digest
    numbers = [number_of(record) for record in saved.records]
    assert numbers == list(range(first, first + len(numbers)))
    assert first + len(numbers) - 1 >= at_least
    journal.close()
    return first + len(numbers)


# Appends, commits and checkpoints from a given number on, and prints each number once it is safe.
# A checkpoint has the number, and the sum of the hashes of all rows.
WORK = """
import random, resource, sys
from tests.journal.places import hash_of
from thence.errors import JournalError
from thence.journal.base import Identity
from thence.journal.sqlite import SqliteJournal
path = sys.argv[1]
first, seed, last, limit = map(int, sys.argv[2:])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
draw = random.Random(seed)
journal = SqliteJournal(path, Identity("g", "a"))
rows = dict(journal.rows())
number = first - 1
try:
    while number < last:
        for _ in range(draw.choice((1, 1, 3, 20))):
            number += 1
            journal.append(b"%d " % number + bytes(draw.choice((0, 10, 2000))))
        if draw.random() < 0.05:
            changed = {b"%d" % draw.randrange(300): b"%d" % number for _ in range(50)}
            changed.update({b"%d" % draw.randrange(300): None for _ in range(20)})
            rows.update(changed)
            rows = {key: value for key, value in rows.items() if value is not None}
            digest = sum([hash_of(*row) for row in rows.items()])
            text = b"%d %d " % (number, digest) + bytes(draw.choice((0, 50_000)))
            journal.checkpoint(text, rows=changed.items())
        else:
            journal.commit()
        print(number, flush=True)
        if draw.random() < 0.005:
            journal.close()
            journal = SqliteJournal(path, Identity("g", "a"))
except JournalError as error:
    print("failed:", error, flush=True)
    for use in (journal.commit, lambda: journal.append(b""), lambda: journal.checkpoint(b"")):
        try:
            use()
            print("and then it did not", flush=True)
        except JournalError:
            pass
    journal.close()
    print("closed", flush=True)
"""


def start(
    path: Path, first: int, seed: int, file_bytes_max: int | None = None
) -> subprocess.Popen[bytes]:
    limit = resource.RLIM_INFINITY if file_bytes_max is None else file_bytes_max
    arguments = [str(path), *map(str, (first, seed, first + RECORDS_MAX, limit))]
    return subprocess.Popen(
        [sys.executable, "-c", WORK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("seed", seeds(1))
def test_after_kill_9_everything_that_was_said_is_there(tmp_path: Path, seed: int):
    draw = random.Random(seed)
    path = tmp_path / "j"
    following = 0
    for _ in range(KILLS):
        process = start(path, following, draw.randrange(1 << 30))
        assert process.stdout is not None
        assert process.stderr is not None
        heard = []
        if draw.random() < 0.2:
            time.sleep(draw.random() * 0.2)  # perhaps while it opens the journal
        else:
            heard = [process.stdout.readline() for _ in range(draw.randrange(1, 150))]
        process.send_signal(signal.SIGKILL)
        with process:  # not communicate(): it passes over what readline() has buffered
            heard += process.stdout.readlines()
            err = process.stderr.read()
        assert process.returncode == -signal.SIGKILL, err.decode()
        lines = b"".join(heard).split(b"\n")[:-1]
        following = check_dense(path, max([following - 1, *map(int, lines)]))
    assert following > 1000


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[], object]]:
    """A file system of DISK_BYTES, and how to make room on it."""
    mount = ["mount", "-t", "tmpfs", "-o"]
    subprocess.run([*mount, f"size={DISK_BYTES}", "tmpfs", folder], check=True)
    try:
        larger = [*mount, f"remount,size={8 * DISK_BYTES}", "tmpfs", folder]
        yield lambda: subprocess.run(larger, check=True)
    finally:
        subprocess.run(["umount", folder], check=True)


def can_mount() -> bool:
    """Only root may, and not everywhere."""
    script = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", os.curdir]
    try:
        tried = subprocess.run(script, capture_output=True, check=False)
    except OSError:
        return False
    return os.geteuid() == 0 and tried.returncode == 0


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("disk", ["limit", "tmpfs"] if can_mount() else ["limit"])
def test_on_a_full_disk_a_commit_fails_and_so_do_all_after_it(tmp_path: Path, disk: str, seed: int):
    """Full, or with a limit on the size of a file: then writes fail as on a broken disk."""
    path = tmp_path / "j"
    with small_disk(tmp_path) if disk == "tmpfs" else nullcontext(lambda: None) as make_room:
        process = start(path, 0, seed, DISK_BYTES if disk == "limit" else None)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err.decode()
        lines = out.decode().splitlines()
        failed = next(at for at, line in enumerate(lines) if line.startswith("failed:"))
        assert str(path) in lines[failed]
        assert ("the disk is full" if disk == "tmpfs" else "look at the disk") in lines[failed]
        assert "nothing more is written" in lines[failed]
        assert lines[failed + 1 :] == ["closed"]
        make_room()
        said = int(lines[failed - 1])
        assert check_dense(path, said) == said + 1  # and of what failed, nothing


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def test_a_disk_that_cannot_be_written_is_said_when_the_journal_is_opened(folder: Path):
    path = folder / "j"
    SqliteJournal(path, A).close()
    script = f"""
import os, sys
from thence.errors import JournalError
from thence.journal.base import Identity
from thence.journal.sqlite import SqliteJournal
if os.geteuid() == 0:
    os.setuid(65534)  # root may write anything
try:
    SqliteJournal({str(path)!r}, Identity("g", "a"))
except JournalError as error:
    print(error)
"""
    folder.chmod(0o555)
    path.chmod(0o444)
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    folder.chmod(0o755)
    assert f"{path} cannot be used" in said
    assert os.listdir(folder) == ["j"]
