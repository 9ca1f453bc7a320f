"""Metadata held, over the time of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from thence.report.data import Run, Tables
from thence.report.drawing import Picture, canvas, save
from thence.report.panels import WORD_BYTES
from thence.report.run_figures.base import (
    BLUE,
    HEIGHT_INCHES,
    ORANGE,
    SKY,
    WIDTH_INCHES,
    RunFigure,
    name_values,
    reason,
    rows_of,
)


def draw(tables: Tables, run: Run, folder: Path, name: str) -> Picture | str:
    """Median of the nodes with their middle half, and the largest."""
    rows = rows_of(tables, run, "memory", "words", "time")
    seen = sorted((row for row in rows if row.count), key=lambda row: row.bucket_us or 0)
    if not seen:
        everything = rows_of(tables, run, "memory", "words", "run")
        return reason(everything, "memory was not measured")
    seconds = [(row.bucket_us or 0) / 1e6 for row in seen]
    with canvas(WIDTH_INCHES, HEIGHT_INCHES) as figure:
        axes = figure.subplots()
        low, high, middle, most = (
            [(getattr(row, column) or 0.0) * WORD_BYTES for row in seen]
            for column in ("p25", "p75", "p50", "max")
        )
        axes.fill_between(seconds, low, high, color=SKY, alpha=0.4, linewidth=0,
                          label="middle half of the nodes")  # fmt: skip
        axes.plot(seconds, middle, color=BLUE, marker="o", markersize=3, label="median")
        axes.plot(seconds, most, color=ORANGE, linestyle="--", label="largest")
        axes.set_xlabel("seconds since the beginning")
        axes.set_ylabel("metadata held by a node")
        axes.set_ylim(bottom=0)
        name_values(axes, "bytes")
        figure.legend(loc="outside lower center", ncols=3)
        return save(figure, folder, name, "Metadata held by a node over the time of the run")


FIGURE: Final = RunFigure(
    name="memory",
    title="Metadata over time",
    reads="What a node keeps to order messages, payloads not counted. It should rise while "
    "messages are on their way and fall when they are stable everywhere.",
    draw=draw,
)
