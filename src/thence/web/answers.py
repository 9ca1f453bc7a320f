"""What the page asks, and the answers, as values that JSON can say.

Records are named NODE@POSITION, coordinates are those of an axis, folded as asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from starlette.requests import Request

from thence.errors import UnusableInputError
from thence.trace.columns import Ints
from thence.web.axes import AXES
from thence.web.execution import Execution
from thence.web.runs import Loaded, Viewer
from thence.web.state import rows_inside, rows_known, state_of
from thence.web.windows import Ask

WAITING_MAX: Final = 200
Query = Callable[[Viewer, Request], Any]


def _number(request: Request, name: str, default: float | None = None) -> float:
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    try:
        value = float(text or "")
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise UnusableInputError(f"{name}: expected a number, got {text!r}")
    return value


def _words(request: Request, name: str) -> list[str]:
    """The values of a parameter that may be there several times."""
    return [text for text in request.query_params.getlist(name) if text]


def run_of(viewer: Viewer, request: Request) -> tuple[Loaded, Execution]:
    return viewer.execution(int(_number(request, "run", 0)))


def row_of(execution: Execution, request: Request, name: str = "at") -> int:
    """A record given as NODE@POS."""
    node, _, pos = request.query_params.get(name, "").rpartition("@")
    try:
        return execution.row(node, int(pos))
    except ValueError:
        raise UnusableInputError(f"{name}: expected NODE@POSITION") from None


def ask_of(execution: Execution, request: Request) -> Ask:
    axis = request.query_params.get("axis", AXES[0])
    lanes = None
    if "nodes" in request.query_params:
        names = _words(request, "nodes")
        lanes = tuple(sorted(execution.lanes[name] for name in names if name in execution.lanes))
    selected = -1
    if request.query_params.get("at"):
        selected = row_of(execution, request)
    return Ask(
        axis=axis,
        low=_number(request, "from", 0.0),
        high=_number(request, "to", 100.0),
        lanes=lanes,
        hidden=tuple(sorted(_words(request, "hide"))),
        fold=request.query_params.get("fold") == "1",
        selected=selected,
        bins=int(_number(request, "bins", 200)),
    )


def _cut(execution: Execution, request: Request) -> Ints:
    """A cut given as NODE@POS, -1 for nothing; a node that is not named has everything."""
    cut = np.diff(execution.layout.first) - 1
    for text in _words(request, "cut"):
        node, _, pos = text.rpartition("@")
        lane = execution.lanes.get(node)
        try:
            position = int(pos)
        except ValueError:
            raise UnusableInputError("cut: expected NODE@POSITION") from None
        if lane is None:
            raise UnusableInputError(f"there is no log of {node}")
        first, end = execution.layout.first[lane : lane + 2].tolist()
        cut[lane] = np.searchsorted(execution.columns.pos[first:end], position, side="right") - 1
    return np.array(cut)


def answer_runs(viewer: Viewer, request: Request) -> Any:
    return {
        "start": viewer.start,
        "listed": viewer.listed,
        "runs": viewer.listing(),
        "live": viewer.live,
        "firsts": viewer.firsts,
    }


def _summary(viewer: Viewer, request: Request) -> Any:
    found = viewer.loaded(int(_number(request, "run", 0)))
    about: dict[str, Any] = {
        "version": found.version,
        "title": found.source.title,
        "error": found.error,
        "notes": found.notes,
        "live": viewer.live,
        "events": 0,
        "nodes": [],
        "origins": [],
    }
    if found.execution is not None:
        about |= found.execution.summary()
        about["origins"] = list(found.execution.columns.names)
        about["axes"] = ["order", *(["time"] if about["has_clock"] else []), "graph"]
    return about


def _window(viewer: Viewer, request: Request) -> Any:
    found, execution = run_of(viewer, request)
    answer = found.windows.window(ask_of(execution, request))
    answer["version"] = found.version
    return answer


def _event(viewer: Viewer, request: Request) -> Any:
    found, execution = run_of(viewer, request)
    row = row_of(execution, request)
    x = found.windows.x_of(ask_of(execution, request).axis, row, ask_of(execution, request))
    return {**execution.event(row), "x": x, "counts": execution.counts(row)}


def _text(viewer: Viewer, request: Request) -> Any:
    found, execution = run_of(viewer, request)
    return found.texts.of(row_of(execution, request))


def _past(viewer: Viewer, request: Request) -> Any:
    _, execution = run_of(viewer, request)
    return execution.past(row_of(execution, request))


def _future(viewer: Viewer, request: Request) -> Any:
    _, execution = run_of(viewer, request)
    return execution.future(row_of(execution, request))


def _compare(viewer: Viewer, request: Request) -> Any:
    found, execution = run_of(viewer, request)
    ask = ask_of(execution, request)
    one, other = row_of(execution, request, "at"), row_of(execution, request, "with")
    answer = execution.compare(one, other)
    for step in answer["path"]:
        for end in ("from", "to"):
            row = execution.row(step[end]["node"], step[end]["pos"])
            step[end]["x"] = found.windows.x_of(ask.axis, row, ask)
    return answer


def _next(viewer: Viewer, request: Request) -> Any:
    """The record one step from another one: along its log, or to a neighbouring lane; also from
    one that is not shown."""
    found, execution = run_of(viewer, request)
    row, ask = row_of(execution, request), ask_of(execution, request)
    view = found.windows.view(ask)
    by, lanes = int(_number(request, "by", 1)), int(_number(request, "lanes", 0))
    lane = int(execution.layout.lane[row])
    if lanes:
        shown = [n for n in range(len(view.bounds) - 1) if view.bounds[n] < view.bounds[n + 1]]
        there = [n for n in shown if (n - lane) * lanes > 0]
        if not there:
            return None
        target = min(there) if lanes > 0 else max(there)
        first, end = view.bounds[target : target + 2].tolist()
        rows, x = found.windows.coordinates(ask.axis)
        here = float(x[min(int(np.searchsorted(rows, row)), len(rows) - 1)])
        best = first + int(np.argmin(np.abs(view.x[first:end] - here)))
        return execution.label(int(view.rows[best]))
    first, end = view.bounds[lane : lane + 2].tolist()
    places = np.flatnonzero(view.rows[first:end] == row)
    if len(places):
        goal = first + int(places[0]) + by
    else:  # between two that are shown
        goal = first + int(np.count_nonzero(view.rows[first:end] < row)) + by - (by > 0)
    return execution.label(int(view.rows[goal])) if first <= goal < end else None


def _step(viewer: Viewer, request: Request) -> Any:
    """The coordinate of the next record, in any lane, from a coordinate on."""
    found, execution = run_of(viewer, request)
    ask = ask_of(execution, request)
    view = found.windows.view(ask)
    by, u = int(_number(request, "by", 1)), _number(request, "u", 0.0)
    x = np.unique(view.x)
    here = view.fold.to_x(u)
    if by > 0:
        place = int(np.searchsorted(x, here + 1e-6, side="right")) + by - 1
    else:
        place = int(np.searchsorted(x, here - 1e-6)) + by
    if not len(x):
        return {"u": u, "end": True}
    place = min(max(place, 0), len(x) - 1)
    return {"u": float(view.fold.to_u(x[place])), "end": place == len(x) - 1}


def _violations(viewer: Viewer, request: Request) -> Any:
    found, execution = run_of(viewer, request)
    verdict = execution.verdict
    return {
        "checked": verdict is not None or bool(found.error),
        "error": found.error,
        "count": 0 if verdict is None else sum(verdict.counts.values()),
        "rules": {} if verdict is None else verdict.counts,
        "items": execution.violations(),
    }


def _explain(viewer: Viewer, request: Request) -> Any:
    _, execution = run_of(viewer, request)
    return {"text": execution.explain(int(_number(request, "number")))}


def _waiting(viewer: Viewer, request: Request) -> Any:
    _, execution = run_of(viewer, request)
    return execution.waiting(WAITING_MAX)


def _search(viewer: Viewer, request: Request) -> Any:
    found, _ = run_of(viewer, request)
    return found.texts.search(request.query_params.get("q", ""))


def _stability(viewer: Viewer, request: Request) -> Any:
    """The frontier: by node, the last of its sends that is known stable; to one node at a record,
    or to all of the group at a coordinate."""
    found, execution = run_of(viewer, request)
    ask, layout = ask_of(execution, request), execution.layout
    if ask.selected >= 0:
        lane, local = execution.order.place(ask.selected)
        stable = execution.order.stable_up_to(lane, local)
        by = execution.names[lane]
    else:
        lasts = _lasts(found, execution, ask, _number(request, "u", float("inf"))
                       if "u" in request.query_params else None)  # fmt: skip
        group = execution.order.group_at(lasts)
        each = [execution.order.stable_up_to(lane, lasts[lane]) for lane in group]
        stable, by = np.minimum.reduce(each), ""
    places = []
    for lane, code in enumerate(layout.nodes):
        dot = int(stable[code])
        row = int(layout.send_row[dot]) if dot > execution.numbering.base[code] else -1
        x = None if row < 0 else found.windows.x_of(ask.axis, row, ask)
        places.append({"lane": lane, "dot": str(execution.numbering.dot(dot) or ""), "x": x})
    return {"by": by, "places": places}


def _lasts(found: Loaded, execution: Execution, ask: Ask, u: float | None) -> list[int]:
    """By lane: the last local row at or before a coordinate."""
    sizes = np.diff(execution.layout.first)
    if u is None:
        return [int(size) - 1 for size in sizes]
    rows, x = found.windows.coordinates(ask.axis)
    inside = rows[x <= found.windows.view(ask).fold.to_x(u) + 1e-6]
    lasts = np.full(len(sizes), -1, np.int64)
    np.maximum.at(lasts, execution.layout.lane[inside], execution.layout.local(inside))
    return [int(last) for last in lasts]


def _cut_answer(viewer: Viewer, request: Request) -> Any:
    """Whether a cut is consistent, what it lacks, and the greatest consistent one inside it.

    Without positions: the cut at a coordinate."""
    found, execution = run_of(viewer, request)
    ask = ask_of(execution, request)
    if "u" in request.query_params:
        cut = np.array(_lasts(found, execution, ask, _number(request, "u")))
    else:
        cut = _cut(execution, request)
    lacking = [
        {"node": execution.names[lane], "dot": str(execution.numbering.dot(dot)),
         "sent": execution.where(int(execution.layout.send_row[dot]))}
        for lane, dot in execution.order.lacking(cut)
    ]  # fmt: skip
    return {
        "cut": _cut_places(found, execution, ask, cut),
        "consistent": not lacking,
        "lacking": lacking[:WAITING_MAX],
        "within": _cut_places(found, execution, ask, execution.order.consistent_within(cut)),
    }


def _cut_places(found: Loaded, execution: Execution, ask: Ask, cut: Ints) -> list[dict[str, Any]]:
    """The last position inside, by lane, and where the last record inside is that the axis has."""
    places = []
    on_axis, _ = found.windows.coordinates(ask.axis)
    for lane, local in enumerate(cut.tolist()):
        first = int(execution.layout.first[lane])
        row = first + local
        where = {"lane": lane, "node": execution.names[lane], "pos": -1, "x": None}
        if local >= 0:
            where["pos"] = int(execution.columns.pos[row])
            last = int(np.searchsorted(on_axis, row, side="right")) - 1
            if last >= 0 and on_axis[last] >= first:
                where["x"] = found.windows.x_of(ask.axis, int(on_axis[last]), ask)
        places.append(where)
    return places


def _state(viewer: Viewer, request: Request) -> Any:
    """What the messages inside a cut amount to, or those that one node knew at a record."""
    found, execution = run_of(viewer, request)
    if request.query_params.get("at"):
        rows = rows_known(execution, *execution.order.place(row_of(execution, request)))
    else:
        rows = rows_inside(execution, _cut(execution, request))
    return state_of(execution, rows, found.texts.payloads())


ANSWERS: Final[dict[str, Query]] = {
    "run": _summary,
    "window": _window,
    "event": _event,
    "text": _text,
    "past": _past,
    "future": _future,
    "compare": _compare,
    "next": _next,
    "step": _step,
    "violations": _violations,
    "explain": _explain,
    "waiting": _waiting,
    "search": _search,
    "stability": _stability,
    "cut": _cut_answer,
    "state": _state,
}
