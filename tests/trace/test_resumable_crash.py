"""A resumable log in a process that dies: before every call of the system, and by kill -9.

The journal is a number that survives: how many records were committed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.journal.places import A
from tests.seeds import seeds
from tests.trace.test_resumable import names, sealed
from thence.journal.sqlite import SqliteJournal
from thence.trace import tables
from thence.trace.resumable import ResumableLog
from thence.trace.writer import FORMS, Form

CALLS = ("open", "write", "ftruncate", "fsync", "replace", "unlink", "truncate", "mkdir")
TURNS = 5
RECORDS = 2 * TURNS
KILLS = 12  # of each form


class Dead(BaseException):
    """The process is gone."""


class Machine:
    """Counts the calls that change the disk; dies at one of them, and then answers no other."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.calls = 0
        self.dies_at = dies_at

    def step(self) -> bool:
        """Whether it dies in this very call; Dead when it died before."""
        self.calls += 1
        if self.dies_at is not None and self.calls > self.dies_at:
            raise Dead
        return self.calls == self.dies_at

    def mortal(self, call: Callable[..., Any], partly: Callable[..., Any] | None) -> Any:
        """The call, with ``partly`` in its place when the machine dies in it."""

        def called(*given: Any, **named: Any) -> Any:
            if self.step():
                if partly is not None:
                    partly(*given, **named)
                raise Dead
            return call(*given, **named)

        return called

    @contextmanager
    def running(self) -> Iterator[None]:
        real_write, real_segment = os.write, tables.write_segment

        def half_write(descriptor: int, data: memoryview) -> None:
            real_write(descriptor, data[: len(data) // 2])

        def half_segment(table: object, path: str) -> None:
            Path(path).write_bytes(b"PAR1 and no more")

        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                partly = half_write if name == "write" else None
                call = getattr(os, name) if name != "fsync" else (lambda descriptor: None)
                patch.setattr(os, name, self.mortal(call, partly))
            patch.setattr(tables, "write_segment", self.mortal(real_segment, half_segment))
            yield


class Node:
    """What survives of it: a folder and the number in its journal."""

    def __init__(self, folder: Path, form: Form, sync: bool) -> None:
        self.folder = folder
        self.form: Form = form
        self.sync = sync
        self.committed = 0

    def live(self, machine: Machine) -> bool:
        """One life: log the rest of the records, sealing now and then; whether it got there.

        The clock of each record is its position, so what is read can be known.
        """
        log: ResumableLog | None = None
        try:
            with machine.running():
                log = ResumableLog(
                    self.folder, "r", "a", self.committed, self.form, 4, 1e9, self.sync
                )
                assert len(log) == self.committed
                while len(log) < RECORDS:
                    log.append("sample", len(log))
                    log.append("sample", len(log), extra={"n": 1})
                    flushed = log.flush()
                    if machine.step():  # dies between flush and commit
                        raise Dead
                    self.committed = flushed
                    if log.due(0.0):
                        log.seal(flushed)
                log.seal(self.committed)
        except Dead:
            return False
        finally:
            if log is not None:
                log.close()
        return True


@pytest.mark.parametrize("sync", [False, True], ids=["system", "disk"])
@pytest.mark.parametrize("form", FORMS)
def test_a_crash_at_every_call_and_another_while_resuming_lose_and_repeat_nothing(
    tmp_path: Path, form: Form, sync: bool
):
    whole = Machine()
    assert Node(tmp_path / "whole", form, sync).live(whole)
    expected = list(range(RECORDS))
    assert sealed(tmp_path / "whole") == expected
    assert whole.calls > 3 * TURNS
    for first in range(1, whole.calls + 1):
        # The second life dies early: while it resumes, and soon after.
        for second in (None, 1, 2, 3):
            node = Node(tmp_path / f"{first}-{second}", form, sync)
            assert not node.live(Machine(first))
            if second is not None:
                node.live(Machine(second))
            assert node.live(Machine()), (first, second)
            assert sealed(node.folder) == expected, (first, second)
            assert not [name for name in names(node.folder) if name.startswith(".")]


# Logs into a folder and counts in a journal; prints each count once it is committed.
WORK = """
import random, sys
from thence.journal.base import Identity
from thence.journal.sqlite import SqliteJournal
from thence.trace.resumable import ResumableLog
folder, form, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
draw = random.Random(seed)
journal = SqliteJournal(f"{folder}/journal", Identity("g", "a"))
records = journal.load().records
log = ResumableLog(f"{folder}/run", "r", "a", int(records[-1]) if records else 0, form, 50)
for _ in range(100_000):
    for _ in range(draw.choice((1, 5, 30))):
        log.append("sample", len(log), payload="x" * draw.choice((0, 10, 3000)))
    journal.append(b"%d" % log.flush())
    journal.commit()
    print(len(log), flush=True)
    if log.due(0.0):
        log.seal(len(log))
"""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", seeds(1))
def test_after_kill_9_the_log_is_what_the_journal_says(tmp_path: Path, form: Form, seed: int):
    draw = random.Random(seed)
    said = 0
    for _ in range(KILLS):
        arguments = [str(tmp_path), form, str(draw.randrange(1 << 30))]
        process = subprocess.Popen(
            [sys.executable, "-c", WORK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        heard = [process.stdout.readline() for _ in range(draw.randrange(1, 30))]
        time.sleep(draw.random() * 0.01)
        process.send_signal(signal.SIGKILL)
        with process:  # not communicate(): it passes over what readline() has buffered
            heard += process.stdout.readlines()
            err = process.stderr.read()
        assert process.returncode == -signal.SIGKILL, err.decode()
        said = max([said, *map(int, b"".join(heard).split(b"\n")[:-1])])
    journal = SqliteJournal(tmp_path / "journal", A)
    committed = int(journal.load().records[-1])
    journal.close()
    assert committed >= said > 500
    log = ResumableLog(tmp_path / "run", "r", "a", committed)
    log.seal(committed)
    log.close()
    assert sealed(tmp_path / "run") == list(range(committed))
