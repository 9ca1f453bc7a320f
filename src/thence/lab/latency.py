"""Files with the latency of each link (thesis 8.1.2): N rows of N times in ms, with commas."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from thence.errors import UnusableInputError
from thence.sim.clock import TIME_MS_MAX

FILE_BYTES_MAX: Final = 32 << 20
"""The largest group has a million links."""


def read_matrix(path: Path, nodes: int, place: str) -> tuple[tuple[float, ...], ...]:
    """The delays from each node (row) to each (column); ``place`` begins the sentence of an error.

    Empty lines and what follows a ``#`` are not read.
    """
    try:
        with path.open("rb") as source:
            data = source.read(FILE_BYTES_MAX + 1)
        text = data.decode()
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a NUL in the name
        why = getattr(error, "strerror", None) or "it is no text"
        name = f"{path}" if f"{path}".isprintable() else ascii(f"{path}")
        raise UnusableInputError(f"{place}: the matrix {name} cannot be read: {why}") from None
    if len(data) > FILE_BYTES_MAX:
        raise UnusableInputError(f"{path}: expected a matrix of at most {FILE_BYTES_MAX} bytes")
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
