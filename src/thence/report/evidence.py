"""Everything that was measured, as the figures show it: what verdicts and tables rest on."""

from __future__ import annotations

from thence.report.data import RIVAL, Tables, Variant
from thence.report.figures import PANELS
from thence.report.panels import Drawn, Panel, Point, Setting


class Evidence:
    """The panels with their points.  Engines are found by name, variants by role."""

    def __init__(self, tables: Tables, variants: tuple[Variant, ...]) -> None:
        self.tables = tables
        self.variants = variants
        self._drawn: dict[str, Drawn] = {}

    def drawn(self, panel: Panel) -> Drawn:
        """A panel with its points."""
        if panel.name not in self._drawn:
            self._drawn[panel.name] = Drawn(panel, self.tables, self.variants)
        return self._drawn[panel.name]

    def panel(self, name: str) -> Drawn:
        """One of the table."""
        return self.drawn(PANELS[name])

    def by_engine(self, panel: str, engine: str) -> dict[Setting, Point]:
        """The points of an engine in a panel: of the variant that is there as a rival, if one is.

        Without observations there is no point.
        """
        drawn = self.panel(panel)
        own = [variant for variant in drawn.variants if variant.engine == engine]
        own.sort(key=lambda variant: variant.role != RIVAL)
        points = drawn.points[own[0].name] if own else {}
        return {setting: point for setting, point in points.items() if point.p50 is not None}

    def lacks(self, panel: str, engine: str) -> str | None:
        """Why an engine shows nothing in a panel, if a table says it."""
        drawn = self.panel(panel)
        for variant in drawn.variants:
            if variant.engine == engine:
                reasons = {point.lacks for point in drawn.points[variant.name].values()} - {None}
                if reasons:
                    return min(reason for reason in reasons if reason is not None)
        return None
