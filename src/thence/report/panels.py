"""What a panel of a figure shows, and its points: medians with their spread, by variant and size.

A panel is the thesis' word for half a figure (28a, 28b).  Everything that is said of a panel, its
picture, its table, the verdicts on it, the rule for the flagship, comes from the same points.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from thence.report.data import Row, Tables, Variant
from thence.report.units import Unit

WORD_BYTES: Final = 8
LATENCY_TOLERANCE: Final = 0.05
"""CPU times of one run differ from those of the next by more than a median hides."""
FEW: Final = 20
"""Of fewer observations than this a median is shown and nothing is concluded."""


class Quantity(msgspec.Struct, frozen=True, kw_only=True):
    """Something that panels show; less of it is better."""

    name: str
    label: str
    """Of the axis, without unit."""
    meaning: str
    """For a person who has not read the thesis."""
    metric: str
    series: str
    """Of real runs."""
    simulated: str = ""
    """The series of simulated runs, where that is another one."""
    unit: Unit
    factor: float = 1.0
    """From the unit of the table to ours."""
    tolerance: float = 0.0
    """By how much the flagship may be worse and still count as good: noise, as a share."""

    def series_of(self, tables: Tables) -> str:
        """The series to read."""
        return self.simulated if self.simulated and tables.are_simulated else self.series


ENTRIES: Final = Quantity(
    name="entries",
    label="entries in a message",
    meaning="How much causality travels with a message: predecessors that it names, or entries of "
    "its version vectors.",
    metric="metadata",
    series="entries",
    unit="entries",
)
MEMORY: Final = Quantity(
    name="memory",
    label="metadata held by a node",
    meaning="What a node keeps to order messages, payloads not counted, in words of 8 bytes "
    "(thesis 8.3.1).",
    metric="memory",
    series="words",
    unit="bytes",
    factor=WORD_BYTES,
)
STABILITY: Final = Quantity(
    name="stability latency",
    label="delay added to stability",
    meaning="How long after it could be known a message is told stable (non-causal stability "
    "latency).",
    metric="noncausal_stability",
    series="latency",
    simulated="told_work",
    unit="us",
    tolerance=LATENCY_TOLERANCE,
)
DELIVERY: Final = Quantity(
    name="delivery latency",
    label="delay added to delivery",
    meaning="How long a message that had to wait is kept after the last thing it waited for "
    "has arrived: the share of the delay that is the algorithm's (non-causal delivery latency).",
    metric="noncausal_delivery",
    series="waited",
    simulated="waited_work",
    unit="us",
    tolerance=LATENCY_TOLERANCE,
)
SLOW_DELIVERY: Final = Quantity(
    name="delivery latency on the slow link",
    label="delay added to delivery",
    meaning="How long a message that had to wait is kept after the last thing it waited for "
    "has arrived, only at the two nodes of the slow link.",
    metric="noncausal_delivery",
    series="slow_waited",
    simulated="slow_waited_work",
    unit="us",
    tolerance=LATENCY_TOLERANCE,
)
WORK: Final = Quantity(
    name="work",
    label="CPU time per delivery",
    meaning="CPU time of all calls of the engine at a node, divided by its deliveries.",
    metric="work",
    series="per_delivery",
    unit="us",
    tolerance=LATENCY_TOLERANCE,
)


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """Half a figure."""

    name: str
    """As the thesis counts: 28a."""
    title: str
    quantity: Quantity
    stability: bool
    """Of runs that compute it, or of those that do not."""
    experiments: tuple[str, ...]
    """Where its runs are; what an earlier one has of a variant is not looked for in later ones."""
    leaves_out: tuple[str, ...] = ()
    """Engines that this figure is not about."""
    is_thesis: bool = True

    @property
    def what(self) -> str:
        """What it is about, in a few words."""
        if self.quantity.unit == "entries":
            return self.quantity.label
        return f"{self.quantity.label}, {'with' if self.stability else 'without'} stability"


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of one variant."""

    variant: str
    engine: str
    experiment: str
    group_size: int
    interval_ms: float | None
    count: int
    p25: float | None
    p50: float | None
    p75: float | None
    lacks: str | None

    @property
    def setting(self) -> Setting:
        return self.group_size, self.interval_ms


Setting = tuple[int, float | None]
"""Size of the group and send interval."""


def order(setting: Setting) -> tuple[float, float]:
    """To sort settings by: interval, then size; no interval comes first."""
    size, interval_ms = setting
    return (-1.0 if interval_ms is None else interval_ms, size)


class Drawn:
    """A panel with its points."""

    def __init__(self, panel: Panel, tables: Tables, variants: Iterable[Variant]) -> None:
        self.panel = panel
        self.series = panel.quantity.series_of(tables)
        self.variants = list(variants)
        known = {variant.name for variant in self.variants}
        self.points: dict[str, dict[Setting, Point]] = {name: {} for name in known}
        for experiment in panel.experiments:
            found = [point for point in self._points(tables, experiment) if point.variant in known]
            taken = {name for name, points in self.points.items() if points}
            for point in found:
                if point.variant not in taken:
                    self.points[point.variant][point.setting] = point
        self.variants = [each for each in self.variants if self.points[each.name]]

    def _points(self, tables: Tables, experiment: str) -> Iterable[Point]:
        factor = self.panel.quantity.factor
        for row in tables.rows(self.panel.quantity.metric, "experiment"):
            if (
                row.series == self.series
                and row.experiment == experiment
                and bool(row.stability) == self.panel.stability
                and row.group_size is not None
                and (row.engine or "") not in self.panel.leaves_out
            ):
                yield _point(row, experiment, factor)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was measured."""
        return not any(point.count for each in self.points.values() for point in each.values())

    def settings(self) -> list[Setting]:
        """Everything that some variant ran, by interval and size."""
        return sorted({key for each in self.points.values() for key in each}, key=order)

    def intervals(self) -> list[float | None]:
        """What divides the panel: the intervals, if some size was run with several of them."""
        settings = self.settings()
        sizes = [size for size, _ in settings]
        if len(set(sizes)) == len(sizes):
            return []
        return list(dict.fromkeys(interval_ms for _, interval_ms in settings))

    def of(self, variant: Variant, interval_ms: float | None, divided: bool) -> list[Point]:
        """The points of a variant for one pair of axes, by size; those with a median."""
        points = self.points.get(variant.name, {}).values()
        chosen = [
            point
            for point in points
            if point.p50 is not None and (not divided or point.interval_ms == interval_ms)
        ]
        return sorted(chosen, key=lambda point: point.group_size)


def _point(row: Row, experiment: str, factor: float) -> Point:
    def scaled(value: float | None) -> float | None:
        return None if value is None or not row.count else value * factor

    return Point(
        variant=row.variant or row.engine or "",
        engine=row.engine or "",
        experiment=experiment,
        group_size=row.group_size or 0,
        interval_ms=row.interval_ms,
        count=row.count,
        p25=scaled(row.p25),
        p50=scaled(row.p50),
        p75=scaled(row.p75),
        lacks=row.lacks,
    )
