"""Not in the thesis: the CPU time of engines, which explains the latencies that we measure."""

from __future__ import annotations

from typing import Final

from thence.report.figures.base import Figure
from thence.report.panels import WORK, Panel

FIGURE: Final = Figure(
    name="work",
    number="",
    title="CPU time of the engines",
    asks="How much work is a delivery? In simulated runs this is the algorithm's share of every "
    "latency above.",
    panels=(
        Panel(
            name="work-a",
            title="Without stability (experiment 2)",
            quantity=WORK,
            stability=False,
            experiments=("exp2",),
            is_thesis=False,
        ),
        Panel(
            name="work-b",
            title="With stability (experiment 2)",
            quantity=WORK,
            stability=True,
            experiments=("exp2",),
            is_thesis=False,
        ),
    ),
)
