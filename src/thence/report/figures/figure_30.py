"""Figure 30 of the thesis: experiment 2, what travels and what is held without stability."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import ENTRIES, MEMORY, Panel

FIGURE: Final = Figure(
    name="figure_30",
    number="30",
    experiment="experiment 2",
    title="One vector per message: on the wire and in memory",
    asks="The same against the best that vectors can do: one vector per message, exact.",
    panels=(
        Panel(
            name="30a",
            title="What travels with a message",
            quantity=ENTRIES,
            stability=False,
            experiments=("exp2",),
        ),
        Panel(
            name="30b",
            title="What a node keeps, without stability",
            quantity=MEMORY,
            stability=False,
            experiments=("exp2",),
        ),
    ),
)
