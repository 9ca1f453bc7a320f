"""The table of ratios: how many times the flagship's value each other variant has, by size."""

from __future__ import annotations

import msgspec

from thence.report.data import FLAGSHIP
from thence.report.evidence import Evidence
from thence.report.panels import Panel
from thence.report.units import number


class RatioRow(msgspec.Struct, frozen=True):
    """One variant in a panel."""

    panel: str
    what: str
    """That is compared, in words."""
    variant: str
    cells: dict[int, str]
    """By size: the ratio, or the least and the greatest of the send intervals."""


def ratios(evidence: Evidence, panel: Panel) -> list[RatioRow]:
    """A row for each variant but the flagship; none without one."""
    drawn = evidence.drawn(panel)
    own = next((each for each in drawn.variants if each.role == FLAGSHIP), None)
    if own is None:
        return []
    base = drawn.points[own.name]
    found = []
    for variant in drawn.variants:
        if variant is own:
            continue
        by_size: dict[int, list[str | float]] = {}
        for setting, point in drawn.points[variant.name].items():
            ours = base.get(setting)
            if point.p50 is not None and ours is not None and ours.p50 is not None:
                by_size.setdefault(setting[0], []).append(_ratio(point.p50, ours.p50))
        cells = {size: _range(values) for size, values in sorted(by_size.items())}
        found.append(RatioRow(panel.name, panel.what, variant.name, cells))
    return found


def _ratio(value: float, ours: float) -> str | float:
    if ours:
        return value / ours
    return 1.0 if not value else "∞"


def _range(values: list[str | float]) -> str:
    finite = sorted(value for value in values if isinstance(value, float))
    texts = list(dict.fromkeys(number(value) for value in finite[:1] + finite[-1:]))
    if len(finite) < len(values):
        texts = [*texts[:1], "∞"]
    return " to ".join(texts)
