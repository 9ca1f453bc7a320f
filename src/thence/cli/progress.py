"""A bar on the terminal for work that takes long; nothing when nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

AFTER_S: Final = 1.0  # what takes less shows no bar


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """Yields what to call with (what is done, how much of it, of how much), or None."""
    if not sys.stderr.isatty():
        yield None
        return
    from time import monotonic

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=None)
    start = monotonic()
    shown = False

    def progress(what: str, done: int, total: int) -> None:
        nonlocal shown
        if not shown and monotonic() - start > AFTER_S:
            bar.start()
            shown = True
        bar.update(task, description=what, completed=done, total=total)

    try:
        yield progress
    finally:
        if shown:
            bar.stop()
