"""Figure 29 of the thesis: experiment 1, memory and stability latency, with stability."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import MEMORY, STABILITY, Panel

FIGURE: Final = Figure(
    name="figure_29",
    number="29",
    title="Experiment 1: memory and stability latency, with stability",
    asks="What does it cost to find out, besides, which messages everybody has?",
    panels=(
        Panel(
            name="29a",
            title="Memory with stability",
            quantity=MEMORY,
            stability=True,
            experiments=("exp1", "exp2"),
            leaves_out=("vector",),
        ),
        Panel(
            name="29b",
            title="Non-causal stability latency",
            quantity=STABILITY,
            stability=True,
            experiments=("exp1", "exp2"),
            leaves_out=("vector",),
        ),
    ),
)
