"""What a message carries besides its payload."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from thence.report.data import Run, Tables
from thence.report.drawing import Picture
from thence.report.run_figures.base import RunFigure, boxes_by_node


def draw(tables: Tables, run: Run, folder: Path, name: str) -> Picture | str:
    """A box per node."""
    return boxes_by_node(
        tables, run, "metadata", "bytes", unit="bytes", label="dot and context on the wire",
        folder=folder, name=name, title="Bytes of dot and context per message",
    )  # fmt: skip


FIGURE: Final = RunFigure(
    name="metadata",
    title="Metadata of messages",
    reads="Bytes that say what a message comes after, by the node that sent it.",
    draw=draw,
)
