"""Dots as indices into flat tables.

Every origin (a node, or a stream of a node) owns a run of indices: one that means "nothing of
this origin", one for each of its messages in order, and one past the end.  The *id* of dot
(o, s) is ``base[o] + s``.  Ids of one origin compare as its messages do, id order is the order of
dots, and a version vector whose entries are ids needs no further arithmetic to look something up.

Sequence numbers that leave great holes (a corrupt log) are replaced by their ranks, with enough
neighbours kept that "the next number" and "the smallest missing number" stay right.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from thence.causal.dot import SEQ_MAX, Dot
from thence.errors import LimitError
from thence.trace.columns import KIND_CODE, OTHER_KIND, Columns, Ints, Mask
from thence.trace.record import DELIVER, EVICT, LEAVE, PHANTOM, SEND, STABLE

KIND_SEND: Final = KIND_CODE[SEND]
KIND_DELIVER: Final = KIND_CODE[DELIVER]
KIND_STABLE: Final = KIND_CODE[STABLE]
KIND_PHANTOM: Final = KIND_CODE[PHANTOM]
NEVER: Final = np.iinfo(np.int32).max  # the position of what did not happen
SPARE_SEQS: Final = 4096  # holes up to this are cheaper than ranks
RANKS_PER_NAME: Final = 2  # a number that is named brings the next one
VECTOR_ENTRIES_MAX: Final = 1 << 27
"""Dots times origins, of a run that is not long: 512 MiB of version vectors, as much again on the
way.  One record may name thousands of origins, each of which has an entry in every vector."""
VECTOR_ENTRIES_PER_RECORD: Final = 256
"""A long run may have so many for each record; one is usual, when all is delivered everywhere."""
VECTOR_ENTRIES_EVER: Final = 1 << 32

_MATTERS: Final = np.zeros(OTHER_KIND + 1, np.bool_)
_MATTERS[[KIND_SEND, KIND_DELIVER, KIND_STABLE, KIND_PHANTOM]] = True
_MATTERS[[KIND_CODE[LEAVE], KIND_CODE[EVICT]]] = True


class Numbering(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of one run's dots."""

    names: tuple[str, ...]
    base: Ints
    """By origin: the id that means nothing of it; one more entry: the number of ids."""
    count: Ints
    """By origin: how many of its dots there are."""
    owner: Ints
    """By origin: the code of the node it belongs to, -1 when no such name occurs."""
    is_stream: Mask
    ranked: dict[int, Ints]
    """By origin with great holes: its real sequence numbers, in order."""
    bystanders: tuple[str, ...] = ()
    """Names without a log or a dot; their codes come after those of ``names``."""

    def codes(self) -> dict[str, int]:
        """Every name to its code."""
        return {name: code for code, name in enumerate((*self.names, *self.bystanders))}

    def is_silent(self, node: int) -> bool:
        """Whether there is no dot of a node, on its default stream."""
        return node >= len(self.names) or not self.count[node]

    @property
    def total(self) -> int:
        """How many ids there are."""
        return int(self.base[-1])

    def origin(self, dot_id: int) -> int:
        """The origin an id belongs to."""
        return int(np.searchsorted(self.base, dot_id, side="right")) - 1

    def dot(self, dot_id: int) -> Dot | None:
        """The dot an id stands for; None for an id that is no message."""
        if dot_id < 0:
            return None
        origin = self.origin(dot_id)
        seq = self.seq(dot_id)
        return Dot(self.names[origin], seq) if 1 <= dot_id - self.base[origin] else None

    def seq(self, dot_id: int) -> int:
        """The sequence number of an id; 0 for "nothing of this origin"."""
        origin = self.origin(dot_id)
        rank = dot_id - int(self.base[origin])
        if origin not in self.ranked or rank == 0:
            return rank
        return int(self.ranked[origin][rank - 1])

    def id_of(self, origin: int, seq: int) -> int:
        """The id of the greatest dot of an origin that is not above ``seq``."""
        if origin in self.ranked:
            seq = int(np.searchsorted(self.ranked[origin], seq, side="right"))
        return int(self.base[origin]) + min(seq, int(self.count[origin]))

    def messages(self, origin: int) -> slice:
        """The ids of an origin's messages."""
        first = int(self.base[origin]) + 1
        return slice(first, first + int(self.count[origin]))


class Numbered(msgspec.Struct, frozen=True, kw_only=True):
    """A numbering, and the ids of the dots of the columns it was made from."""

    numbering: Numbering
    ids: Ints
    """By row: the id of its dot; of no meaning in rows whose kind the checker ignores."""
    context_ids: Ints


