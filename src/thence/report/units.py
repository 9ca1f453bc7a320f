"""Numbers for people: bytes, microseconds and counts in units that fit their size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

Unit = Literal["entries", "bytes", "us"]

STEPS: Final[dict[Unit, tuple[tuple[float, str], ...]]] = {
    "entries": ((1, ""),),
    "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")),
    "us": ((1e6, "s"), (1e3, "ms"), (1, "µs")),
}
"""By unit, from the largest: the size from which a name is used."""


def shown(value: float | None, unit: Unit) -> str:
    """A value with two or three digits that count, and its unit."""
    if value is None:
        return "–"
    steps = STEPS[unit]
    size, name = next((step for step in steps if abs(value) >= step[0]), steps[-1])
    return f"{number(value / size)} {name}".rstrip()


def number(value: float) -> str:
    """Two digits behind the point below 10, one below 100, none above, no zeros at the end."""
    places = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def interval(ms: float | None) -> str:
    """A send interval."""
    return "any interval" if ms is None else f"{ms:g} ms"


def every(ms: float | None) -> str:
    """How often nodes send."""
    return "at any interval" if ms is None else f"every {interval(ms)}"


def reach(values: Iterable[float | None], unit: Unit) -> str:
    """From the least to the greatest of some values; one if they look the same."""
    found = sorted(value for value in values if value is not None)
    texts = dict.fromkeys(shown(value, unit) for value in found[:1] + found[-1:])
    return " to ".join(texts) or "–"


def listed(words: list[str]) -> str:
    """Words as a person lists them."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
