"""Files with the latency of each link (thesis 8.1.2): N rows of N times in ms, with commas."""

from __future__ import annotations

from pathlib import Path

from thence.errors import UnusableInputError
from thence.sim.clock import TIME_MS_MAX


def read_matrix(path: Path, nodes: int, place: str) -> tuple[tuple[float, ...], ...]:
    """The delays from each node (row) to each (column); ``place`` begins the sentence of an error.

    Empty lines and what follows a ``#`` are not read.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise UnusableInputError(f"{place}: the matrix {path} cannot be read: {why}") from None
    rows: list[tuple[float, ...]] = []
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        if content:
            rows.append(_row(content, f"{path}:{number}"))
            if len(rows[-1]) != nodes:
                raise UnusableInputError(
                    f"{path}:{number}: expected {nodes} times, one for each node of the group, got "
                    f"{len(rows[-1])}"
                )
    if len(rows) != nodes:
        raise UnusableInputError(
            f"{path}: expected {nodes} rows, one for each node of the group, got {len(rows)}"
        )
    return tuple(rows)


def _row(text: str, place: str) -> tuple[float, ...]:
    found: list[float] = []
    for part in text.split(","):
        try:
            value = float(part)
            if not 0 <= value <= TIME_MS_MAX:
                raise ValueError
        except ValueError:
            raise UnusableInputError(
                f"{place}: expected times in ms from 0 to {TIME_MS_MAX:g} with commas between "
                f"them, got {part.strip()[:20]!r}"
            ) from None
        found.append(value)
    return tuple(found)
