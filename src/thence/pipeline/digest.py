"""What is kept of a log and of a run for the metrics: counts of values, and rows that are final.

A task tallies the observations of a log (``LogDigest``); those of a run become the rows of its
levels ``run``, ``node`` and ``time``, and one tally a series for the levels above (``RunDigest``).
Digests are files between stages, on the shelf (causality/shelf.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from thence.pipeline.causality.shelf import Array, load, save
from thence.pipeline.metrics import METRICS
from thence.pipeline.metrics.base import ABOUT_RUN, ROWS, Metric, Series
from thence.pipeline.observed import AboutLog, AboutRun, Messages, Samples, WholeRun
from thence.pipeline.tally import Tally, figures, merged, tally_of
from thence.trace.columns import ABSENT

Key = tuple[str, str]
"""(metric, series)"""
TimedKey = tuple[str, str, int]
"""The same, and where a share of the run's time begins."""
_ROWS: Final = "rows"


def series_of(metrics: Iterable[str], of: str) -> Iterator[tuple[Key, Series]]:
    """The series of these metrics that observe this."""
    for name in metrics:
        for series in METRICS[name].series:
            if series.of == of:
                yield (name, series.name), series


# Of a log.


class LogDigest(msgspec.Struct, frozen=True, kw_only=True):
    """What a log gives to the metrics."""

    about: AboutLog
    tallies: dict[Key, Tally]
    timed: dict[TimedKey, Tally]


class LogTally:
    """Tallies a log, some messages at a time."""

    def __init__(self, metrics: Sequence[str], about: AboutLog) -> None:
        self._metrics, self._about = metrics, about
        self._of_messages = dict(series_of(metrics, "messages"))
        self._found: dict[Key, list[Tally]] = {key: [] for key in self._of_messages}

    def add(self, messages: Messages) -> None:
        """Count what is observed in these."""
        for key, series in self._of_messages.items():
            self._found[key].append(tally_of([series.values(messages)]))

    def digest(self, samples: Samples) -> LogDigest:
        """What was counted, with these samples of the log."""
        tallies = {key: merged(found) for key, found in self._found.items()}
        for key, series in series_of(self._metrics, "log"):
            tallies[key] = tally_of([series.values(self._about)])
        timed: dict[TimedKey, Tally] = {}
        for key, series in series_of(self._metrics, "samples"):
            tallies[key] = tally_of([series.values(samples)])
            for begin in np.unique(samples.bucket_us[samples.bucket_us != ABSENT]).tolist():
                some = tally_of([series.values(samples.at(begin))])
                if some.count:
                    timed[*key, begin] = some
        return LogDigest(about=self._about, tallies=tallies, timed=timed)


class _LogMeta(msgspec.Struct, frozen=True, array_like=True):
    about: AboutLog
    tallies: list[tuple[Key, float]]
    """With their sums, in the order of the arrays."""
    timed: list[tuple[TimedKey, float]]


def save_log(path: str, digest: LogDigest) -> None:
    """Keep the digest of a log."""
    meta = _LogMeta(
        digest.about,
        [(key, tally.sum) for key, tally in digest.tallies.items()],
        [(key, tally.sum) for key, tally in digest.timed.items()],
    )
    arrays = _arrays([*digest.tallies.values(), *digest.timed.values()])
    save(path, msgspec.msgpack.encode(meta), arrays)


def load_log(path: str) -> LogDigest:
    """What ``save_log`` kept."""
    header, arrays = load(path)
    meta = msgspec.msgpack.decode(header, type=_LogMeta)
    sums = [total for _, total in [*meta.tallies, *meta.timed]]
    tallies = _tallies(arrays, sums)
    return LogDigest(
        about=meta.about,
        tallies={key: next(tallies) for key, _ in meta.tallies},
        timed={key: next(tallies) for key, _ in meta.timed},
    )


