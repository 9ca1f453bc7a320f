"""Figure 34 of the thesis: delivery latency in experiment 2."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import DELIVERY, Panel

FIGURE: Final = Figure(
    name="figure_34",
    number="34",
    experiment="experiment 2",
    title="How soon a message that waited is delivered",
    asks="Once everything that a waiting message needs has arrived, how long until it is "
    "handed over?",
    panels=(
        Panel(
            name="34a",
            title="Without stability",
            quantity=DELIVERY,
            stability=False,
            experiments=("exp2",),
        ),
        Panel(
            name="34b",
            title="With stability",
            quantity=DELIVERY,
            stability=True,
            experiments=("exp2",),
        ),
    ),
)
