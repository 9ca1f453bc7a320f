"""What is to be drawn of a stretch of a run.

Marks, arrows and waits lie in Parquet files, in the order of their coordinates.  A window reads the
row groups that overlap it.  When more lies in it than can be told apart it gets, instead, how much
there is in each lane and each small part of the stretch; so an answer has a bounded size however
long the run is.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thence.trace.columns import Ints, Mask
from thence.trace.numbering import Numbering
from thence.web.axes import Floats, Fold, coordinates, fold_quiet, ticks
from thence.web.execution import KIND_CODES, Execution

MARKS_MAX: Final = 4000
ARROWS_MAX: Final = 6000
HOLDS_MAX: Final = 2000
BINS_MAX: Final = 600
GROUP_ROWS: Final = 1 << 13
VIEWS_KEPT: Final = 4


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows."""

    axis: str
    low: float
    high: float
    lanes: tuple[int, ...] | None = None
    """None: all."""
    hidden: tuple[str, ...] = ()
    """Kinds that are not shown."""
    fold: bool = False
    selected: int = -1
    """A row."""
    bins: int = 200


class _File:
    """A Parquet file sorted by ``begin``, whose rows last until ``end``."""

    def __init__(self, path: Path, table: pa.Table, begin: str, end: str) -> None:
        pq.write_table(table, path, row_group_size=GROUP_ROWS, compression="zstd")
        self._file = pq.ParquetFile(path, memory_map=True)
        self._lock = Lock()  # a ParquetFile reads for one caller at a time
        starts = np.arange(0, len(table), GROUP_ROWS)
        none = np.zeros(0)
        self._lows = np.minimum.reduceat(table[begin].to_numpy(), starts) if len(table) else none
        self._highs = np.maximum.reduceat(table[end].to_numpy(), starts) if len(table) else none

    def read(self, low: float, high: float) -> dict[str, Any]:
        """The columns of the row groups that overlap a stretch, as arrays."""
        some = np.flatnonzero((self._lows <= high) & (self._highs >= low)).tolist()
        with self._lock:
            table = self._file.read_row_groups(some)
        return {name: table[name].to_numpy() for name in table.column_names}


class _View:
    """The coordinates of what an axis shows under some filters."""

    def __init__(self, windows: Windows, axis: str, hidden: tuple[str, ...], ask: Ask) -> None:
        rows, x = windows.coordinates(axis)
        layout, kind = windows.execution.layout, windows.execution.columns.kind
        shown = windows.shown(rows, ask.lanes, hidden)
        rows, x = rows[shown], x[shown]
        self.fold = fold_quiet(np.sort(x)) if ask.fold else Fold(x[:1], x[:1])
        lane = layout.lane[rows]
        order = np.lexsort((x, lane))
        self.rows, self.x, self.kind = rows[order], x[order], kind[rows[order]]
        self.bounds = np.searchsorted(lane[order], np.arange(len(layout.nodes) + 1))
        self.low = float(x.min()) if len(x) else 0.0
        self.high = float(x.max()) if len(x) else 0.0

    def inside(self, low: float, high: float) -> list[tuple[int, int]]:
        """By lane: which of the sorted rows lie in a stretch."""
        found = []
        for begin, end in zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True):
            some = self.x[begin:end]
            first, last = np.searchsorted(some, [low, high + 1e-9]).tolist()
            found.append((begin + first, begin + last))
        return found


