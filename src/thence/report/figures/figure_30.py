"""Figure 30 of the thesis: experiment 2, what travels and what is held without stability."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import ENTRIES, MEMORY, Panel

FIGURE: Final = Figure(
    name="figure_30",
    number="30",
    title="Experiment 2: entries per message and memory, without stability",
    asks="The same against the best that vectors can do: one vector per message, exact.",
    panels=(
        Panel(
            name="30a",
            title="Entries per message",
            quantity=ENTRIES,
            stability=False,
            experiments=("exp2",),
        ),
        Panel(
            name="30b",
            title="Memory without stability",
            quantity=MEMORY,
            stability=False,
            experiments=("exp2",),
        ),
    ),
)