def number_dots(columns: Columns, messages: int | None = None) -> Numbered:
    """Number every dot the rules speak of.

    ``messages``: about how many there are when these columns are only a part of the run; far more
    numbers than that have great holes.
    """
    names = columns.names
    matters = _MATTERS[columns.kind] & (columns.dot_node >= 0)
    everything = bool(matters.all())
    origin = columns.dot_node if everything else np.where(matters, columns.dot_node, 0)
    seq = columns.dot_seq if everything else np.where(matters, columns.dot_seq, 0)
    context_seq = columns.context_seq
    count = np.maximum(
        _largest(origin, seq, len(names)), _largest(columns.context_node, context_seq, len(names))
    )
    told = [dot for change in columns.changes.values() for dot in change.stable or ()]
    for code, number in told:
        count[code] = max(int(count[code]), number)
    if messages is None:
        messages = int(np.count_nonzero(columns.kind == KIND_SEND))
    ranked: dict[int, Ints] = {}
    if int(count.sum()) > 2 * messages + SPARE_SEQS:
        seq, context_seq = seq.copy(), context_seq.copy()
        named = np.bincount(origin[seq > 0], minlength=len(names))
        named += np.bincount(columns.context_node, minlength=len(names))
        named += np.bincount([code for code, _ in told], minlength=len(names))
        worth = (count > SPARE_SEQS // max(1, len(names))) & (count > RANKS_PER_NAME * named)
        for code in np.flatnonzero(worth).tolist():
            here, there = (origin == code) & (seq > 0), columns.context_node == code
            more = np.array([number for other, number in told if other == code], np.int64)
            known = _with_neighbours(np.concatenate([seq[here], context_seq[there], more]))
            seq[here] = np.searchsorted(known, seq[here]) + 1
            context_seq[there] = np.searchsorted(known, context_seq[there]) + 1
            ranked[code] = known
            count[code] = len(known)
    records = max(columns.events, messages)
    numbering = numbering_of(
        columns.run, names, count, ranked, columns.bystanders, records + len(columns.context_node)
    )
    return Numbered(
        numbering=numbering,
        ids=numbering.base[origin] + seq.astype(np.int32, copy=False),
        context_ids=numbering.base[columns.context_node] + context_seq.astype(np.int32),
    )


def numbering_of(
    run: str,
    names: tuple[str, ...],
    count: Ints,
    ranked: dict[int, Ints],
    bystanders: tuple[str, ...] = (),
    records: int | None = None,
) -> Numbering:
    """The ids of origins with so many dots; LimitError when there are too many.

    ``records``: of the run, and the dots they name; None: they were looked at before.
    """
    base = np.concatenate([np.zeros(1, np.int64), np.cumsum(count + 2)])
    entries = int(base[-1]) * len(names)
    most = VECTOR_ENTRIES_EVER
    if records is not None:
        most = min(most, max(VECTOR_ENTRIES_MAX, VECTOR_ENTRIES_PER_RECORD * records))
    if entries > most or int(base[-1]) >= NEVER:
        raise LimitError(
            f"run {run}: {int(count.sum()):,} messages of {len(names):,} nodes and streams need "
            f"{entries:,} entries of version vectors; a run of this length may have {most:,}"
        )
    return Numbering(
        names=names,
        base=base.astype(np.int32),
        count=count,
        owner=_owners(names),
        is_stream=np.array(["/" in name for name in names], np.bool_),
        ranked=ranked,
        bystanders=bystanders,
    )


def _largest(origin: Ints, seq: Ints, names: int) -> Ints:
    """By origin: its largest number."""
    largest = np.zeros(
        names, seq.dtype
    )  # of one type: the loop for mixed types is ten times slower
    np.maximum.at(largest, origin, seq)
    return largest.astype(np.int64)


def _with_neighbours(seqs: Ints) -> Ints:
    """These numbers, the one after each, and 1: it stands for all in the hole that it begins.

    Where a hole is covered (by a snapshot or a restart) up to somewhere in it, that is named.
    """
    near = np.unique(np.concatenate([np.ones(1, np.int64), seqs, seqs + 1]))
    return near[near <= SEQ_MAX]


def _owners(names: tuple[str, ...]) -> Ints:
    code_of = {name: code for code, name in enumerate(names)}
    return np.array([code_of.get(name.partition("/")[0], -1) for name in names], np.int32)
