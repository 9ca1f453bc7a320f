"""The figures of the page: one module each, and the table of them.

Adding one is a module here with a ``FIGURE`` and a line in this table.
"""

from __future__ import annotations

from typing import Final

from thence.report.figures import (
    figure_28,
    figure_29,
    figure_30,
    figure_31,
    figure_32,
    figure_33,
    figure_34,
    figure_35,
    figure_36,
    figure_37,
    work,
)
from thence.report.figures.base import Figure
from thence.report.panels import Panel

FIGURES: Final[dict[str, Figure]] = {
    module.FIGURE.name: module.FIGURE
    for module in (
        figure_28,
        figure_29,
        figure_30,
        figure_31,
        figure_32,
        figure_33,
        figure_34,
        figure_35,
        figure_36,
        figure_37,
        work,
    )
}
"""By name, in the order of the page."""
PANELS: Final[dict[str, Panel]] = {
    panel.name: panel for figure in FIGURES.values() for panel in figure.panels
}
