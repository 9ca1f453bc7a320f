"""What long work is at: a bar on a terminal, now and then a line where there is none."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

AFTER_S: Final = 1.0
"""What takes less shows nothing on a terminal."""
LINE_S: Final = 15.0
"""Between two lines where there is no terminal."""

FORESEEN: Final = 0.05
"""The time left is told once this share of the work is done."""

Tell = Callable[[str, int, int], None]
"""Called with what is done, how much of it, and of how much."""


@contextmanager
def progress_bar(after_s: float = AFTER_S, line_s: float = LINE_S) -> Iterator[Tell]:
    """Yields what to call.  It shows up by itself, also while nothing calls."""
    shown = _Bar(after_s) if sys.stderr.isatty() else _Lines(line_s)
    try:
        yield shown.tell
    finally:
        shown.close()


class _Pace:
    """How long work takes that goes on as it did so far."""

    def __init__(self) -> None:
        self._what = ""
        self._since = 0.0
        self._from = 0

    def told(self, what: str, done: int, total: int) -> str:
        """The same with the time that is left, once there is something to say of it."""
        if what.endswith(" left"):
            return what  # who counts more than pieces knows better
        now = time.monotonic()
        if what != self._what or done < self._from:
            self._what, self._since, self._from = what, now, done
        made, left = done - self._from, total - done
        if left <= 0 or made < FORESEEN * (made + left):
            return what
        seconds = (now - self._since) * left / made
        return (
            f"{what}, about {seconds:.0f} s left"
            if seconds < 90
            else (f"{what}, about {seconds / 60:.0f} min left")
        )


class _Bar:
    def __init__(self, after_s: float) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=None)
        self._lock = threading.Lock()
        self._closed = False
        self._pace = _Pace()
        self._timer = threading.Timer(after_s, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        with self._lock:
            if not self._closed:
                self._bar.start()

    def tell(self, what: str, done: int, total: int) -> None:
        told = self._pace.told(what, done, total)
        self._bar.update(self._task, description=told, completed=done, total=total)

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            self._bar.stop()


class _Lines:
    def __init__(self, line_s: float) -> None:
        self._line_s = line_s
        self._now = ""
        self._pace = _Pace()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def _go(self) -> None:
        while not self._stop.wait(self._line_s):
            if self._now:
                print(f"thence: {self._now}", file=sys.stderr, flush=True)

    def tell(self, what: str, done: int, total: int) -> None:
        self._now = f"{self._pace.told(what, done, total)}, {done} of {total}"

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
