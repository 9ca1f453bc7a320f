"""What a figure of a single run is; adding one is a module here and a line in RUN_FIGURES."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from thence.report.data import Row, Run, Tables
from thence.report.drawing import INK, Picture, canvas, save
from thence.report.units import Unit, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE: Final = "#0072B2"
SKY: Final = "#56B4E9"
ORANGE: Final = "#E69F00"
WIDTH_INCHES: Final = 6.4
HEIGHT_INCHES: Final = 3.1
NAMED_MAX: Final = 16
"""Nodes whose names fit below an axis; of more, every so many is named."""


class RunFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the page of a run."""

    name: str
    """As its module is named."""
    title: str
    reads: str
    """How to read it."""
    draw: Callable[[Tables, Run, Path, str], Picture | str]
    """Draws it under a name of files, or says why there is nothing to draw."""


def rows_of(tables: Tables, run: Run, metric: str, series: str, level: str) -> list[Row]:
    """The rows of one run."""
    return [
        row for row in tables.rows(metric, level) if row.run == run.run and row.series == series
    ]


def reason(rows: Sequence[Row], otherwise: str) -> str:
    """Why nothing of it was observed."""
    told = sorted({row.lacks for row in rows if row.lacks is not None})
    return "; ".join(told) or otherwise


def boxes_by_node(
    tables: Tables, run: Run, metric: str, series: str, *, unit: Unit, label: str,
    folder: Path, name: str, title: str,
) -> Picture | str:  # fmt: skip
    """A box per node: middle half, median, 99 of 100, and the largest as a dot."""
    rows = rows_of(tables, run, metric, series, "node")
    seen = [row for row in rows if row.count]
    if not seen:
        return reason(rows, f"{metric} was not measured")
    with canvas(WIDTH_INCHES, HEIGHT_INCHES) as figure:
        axes = figure.subplots()
        boxes = [
            {
                "med": row.p50, "q1": row.p25, "q3": row.p75, "whislo": row.p25,
                "whishi": row.p99, "fliers": [row.max],
            }
            for row in seen
        ]  # fmt: skip
        line = {"color": INK, "linewidth": 1.0}
        axes.bxp(
            boxes,
            positions=range(len(seen)),
            widths=0.55,
            patch_artist=True,
            boxprops={"facecolor": SKY, "edgecolor": INK, "linewidth": 1.0},
            medianprops={"color": INK, "linewidth": 2.0},
            whiskerprops=line,
            capprops=line,
            flierprops={"marker": ".", "markerfacecolor": BLUE, "markeredgecolor": BLUE},
        )
        name_nodes(axes, [row.node or "" for row in seen])
        name_values(axes, unit)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        return save(figure, folder, name, f"{title}, by node")


def name_nodes(axes: Axes, names: Sequence[str]) -> None:
    """Ticks at the nodes; of many, every so many."""
    step = -(-len(names) // NAMED_MAX)
    axes.set_xticks(range(0, len(names), step))
    axes.set_xticklabels([_short(name) for name in names[::step]])
    axes.set_xlim(-0.7, len(names) - 0.3)
    axes.set_xlabel("node")
    axes.grid(False, axis="x")


def name_values(axes: Axes, unit: Unit) -> None:
    """Values with their unit."""
    from matplotlib.ticker import FuncFormatter

    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, unit)))


def _short(name: str) -> str:
    return name if len(name) <= 10 else f"{name[:9]}…"
