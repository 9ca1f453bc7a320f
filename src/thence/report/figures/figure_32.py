"""Figure 32 of the thesis: memory with stability in experiments 2 and 3."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import MEMORY, Panel

FIGURE: Final = Figure(
    name="figure_32",
    number="32",
    title="Experiments 2 and 3: memory, with stability",
    asks="How much does a node hold while it waits until everybody has a message?",
    panels=(
        Panel(
            name="32a",
            title="Experiment 2: memory with stability",
            quantity=MEMORY,
            stability=True,
            experiments=("exp2",),
        ),
        Panel(
            name="32b",
            title="Experiment 3: memory with stability",
            quantity=MEMORY,
            stability=True,
            experiments=("exp3",),
        ),
    ),
)
