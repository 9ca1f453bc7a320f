"""Figure 37 of the thesis: delivery latency on the slow link of experiment 3."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import SLOW_DELIVERY, Panel

FIGURE: Final = Figure(
    name="figure_37",
    number="37",
    experiment="experiment 3 with a slow link",
    title="The same at the ends of a slow link, the same work for more nodes",
    asks="One link is ten times slower, so that much is held back at its two ends. How long "
    "does it take to hand over what one arrival releases?",
    panels=(
        Panel(
            name="37a",
            title="Without stability",
            quantity=SLOW_DELIVERY,
            stability=False,
            experiments=("exp3-slow",),
        ),
        Panel(
            name="37b",
            title="With stability",
            quantity=SLOW_DELIVERY,
            stability=True,
            experiments=("exp3-slow",),
        ),
    ),
)
