"""Figure 35 of the thesis: delivery latency in experiment 3."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import DELIVERY, Panel

FIGURE: Final = Figure(
    name="figure_35",
    number="35",
    title="Experiment 3: delivery latency",
    asks="Once everything that a waiting message needs has arrived, how long until it is "
    "handed over?",
    panels=(
        Panel(
            name="35a",
            title="Non-causal delivery latency, without stability",
            quantity=DELIVERY,
            stability=False,
            experiments=("exp3",),
        ),
        Panel(
            name="35b",
            title="Non-causal delivery latency, with stability",
            quantity=DELIVERY,
            stability=True,
            experiments=("exp3",),
        ),
    ),
)
