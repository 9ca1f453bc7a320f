"""Figure 35 of the thesis: delivery latency in experiment 3."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import DELIVERY, Panel

FIGURE: Final = Figure(
    name="figure_35",
    number="35",
    experiment="experiment 3",
    title="How soon a message that waited is delivered, the same work for more nodes",
    asks="Once everything that a waiting message needs has arrived, how long until it is "
    "handed over?",
    panels=(
        Panel(
            name="35a",
            title="Without stability",
            quantity=DELIVERY,
            stability=False,
            experiments=("exp3",),
        ),
        Panel(
            name="35b",
            title="With stability",
            quantity=DELIVERY,
            stability=True,
            experiments=("exp3",),
        ),
    ),
)
