"""How soon a message that waited is handed over, on a network without delays (figures 34, 35)."""

from __future__ import annotations

from typing import Final

from thence.report.claims.base import (
    AROUND,
    NOT_MEASURED,
    Claim,
    Part,
    Verdict,
    about,
    both,
    judged,
    near,
    smaller,
    status_of,
    within,
)
from thence.report.claims.reasons import costs
from thence.report.evidence import Evidence
from thence.report.panels import order
from thence.report.thesis import GRAPH, SIZE, VECTOR
from thence.report.units import interval

CLOSE: Final = (0.5, 2.0)
"""Two medians of which neither is more than twice the other are close."""
ORDER: Final = 10.0
"""What is in the order of a value is no more than this much larger or smaller."""
MOSTLY: Final = 0.5


def _sooner(panel: str) -> Claim:
    return Claim(
        name=f"delivery-vector-sooner-{panel}",
        kind="latency",
        section="8.4.5",
        panel=panel,
        says="Without delays vectors deliver sooner than the graph, whose algorithm does more.",
        judge=judged(panel, (VECTOR, GRAPH), smaller(VECTOR, GRAPH)),
        because=costs(panel, VECTOR, GRAPH),
    )


def _close(panel: str) -> Claim:
    return Claim(
        name=f"delivery-close-{panel}",
        kind="latency",
        section="8.4.5",
        panel=panel,
        says="Without stability the two are close, in the order of 40 µs with 128 nodes.",
        judge=judged(
            panel,
            (GRAPH, VECTOR),
            both(about(GRAPH, VECTOR, *CLOSE), near(GRAPH, 40, ORDER), near(VECTOR, 40, ORDER)),
            is_value=True,
        ),
        because=costs(panel, VECTOR, GRAPH),
    )


def _values(
    panel: str, says: str, vector: tuple[float, float], graph: tuple[float, float]
) -> Claim:
    return Claim(
        name=f"delivery-values-{panel}",
        kind="latency",
        section="8.4.5",
        panel=panel,
        says=says,
        judge=judged(
            panel,
            (VECTOR, GRAPH),
            both(within(VECTOR, *vector), within(GRAPH, *graph)),
            is_value=True,
        ),
        because=costs(panel, VECTOR, GRAPH),
    )


def _mostly_in_order(evidence: Evidence) -> Verdict:
    """The share of messages that had to wait: counts, so no clock is in it."""
    waited: dict[tuple[int, float | None, bool], int] = {}
    arrived: dict[tuple[int, float | None, bool], int] = {}
    for row in evidence.tables.rows("noncausal_delivery", "experiment"):
        if row.experiment == "exp2" and row.engine == VECTOR and row.group_size:
            key = row.group_size, row.interval_ms, bool(row.stability)
            if row.series == "waited":
                waited[key] = row.count
            elif row.series == "all":
                arrived[key] = row.count
    parts = []
    for key in sorted(arrived, key=lambda each: (order(each[:2]), each[2])):
        if arrived[key]:
            share = waited.get(key, 0) / arrived[key]
            kind = "with" if key[2] else "without"
            where = f"{key[0]} nodes, {interval(key[1])}, {kind} stability"
            parts.append(Part(where, share < MOSTLY, f"{share:.1%} had to wait", (share,)))
    if not parts:
        return Verdict(status=NOT_MEASURED, reason=f"No run of {VECTOR} in experiment 2.")
    worst = max(parts, key=lambda part: part.numbers[0])
    largest = max(size for size, _, _ in arrived)
    if largest < SIZE:
        reason = (
            f"No run of {VECTOR} with {SIZE} nodes. With up to {largest}: {worst.text} at most "
            f"({worst.where})."
        )
        return Verdict(status=NOT_MEASURED, reason=reason, smaller=tuple(parts))
    reason = f"Of {len(parts)} settings the one where most had to wait is shown."
    return Verdict(status=status_of(parts), parts=(worst,), reason=reason)


CLAIMS: Final = (
    _sooner("34a"),
    _close("34a"),
    _sooner("34b"),
    _values(
        "34b", "With stability it is 25 to 50 µs against 50 to 270 µs with 128 nodes.",
        (25, 50), (50, 270),
    ),
    _sooner("35a"),
    _close("35a"),
    _sooner("35b"),
    _values(
        "35b", "With stability it is around 25 µs against around 75 µs with 128 nodes.",
        (25 / AROUND, 25 * AROUND), (75 / AROUND, 75 * AROUND),
    ),
    Claim(
        name="delivery-in-order",
        kind="latency",
        section="8.4.5",
        panel="34a",
        says="The reason: without delays messages mostly arrive in causal order, few have to wait.",
        judge=_mostly_in_order,
    ),
)  # fmt: skip
