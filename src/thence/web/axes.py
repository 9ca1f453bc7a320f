"""Along what a run is drawn, and how quiet stretches of it are folded.

An axis gives each record a coordinate x.  Folding is a second coordinate u: x with every long
stretch in which nothing happens made short.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from thence.errors import UnusableInputError
from thence.trace.columns import Ints
from thence.trace.layout import Layout

Floats = npt.NDArray[np.float64]
AXES: Final = ("order", "time", "graph")
WALL_CLOCK_US: Final = 1_000_000_000_000_000
"""Clocks beyond this (the year 2001) count from 1970, others from the beginning of the run..."""
CALENDAR_END_US: Final = 253_402_300_800_000_000
"""...and those beyond this (the year 10000), which no calendar here has."""
FOLD_SHARE: Final = 0.02
"""A stretch is quiet when it is at least this much of the whole..."""
FOLD_TIMES: Final = 12.0
"""...and this many times as long as what usually, in the median, lies between two records."""
FOLDED_SHARE: Final = 0.01
"""What a folded stretch takes, of what is not folded."""
TICKS_MAX: Final = 12


class Fold(msgspec.Struct, frozen=True):
    """A map from x to u that rises everywhere, by its corners."""

    x: Floats
    u: Floats
    folds: tuple[tuple[float, float, float, float], ...] = ()
    """(u from, u to, x from, x to) of each stretch that is folded."""

    def to_u(self, x: Any) -> Any:
        """The folded coordinate."""
        return np.interp(x, self.x, self.u) if len(self.folds) else np.asarray(x, np.float64)

    def to_x(self, u: float) -> float:
        """The coordinate itself; beyond the ends, as it is there."""
        if not self.folds:
            return float(u)
        if u <= self.u[0]:
            return float(self.x[0] - (self.u[0] - u))
        if u >= self.u[-1]:
            return float(self.x[-1] + (u - self.u[-1]))
        return float(np.interp(u, self.u, self.x))


def coordinates(layout: Layout, axis: str) -> tuple[Ints, Floats]:
    """The rows that an axis shows, and their x."""
    rows = np.arange(len(layout))
    if axis == "order":
        return rows, layout.level.astype(np.float64)
    if axis == "time":
        start = int(layout.t_us.min()) if len(rows) else 0
        return rows, (layout.t_us - start).astype(np.float64)
    if axis == "graph":
        rows = np.flatnonzero(layout.depth >= 0)
        return rows, layout.depth[rows].astype(np.float64)
    raise UnusableInputError(f"there is no axis {axis!r}: expected {', '.join(AXES)}")


def fold_quiet(x: Floats) -> Fold:
    """Fold what is quiet between some records; x is sorted."""
    if len(x) < 3 or x[-1] <= x[0]:
        return Fold(x[:1], x[:1])
    gaps = np.diff(x)
    whole = float(x[-1] - x[0])
    quiet = np.flatnonzero(gaps >= max(FOLD_SHARE * whole, 1.0))
    usual = float(np.median(gaps[gaps > 0]))
    quiet = quiet[gaps[quiet] >= FOLD_TIMES * usual]
    if not len(quiet):
        return Fold(x[:1], x[:1])
    rest = max(whole - float(gaps[quiet].sum()), 1.0)
    short = max(rest * FOLDED_SHARE, usual)
    corners_x, corners_u, folds = [float(x[0])], [float(x[0])], []
    for place in quiet.tolist():
        begin, end = float(x[place]), float(x[place + 1])
        u = corners_u[-1] + begin - corners_x[-1]
        corners_x += [begin, end]
        corners_u += [u, u + min(short, end - begin)]
        folds.append((u, corners_u[-1], begin, end))
    corners_u.append(corners_u[-1] + float(x[-1]) - corners_x[-1])
    corners_x.append(float(x[-1]))
    return Fold(np.array(corners_x), np.array(corners_u), tuple(folds))


def ticks(axis: str, low: float, high: float, fold: Fold, start_us: int) -> list[dict[str, Any]]:
    """Places to label between two folded coordinates."""
    span = max(high - low, 1e-9)
    step = _nice(span / TICKS_MAX, whole=axis != "time")
    found: list[dict[str, Any]] = []
    first_x, last_x = fold.to_x(low), fold.to_x(high)
    if not first_x + step > first_x:  # so far away that numbers have no places in between
        return found
    number = int(np.ceil(first_x / step))
    last_u = -np.inf
    # Inside a fold many steps share little room: the next one goes where there is room again.
    while number * step <= last_x and len(found) <= 2 * TICKS_MAX:
        x = number * step
        u = float(fold.to_u(x)) if fold.folds and fold.x[0] <= x <= fold.x[-1] else x
        if fold.folds and x > fold.x[-1]:
            u = float(fold.u[-1] + x - fold.x[-1])
        jump = next((fx1 for u0, u1, fx0, fx1 in fold.folds if fx0 < x < fx1), None)
        if jump is not None:
            number = max(number + 1, int(np.ceil(jump / step)))
            continue
        if u - last_u >= 0.6 * step:
            found.append({"u": u, "label": label(axis, x, step, start_us)})
            last_u = u
        number += 1
    return found


def _nice(step: float, whole: bool) -> float:
    """The next of 1, 2, 5 times a power of ten; of whole numbers, at least 1."""
    if whole:
        step = max(step, 1.0)
    power = 10.0 ** np.floor(np.log10(max(step, 1e-3)))
    found = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step * (1 - 1e-9))
    return float(found)


def label(axis: str, x: float, step: float, start_us: int) -> str:
    """What to write at a coordinate."""
    if axis != "time":
        return f"{x:,.0f}"
    if start_us >= WALL_CLOCK_US and 0 <= start_us + x < CALENDAR_END_US:
        moment = datetime.fromtimestamp((start_us + x) / 1e6, UTC)
        return moment.strftime("%H:%M:%S") + (f".{moment.microsecond // 1000:03}" if step < 1e6
                                              else "")  # fmt: skip
    return duration(start_us + x, step)


def duration(us: float, step: float = 1.0) -> str:
    """Microseconds for people."""
    if step >= 1e6 or (abs(us) >= 1e6 and step >= 1e5):
        return f"{us / 1e6:,.1f} s" if step < 1e6 else f"{us / 1e6:,.0f} s"
    if abs(us) >= 1e3 or step >= 1e3:
        return f"{us / 1e3:,.0f} ms" if step >= 1e3 else f"{us / 1e3:,.2f} ms"
    return f"{us:,.0f} µs"
