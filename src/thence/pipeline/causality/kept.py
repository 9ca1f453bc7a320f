"""The index of a log as arrays on the shelf, and from its own ids to those of the whole run.

A scan numbers the dots its own log speaks of; the run as a whole has more origins and more dots.
Both tables of names are sorted, so going from one numbering to the other adds a constant to the ids
of each origin and keeps their order.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from thence.pipeline.causality.shelf import Array, load, save
from thence.trace.columns import NO_NAME, Ints
from thence.trace.numbering import NEVER, Numbering
from thence.trace.run import Contexts, Life, LogIndex
from thence.trace.verdict import Findings
from thence.trace.views import ChangeRecord

# Arrays of a life that hold rows, and those that hold ids.
_ROWS: Final = ("send_at", "deliver_at", "stable_at", "snapshot_at", "mark_at")
_IDS: Final = ("send_id", "deliver_id", "stable_id", "snapshot_id", "carried_id", "mark_id")
_TABLES: Final = ("delivered", "told")


class _Rest(msgspec.Struct):
    """What of a log's index is not an array."""

    node: int
    events: int
    length: int
    ended: bool
    changes: tuple[ChangeRecord, ...]
    recipients: dict[int, tuple[int, ...]]
    lives: list[tuple[int, bool]]
    rules: list[str]
    """Of the findings, in order."""


def save_index(path: str, log: LogIndex) -> None:
    """Keep the index of a log, its frontiers included."""
    arrays: dict[str, Array] = {"phantom_at": _small(log.phantom_at), "phantom_id": log.phantom_id}
    arrays |= {"stream_at": _small(log.stream_at), "stream_id": log.stream_id}
    if log.positions is not None:
        arrays["positions"] = log.positions
    arrays |= _contexts("phantom", log.phantom_context)
    arrays |= _contexts("stream", log.stream_context)
    for number, life in enumerate(log.lives):
        arrays |= {f"{number}.{name}": _small(getattr(life, name)) for name in _ROWS}
        for name in (*_IDS, *_TABLES, "mark_is_send", "frontier"):
            arrays[f"{number}.{name}"] = getattr(life, name)
        arrays |= _contexts(f"{number}.mark", life.mark_context)
    rules = []
    for number, (rule, pos, dots, missing) in enumerate(log.findings.found):
        rules.append(rule)
        arrays |= {f"found.{number}.pos": pos, f"found.{number}.id": dots}
        if missing is not None:
            if not isinstance(missing, np.ndarray):
                raise TypeError(f"{rule}: what a scan finds missing is kept as ids")
            arrays[f"found.{number}.missing"] = missing
    rest = _Rest(
        log.node, log.events, log.length, log.ended, log.changes, log.recipients,
        [(life.start, life.is_last) for life in log.lives], rules,
    )  # fmt: skip
    save(path, msgspec.msgpack.encode(rest), arrays)


def _small(rows: Ints) -> Array:
    """Rows are counted in 32 bits: a log of more would not fit the tables of the checker."""
    return rows.astype(np.int32, copy=False)


def _contexts(name: str, contexts: Contexts) -> dict[str, Array]:
    """Only the entries these records name, one after the other."""
    _, entry = contexts.entries(slice(None))
    count = contexts.end - contexts.begin
    return {
        f"{name}.count": count.astype(np.int32),
        f"{name}.ids": contexts.ids[entry],
        f"{name}.origins": contexts.origins[entry],
    }


