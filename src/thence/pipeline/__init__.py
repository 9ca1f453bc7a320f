"""Traces at scale: what the logs of a run amount to, computed on Spark.

session      the one builder of Spark sessions; jvm: the Java it runs on
causality    the check, as tasks over logs
ingest       raw segments to a table of events; importers for logs that others wrote
metrics      what a run cost, one module each
order, cuts  questions about causality, as functions of DataFrames; folds: states at cuts
stream       the check while nodes still write

The names below can be imported from here; importing the package loads neither Spark nor pandas.
Functions that are named like their module (``measure``, ``ingest``) are found in it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thence.pipeline.causality.spark import check_on_spark
    from thence.pipeline.cuts import cut, latest_cut, positions_of
    from thence.pipeline.folds import materialise
    from thence.pipeline.folds_store import StoreFold
    from thence.pipeline.importers.mapping import events_from
    from thence.pipeline.ingest_frames import import_frame
    from thence.pipeline.measure import read_metric
    from thence.pipeline.order import (
        causal_future,
        causal_order,
        causal_past,
        concurrent_with,
        happens_before,
    )
    from thence.pipeline.session import spark_session
    from thence.pipeline.stream import findings, follow
    from thence.pipeline.tables import read_events, read_quarantine, read_segments

_HOMES = {
    "StoreFold": "thence.pipeline.folds_store",
    "causal_future": "thence.pipeline.order",
    "causal_order": "thence.pipeline.order",
    "causal_past": "thence.pipeline.order",
    "check_on_spark": "thence.pipeline.causality.spark",
    "concurrent_with": "thence.pipeline.order",
    "cut": "thence.pipeline.cuts",
    "events_from": "thence.pipeline.importers.mapping",
    "findings": "thence.pipeline.stream",
    "follow": "thence.pipeline.stream",
    "happens_before": "thence.pipeline.order",
    "import_frame": "thence.pipeline.ingest_frames",
    "latest_cut": "thence.pipeline.cuts",
    "materialise": "thence.pipeline.folds",
    "positions_of": "thence.pipeline.cuts",
    "read_events": "thence.pipeline.tables",
    "read_metric": "thence.pipeline.measure",
    "read_quarantine": "thence.pipeline.tables",
    "read_segments": "thence.pipeline.tables",
    "spark_session": "thence.pipeline.session",
}

__all__ = [
    "StoreFold",
    "causal_future",
    "causal_order",
    "causal_past",
    "check_on_spark",
    "concurrent_with",
    "cut",
    "events_from",
    "findings",
    "follow",
    "happens_before",
    "import_frame",
    "latest_cut",
    "materialise",
    "positions_of",
    "read_events",
    "read_metric",
    "read_quarantine",
    "read_segments",
    "spark_session",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'thence.pipeline' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
