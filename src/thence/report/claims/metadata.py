"""What travels with a message (figures 28a, 30a, 31a)."""

from __future__ import annotations

from typing import Final

from thence.report.claims.base import Claim, judged, smaller
from thence.report.thesis import CLASSIC, GRAPH, VECTOR

CLAIMS: Final = (
    Claim(
        name="entries-classic",
        kind="metadata",
        section="8.4.1",
        panel="28a",
        says="With 128 nodes a message names at most 80 predecessors, where tagging twice sends "
        "256 entries: less than a third.",
        is_shape=True,
        judge=judged("28a", (GRAPH, CLASSIC), smaller(GRAPH, CLASSIC, 256 / 80)),
    ),
    Claim(
        name="entries-vector",
        kind="metadata",
        section="8.4.2",
        panel="30a",
        says="With 128 nodes a message names at most 80 predecessors, where one vector has 128 "
        "entries: less than two thirds.",
        is_shape=True,
        judge=judged("30a", (GRAPH, VECTOR), smaller(GRAPH, VECTOR, 128 / 80)),
    ),
    Claim(
        name="entries-constant-work",
        kind="metadata",
        section="8.4.3",
        panel="31a",
        says="With constant work predecessors scale better than vectors too.",
        is_shape=True,
        judge=judged("31a", (GRAPH, VECTOR), smaller(GRAPH, VECTOR)),
    ),
)
