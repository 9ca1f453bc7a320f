"""How many messages arrived before something that precedes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from thence.report.data import Run, Tables
from thence.report.drawing import INK, Picture, canvas, save
from thence.report.run_figures.base import (
    HEIGHT_INCHES,
    ORANGE,
    SKY,
    WIDTH_INCHES,
    RunFigure,
    name_nodes,
    reason,
    rows_of,
)


def draw(tables: Tables, run: Run, folder: Path, name: str) -> Picture | str:
    """A bar per node, divided."""
    arrived = rows_of(tables, run, "noncausal_delivery", "all", "node")
    waited = {
        row.node: row.count for row in rows_of(tables, run, "noncausal_delivery", "waited", "node")
    }
    seen = [row for row in arrived if row.count]
    if not seen:
        return reason(arrived, "noncausal_delivery was not measured")
    places = range(len(seen))
    held = [waited.get(row.node, 0) for row in seen]
    at_once = [row.count - wait for row, wait in zip(seen, held, strict=True)]
    bar: dict[str, Any] = {"width": 0.6, "edgecolor": INK, "linewidth": 0.8}
    with canvas(WIDTH_INCHES, HEIGHT_INCHES) as figure:
        axes = figure.subplots()
        axes.bar(places, at_once, color=SKY, label="could be delivered at once", **bar)
        axes.bar(places, held, bottom=at_once, color=ORANGE, hatch="///",
                 label="held back", **bar)  # fmt: skip
        name_nodes(axes, [row.node or "" for row in seen])
        axes.set_ylabel("messages")
        figure.legend(loc="outside lower center", ncols=2)
        return save(figure, folder, name, "Messages held back and delivered at once, by node")


FIGURE: Final = RunFigure(
    name="waits",
    title="Held back",
    reads="Messages that arrived before something that they come after, and had to wait for it.",
    draw=draw,
)
