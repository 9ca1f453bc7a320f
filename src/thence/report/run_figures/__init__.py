"""The figures of a single run: one module each, and the table of them.

Adding one is a module here with a ``FIGURE`` and a line in this table.
"""

from __future__ import annotations

from typing import Final

from thence.report.run_figures import delays, memory, metadata, stability, waits
from thence.report.run_figures.base import RunFigure

RUN_FIGURES: Final[dict[str, RunFigure]] = {
    module.FIGURE.name: module.FIGURE for module in (waits, delays, stability, memory, metadata)
}
"""By name, in the order of the page."""
METRICS: Final = (
    "metadata", "memory", "delivery_delay", "noncausal_delivery", "stability_lag",
)  # fmt: skip
"""What the page of single runs is made from."""
