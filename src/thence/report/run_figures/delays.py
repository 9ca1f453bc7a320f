"""From the arrival of a message to the moment when the application takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from thence.report.data import Run, Tables
from thence.report.drawing import Picture
from thence.report.run_figures.base import RunFigure, boxes_by_node


def draw(tables: Tables, run: Run, folder: Path, name: str) -> Picture | str:
    """A box per node."""
    return boxes_by_node(
        tables, run, "delivery_delay", "delay", unit="us", label="from arrival to delivery",
        folder=folder, name=name, title="From arrival to delivery",
    )  # fmt: skip


FIGURE: Final = RunFigure(
    name="delays",
    title="Delay of deliveries",
    reads="From the arrival of a message to the moment when the application takes it: long where "
    "something that precedes it came over a slow link.",
    draw=draw,
)