def _arrays(tallies: Iterable[Tally]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for number, tally in enumerate(tallies):
        found[f"{number}.values"] = tally.values
        found[f"{number}.upto"] = tally.upto
    return found


def _tallies(arrays: dict[str, Array], sums: Iterable[float]) -> Iterator[Tally]:
    for number, total in enumerate(sums):
        values, upto = arrays[f"{number}.values"], arrays[f"{number}.upto"]
        yield Tally(values=values, upto=upto, sum=total)


# Of a run.


class SeriesDigest(msgspec.Struct, frozen=True, kw_only=True):
    """What a run gives to one series."""

    tally: Tally
    lacks: str | None
    """Why it gives nothing."""


class RunDigest(msgspec.Struct, frozen=True, kw_only=True):
    """What a run gives to the metrics."""

    about: AboutRun
    series: dict[Key, SeriesDigest]
    rows: dict[str, pa.Table]
    """By metric: the rows of the levels that end at a run, which are final."""


def run_digest(metrics: Sequence[str], run: WholeRun, logs: Sequence[LogDigest]) -> RunDigest:
    """Put the logs of a run together."""
    found: dict[Key, SeriesDigest] = {}
    rows: dict[str, pa.Table] = {}
    for name in metrics:
        table: list[dict[str, Any]] = []
        for series in METRICS[name].series:
            key = (name, series.name)
            found[key] = _series_digest(key, series, run, logs)
            table += _run_rows(key, series, run.about, found[key], logs)
        rows[name] = pa.Table.from_pylist(table, ROWS)
    return RunDigest(about=run.about, series=found, rows=rows)


def _series_digest(
    key: Key, series: Series, run: WholeRun, logs: Sequence[LogDigest]
) -> SeriesDigest:
    if series.of == "run":
        tally, reasons = tally_of([series.values(run)]), [series.reason(run)]
    else:
        tally = merged([log.tallies[key] for log in logs])
        reasons = [series.reason(log.about) for log in logs]
    return SeriesDigest(tally=tally, lacks=None if tally.count else min(reasons))


def _run_rows(
    key: Key, series: Series, about: AboutRun, found: SeriesDigest, logs: Sequence[LogDigest]
) -> Iterator[dict[str, Any]]:
    group = {"run": about.run, **{name: getattr(about, name) for name in ABOUT_RUN}}
    yield row_of(series, "run", group, [found])
    if series.of == "run":
        return
    for log in logs:
        tally = log.tallies[key]
        one = SeriesDigest(tally=tally, lacks=series.reason(log.about))
        yield row_of(series, "node", {**group, "node": log.about.node}, [one])
    for begin in sorted({at for log in logs for *of, at in log.timed if tuple(of) == key}):
        some = [log.timed[*key, begin] for log in logs if (*key, begin) in log.timed]
        parts = [SeriesDigest(tally=tally, lacks=None) for tally in some]
        yield row_of(series, "time", {**group, "bucket_us": begin}, parts)


def row_of(
    series: Series, level: str, group: dict[str, Any], parts: Sequence[SeriesDigest]
) -> dict[str, Any]:
    """The row of one group, which these make up."""
    shown = figures([part.tally for part in parts])
    lacks = None if shown["count"] else min(part.lacks or series.otherwise for part in parts)
    return {
        "series": series.name, "unit": series.unit, "level": level, **group, **shown,
        "lacks": lacks,
    }  # fmt: skip


class _RunMeta(msgspec.Struct, frozen=True, array_like=True):
    about: AboutRun
    series: list[tuple[Key, float, str | None]]


def save_run(path: str, digest: RunDigest) -> None:
    """Keep the digest of a run."""
    series = [(key, found.tally.sum, found.lacks) for key, found in digest.series.items()]
    arrays = _arrays(found.tally for found in digest.series.values())
    for name, table in digest.rows.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, ROWS) as stream:
            stream.write_table(table)
        arrays[f"{_ROWS}.{name}"] = np.frombuffer(sink.getvalue(), np.uint8)
    save(path, msgspec.msgpack.encode(_RunMeta(digest.about, series)), arrays)


def load_run(path: str, metric: Metric) -> RunDigest:
    """What ``save_run`` kept for one metric."""
    header, arrays = load(path)
    meta = msgspec.msgpack.decode(header, type=_RunMeta)
    tallies = _tallies(arrays, [total for _, total, _ in meta.series])
    series = {
        key: SeriesDigest(tally=tally, lacks=lacks)
        for (key, _, lacks), tally in zip(meta.series, tallies, strict=True)
        if key[0] == metric.name
    }
    table = pa.ipc.open_stream(pa.py_buffer(arrays[f"{_ROWS}.{metric.name}"])).read_all()
    return RunDigest(about=meta.about, series=series, rows={metric.name: table})
