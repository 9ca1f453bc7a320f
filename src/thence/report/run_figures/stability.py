"""From taking a message to knowing that everybody has it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from thence.report.data import Run, Tables
from thence.report.drawing import Picture
from thence.report.run_figures.base import RunFigure, boxes_by_node


def draw(tables: Tables, run: Run, folder: Path, name: str) -> Picture | str:
    """A box per node."""
    return boxes_by_node(
        tables, run, "stability_lag", "lag", unit="us", label="from delivery to stable",
        folder=folder, name=name, title="From delivery to stable",
    )  # fmt: skip


FIGURE: Final = RunFigure(
    name="stability",
    title="Lag of stability",
    reads="From taking a message to being told that nothing concurrent with it can come any more. "
    "No node can know it sooner than everybody has answered, over the slowest link.",
    draw=draw,
)