class Windows:
    """The files of one run, in a folder that is its own."""

    def __init__(self, execution: Execution, folder: Path) -> None:
        self.execution, self._folder = execution, folder
        self._files: dict[tuple[str, str], _File] = {}
        self._coordinates: dict[str, tuple[Ints, Floats]] = {}
        self._views: OrderedDict[Any, _View] = OrderedDict()
        self._lock = Lock()

    # ---- coordinates -----------------------------------------------------------------------------

    def coordinates(self, axis: str) -> tuple[Ints, Floats]:
        """The rows that an axis shows, and their x."""
        if axis not in self._coordinates:
            self._coordinates[axis] = coordinates(self.execution.layout, axis)
        return self._coordinates[axis]

    def x_of(self, axis: str, row: int, ask: Ask) -> float | None:
        """Where a row is on an axis, folded as asked; None if it is not on it."""
        rows, x = self.coordinates(axis)
        place = int(np.searchsorted(rows, row))
        if place >= len(rows) or rows[place] != row:
            return None
        return float(self.view(ask).fold.to_u(x[place]))

    def shown(self, rows: Ints, lanes: tuple[int, ...] | None, hidden: tuple[str, ...]) -> Mask:
        """Which rows pass the filters."""
        execution = self.execution
        shown: Mask = np.ones(len(rows), np.bool_)
        if lanes is not None:
            some = np.zeros(len(execution.names), np.bool_)
            some[[lane for lane in lanes if 0 <= lane < len(some)]] = True
            shown &= some[execution.layout.lane[rows]]
        if hidden:
            kinds = [KIND_CODES[name] for name in hidden if name in KIND_CODES]
            shown &= ~np.isin(execution.columns.kind[rows], kinds)
        return shown

    def view(self, ask: Ask) -> _View:
        """The coordinates under the filters of an ask."""
        hidden = () if ask.axis == "graph" else ask.hidden
        key = (ask.axis, ask.lanes, hidden, ask.fold)
        with self._lock:
            found = self._views.get(key)
            if found is None:
                found = self._views[key] = _View(self, ask.axis, hidden, ask)
                while len(self._views) > VIEWS_KEPT:
                    self._views.popitem(last=False)
            self._views.move_to_end(key)
            return found

    def extent(self, ask: Ask) -> tuple[float, float]:
        """From where to where an axis goes under some filters."""
        view = self.view(ask)
        return float(view.fold.to_u(view.low)), float(view.fold.to_u(view.high))

    # ---- files -----------------------------------------------------------------------------------

    def _file(self, axis: str, what: str) -> _File:
        with self._lock:
            found = self._files.get((axis, what))
            if found is None:
                table, begin, end = getattr(self, f"_{what}")(axis)
                table = table.sort_by(begin)
                path = self._folder / f"{axis}-{what}.parquet"
                found = self._files[axis, what] = _File(path, table, begin, end)
            return found

    def _marks(self, axis: str) -> tuple[pa.Table, str, str]:
        rows, x = self.coordinates(axis)
        columns, lane = self.execution.columns, self.execution.layout.lane
        made = {
            "x": x,
            "row": rows,
            "lane": lane[rows],
            "pos": columns.pos[rows],
            "kind": columns.kind[rows],
            "origin": columns.dot_node[rows],
            "seq": columns.dot_seq[rows],
        }
        return pa.table(made), "x", "x"

    def _arrows(self, axis: str) -> tuple[pa.Table, str, str]:
        layout = self.execution.layout
        arrows = layout.edges if axis == "graph" else layout.arrows
        x = self._x_by_row(axis)
        first, last = x[arrows.tail], x[arrows.head]
        made = {
            "low": np.minimum(first, last),
            "high": np.maximum(first, last),
            "x1": first,
            "x2": last,
            "tail": arrows.tail,
            "head": arrows.head,
            "kind": arrows.kind,
        }
        return pa.table(made), "low", "high"

    def _holds(self, axis: str) -> tuple[pa.Table, str, str]:
        holds = self.execution.layout.holds
        x = self._x_by_row(axis)
        last = float(x.max()) if len(x) else 0.0
        begin = x[holds.row]
        end = np.where(holds.until >= 0, x[np.maximum(holds.until, 0)], last)
        made = {
            "x1": begin,
            "x2": np.maximum(begin, end),
            "row": holds.row,
            "until": holds.until,
            "missing": holds.missing,
        }
        return pa.table(made), "x1", "x2"

    def _x_by_row(self, axis: str) -> Floats:
        rows, x = self.coordinates(axis)
        by_row = np.zeros(len(self.execution.layout))
        by_row[rows] = x
        return by_row

    # ---- answers ---------------------------------------------------------------------------------

    def window(self, ask: Ask) -> dict[str, Any]:
        """What lies between two coordinates."""
        view = self.view(ask)
        low, high = view.fold.to_x(ask.low), view.fold.to_x(ask.high)
        inside = view.inside(low, high)
        count = sum(last - first for first, last in inside)
        layout = self.execution.layout
        start = int(layout.t_us.min()) if len(layout) else 0
        answer: dict[str, Any] = {
            "from": ask.low,
            "to": ask.high,
            "extent": self.extent(ask),
            "count": count,
            "folds": [f for f in view.fold.folds if f[1] >= ask.low and f[0] <= ask.high],
            "ticks": ticks(ask.axis, ask.low, ask.high, view.fold, start),
        }
        if count > MARKS_MAX:
            answer["density"] = self._density(view, ask, inside)
        else:
            answer["marks"] = self._marks_in(view, ask, low, high)
            answer["arrows"] = self._arrows_in(view, ask, low, high)
            answer["holds"] = self._holds_in(view, ask, low, high)
        return answer

    def _density(self, view: _View, ask: Ask, inside: list[tuple[int, int]]) -> dict[str, Any]:
        """How many records, and whether a violation, by lane and part of the stretch."""
        bins = max(1, min(ask.bins, BINS_MAX))
        edges = np.linspace(ask.low, ask.high, bins + 1)
        corners = np.array([view.fold.to_x(float(edge)) for edge in edges])
        counts, bad = [], []
        for first, last in inside:
            x = view.x[first:last]
            places = np.searchsorted(x, corners)
            places[-1] = len(x)
            counts.append(np.diff(places).tolist())
            marked = np.flatnonzero(self.execution.bad[view.rows[first:last]])
            bad.append(np.unique(np.searchsorted(places, marked, side="right") - 1).tolist())
        return {"bins": bins, "counts": counts, "bad": bad}

    def _marks_in(self, view: _View, ask: Ask, low: float, high: float) -> dict[str, Any]:
        found = self._file(ask.axis, "marks").read(low, high)
        keep = (found["x"] >= low) & (found["x"] <= high)
        hidden = () if ask.axis == "graph" else ask.hidden
        keep &= self.shown(found["row"], ask.lanes, hidden)
        found = {name: column[keep] for name, column in found.items()}
        rows = found.pop("row")
        answer = {name: column.tolist() for name, column in found.items()}
        answer["x"] = np.round(view.fold.to_u(found["x"]), 3).tolist()
        answer["bad"] = np.flatnonzero(self.execution.bad[rows]).tolist()
        if ask.selected >= 0:
            answer["relation"] = self.execution.order.relation(ask.selected, rows).tolist()
        return answer

    def _arrows_in(self, view: _View, ask: Ask, low: float, high: float) -> dict[str, Any]:
        found = self._file(ask.axis, "arrows").read(low, high)
        keep = (found["low"] <= high) & (found["high"] >= low)
        hidden = tuple(kind for kind in ask.hidden if kind == "phantom")
        for end in ("tail", "head"):
            keep &= self.shown(found[end], ask.lanes, hidden)
        if ask.axis != "graph" and "receive" in ask.hidden:
            found["x2"], found["head"] = self._taken(ask.axis, found["x2"], found["head"])
        rows = np.flatnonzero(keep)
        left_out = max(0, len(rows) - ARROWS_MAX)
        if left_out:
            # Those with an end in sight say most; of the others a part stands for all.
            inside = (found["low"][rows] >= low).astype(np.int8) + (found["high"][rows] <= high)
            rows = np.sort(rows[np.argsort(-inside, kind="stable")[:ARROWS_MAX]])
        lane = self.execution.layout.lane
        tail, head = found["tail"][rows], found["head"][rows]
        answer = {
            "x1": np.round(view.fold.to_u(found["x1"][rows]), 3).tolist(),
            "x2": np.round(view.fold.to_u(found["x2"][rows]), 3).tolist(),
            "lane1": lane[tail].tolist(),
            "lane2": lane[head].tolist(),
            "kind": found["kind"][rows].tolist(),
            "left_out": left_out,
        }
        if ask.selected >= 0 and len(rows):
            relation = self.execution.order.relation
            answer["tail"] = relation(ask.selected, tail).tolist()
            answer["head"] = relation(ask.selected, head).tolist()
        return answer

    def _taken(self, axis: str, x: Floats, head: Ints) -> tuple[Floats, Ints]:
        """Where arrows end when arrivals are not shown: where the message was taken."""
        order, layout = self.execution.order, self.execution.layout
        taken = order.taken[head]
        there = order.in_transit[head] & (taken >= 0) & (taken < len(layout))
        rows = layout.first[layout.lane[head]] + np.where(there, taken, 0)
        new = np.where(there, rows, head)
        return np.where(there, self._x_by_row(axis)[new], x), new

    def _holds_in(self, view: _View, ask: Ask, low: float, high: float) -> dict[str, Any]:
        if ask.axis == "graph":
            return {"lane": [], "x1": [], "x2": [], "missing": [], "pos": [], "dot": []}
        found = self._file(ask.axis, "holds").read(low, high)
        keep = (found["x1"] <= high) & (found["x2"] >= low)
        keep &= self.shown(found["row"], ask.lanes, ())
        rows = np.flatnonzero(keep)[:HOLDS_MAX]
        execution, numbering = self.execution, self.execution.numbering
        at = found["row"][rows]
        return {
            "lane": execution.layout.lane[at].tolist(),
            "pos": execution.columns.pos[at].tolist(),
            "x1": np.round(view.fold.to_u(found["x1"][rows]), 3).tolist(),
            "x2": np.round(view.fold.to_u(found["x2"][rows]), 3).tolist(),
            "dot": [str(execution.columns.dot(row)) for row in at.tolist()],
            "missing": [dot_text(numbering, dot) for dot in found["missing"][rows].tolist()],
            "ended": (found["until"][rows] >= 0).tolist(),
        }


def dot_text(numbering: Numbering, dot: int) -> str:
    """``a:3``, or nothing for what is no message."""
    found = numbering.dot(dot)
    return "" if found is None else str(found)
