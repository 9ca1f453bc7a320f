"""Figure 33 of the thesis: stability latency in experiments 2 and 3."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import STABILITY, Panel

FIGURE: Final = Figure(
    name="figure_33",
    number="33",
    title="Experiments 2 and 3: stability latency",
    asks="Once enough has arrived to know that everybody has a message, how long until the "
    "application is told?",
    panels=(
        Panel(
            name="33a",
            title="Experiment 2: non-causal stability latency",
            quantity=STABILITY,
            stability=True,
            experiments=("exp2",),
        ),
        Panel(
            name="33b",
            title="Experiment 3: non-causal stability latency",
            quantity=STABILITY,
            stability=True,
            experiments=("exp3",),
        ),
    ),
)
