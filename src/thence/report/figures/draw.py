"""Draws a panel: medians by size of the group, one line per variant, one pair of axes per interval.

Bars are the middle half of what was observed (25th to 75th percentile).  Lines are moved sideways a
little so that their bars do not hide each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from thence.report.data import Variant
from thence.report.drawing import INK, Look, Picture, canvas, save
from thence.report.panels import Drawn, Point
from thence.report.thesis import SIZE, Published
from thence.report.units import every, interval, shown

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

AXES_INCHES: Final = 3.4
ALONE_INCHES: Final = 4.8
HEIGHT_INCHES: Final = 3.5
LOG_FROM: Final = 12
"""A range of more than this, largest by smallest, is drawn on a logarithmic scale."""
FEW_DECADES: Final = 300
"""A logarithmic axis of less than this, largest by smallest, has more numbers beside it."""
STATED: Final = "thesis: "
"""What the legend says before the name of an engine, of values that the thesis states."""
APART: Final = 0.07
"""Between two variants, in doublings of the size."""


def draw_panel(
    drawn: Drawn,
    looks: dict[str, Look],
    stated: Sequence[Published],
    folder: Path,
) -> Picture:
    """Write the files of a panel; ``stated``: what the thesis says of it."""
    divided = drawn.intervals()
    columns: list[float | None] = list(divided) or [None]
    width = AXES_INCHES * len(columns) if divided else ALONE_INCHES
    with canvas(width + 0.6, HEIGHT_INCHES) as figure:
        grid = figure.subplots(1, len(columns), sharey=True, squeeze=False)
        for column, (axes, interval_ms) in enumerate(zip(grid[0], columns, strict=True)):
            _lines(axes, drawn, interval_ms, bool(divided), looks)
            _stated(axes, drawn, stated, looks)
            if divided:
                axes.set_title(f"a message every {interval(interval_ms)}")
            axes.set_xlabel(_below(drawn, bool(divided)))
            if column == 0:
                axes.set_ylabel(drawn.panel.quantity.label)
            _sizes(axes, drawn, bool(divided))
        _scale(grid[0][0], drawn, stated)
        handles: dict[str, Artist] = {}
        for axes in grid[0]:
            for handle, text in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(text, handle)
        names = sorted(handles, key=lambda text: text.startswith(STATED))
        figure.legend(
            [handles[name] for name in names], names, loc="outside lower center",
            ncols=min(len(handles), 2 * len(columns)),
        )  # fmt: skip
        return save(figure, folder, drawn.panel.name, label_of(drawn))


def label_of(drawn: Drawn) -> str:
    """In words, for whoever does not see the picture; the table has the numbers."""
    names = ", ".join(variant.name for variant in drawn.variants)
    return f"{drawn.panel.title}: median by number of nodes, of {names}"


def _lines(
    axes: Axes, drawn: Drawn, interval_ms: float | None, divided: bool, looks: dict[str, Look]
) -> None:
    count = len(drawn.variants)
    for place, variant in enumerate(drawn.variants):
        points = drawn.of(variant, interval_ms, divided)
        if not points:
            continue
        shift = 2 ** (APART * (place - (count - 1) / 2))
        look = looks[variant.name]
        axes.errorbar(
            [point.group_size * shift for point in points],
            [_value(point.p50) for point in points],
            yerr=_bars(points),
            color=look.colour,
            marker=look.marker,
            linestyle=look.line,
            markerfacecolor=look.fill,
            elinewidth=1.1,
            capsize=2.5,
            label=variant.name,
        )


def _value(value: float | None) -> float:
    return 0.0 if value is None else value


def _bars(points: Sequence[Point]) -> list[list[float]]:
    """How far the middle half reaches below and above the median."""
    below = [max(0.0, _value(each.p50) - _value(each.p25)) for each in points]
    above = [max(0.0, _value(each.p75) - _value(each.p50)) for each in points]
    return [below, above]


def _stated(axes: Axes, drawn: Drawn, stated: Sequence[Published], looks: dict[str, Look]) -> None:
    """What the thesis says, in the colour of the engine, at 128 nodes; if that was run."""
    if SIZE not in {size for size, _ in drawn.settings()}:
        return
    for each in numbers(stated):
        variant = _of_engine(drawn, each.engine)
        if variant is None:
            continue
        axes.plot(
            [SIZE * 2**0.32], [each.middle], linestyle="none", marker="*", markersize=11,
            markerfacecolor="none", markeredgewidth=1.4, color=looks[variant.name].colour,
            label=f"{STATED}{variant.name}", clip_on=False,
        )  # fmt: skip


def numbers(stated: Sequence[Published]) -> list[Published]:
    """Those that are numbers; "negligible" is not."""
    return [each for each in stated if each.low is not None or each.high is not None]


def _of_engine(drawn: Drawn, engine: str) -> Variant | None:
    return next((each for each in drawn.variants if each.engine == engine), None)


def _below(drawn: Drawn, divided: bool) -> str:
    """What the numbers below the axes are."""
    found = {interval_ms for _, interval_ms in drawn.settings()}
    if divided or found == {None}:
        return "nodes"
    if len(found) > 1:
        return "nodes, and the mean time between two messages of one"
    return f"nodes, each of which sends {every(found.pop())} on average"


def _sizes(axes: Axes, drawn: Drawn, divided: bool) -> None:
    from matplotlib.ticker import NullLocator

    settings = drawn.settings()
    sizes = sorted({size for size, _ in settings})
    if not sizes:
        return
    axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(sizes)
    # Where the interval goes with the size, both are at the tick.
    by_size = dict(settings)
    is_told = not divided and len(set(by_size.values())) > 1
    axes.set_xticklabels(
        [f"{size}\n{interval(by_size[size])}" if is_told else f"{size}" for size in sizes]
    )
    axes.set_xlim(sizes[0] / 1.35, sizes[-1] * 1.45)


def _scale(axes: Axes, drawn: Drawn, stated: Sequence[Published]) -> None:
    """From zero, or logarithmic where values lie far apart; a zero can still be seen then."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    unit = drawn.panel.quantity.unit
    values = [
        point.p50
        for each in drawn.points.values()
        for point in each.values()
        if point.p50 is not None
    ]
    if SIZE in {size for size, _ in drawn.settings()}:
        engines = {variant.engine for variant in drawn.variants}
        values += [each.middle for each in numbers(stated) if each.engine in engines]
    positive = [value for value in values if value > 0]
    told = FuncFormatter(lambda value, _: shown(value, unit))
    if not positive or max(positive) / min(positive) < LOG_FROM:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(told)
        return
    low = min(positive)
    if len(positive) < len(values):
        axes.set_yscale("symlog", linthresh=low, linscale=0.5)
        axes.set_ylim(bottom=-low / 8)
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_yscale("log")
        # A short axis has few powers of ten on it.
        few = max(positive) / low < FEW_DECADES
        axes.yaxis.set_major_locator(
            LogLocator(base=10, subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=8)
        )
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(bottom=low / 2)
    axes.set_ylim(top=max(axes.get_ylim()[1], max(positive) * 1.6))
    axes.yaxis.set_major_formatter(told)  # a scale brings its own
    axes.set_ylabel(f"{drawn.panel.quantity.label}\n(logarithmic scale)", color=INK)
