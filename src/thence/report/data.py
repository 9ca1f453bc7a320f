"""What a report is made from: the tables that ``thence metrics`` writes, and lab.json.

No Spark: tables of percentiles are small, whatever the traces were.  Names in them (of runs, nodes,
variants) are others' data: nothing here trusts them to be short, plain or unique to one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thence.errors import UnusableInputError

LAB_FILE: Final = "lab.json"
SUMMARY_FILE: Final = "metrics.json"
LAB_VERSION: Final = 1
FLAGSHIP: Final = "flagship"
FLAGSHIP_DEFAULT: Final = "flagship-default"
RIVAL: Final = "rival"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a metric: percentiles of one series, of one group of runs, nodes or moments."""

    series: str
    unit: str
    level: str
    run: str | None
    node: str | None
    engine: str | None
    variant: str | None
    stability: bool | None
    group_size: int | None
    interval_ms: float | None
    experiment: str | None
    bucket_us: int | None
    count: int
    mean: float | None
    p25: float | None
    p50: float | None
    p75: float | None
    p90: float | None
    p99: float | None
    max: float | None
    lacks: str | None
    """Why count is 0, in words."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table of runs."""

    run: str
    engine: str | None
    variant: str | None
    role: str | None
    form: str | None
    stability: bool | None
    complete: bool | None
    group_size: int | None
    interval_ms: float | None
    experiment: str | None
    scenario: str | None
    events: int | None
    span_us: int | None

    def facts(self) -> dict[str, Any]:
        """Its scenario; empty when it is nothing that can be read."""
        try:
            return msgspec.json.decode(self.scenario or "{}", type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeError):
            return {}

    @property
    def is_simulated(self) -> bool:
        """Whether its times are virtual."""
        return self.facts().get("simulated") is True


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table of logs: what a node did."""

    run: str
    node: str
    events: int
    sends: int
    deliveries: int
    stables: int


class Summary(msgspec.Struct, frozen=True):
    """metrics.json."""

    complete: bool = False
    runs: int = 0
    events: int = 0
    metrics: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


ROW_COLUMNS: Final = Row.__struct_fields__
RUN_COLUMNS: Final = Run.__struct_fields__
LOG_COLUMNS: Final = Log.__struct_fields__


class Tables:
    """The tables of one folder, read when asked for and kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.summary = read_summary(folder)
        if not self.summary.complete:
            raise UnusableInputError(
                f"{folder} holds no complete metrics: measure the traces again with thence metrics"
            )
        self.runs = [
            msgspec.convert(row, Run) for row in _read(folder / "runs", RUN_COLUMNS).to_pylist()
        ]
        self._rows: dict[tuple[str, str], list[Row]] = {}

    @property
    def are_simulated(self) -> bool:
        """Whether all runs are; then latency is virtual time, plus the CPU time of engines."""
        return bool(self.runs) and all(run.is_simulated for run in self.runs)

    def rows(self, metric: str, level: str) -> list[Row]:
        """The rows of a metric at a level, in a fixed order; none if it was not measured."""
        key = metric, level
        if key not in self._rows:
            self._rows[key] = self._read_rows(metric, level)
        return self._rows[key]

    def _read_rows(self, metric: str, level: str) -> list[Row]:
        if metric not in self.summary.metrics:
            return []
        table = _read(self.folder / "metrics" / metric, ROW_COLUMNS)
        chosen = table.filter(pc.equal(table["level"], level))
        rows = [msgspec.convert(row, Row) for row in chosen.to_pylist()]
        return sorted(rows, key=_order)

    def logs(self) -> list[Log]:
        """One row for each log, by run and node."""
        rows = _read(self.folder / "logs", LOG_COLUMNS).to_pylist()
        return sorted((msgspec.convert(row, Log) for row in rows), key=lambda a: (a.run, a.node))


def _order(row: Row) -> tuple[Any, ...]:
    """Of rows whose parts may be null; Spark writes them in any order."""
    parts = (row.series, row.experiment, row.variant, row.run, row.node)
    numbers = (row.group_size, row.interval_ms, row.bucket_us, row.stability)
    return (*(part or "" for part in parts), *(-1 if each is None else each for each in numbers))


