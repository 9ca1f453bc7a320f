"""The CPU times of ``cpu.arrow`` at the records of the log that they belong to.

Order alone joins them (docs/reference/trace.md), so a file that does not fit a log is not used for
it at all: a time at the wrong record would be worse than none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from thence.errors import TraceError
from thence.pipeline.log import Log
from thence.pipeline.observed import AboutLog
from thence.trace.columns import ABSENT, KIND_CODE, Ints
from thence.trace.files import is_segment, name_of, parent
from thence.trace.reader import Place
from thence.trace.record import READY, STABLE
from thence.trace.work import CPU_FILE, Calls, Total, read_cpu

USED: Final = "used"
NONE: Final = "none"
DAMAGED: Final = "damaged"
UNFIT: Final = "unfit"


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls of a node's engine took, by row of its log; ``ABSENT`` elsewhere."""

    ready_ns: Ints
    """Of the call that made the record's message ready."""
    told_us: Ints
    """When the call was that found the record's message stable."""
    told_ns: Ints
    total: Total


class CpuTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What the ``cpu.arrow`` files of a run's folders say."""

    calls: dict[str, Calls] = {}
    """By node."""
    state: str = NONE
    notes: tuple[str, ...] = ()

    def of(self, node: str, log: Log) -> tuple[str, Spent | None]:
        """Whether there are times for this log, and the times."""
        if self.state != USED:
            return self.state, None
        calls = self.calls.get(node)
        spent = None if calls is None else spent_in(log, calls)
        return (UNFIT, None) if spent is None else (USED, spent)


def cpu_times(folders: Sequence[str]) -> CpuTimes:
    """The CPU times in these folders; one bad file makes all of them unusable."""
    found: dict[str, Calls] | None = None
    for folder in folders:
        try:
            calls = read_cpu(folder)
        except TraceError as error:
            note = f"{error}; the CPU times of this run are left out"
            return CpuTimes(state=DAMAGED, notes=(note,))
        if calls is not None:
            found = calls | (found or {})
    return CpuTimes() if found is None else CpuTimes(state=USED, calls=found)


def cpu_folders(places: Sequence[Place]) -> tuple[str, ...]:
    """Where the files of these places would be."""
    return tuple(parent(p.path) if is_segment(name_of(p.path)) else p.path for p in places)


def cpu_notes(folders: Sequence[str], logs: Sequence[AboutLog]) -> Sequence[str]:
    """What to say of the CPU times of a run that are there and were not used."""
    if any(log.cpu == DAMAGED for log in logs):
        return cpu_times(folders).notes
    unfit = [log for log in logs if log.cpu == UNFIT]
    if not unfit:
        return ()
    more = f" and {len(unfit) - 1} more" if len(unfit) > 1 else ""
    return (
        f"run {unfit[0].run}: {CPU_FILE} does not fit the log of {unfit[0].node}{more}: it is of "
        "another run, or one of them lacks something; the CPU times of these logs are left out",
    )


def spent_in(log: Log, calls: Calls) -> Spent | None:
    """The times by row; None when the calls do not fit the log."""
    ready = np.flatnonzero(log.kind == KIND_CODE[READY])
    stable = np.flatnonzero(log.kind == KIND_CODE[STABLE])
    released, told = _call_of(calls.ready, len(ready)), _call_of(calls.stable, len(stable))
    if released is None or told is None:
        return None
    if bool((log.t_us[ready] != calls.t_us[released]).any()):
        return None
    if bool((log.t_us[stable] < calls.t_us[told]).any()):
        return None
    return Spent(
        ready_ns=_by_row(log, ready, calls.ns[released]),
        told_us=_by_row(log, stable, calls.t_us[told]),
        told_ns=_by_row(log, stable, calls.ns[told]),
        total=calls.total,
    )


def _call_of(made: Ints, records: int) -> Ints | None:
    """By record: the call that made it; None when calls made more or fewer."""
    upto = np.cumsum(made, dtype=np.int64)
    if (int(upto[-1]) if len(upto) else 0) != records:
        return None
    found: Ints = np.searchsorted(upto, np.arange(records), side="right")
    return found


def _by_row(log: Log, rows: Ints, values: Ints) -> Ints:
    found: Ints = np.full(len(log.kind), ABSENT, np.int64)
    found[rows] = values
    return found
