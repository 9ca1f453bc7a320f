"""Small runs of groups whose members come and go, and exactly what each of them breaks.

Each clause of the reference on membership (docs/reference/trace.md) has a run that shows it: one
that breaks a rule, and beside it one that is as close as possible and does not.  ``examples()``
gives them as data, for any checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.trace.brute import Found
from tests.trace.dynamic_examples_lives import LIVES
from tests.trace.dynamic_examples_stability import STABILITY
from tests.trace.dynamic_examples_views import VIEWS
from tests.trace.dynamic_text import records_in, spelt
from thence.trace.record import Record, RunInfo

Example = tuple[str, list[Record], RunInfo, list[Found]]


def examples() -> Iterator[Example]:
    """(name, records, info, expected): what a checker must find, in report order."""
    for cases in (VIEWS, STABILITY, LIVES):
        for name, (about, logs, expected) in cases.items():
            yield name, records_in(logs), about, [spelt(text) for text in expected]
