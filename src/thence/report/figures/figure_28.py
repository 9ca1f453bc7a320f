"""Figure 28 of the thesis: experiment 1, what travels and what is held without stability."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import ENTRIES, MEMORY, Panel

FIGURE: Final = Figure(
    name="figure_28",
    number="28",
    experiment="experiment 1",
    title="Tagging every message twice: on the wire and in memory",
    asks="The classic way tags a message twice, once in the middleware and once in the "
    "application. What does that cost on the wire and in memory, against naming "
    "predecessors?",
    panels=(
        Panel(
            name="28a",
            title="What travels with a message",
            quantity=ENTRIES,
            stability=False,
            experiments=("exp1", "exp2"),
            leaves_out=("vector",),
        ),
        Panel(
            name="28b",
            title="What a node keeps, without stability",
            quantity=MEMORY,
            stability=False,
            experiments=("exp1", "exp2"),
            leaves_out=("vector",),
        ),
    ),
)
