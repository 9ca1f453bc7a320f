"""Figure 31 of the thesis: experiment 3, what travels and what is held without stability."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import ENTRIES, MEMORY, Panel

FIGURE: Final = Figure(
    name="figure_31",
    number="31",
    experiment="experiment 3",
    title="The same work for more and more nodes: on the wire and in memory",
    asks="Larger groups send less often here, so that the messages per second of the whole "
    "group stay the same. Does a large group still cost more?",
    panels=(
        Panel(
            name="31a",
            title="What travels with a message",
            quantity=ENTRIES,
            stability=False,
            experiments=("exp3",),
        ),
        Panel(
            name="31b",
            title="What a node keeps, without stability",
            quantity=MEMORY,
            stability=False,
            experiments=("exp3",),
        ),
    ),
)
