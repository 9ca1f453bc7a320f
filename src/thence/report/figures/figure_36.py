"""Figure 36 of the thesis: delivery latency on the slow link of experiment 2."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import SLOW_DELIVERY, Panel

FIGURE: Final = Figure(
    name="figure_36",
    number="36",
    title="Experiment 2 with a slow link: delivery latency at its two ends",
    asks="One link is ten times slower, so that much is held back at its two ends. How long "
    "does it take to hand over what one arrival releases?",
    panels=(
        Panel(
            name="36a",
            title="Non-causal delivery latency on the slow link, without stability",
            quantity=SLOW_DELIVERY,
            stability=False,
            experiments=("exp2-slow",),
        ),
        Panel(
            name="36b",
            title="Non-causal delivery latency on the slow link, with stability",
            quantity=SLOW_DELIVERY,
            stability=True,
            experiments=("exp2-slow",),
        ),
    ),
)
