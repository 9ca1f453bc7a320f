"""How soon a message is told stable (figures 29b, 33)."""

from __future__ import annotations

from typing import Final

from thence.report.claims.base import Claim, both, grows_faster, judged, smaller, within
from thence.report.claims.reasons import costs
from thence.report.thesis import CLASSIC, GRAPH, MS, VECTOR

TIMES: Final = 10 / 3
"""2 to 3 ms against above 10 ms."""


def _claims(panel: str, section: str, other: str, what: str) -> tuple[Claim, ...]:
    return (
        Claim(
            name=f"stability-latency-{panel}",
            kind="latency",
            section=section,
            panel=panel,
            says=f"With 128 nodes the graph tells stability significantly sooner than {what}: "
            "2 to 3 ms against above 10 ms.",
            judge=judged(panel, (GRAPH, other), smaller(GRAPH, other, TIMES)),
            because=costs(panel, GRAPH, other),
        ),
        Claim(
            name=f"stability-latency-{panel}-values",
            kind="latency",
            section=section,
            panel=panel,
            says=f"These very values: the graph at most 3 ms, {what} at least 10 ms.",
            judge=judged(
                panel,
                (GRAPH, other),
                both(within(GRAPH, None, 3 * MS), within(other, 10 * MS, None)),
                is_value=True,
            ),
            because=costs(panel, GRAPH, other),
        ),
    )


CLAIMS: Final = (
    *_claims("29b", "8.4.1", CLASSIC, "two vectors"),
    *_claims("33a", "8.4.4", VECTOR, "one vector"),
    *_claims("33b", "8.4.4", VECTOR, "one vector"),
    Claim(
        name="stability-latency-growth-33a",
        kind="latency",
        section="8.4.4",
        panel="33a",
        says="In experiment 2 the stability latency of vectors grows much faster with the group.",
        judge=grows_faster("33a", GRAPH, VECTOR),
        because=costs("33a", GRAPH, VECTOR),
    ),
    Claim(
        name="stability-latency-growth-33b",
        kind="latency",
        section="8.4.4",
        panel="33b",
        says="In experiment 3 the stability latency of vectors grows much faster with the group.",
        judge=grows_faster("33b", GRAPH, VECTOR),
        because=costs("33b", GRAPH, VECTOR),
    ),
)
