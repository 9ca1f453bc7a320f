"""The columns of one segment, as the readers give them, back to records for the online checker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from thence.causal.dot import Dot
from thence.trace.columns import NO_NAME, Ints, Part, used_codes
from thence.trace.record import KINDS, RESTART, SNAPSHOT, Record

OTHER: Final = "other"
"""Stands for any kind that this version does not know."""


def nodes_of(part: Part) -> list[tuple[str, str, Ints]]:
    """(run, node, rows) of each log that a segment holds a piece of, rows in order of the file."""
    logs = []
    for run in used_codes(part.run, len(part.names)):
        for node in used_codes(part.node, len(part.names)):
            rows = ((part.run == run) & (part.node == node)).nonzero()[0]
            if len(rows):
                logs.append((part.names[run], part.names[node], rows))
    return logs


def records_of_part(part: Part, rows: Ints) -> Iterator[Record]:
    """The records of these rows: what the rules read of them, and no more."""
    names = part.names
    columns = (
        part.run, part.node, part.pos, part.kind, part.dot_node, part.dot_seq,
        part.context_start[:-1], part.context_start[1:],
    )  # fmt: skip
    values = (column[rows].tolist() for column in columns)
    for row, run, node, pos, code, dot_node, dot_seq, begin, end in zip(
        rows.tolist(), *values, strict=True
    ):
        kind = KINDS[code] if code < len(KINDS) else OTHER
        context: tuple[Dot, ...] | None = None
        if end > begin:
            dots = zip(
                part.context_node[begin:end].tolist(),
                part.context_seq[begin:end].tolist(),
                strict=True,
            )
            context = tuple(Dot(names[origin], seq) for origin, seq in dots)
        to = part.to.get(row)
        change = part.changes.get(row)
        peer = stable = None
        if change is not None:
            if context is None and change.has_context and kind in (SNAPSHOT, RESTART):
                context = ()  # nothing was confirmed: not the same as nothing said
            peer = None if change.peer == NO_NAME else names[change.peer]
            if change.stable is not None:
                stable = tuple(Dot(names[origin], seq) for origin, seq in change.stable)
        yield Record(
            run=names[run],
            node=names[node],
            pos=pos,
            kind=kind,
            dot=None if dot_node < 0 else Dot(names[dot_node], dot_seq),
            context=context,
            to=None if to is None else tuple(names[name] for name in to),
            peer=peer,
            stable=stable,
        )
