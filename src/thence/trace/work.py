"""``cpu.arrow``: the CPU time of an engine's calls, beside the trace of a simulated run.

In virtual time an engine's work takes none, so what it costs is measured around its calls and kept
in a file of its own, outside the promise of identical bytes (docs/reference/trace.md has the
format).  Nothing joins it to the log but order: the k-th ``ready`` record of a node belongs to the
call at which the running sum of ``ready`` passes k, the k-th ``stable`` record likewise.
"""

from __future__ import annotations

import os
from array import array
from types import TracebackType
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from thence.errors import TraceError
from thence.trace.columns import Ints
from thence.trace.files import join, kind_of, map_file, write_file

CPU_FILE: Final = "cpu.arrow"
TOTALS_KEY: Final = b"totals"
CLOCK_KEY: Final = b"clock_ns"
ROWS_AT_A_TIME: Final = 1 << 16
CPU_SCHEMA: Final = pa.schema(
    [
        pa.field("node", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("t_us", pa.int64(), nullable=False),
        pa.field("ns", pa.int64(), nullable=False),
        pa.field("ready", pa.int32(), nullable=False),
        pa.field("stable", pa.int32(), nullable=False),
    ]
)


class Total(msgspec.Struct, kw_only=True):
    """All calls of one node's engine, also those that have no row."""

    calls: Annotated[int, msgspec.Meta(ge=0)] = 0
    ns: Annotated[int, msgspec.Meta(ge=0)] = 0


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one node's engine that released or told something, in their order."""

    t_us: Ints
    ns: Ints
    ready: Ints
    """How many ``ready`` records each made."""
    stable: Ints
    """How many stable messages each handed to the client."""
    total: Total


class CpuWriter:
    """Collects the calls of a run; ``close`` writes the file.  28 bytes a row until then.

    ``clock_ns``: how much of each time is that of reading the clock; not told by default.
    """

    def __init__(self, folder: str | os.PathLike[str], clock_ns: int | None = None) -> None:
        self._path = join(os.fspath(folder), CPU_FILE)
        self._clock_ns = clock_ns
        self._codes: dict[str, int] = {}
        self._totals: list[Total] = []
        self._node = array("i")
        self._t_us, self._ns = array("q"), array("q")
        self._ready, self._stable = array("i"), array("i")

    def call(self, node: str, t_us: int, ns: int, ready: int = 0, stable: int = 0) -> None:
        """One call of the engine of this node, which took ``ns`` of CPU time."""
        row = (t_us, ns, ready, stable) if ready or stable else ()
        self.calls(node, array("q", row), Total(calls=1, ns=ns))

    def calls(self, node: str, rows: array[int], total: Total) -> None:
        """Many calls of the engine of this node.

        ``rows``: t_us, ns, ready and stable of each that released or told something, one after the
        other; ``total``: all of them.
        """
        code = self._codes.get(node)
        if code is None:
            code = self._codes[node] = len(self._codes)
            self._totals.append(Total())
        self._totals[code].calls += total.calls
        self._totals[code].ns += total.ns
        self._node.extend(array("i", [code]) * (len(rows) // 4))
        self._t_us.extend(rows[0::4])
        self._ns.extend(rows[1::4])
        self._ready.extend(array("i", rows[2::4]))
        self._stable.extend(array("i", rows[3::4]))

    def close(self) -> None:
        """Write the file; it is there whole or not at all."""
        totals = dict(zip(self._codes, map(msgspec.to_builtins, self._totals), strict=True))
        about = {TOTALS_KEY: msgspec.json.encode(totals)}
        if self._clock_ns is not None:
            about[CLOCK_KEY] = f"{self._clock_ns}".encode()
        schema = CPU_SCHEMA.with_metadata(about)
        nodes = pa.DictionaryArray.from_arrays(
            _ints(self._node, np.int32), pa.array(list(self._codes), pa.string())
        )
        table = pa.Table.from_arrays(
            [
                nodes, _ints(self._t_us, np.int64), _ints(self._ns, np.int64),
                _ints(self._ready, np.int32), _ints(self._stable, np.int32),
            ],
            schema=schema,
        )  # fmt: skip
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(sink, schema, options=options) as file:
            file.write_table(table, max_chunksize=ROWS_AT_A_TIME)
        write_file(self._path, [sink.getvalue()])

    def __enter__(self) -> CpuWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()


def _ints(values: array[int], kind: type[np.integer[Any]]) -> pa.Array:
    return pa.array(np.frombuffer(values, kind))


def read_cpu(folder: str | os.PathLike[str]) -> dict[str, Calls] | None:
    """By node, the calls of its engine; None when the run has no such file.

    TraceError when the file is there and is not one.
    """
    path = join(os.fspath(folder), CPU_FILE)
    if kind_of(path) != "file":
        return None
    try:
        table = pa.ipc.open_file(pa.BufferReader(map_file(path))).read_all()
        totals = _totals(table.schema)
        columns = table.select(CPU_SCHEMA.names).cast(CPU_SCHEMA, safe=True).unify_dictionaries()
        columns.validate(full=True)
        return _by_node(columns, totals)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceError(path, None, f"not the CPU times of a run: {reason}") from None


def _totals(schema: pa.Schema) -> dict[str, Total]:
    text = (schema.metadata or {}).get(TOTALS_KEY)
    if text is None:
        raise ValueError("the metadata of its schema has no totals")
    return msgspec.json.decode(text, type=dict[str, Total])


def _by_node(table: pa.Table, totals: dict[str, Total]) -> dict[str, Calls]:
    if any(column.null_count for column in table.columns):
        raise ValueError("it has nulls")
    node = table.column("node").combine_chunks()
    if isinstance(node, pa.ChunkedArray):  # without any row
        node = pa.array([], CPU_SCHEMA.field("node").type)
    codes: Ints = node.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    values = {
        name: table.column(name).to_numpy()[order] for name in ("t_us", "ns", "ready", "stable")
    }
    if any(bool((values[name] < 0).any()) for name in ("ns", "ready", "stable")):
        raise ValueError("it has a time or a count below 0")
    names: list[str] = node.dictionary.to_pylist()
    bounds = np.searchsorted(codes[order], np.arange(len(names) + 1))
    rows = {name: slice(bounds[code], bounds[code + 1]) for code, name in enumerate(names)}
    unknown = sorted(
        name for name, some in rows.items() if name not in totals and some.stop > some.start
    )
    if unknown:
        raise ValueError(f"there are calls of {unknown[0]} and no total")
    return {
        name: Calls(
            **{column: array[rows.get(name, slice(0, 0))] for column, array in values.items()},
            total=total,
        )
        for name, total in totals.items()
    }
