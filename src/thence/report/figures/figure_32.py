"""Figure 32 of the thesis: memory with stability in experiments 2 and 3."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import MEMORY, Panel

FIGURE: Final = Figure(
    name="figure_32",
    number="32",
    experiment="experiments 2 and 3",
    title="What a node keeps while it finds out what is stable",
    asks="How much does a node hold while it waits until everybody has a message?",
    panels=(
        Panel(
            name="32a",
            title="Each node as busy as before (experiment 2)",
            quantity=MEMORY,
            stability=True,
            experiments=("exp2",),
        ),
        Panel(
            name="32b",
            title="The same work for all together (experiment 3)",
            quantity=MEMORY,
            stability=True,
            experiments=("exp3",),
        ),
    ),
)
