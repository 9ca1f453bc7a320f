"""A run as NumPy columns: what the checker works on, with no Python object per event.

Names are codes into one sorted table, so comparing (code, seq) is comparing dots as people read
them.  Rows are sorted by (node, pos).  Contexts are compressed sparse rows: the dots of row r are
``context_node[context_start[r]:context_start[r + 1]]`` and the same of ``context_seq``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from thence.causal.dot import Dot
from thence.trace.record import EVICT, JOIN, KINDS, LEAVE, RESTART, SNAPSHOT

Ints = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.bool_]

KIND_CODE: Final = {kind: code for code, kind in enumerate(KINDS)}
OTHER_KIND: Final = len(KINDS)  # a kind this version does not know
NO_NAME: Final = -1
T_US, BYTES, WORDS = range(3)  # rows of what is measured
ABSENT: Final = int(np.iinfo(np.int64).min)
"""The clock or size of a record that has none."""
CHANGE_CODES: Final = tuple(KIND_CODE[kind] for kind in (JOIN, LEAVE, EVICT, SNAPSHOT, RESTART))


class Change(msgspec.Struct, frozen=True):
    """What a record of membership or recovery carries that others do not."""

    peer: int
    """Code of the node it is about, or ``NO_NAME``."""
    has_context: bool
    stable: tuple[tuple[int, int], ...] | None
    """(code, seq) of what was told stable."""


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one run, or (before ``gather_runs``) of one file."""

    run: str
    names: tuple[str, ...]
    """Every name of a node with a log, or of an origin with a dot; sorted once gathered."""
    node: Ints
    pos: Ints
    kind: Ints
    """Codes of ``KIND_CODE``, or ``OTHER_KIND``."""
    dot_node: Ints
    """``NO_NAME`` where the record has no dot."""
    dot_seq: Ints
    context_start: Ints
    context_node: Ints
    context_seq: Ints
    to: dict[int, tuple[int, ...]]
    """Row to the recipients of a multicast; a row that is not here was for everyone.  Of a snapshot
    or a restart: to the members."""
    changes: dict[int, Change]
    """Row to the rest of a record of membership or recovery."""
    repeated_node: Ints
    repeated_pos: Ints
    """Records left out because an earlier record of the same node has the same position."""
    measured: Ints | None = None
    """[T_US, BYTES or WORDS, row]: what no rule needs, ``ABSENT`` where a record does not say it.
    None unless it was asked for."""
    bystanders: tuple[str, ...] = ()
    """The other names: members, recipients and peers.  Their codes come after those of ``names``;
    only ``to`` and ``changes`` have such codes."""

    def __len__(self) -> int:
        return len(self.node)

    @property
    def events(self) -> int:
        """Records read, the repeated ones included."""
        return len(self.node) + len(self.repeated_node)

    def name(self, code: int) -> str:
        """The name with this code."""
        count = len(self.names)
        return self.names[code] if code < count else self.bystanders[code - count]

    def dot(self, row: int) -> Dot | None:
        """The dot of one row."""
        if self.dot_node[row] < 0:
            return None
        return Dot(self.names[int(self.dot_node[row])], int(self.dot_seq[row]))

    def context(self, row: int) -> tuple[Dot, ...]:
        """The context of one row, as logged."""
        some = slice(int(self.context_start[row]), int(self.context_start[row + 1]))
        pairs = zip(self.context_node[some].tolist(), self.context_seq[some].tolist(), strict=True)
        return tuple(Dot(self.names[node], seq) for node, seq in pairs)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The good records of one file, with name codes of its own; runs may be mixed."""

    names: Sequence[str]
    run: Ints
    node: Ints
    pos: Ints
    kind: Ints
    dot_node: Ints
    dot_seq: Ints
    context_start: Ints
    context_node: Ints
    context_seq: Ints
    to: dict[int, tuple[int, ...]]
    changes: dict[int, Change]
    measured: Ints | None = None
    """[T_US, BYTES or WORDS, row]; None unless it was asked for."""


def gather_runs(parts: Sequence[Part], more_names: Sequence[str] = ()) -> list[Columns]:
    """The runs found in these files, by name; of records with one position, the first counts."""
    runs = sorted(
        {part.names[code] for part in parts for code in used_codes(part.run, len(part.names))}
    )
    return [_gather(name, parts, more_names) for name in runs]


def _gather(run: str, parts: Sequence[Part], more_names: Sequence[str]) -> Columns:
    chosen = [_only(part, run) for part in parts]
    used = set[str]()
    others = set(more_names)
    for part in chosen:
        for codes in (part.node, part.dot_node, part.context_node):
            used.update(part.names[code] for code in used_codes(codes, len(part.names)))
        told = {code for change in part.changes.values() for code, _ in change.stable or ()}
        used.update(part.names[code] for code in told)
        others.update(part.names[code] for codes in part.to.values() for code in codes)
        peers = {change.peer for change in part.changes.values()} - {NO_NAME}
        others.update(part.names[code] for code in peers)
    names, bystanders = names_in_order(used, others)
    code_of = {name: code for code, name in enumerate((*names, *bystanders))}
    small: type[np.int16 | np.int32] = np.int16 if len(code_of) < 1 << 15 else np.int32
    tables: list[Ints] = [
        np.array([code_of.get(name, NO_NAME) for name in part.names] + [NO_NAME], small)
        for part in chosen
    ]
    first_row = np.cumsum([0] + [len(part.node) for part in chosen])
    first_dot = np.cumsum([0] + [len(part.context_node) for part in chosen])
    wide: type[np.int32 | np.int64] = np.int32 if int(first_dot[-1]) < 1 << 31 else np.int64
    first_dot = first_dot.astype(wide)
    return _sorted(
        run,
        names,
        _join([table[part.node] for table, part in zip(tables, chosen, strict=True)]),
        _join([part.pos for part in chosen]),
        _join([part.kind for part in chosen]),
        _join([table[part.dot_node] for table, part in zip(tables, chosen, strict=True)]),
        _join([part.dot_seq for part in chosen]),
        _join([np.zeros(1, wide)] + [
            part.context_start[1:].astype(wide, copy=False) + first
            for part, first in zip(chosen, first_dot, strict=False)
        ]),
        _join([table[part.context_node] for table, part in zip(tables, chosen, strict=True)]),
        _join([part.context_seq for part in chosen]),
        {
            int(row + first): tuple(int(table[code]) for code in codes)
            for table, part, first in zip(tables, chosen, first_row, strict=False)
            for row, codes in part.to.items()
        },
        {
            int(row + first): _recoded(change, table)
            for table, part, first in zip(tables, chosen, first_row, strict=False)
            for row, change in part.changes.items()
        },
        _join_measured([part.measured for part in chosen]),
        bystanders,
    )  # fmt: skip


def names_in_order(
    used: Iterable[str], others: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(names, bystanders) for the names with a log or a dot and all others.

    Tables of the checker have a row for each of the first, so the others had better not be there: a
    single record may name any number of recipients.  The owner of a stream is one of the first.
    """
    names, rest = set(used), set(others)
    owners = {name.partition("/")[0] for name in names if "/" in name}
    names |= owners & rest
    return tuple(sorted(names)), tuple(sorted(rest - names))


