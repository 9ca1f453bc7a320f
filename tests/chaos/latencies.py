"""How long broadcasts took while members came and went, beside how long they take otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

QUIET = "quiet"
"""Phases whose names begin so are those without changes."""
NOISE_US = 200
"""What a call takes at random on a machine with nothing else to do: no bar is lower."""


class Broadcast(msgspec.Struct, frozen=True):
    """One call, in microseconds."""

    due: int
    late: int
    """The call began so long after it was due: the loop of the process was busy, or the process
    had no processor."""
    call: int
    cpu: int
    waits: int

    @property
    def whole(self) -> int:
        """From the time it was due until the call returned."""
        return self.late + self.call


class Times:
    """Everything that the applications of a run wrote down."""

    def __init__(self, folder: Path) -> None:
        self.broadcasts: list[Broadcast] = []
        self.ages: list[tuple[int, int]] = []
        """Of messages that were sent after the receiver had the state."""
        self.caught_up: list[tuple[int, int]] = []
        """Of those that were sent before, and not part of the state that it got."""
        for path in sorted(folder.glob("*.sent")):
            up = _up(path.with_suffix(".told"))
            for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
                kind, *numbers = line.split()
                if kind == "b":
                    self.broadcasts.append(Broadcast(*map(int, numbers)))
                else:
                    due, age = map(int, numbers)
                    (self.ages if due > up else self.caught_up).append((due, age))


def _up(path: Path) -> int:
    """When a process took up its work."""
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        at, what, *_ = line.split()
        if what == "up":
            return int(at)
    return 0


class Row(msgspec.Struct, frozen=True):
    """One phase."""

    name: str
    values: list[int]
    """Sorted, in microseconds."""

    def at(self, share: float) -> int:
        return self.values[min(len(self.values) - 1, int(len(self.values) * share))]

    def above(self, bar: float) -> int:
        return sum(value > bar for value in self.values)


def rows(phases: Sequence[tuple[str, int, int]], values: Sequence[tuple[int, int]]) -> list[Row]:
    """By phase, in which each value belongs by its time; phases of the same name are one."""
    found: dict[str, list[int]] = {}
    for name, start, end in phases:
        inside = [value for at, value in values if start <= at < end]
        if inside:
            found.setdefault(name, []).extend(inside)
    return [Row(name, sorted(inside)) for name, inside in found.items()]


def bar_us(table: Sequence[Row]) -> int:
    """Twice the largest 99th percentile of the phases without changes."""
    calm = [row.at(0.99) for row in table if row.name.startswith(QUIET)]
    return max(NOISE_US, 2 * max(calm, default=0))


def show(title: str, table: Sequence[Row]) -> list[str]:
    """The table as lines; the bar of each phase is twice the p99 of the quiet phases beside it."""
    lines = [
        f"{title} (us)",
        f"{'phase':<30}{'count':>8}{'p50':>8}{'p99':>9}{'max':>9}"
        f"{'bar':>8}{'above':>6}{'share':>8}",
    ]
    for at, row in enumerate(table):
        bar = bar_us(beside(table, at))
        above = row.above(bar)
        lines.append(
            f"{row.name:<30}{len(row.values):>8}{row.at(0.5):>8}{row.at(0.99):>9}"
            f"{row.values[-1]:>9}{bar:>8}{above:>6}{above / len(row.values):>8.2%}"
        )
    return lines


def beside(table: Sequence[Row], at: int) -> list[Row]:
    """The quiet phase that this one is, or the two it lies between."""
    if table[at].name.startswith(QUIET):
        return [table[at]]
    before = [row for row in table[:at] if row.name.startswith(QUIET)][-1:]
    after = [row for row in table[at + 1 :] if row.name.startswith(QUIET)][:1]
    return before + after


def disturbed(table: Sequence[Row]) -> tuple[float, float]:
    """The share of broadcasts that took more than twice the p99 of the quiet phases beside them:
    of those while nothing changed, and of the others."""
    above, count = [0, 0], [0, 0]
    for at, row in enumerate(table):
        kind = not row.name.startswith(QUIET)
        above[kind] += row.above(bar_us(beside(table, at)))
        count[kind] += len(row.values)
    return above[0] / max(1, count[0]), above[1] / max(1, count[1])
