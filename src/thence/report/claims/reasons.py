"""Why our latencies are not the thesis': the CPU time that the same tables hold."""

from __future__ import annotations

from collections.abc import Callable

from thence.report.evidence import Evidence
from thence.report.units import shown


def costs(panel: str, *engines: str) -> Callable[[Evidence], str]:
    """What a delivery costs each engine, at the largest size that all of them were run with."""

    def because(evidence: Evidence) -> str:
        drawn = evidence.panel(panel)
        found: dict[str, dict[int, list[float]]] = {engine: {} for engine in engines}
        for row in evidence.tables.rows("work", "experiment"):
            wanted = (
                row.experiment in drawn.panel.experiments
                and bool(row.stability) == drawn.panel.stability
                and row.series == "per_delivery"
            )
            if wanted and row.engine in found and row.p50 is not None and row.group_size:
                found[row.engine].setdefault(row.group_size, []).append(row.p50)
        common = set.intersection(*(set(each) for each in found.values()))
        if not common:
            return "CPU times of the engines were not recorded, so the cause cannot be shown."
        size = max(common)
        told = ", ".join(f"{engine} {shown(max(found[engine][size]), 'us')}" for engine in engines)
        return f"CPU time per delivery among {size} nodes, at most: {told}."

    return because
