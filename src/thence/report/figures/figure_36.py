"""Figure 36 of the thesis: delivery latency on the slow link of experiment 2."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import SLOW_DELIVERY, Panel

FIGURE: Final = Figure(
    name="figure_36",
    number="36",
    experiment="experiment 2 with a slow link",
    title="How soon a message that waited is delivered at the ends of a slow link",
    asks="One link is ten times slower, so that much is held back at its two ends. How long "
    "does it take to hand over what one arrival releases?",
    panels=(
        Panel(
            name="36a",
            title="Without stability",
            quantity=SLOW_DELIVERY,
            stability=False,
            experiments=("exp2-slow",),
        ),
        Panel(
            name="36b",
            title="With stability",
            quantity=SLOW_DELIVERY,
            stability=True,
            experiments=("exp2-slow",),
        ),
    ),
)