def read_summary(folder: Path) -> Summary:
    """metrics.json of a folder; not complete when there is none, or none that can be read."""
    try:
        return msgspec.json.decode((folder / SUMMARY_FILE).read_bytes(), type=Summary)
    except (OSError, msgspec.MsgspecError):
        return Summary()


def are_usable(folder: Path) -> bool:
    """Whether a folder holds complete metrics with the columns of this version."""
    if not read_summary(folder).complete:
        return False
    try:
        tables = Tables(folder)
        for metric in tables.summary.metrics:
            tables.rows(metric, "run")
    except UnusableInputError:
        return False
    return True


def _read(folder: Path, columns: Sequence[str]) -> pa.Table:
    """These columns of a table; UnusableInputError names those that are not there."""
    files = sorted(folder.glob("*.parquet")) if folder.is_dir() else []
    if not files:
        raise UnusableInputError(
            f"{folder} is not there: measure the traces again with thence metrics"
        )
    pieces = []
    for file in files:
        try:
            present = set(pq.read_schema(file).names)
            if missing := [name for name in columns if name not in present]:
                raise UnusableInputError(
                    f"{folder} was made by another version of thence: it has no column "
                    f"{', '.join(missing)}; measure the traces again with thence metrics"
                )
            pieces.append(pq.ParquetFile(file).read(columns=list(columns)))
        except (OSError, pa.ArrowInvalid) as error:
            raise UnusableInputError(f"{file} cannot be read: {error}") from None
    return pa.concat_tables(pieces, promote_options="permissive")


# What the lab says of itself.


class Variant(msgspec.Struct, frozen=True):
    """An engine with its options, under a name."""

    name: str
    engine: str = ""
    form: str = "interpreted"
    role: Literal["flagship", "flagship-default", "rival", "none"] = "none"
    about: str = ""
    """What the engine is, in a few words."""


class LabFile(msgspec.Struct, frozen=True):
    """A scenario file as it was when the lab ran."""

    name: str
    text: str = ""
    title: str = ""


class LabExperiment(msgspec.Struct, frozen=True):
    """An experiment that was run."""

    name: str
    title: str = ""


class Lab(msgspec.Struct, frozen=True, kw_only=True):
    """lab.json."""

    v: int = LAB_VERSION
    files: tuple[LabFile, ...] = ()
    variants: tuple[Variant, ...] = ()
    experiments: tuple[LabExperiment, ...] = ()
    command: str = ""
    machine: Mapping[str, Any] = {}
    started: str | None = None
    seconds: float | None = None
    runs: int | None = None
    events: int | None = None
    check: Mapping[str, Any] = {}
    mode: str = ""

    def of_role(self, role: str) -> list[Variant]:
        """The variants that have it."""
        return [variant for variant in self.variants if variant.role == role]


def read_lab(folder: Path) -> Lab:
    """lab.json of a lab's folder."""
    path = folder / LAB_FILE
    try:
        lab = msgspec.json.decode(path.read_bytes(), type=Lab)
    except OSError as error:
        raise UnusableInputError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise UnusableInputError(f"{path} is not what thence lab writes: {error}") from None
    if lab.v != LAB_VERSION:
        raise UnusableInputError(
            f"{path} has version {lab.v}, this thence reads {LAB_VERSION}: run the lab again"
        )
    return lab


def variants_of(tables: Tables) -> tuple[Variant, ...]:
    """The variants that runs name, where no lab.json does: in the order of the runs."""
    found: dict[str, Variant] = {}
    for run in sorted(tables.runs, key=lambda each: each.run):
        name = run.variant or run.engine
        if name:
            role = run.role if run.role in (FLAGSHIP, FLAGSHIP_DEFAULT, RIVAL) else "none"
            fields = {"name": name, "engine": run.engine or "", "role": role}
            found.setdefault(name, msgspec.convert(fields, Variant))
    return tuple(found.values())