def _recoded(change: Change, table: Ints) -> Change:
    stable = change.stable
    if stable is not None:
        stable = tuple((int(table[code]), seq) for code, seq in stable)
    return Change(int(table[change.peer]), change.has_context, stable)


def used_codes(codes: Ints, names: int) -> list[int]:
    """The codes that occur, ascending; ``NO_NAME`` is none."""
    if len(codes) and codes.min() == codes.max():  # one run, one node: most files
        return [int(codes[0])] if codes[0] >= 0 else []
    used = np.zeros(names + 1, np.bool_)
    used[codes] = True  # NO_NAME marks the last, which is no code
    used[-1] = False
    return list(np.flatnonzero(used).tolist())


def _join(arrays: Sequence[Ints]) -> Ints:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _join_measured(given: Sequence[Ints | None]) -> Ints | None:
    some = [measured for measured in given if measured is not None]
    return np.concatenate(some, axis=1) if len(some) == len(given) else None


def _only(part: Part, run: str) -> Part:
    """The rows of one run; nearly always the part itself."""
    is_run = np.array([name == run for name in part.names] + [False])
    if bool(is_run[used_codes(part.run, len(part.names))].all()):
        return part
    return take_rows(part, np.flatnonzero(is_run[part.run]))


def take_rows(part: Part, rows: Ints) -> Part:
    """Some rows of a part, in the order given."""
    start, index = _context_rows(part.context_start, rows)
    return Part(
        names=part.names,
        run=part.run[rows],
        node=part.node[rows],
        pos=part.pos[rows],
        kind=part.kind[rows],
        dot_node=part.dot_node[rows],
        dot_seq=part.dot_seq[rows],
        context_start=start,
        context_node=part.context_node[index],
        context_seq=part.context_seq[index],
        to=_moved(part.to, rows),
        changes=_moved(part.changes, rows),
        measured=None if part.measured is None else part.measured[:, rows],
    )


