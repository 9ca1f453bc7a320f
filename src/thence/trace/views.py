"""Who belonged to the group, when: what the logs say of members that come and go.

A log's *view* changes with its records of kind join, leave, evict and snapshot; between two of them
it is an epoch.  The definitions are those of docs/reference/trace.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from thence.causal.dot import Dot
from thence.trace.columns import KIND_CODE, NO_NAME, Change, Columns, Ints, Mask, used_codes
from thence.trace.numbering import Numbering
from thence.trace.record import EVICT, JOIN, LEAVE, SNAPSHOT
from thence.trace.verdict import Findings, Missing

_JOIN, _LEAVE, _EVICT = KIND_CODE[JOIN], KIND_CODE[LEAVE], KIND_CODE[EVICT]
_SNAPSHOT = KIND_CODE[SNAPSHOT]


class Removal(msgspec.Struct, frozen=True):
    """The first record of a log that removes a node."""

    node: int
    """Who was removed."""
    at: int
    seq: int
    """Its last message that counts; 0 for none."""


class Views(msgspec.Struct, frozen=True, kw_only=True):
    """The membership records of one log.  Nodes are codes."""

    dynamic: bool
    starts: tuple[int, ...]
    """The rows at which epochs begin; the first is 0."""
    members: tuple[tuple[int, ...], ...]
    """The view of each epoch, ascending; the members of the run in a log that is not dynamic."""
    joined: tuple[int, ...]
    """Whom its ``join`` records name, and itself if it has a snapshot."""
    removals: tuple[Removal, ...]

    def epoch(self, rows: Ints) -> Ints:
        """The epoch in which each row is."""
        epochs: Ints = np.searchsorted(np.array(self.starts), rows, side="right") - 1
        return epochs

    def inside(self, names: int) -> Mask:
        """[epoch, node]: whether the node is in the view."""
        inside = np.zeros((len(self.members), names), np.bool_)
        for epoch, members in enumerate(self.members):
            inside[epoch, list(members)] = True
        return inside

    def everyone(self) -> tuple[int, ...]:
        """All nodes of any view, ascending."""
        return tuple(sorted({node for members in self.members for node in members}))


def static_views(members: tuple[int, ...]) -> Views:
    """A log without a membership record."""
    return Views(dynamic=False, starts=(0,), members=(members,), joined=(), removals=())


def views_of(
    node: int,
    members: tuple[int, ...],
    records: Iterable[tuple[int, int, Change, tuple[int, int], tuple[int, ...] | None]],
) -> Views:
    """The views of one log from its (row, kind, change, dot, to), in order of rows."""
    view = set(members) if node in members else set()
    starts, sets = [0], [tuple(sorted(view))]
    joined: set[int] = set()
    removals: dict[int, Removal] = {}
    dynamic = False
    for row, kind, change, (origin, seq), to in records:
        peer = change.peer
        if kind == _SNAPSHOT:
            joined.add(node)
            view = (view if to is None else set(to)) | {node}
        elif kind not in (_JOIN, _LEAVE, _EVICT):
            continue
        elif peer == NO_NAME:
            pass
        elif kind == _JOIN:
            joined.add(peer)
            view = view | {peer}
        else:
            cut = seq if origin == peer else 0
            removals.setdefault(peer, Removal(peer, row, cut))
            view = set() if peer == node else view - {peer}
        dynamic = True
        starts.append(row)
        sets.append(tuple(sorted(view)))
    if not dynamic:
        return static_views(members)
    return Views(
        dynamic=True,
        starts=tuple(starts),
        members=tuple(sets),
        joined=tuple(sorted(joined)),
        removals=tuple(removals.values()),
    )


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


def group_of(founders: tuple[int, ...], logs: Sequence[tuple[int, Views]]) -> Group:
    """Put the views of all (node, views) together."""
    belonged, removed = set(founders), dict[int, tuple[int, int]]()
    for node, views in sorted(logs, key=lambda log: log[0]):
        belonged.update(views.joined)
        for removal in views.removals:
            removed.setdefault(removal.node, (node, removal.seq))
    return Group(founders=founders, at_end=frozenset(belonged - set(removed)), removed=removed)


def founders_of(columns: Columns) -> tuple[str, ...]:
    """The nodes seen whose log has no snapshot and that no join names."""
    seen = used_codes(columns.node, len(columns.names))
    late = {
        int(columns.node[row]) if columns.kind[row] == _SNAPSHOT else change.peer
        for row, change in columns.changes.items()
        if columns.kind[row] in (_SNAPSHOT, _JOIN)
    }
    return tuple(columns.names[code] for code in seen if code not in late)


def check_views(
    node: int, views: Views, group: Group, numbering: Numbering,
    pos: Callable[[Ints], Ints], findings: Findings,
) -> None:  # fmt: skip
    """view-disagree: this log and the one with the smallest name cut a removed node differently."""
    for removal in views.removals:
        _, seq = group.removed[removal.node]
        if removal.seq != seq:
            here = numbering.id_of(removal.node, removal.seq) if removal.seq else -1
            there = Dot(numbering.names[removal.node], seq) if seq else None
            at = pos(np.array([removal.at]))
            findings.add("view-disagree", at, np.array([here]), _always(there))


def _always(dot: Dot | None) -> Missing:
    return lambda _: dot
