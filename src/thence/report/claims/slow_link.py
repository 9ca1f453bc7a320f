"""How soon a message that waited is handed over at the two ends of a slow link (figures 36, 37)."""

from __future__ import annotations

from typing import Final

from thence.report.claims.base import Claim, both, judged, judged_across, near, smaller, within
from thence.report.claims.reasons import costs
from thence.report.thesis import GRAPH, MS, VECTOR, S

TIMES: Final = 3.0
"""A value is that of the thesis when it is no more than this much larger or smaller."""


def _sooner(panel: str, times: float, told: str) -> Claim:
    return Claim(
        name=f"slow-link-graph-sooner-{panel}",
        kind="latency",
        section="8.4.6",
        panel=panel,
        says=f"On the slow link the graph delivers sooner than vectors{told}.",
        judge=judged(panel, (GRAPH, VECTOR), smaller(GRAPH, VECTOR, times)),
        because=costs(panel, GRAPH, VECTOR),
    )


def _values(
    panel: str, says: str, graph: float | None, vector: float, at_most: bool = False
) -> Claim:
    """``at_most``: what is said of the graph is a bound."""
    test = near(VECTOR, vector, TIMES)
    engines: tuple[str, ...] = (VECTOR,)
    if graph is not None:
        bound = within(GRAPH, None, graph * TIMES) if at_most else near(GRAPH, graph, TIMES)
        test = both(bound, test)
        engines = (GRAPH, VECTOR)
    return Claim(
        name=f"slow-link-values-{panel}",
        kind="latency",
        section="8.4.6",
        panel=panel,
        says=f"{says} (within a factor of {TIMES:g}).",
        judge=judged(panel, engines, test, is_value=True),
        because=costs(panel, GRAPH, VECTOR),
    )


def _more_with_stability(without: str, with_it: str, engine: str) -> Claim:
    return Claim(
        name=f"slow-link-stability-{with_it}-{engine}",
        kind="latency",
        section="8.4.6",
        panel=with_it,
        says=f"On the slow link {engine} takes longer when stability is computed.",
        judge=judged_across(
            {"without": (without, engine), "with": (with_it, engine)}, smaller("without", "with")
        ),
    )


CLAIMS: Final = (
    _sooner("36a", 1.0, ""),
    _values("36a", "With 128 nodes vectors take 10 to 12 ms", None, 11 * MS),
    _sooner("36b", 10.0, ", by more than an order of magnitude with stability"),
    _values(
        "36b", "With stability it is around 50 ms at most against 1.7 s", 50 * MS, 1.7 * S,
        at_most=True,
    ),
    _sooner("37a", 1.0, ""),
    _values("37a", "With 128 nodes it is around 6 ms against 11 ms", 6 * MS, 11 * MS),
    _sooner("37b", 10.0, ", by more than an order of magnitude with stability"),
    _values("37b", "With stability it is around 70 ms against 2.2 s", 70 * MS, 2.2 * S),
    *(
        _more_with_stability(f"{number}a", f"{number}b", engine)
        for number in (36, 37)
        for engine in (VECTOR, GRAPH)
    ),
)  # fmt: skip
