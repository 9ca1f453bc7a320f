"""What is known of a run and of each of its logs while it is checked.

Positions are rows counted from the beginning of a node's own log: only their order matters.
Nothing here refers to the columns it was made from, so a log's index can be kept and used
elsewhere (thence.pipeline does).
"""

from __future__ import annotations

import msgspec
import numpy as np

from thence.trace.columns import Columns, Ints, Mask, used_codes
from thence.trace.numbering import Numbering, number_dots
from thence.trace.record import RunInfo
from thence.trace.verdict import Findings
from thence.trace.views import ChangeRecord, founders_of


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run about to be checked."""

    info: RunInfo
    numbering: Numbering
    members: tuple[int, ...]
    """Codes of the members at the beginning, ascending."""

    @property
    def causal(self) -> bool:
        """Whether the guarantee speaks of causality beyond one sender."""
        return self.info.guarantee in ("causal", "causal-total", "synchronous")

    @property
    def total(self) -> bool:
        """Whether the guarantee is one order for all; then sending is not delivering."""
        return self.info.guarantee in ("total", "causal-total", "synchronous")


class Contexts(msgspec.Struct, frozen=True):
    """The contexts of some records: record r names ``ids[begin[r]:end[r]]``."""

    begin: Ints
    end: Ints
    ids: Ints
    origins: Ints

    def of(self, record: int) -> Ints:
        """The ids one record names."""
        return self.ids[int(self.begin[record]) : int(self.end[record])]

    def pairs(self, record: int) -> list[tuple[int, int]]:
        """(origin, id) of what one record names."""
        some = slice(int(self.begin[record]), int(self.end[record]))
        return list(zip(self.origins[some].tolist(), self.ids[some].tolist(), strict=True))

    def entries(self, some: slice) -> tuple[Ints, Ints]:
        """(which of ``some``, index into ``ids``) of every dot they name."""
        begin = self.begin[some]
        count = self.end[some] - begin
        which = np.repeat(np.arange(len(begin)), count)
        first = np.repeat(begin - (np.cumsum(count) - count), count)
        return which, np.arange(len(which)) + first


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """One life of a node.  ``*_at`` are rows of its log, ``*_id`` dot ids, in log order."""

    start: int
    """The row of the restart it began with; 0 for the first."""
    is_last: bool
    send_at: Ints
    send_id: Ints
    deliver_at: Ints
    deliver_id: Ints
    stable_at: Ints
    stable_id: Ints
    snapshot_at: Ints
    snapshot_id: Ints
    """One entry for each dot a snapshot names."""
    carried_id: Ints
    """The latest dot of each origin taken before this life and carried into it."""
    mark_at: Ints
    """Sends of the default stream and phantoms announced here: what has a full context."""
    mark_id: Ints
    mark_is_send: Mask
    mark_context: Contexts
    frontier: Ints
    """[origin, mark]: the latest dot sent or delivered here before the mark, as an id."""
    delivered: Ints
    """By id: where it was delivered here (sent, for its own); NEVER where it was not.  "Nothing of
    this origin" counts as there from the beginning, at -1."""
    told: Ints
    """By id: where this node was told that it is stable, in the same way."""


class LogIndex(msgspec.Struct, frozen=True, kw_only=True):
    """What one node's log says."""

    node: int
    events: int
    """Records, the repeated ones included."""
    length: int
    """The position after the last record, as logged."""
    ended: bool
    positions: Ints | None
    """By row: its position as logged; None when that is the row."""
    changes: tuple[ChangeRecord, ...]
    """Its records of membership, in order."""
    phantom_at: Ints
    """Phantoms of other nodes taken into account here."""
    phantom_id: Ints
    phantom_context: Contexts
    stream_at: Ints
    """Sends on streams."""
    stream_id: Ints
    stream_context: Contexts
    recipients: dict[int, tuple[int, ...]]
    """Id to the nodes for which a multicast of this node was."""
    lives: tuple[Life, ...]
    findings: Findings

    def pos(self, rows: Ints) -> Ints:
        """The positions of rows, as logged."""
        return rows if self.positions is None else self.positions[rows]


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a run with their dots numbered."""

    run: Run
    columns: Columns
    ids: Ints
    context_ids: Ints
    nodes: tuple[int, ...]
    """Codes of the nodes that have a log, ascending."""


def open_run(columns: Columns, info: RunInfo, messages: int | None = None) -> Opened:
    """Number the dots of a run, or (with about how many there are) of one log of it."""
    numbered = number_dots(columns, messages)
    code_of = numbered.numbering.codes()
    members = info.members or founders_of(columns)
    return Opened(
        run=Run(
            info=info,
            numbering=numbered.numbering,
            members=tuple(sorted({code_of[name] for name in members if name in code_of})),
        ),
        columns=columns,
        ids=numbered.ids,
        context_ids=numbered.context_ids,
        nodes=tuple(used_codes(columns.node, len(columns.names))),
    )
