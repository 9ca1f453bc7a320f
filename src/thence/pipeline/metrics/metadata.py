"""Metadata per message: the dots of its context, the entries and the bytes that travel with it.

Figures 28a, 30a and 31a of the thesis count what travels: predecessors, or the entries of a vector,
one for each member; two vectors when the application tags as well (section 3.5.1).
"""

from __future__ import annotations

import numpy as np

from thence.pipeline.metrics.base import UNSENT, Metric, Series
from thence.pipeline.observed import AboutLog, Floats, Messages, known


def _entries(messages: Messages) -> Floats:
    dots = known(messages.context_dots)
    entries = messages.log.vector_entries
    return np.full(len(dots), entries, np.float64) if entries else dots


def _is_untagged(log: AboutLog) -> bool:
    return log.tags == "none"


_UNTAGGED = "contexts say nothing in this run (tags none)"

METRIC = Metric(
    name="metadata",
    description="dots in the context of a message; entries and bytes that travel with it",
    series=(
        Series(
            name="dots",
            unit="dots",
            of="messages",
            values=lambda messages: known(messages.context_dots),
            lacks=((_is_untagged, _UNTAGGED),),
            otherwise="nothing was sent",
        ),
        Series(
            name="entries",
            unit="entries",
            of="messages",
            values=_entries,
            lacks=((_is_untagged, _UNTAGGED),),
            otherwise="nothing was sent",
        ),
        Series(
            name="bytes",
            unit="bytes",
            of="messages",
            values=lambda messages: known(messages.bytes),
            lacks=(UNSENT,),
            otherwise="no send record has bytes",
        ),
    ),
)