def logs_in(part: Part) -> Iterator[tuple[str, str, Part]]:
    """(run, node, its rows) of each log in a part."""
    many = len(part.names) + 1
    owner = part.run.astype(np.int64) * many + part.node
    for key in np.unique(owner).tolist():
        rows = np.flatnonzero(owner == key)
        mine = part if len(rows) == len(owner) else take_rows(part, rows)
        yield part.names[key // many], part.names[key % many], mine


T = TypeVar("T")


def _moved(given: dict[int, T], rows: Ints) -> dict[int, T]:
    """What was given for old rows, under the new ones."""
    if not given:
        return given
    return {new: given[row] for new, row in enumerate(rows.tolist()) if row in given}


def _context_rows(start: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Row pointers and entry indices of the contexts of ``rows``."""
    begin = start[rows]
    count = start[rows + 1] - begin
    new_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
    index = np.arange(int(new_start[-1])) + np.repeat(begin - new_start[:-1], count)
    return new_start, index


def _sorted(
    run: str, names: tuple[str, ...], node: Ints, pos: Ints, kind: Ints, dot_node: Ints,
    dot_seq: Ints, start: Ints, context_node: Ints, context_seq: Ints,
    to: dict[int, tuple[int, ...]], changes: dict[int, Change], measured: Ints | None,
    bystanders: tuple[str, ...],
) -> Columns:  # fmt: skip
    same_node = node[1:] == node[:-1]
    in_order = (node[1:] > node[:-1]) | (same_node & (pos[1:] > pos[:-1]))
    none = np.zeros(0, np.int64)
    repeated = (none, none)
    if not bool(in_order.all()):
        order = np.lexsort((pos, node))  # stable: of equal positions the first read stays first
        same = (np.diff(node[order]) == 0) & (np.diff(pos[order]) == 0)
        again = order[1:][same]
        repeated = (node[again], pos[again])
        rows = np.concatenate([order[:1], order[1:][~same]])
        start, index = _context_rows(start, rows)
        context_node, context_seq = context_node[index], context_seq[index]
        node, pos, kind = node[rows], pos[rows], kind[rows]
        dot_node, dot_seq = dot_node[rows], dot_seq[rows]
        to, changes = _moved(to, rows), _moved(changes, rows)
        measured = None if measured is None else measured[:, rows]
    return Columns(
        run=run, names=names, node=node, pos=pos, kind=kind, dot_node=dot_node, dot_seq=dot_seq,
        context_start=start, context_node=context_node, context_seq=context_seq, to=to,
        changes=changes, repeated_node=repeated[0], repeated_pos=repeated[1], measured=measured,
        bystanders=bystanders,
    )  # fmt: skip
