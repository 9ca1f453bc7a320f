"""What a figure is: a title and its panels; adding one is a module here and a line in FIGURES."""

from __future__ import annotations

import msgspec

from thence.report.panels import Panel


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the page."""

    name: str
    """As its module is named."""
    number: str
    """What the thesis calls it; empty for ours."""
    experiment: str = ""
    """Which of the thesis' experiments it is about, for people."""
    title: str
    """In words that need no thesis."""
    asks: str
    """The question that it answers, for a person who has not read the thesis."""
    panels: tuple[Panel, ...]
