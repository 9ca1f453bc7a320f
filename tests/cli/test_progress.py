"""Long work shows what it is at, by itself, and short work shows nothing."""

from __future__ import annotations

import os
import pty
import sys
import threading
import time
from collections.abc import Callable

import pytest

from thence.cli.progress import _Pace, progress_bar


class Terminal:
    """A terminal of which everything that is shown is kept."""

    def __init__(self) -> None:
        self._read, write = pty.openpty()
        self.file = os.fdopen(write, "w")
        self.shown = b""
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def _go(self) -> None:
        while True:
            try:
                some = os.read(self._read, 4096)
            except OSError:
                return
            self.shown += some

    def wait_for(self, found: Callable[[bytes], bool]) -> None:
        for _ in range(2000):
            if found(self.shown):
                return
            time.sleep(0.01)
        raise AssertionError(f"never shown: {self.shown!r}")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def test_a_bar_shows_up_while_nothing_is_told(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", terminal.file)
    with progress_bar(after_s=0.05) as tell:
        tell("starting Spark", 0, 1)
        terminal.wait_for(lambda shown: b"starting Spark" in shown)
        tell("judging logs", 3, 8)
        terminal.wait_for(lambda shown: b"judging logs" in shown and b"3/8" in shown)


def test_short_work_shows_no_bar(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", terminal.file)
    with progress_bar(after_s=60) as tell:
        tell("reading", 1, 2)
    terminal.file.write("end")
    terminal.file.flush()
    terminal.wait_for(lambda shown: shown.endswith(b"end"))
    assert b"reading" not in terminal.shown


def test_without_a_terminal_there_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]):
    with progress_bar(line_s=0.02) as tell:
        tell("judging logs", 3, 8)
        time.sleep(0.2)
    assert "thence: judging logs, 3 of 8\n" in capsys.readouterr().err
    with progress_bar() as tell:
        tell("judging logs", 3, 8)
    assert capsys.readouterr().err == ""


def test_the_time_left_follows_from_the_time_so_far(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr("thence.cli.progress.time.monotonic", lambda: now[0])
    pace = _Pace()
    assert pace.told("checking", 10, 110) == "checking"
    now[0] = 10.0
    assert pace.told("checking", 14, 110) == "checking"  # too little to say anything
    assert pace.told("checking", 60, 110) == "checking, about 10 s left"
    now[0] = 100.0
    assert pace.told("checking", 60, 110) == "checking, about 2 min left"
    assert pace.told("checking", 110, 110) == "checking"
    assert pace.told("told by others", 45, 30) == "told by others"
    assert pace.told("measuring", 50, 100) == "measuring"  # something else: from the beginning
    assert pace.told("making runs, about 3 s left", 9, 10) == "making runs, about 3 s left"
