"""Figures of experiments that chapter 8 does not have: the user's own, and further ones of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from thence.report.data import Tables
from thence.report.figures import PANELS
from thence.report.figures.base import Figure
from thence.report.panels import (
    DELIVERY,
    ENTRIES,
    MEMORY,
    SLOW_DELIVERY,
    STABILITY,
    WORK,
    Panel,
    Quantity,
)

QUANTITIES: Final = (ENTRIES, MEMORY, DELIVERY, SLOW_DELIVERY, STABILITY, WORK)


def other_figures(tables: Tables, titles: Mapping[str, str]) -> list[Figure]:
    """One for each experiment that no figure of the table is about, by name.

    ``titles``: what their authors call them.
    """
    drawn = {name for panel in PANELS.values() for name in panel.experiments}
    names = sorted({run.experiment for run in tables.runs if run.experiment} - drawn)
    return [
        Figure(
            name=f"other_{number}",
            number="",
            title=titles.get(name) or f"Experiment {name}",
            asks="Not in the thesis: the same quantities for an experiment of another kind.",
            panels=tuple(_panels(tables, name, number)),
        )
        for number, name in enumerate(names, 1)
    ]


def _panels(tables: Tables, experiment: str, number: int) -> Iterator[Panel]:
    """What has something to show.  Names of files are ours: that of an experiment may be any."""
    letters = iter("abcdefghijkl")
    for quantity in QUANTITIES:
        for stability in (False, True):
            if _is_measured(tables, quantity, experiment, stability):
                yield Panel(
                    name=f"other-{number}{next(letters)}",
                    title=f"{quantity.label[0].upper()}{quantity.label[1:]}, "
                    f"{'with' if stability else 'without'} stability",
                    quantity=quantity,
                    stability=stability,
                    experiments=(experiment,),
                    is_thesis=False,
                )


def _is_measured(tables: Tables, quantity: Quantity, experiment: str, stability: bool) -> bool:
    series = quantity.series_of(tables)
    return any(
        row.series == series
        and row.experiment == experiment
        and bool(row.stability) == stability
        and row.count
        for row in tables.rows(quantity.metric, "experiment")
    )
