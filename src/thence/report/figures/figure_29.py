"""Figure 29 of the thesis: experiment 1, memory and stability latency, with stability."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import MEMORY, STABILITY, Panel

FIGURE: Final = Figure(
    name="figure_29",
    number="29",
    experiment="experiment 1",
    title="Tagging every message twice, and finding out what is stable",
    asks="What does it cost to find out, besides, which messages everybody has?",
    panels=(
        Panel(
            name="29a",
            title="What a node keeps, with stability",
            quantity=MEMORY,
            stability=True,
            experiments=("exp1", "exp2"),
            leaves_out=("vector",),
        ),
        Panel(
            name="29b",
            title="Delay until a message is told stable",
            quantity=STABILITY,
            stability=True,
            experiments=("exp1", "exp2"),
            leaves_out=("vector",),
        ),
    ),
)
