"""What metrics look at: the messages and samples of a log, a log, and a run, as plain values.

Times are microseconds.  ``ABSENT`` is what is not logged or not known.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from thence.trace.columns import ABSENT, Ints, Mask

Floats = npt.NDArray[np.float64]


class AboutLog(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table ``logs``."""

    run: str
    node: str
    events: int
    timed: bool
    sends: int
    receives: int
    readies: int
    deliveries: int
    stables: int
    phantoms: int
    samples: int
    span_us: int | None
    slow: bool
    vector_entries: int
    cpu: str
    cpu_calls: int | None
    cpu_ns: int | None
    guarantee: str
    tags: str
    stability: bool
    clock: str | None


class AboutRun(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table ``runs``."""

    run: str
    engine: str
    variant: str
    role: str | None
    form: str | None
    vectors: int
    slow_nodes: tuple[str, ...]
    guarantee: str
    tags: str
    stability: bool
    complete: bool
    group_size: int
    interval_ms: float | None
    experiment: str | None
    clock: str | None
    scenario: str
    events: int
    span_us: int | None


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the causal order of a run is like; None for what cannot be said."""

    messages: int
    pairs: int
    concurrent_pairs: int | None
    width: int | None
    contradictory: bool
    """A message precedes itself, as only broken logs say: then there is no order."""
    too_large: bool


class WholeRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a whole."""

    about: AboutRun
    timed: bool
    sends: int
    deliveries: int
    order: Order | None
    """None when nothing that is measured needs it."""


class Messages(msgspec.Struct, frozen=True, kw_only=True):
    """Some messages of one life of a log, by message: rows of the table ``latency``."""

    log: AboutLog
    life: int
    ids: Ints
    own: Mask
    sent: Mask
    """Whether the row is that of its send."""
    t_send: Ints
    t_receive: Ints
    t_ready: Ints
    t_deliver: Ints
    t_stable: Ints
    latest_receive: Ints
    completing_receive: Ints
    had_to_wait: Mask
    """False also where it is not known."""
    wait_known: Mask
    context_dots: Ints
    bytes: Ints
    ready_ns: Ints
    t_told: Ints
    told_ns: Ints


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """The samples of a log that have words."""

    t_us: Ints
    bucket_us: Ints
    """Where its share of the run's time begins."""
    words: Ints

    def at(self, bucket_us: int) -> Samples:
        """Those of one share."""
        some = self.bucket_us == bucket_us
        return Samples(t_us=self.t_us[some], bucket_us=self.bucket_us[some], words=self.words[some])


def known(values: Ints, where: Mask | None = None) -> Floats:
    """Those that are known, and of these rows."""
    some = values != ABSENT if where is None else where & (values != ABSENT)
    found: Floats = values[some].astype(np.float64)
    return found


def elapsed(after: Ints, before: Ints, ns: Ints | None = None, where: Mask | None = None) -> Floats:
    """The time between two records, of the rows that have both; in microseconds.

    ``ns``: CPU time that comes to it, rounded to 0.1 us so that values repeat and can be counted.
    """
    some = (after != ABSENT) & (before != ABSENT)
    if where is not None:
        some &= where
    if ns is not None:
        some &= ns != ABSENT
    gap: Floats = (after[some] - before[some]).astype(np.float64)
    if ns is None:
        return gap
    tenths: Floats = (gap * 10 + (ns[some] + 50) // 100) / 10
    return tenths


def one(value: float | None) -> Floats:
    """One observation, or none."""
    return np.array([] if value is None else [value], np.float64)