class Rebase:
    """From the numbering of one log to that of its run."""

    def __init__(self, own: Numbering, whole: Numbering) -> None:
        self.own, self.whole = own, whole
        code_of = whole.codes()
        every = [code_of[name] for name in (*own.names, *own.bystanders)]
        self.code = np.array([*every, NO_NAME], np.int32)
        """By code of the log, bystanders included: the code of the run."""
        self.origins = self.code[: len(own.names)]
        self.shift = whole.base[self.origins] - own.base[:-1]
        self.same = own.names == whole.names and bool((own.count == whole.count).all())
        self._by_id = np.repeat(self.shift, own.count + 2).astype(np.int32)

    def ids(self, ids: Ints) -> Ints:
        """Ids of the run; what is negative is no id and stays."""
        if self.same:
            return ids
        moved: Ints = ids + self._by_id[ids]
        return moved if not len(ids) or int(ids.min()) >= 0 else np.where(ids < 0, ids, moved)

    def table(self, table: Ints) -> Ints:
        """A table by id with NEVER for the dots the log does not speak of."""
        if self.same:
            return table
        whole = np.full(self.whole.total, NEVER, table.dtype)
        whole[self.whole.base[:-1]] = -1
        for origin, code in enumerate(self.origins.tolist()):
            own, new = self.own.messages(origin), int(self.whole.base[code]) + 1
            whole[new : new + own.stop - own.start] = table[own]
        return whole

    def frontier(self, frontier: Ints) -> Ints:
        """[origin, mark] for all origins of the run."""
        if self.same:
            return frontier
        whole = np.empty((len(self.whole.names), frontier.shape[1]), np.int32)
        whole[:] = self.whole.base[:-1, None]
        whole[self.origins] = frontier + self.shift[:, None]
        return whole

    def codes(self, codes: Ints) -> Ints:
        """Codes of origins."""
        return codes if self.same else self.code[codes]


def load_index(path: str, own: Numbering, whole: Numbering) -> LogIndex:
    """What ``save_index`` kept, in the numbering of the run."""
    meta, arrays = load(path)
    rest = msgspec.msgpack.decode(meta, type=_Rest)
    rebase = Rebase(own, whole)
    findings = Findings()
    for number, rule in enumerate(rest.rules):
        missing = arrays.get(f"found.{number}.missing")
        findings.add(
            rule,
            arrays[f"found.{number}.pos"],
            rebase.ids(arrays[f"found.{number}.id"]),
            None if missing is None else rebase.ids(missing),
        )
    code = rebase.code
    return LogIndex(
        node=int(code[rest.node]),
        events=rest.events,
        length=rest.length,
        ended=rest.ended,
        positions=arrays.get("positions"),
        changes=tuple(recode(change, code) for change in rest.changes),
        phantom_at=arrays["phantom_at"], phantom_id=rebase.ids(arrays["phantom_id"]),
        phantom_context=_load_contexts("phantom", arrays, rebase),
        stream_at=arrays["stream_at"], stream_id=rebase.ids(arrays["stream_id"]),
        stream_context=_load_contexts("stream", arrays, rebase),
        recipients=_recipients(rest.recipients, rebase),
        lives=tuple(
            _load_life(number, start, is_last, arrays, rebase)
            for number, (start, is_last) in enumerate(rest.lives)
        ),
        findings=findings,
    )  # fmt: skip


def recode(change: ChangeRecord, code: Ints) -> ChangeRecord:
    """A record of membership with other codes."""
    return ChangeRecord(
        change.at, change.kind, int(code[change.peer]), int(code[change.origin]), change.seq,
        None if change.to is None else tuple(int(code[node]) for node in change.to),
    )  # fmt: skip


def _recipients(
    recipients: dict[int, tuple[int, ...]], rebase: Rebase
) -> dict[int, tuple[int, ...]]:
    dots = rebase.ids(np.array(list(recipients), np.int32)).tolist()
    nodes = [tuple(int(rebase.code[node]) for node in to) for to in recipients.values()]
    return dict(zip(dots, nodes, strict=True))


def _load_contexts(name: str, arrays: dict[str, Array], rebase: Rebase) -> Contexts:
    count = arrays[f"{name}.count"]
    end = np.cumsum(count, dtype=np.int64)
    ids, origins = arrays[f"{name}.ids"], arrays[f"{name}.origins"]
    return Contexts(end - count, end, rebase.ids(ids), rebase.codes(origins))


def _load_life(
    number: int, start: int, is_last: bool, arrays: dict[str, Array], rebase: Rebase
) -> Life:
    def given(name: str) -> Array:
        return arrays[f"{number}.{name}"]

    return Life(
        start=start,
        is_last=is_last,
        mark_is_send=given("mark_is_send"),
        mark_context=_load_contexts(f"{number}.mark", arrays, rebase),
        frontier=rebase.frontier(given("frontier")),
        **{name: given(name) for name in _ROWS},
        **{name: rebase.ids(given(name)) for name in _IDS},
        **{name: rebase.table(given(name)) for name in _TABLES},
    )
