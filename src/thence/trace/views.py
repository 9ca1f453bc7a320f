"""Who belonged to the group, when: what the logs say of members that come and go.

A log's *view* changes with its records of kind join, leave, evict and snapshot, and with a restart
that names members; between two of them it is an epoch.  The definitions are those of
docs/reference/trace.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from thence.trace.columns import KIND_CODE, NO_NAME, Columns, Ints, Mask, used_codes
from thence.trace.record import EVICT, JOIN, LEAVE, RESTART, SNAPSHOT

_JOIN, _LEAVE, _EVICT = KIND_CODE[JOIN], KIND_CODE[LEAVE], KIND_CODE[EVICT]
_SNAPSHOT, _RESTART = KIND_CODE[SNAPSHOT], KIND_CODE[RESTART]
_VIEW_CODES: Final = (_JOIN, _LEAVE, _EVICT, _SNAPSHOT)


def changes_view(kind: int, has_to: bool) -> bool:
    """Whether a record is one of membership: a restart is when it names members."""
    return kind in _VIEW_CODES or (kind == _RESTART and has_to)


class Removal(msgspec.Struct, frozen=True):
    """A record of a log that removes a node."""

    node: int
    """Who was removed."""
    at: int
    seq: int
    """Its last message that counts; 0 for none."""


class ChangeRecord(msgspec.Struct, frozen=True):
    """A record of membership in a log.  Nodes and origins are codes."""

    at: int
    kind: int
    peer: int
    """Who it is about, or ``NO_NAME``."""
    origin: int
    seq: int
    """Its dot; origin ``NO_NAME`` without one."""
    to: tuple[int, ...] | None

    def removal(self) -> Removal | None:
        """Whom it removes, if anyone."""
        if self.kind not in (_LEAVE, _EVICT) or self.peer == NO_NAME:
            return None
        return Removal(self.peer, self.at, self.seq if self.origin == self.peer else 0)


def all_removals(records: Sequence[ChangeRecord]) -> list[Removal]:
    """Every removal of a log in order: one that a restart took back is told again."""
    removals = (record.removal() for record in records)
    return [removal for removal in removals if removal is not None]


def removals_of(records: Sequence[ChangeRecord]) -> list[Removal]:
    """The first removal of each node that a log removes, in order."""
    first: dict[int, Removal] = {}
    for removal in all_removals(records):
        first.setdefault(removal.node, removal)
    return list(first.values())


class Views(msgspec.Struct, frozen=True, kw_only=True):
    """The views of one log.  Nodes are codes."""

    dynamic: bool
    starts: tuple[int, ...]
    """The rows at which epochs begin; the first is 0."""
    members: tuple[tuple[int, ...], ...]
    """The view of each epoch, ascending; the members of the run in a log that is not dynamic."""

    def epoch(self, rows: Ints) -> Ints:
        """The epoch in which each row is."""
        epochs: Ints = np.searchsorted(np.array(self.starts), rows, side="right") - 1
        return epochs

    def inside(self, names: int) -> Mask:
        """[epoch, node]: whether the node is in the view; the last (-1) stands for no node."""
        inside = np.zeros((len(self.members), names), np.bool_)
        for epoch, members in enumerate(self.members):
            inside[epoch, [node for node in members if node < names - 1]] = True
        return inside

    def everyone(self) -> frozenset[int]:
        """All nodes of any view."""
        return frozenset(node for members in self.members for node in members)


def views_of(node: int, members: tuple[int, ...], records: Sequence[ChangeRecord]) -> Views:
    """The views of one log, from its records of membership in order."""
    if not records:
        return Views(dynamic=False, starts=(0,), members=(members,))
    view = set(members) if node in members else set()
    starts, sets = [0], [tuple(sorted(view))]
    for record in records:
        if record.kind in (_SNAPSHOT, _RESTART):
            view = (view if record.to is None else set(record.to)) | {node}
        elif record.peer == NO_NAME:
            continue
        elif record.kind == _JOIN:
            view = view | {record.peer}
        else:
            view = set() if record.peer == node else view - {record.peer}
        starts.append(record.at)
        sets.append(tuple(sorted(view)))
    return Views(dynamic=True, starts=tuple(starts), members=tuple(sets))


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """What all logs together say of the group.  Nodes are codes."""

    founders: tuple[int, ...]
    at_end: frozenset[int]
    removed: dict[int, tuple[int, int]]
    """Who was removed to (the log with the smallest name that says so, the cut there)."""

    @property
    def ever(self) -> frozenset[int]:
        """Every node that ever belonged."""
        return self.at_end | frozenset(self.removed)


def group_of(founders: Sequence[int], logs: Sequence[tuple[int, Sequence[ChangeRecord]]]) -> Group:
    """Put the records of membership of all (node, records) together."""
    belonged = set(founders)
    removed: dict[int, tuple[int, int]] = {}
    for node, records in sorted(logs, key=lambda log: log[0]):
        belonged |= _joined(node, records)
        for removal in removals_of(records):
            removed.setdefault(removal.node, (node, removal.seq))
    return Group(
        founders=tuple(founders), at_end=frozenset(belonged - set(removed)), removed=removed
    )


def _joined(node: int, records: Sequence[ChangeRecord]) -> set[int]:
    """Whom the ``join`` records of a log name, and its own node if it has a snapshot."""
    joined = {record.peer for record in records if record.kind == _JOIN}
    if any(record.kind == _SNAPSHOT for record in records):
        joined.add(node)
    return joined - {NO_NAME}


def founders_among(logs: Sequence[tuple[int, Sequence[ChangeRecord]]]) -> tuple[int, ...]:
    """The nodes whose log has no snapshot and that no join names: when nothing else says it."""
    late = {node for log, records in logs for node in _joined(log, records)}
    return tuple(sorted(node for node, _ in logs if node not in late))


def founders_of(columns: Columns) -> tuple[str, ...]:
    """The nodes seen whose log has no snapshot and that no join names."""
    seen = used_codes(columns.node, len(columns.names))
    late = {
        int(columns.node[row]) if columns.kind[row] == _SNAPSHOT else change.peer
        for row, change in columns.changes.items()
        if columns.kind[row] in (_SNAPSHOT, _JOIN)
    }
    return tuple(columns.names[code] for code in seen if code not in late)
