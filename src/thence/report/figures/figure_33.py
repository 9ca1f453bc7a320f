"""Figure 33 of the thesis: stability latency in experiments 2 and 3."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import STABILITY, Panel

FIGURE: Final = Figure(
    name="figure_33",
    number="33",
    experiment="experiments 2 and 3",
    title="How soon a message is told stable",
    asks="Once enough has arrived to know that everybody has a message, how long until the "
    "application is told?",
    panels=(
        Panel(
            name="33a",
            title="Each node as busy as before (experiment 2)",
            quantity=STABILITY,
            stability=True,
            experiments=("exp2",),
        ),
        Panel(
            name="33b",
            title="The same work for all together (experiment 3)",
            quantity=STABILITY,
            stability=True,
            experiments=("exp3",),
        ),
    ),
)
