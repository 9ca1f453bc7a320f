"""context-wrong: is the logged context the set of latest dots the node had taken?

Of what a node has sent or delivered, only the latest dot of each origin can be maximal.  It is
when the latest dot of no other origin has it in its past: one gather per origin.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from thence.causal.dot import Dot
from thence.trace.columns import Ints, Mask
from thence.trace.run import Life, LogIndex, Run
from thence.trace.vectors import context_vectors

CHUNK_MARKS: Final = 1 << 16  # keeps the work of one chunk in cache


def check_contexts(run: Run, log: LogIndex, life: Life, vectors: Ints) -> None:
    """Find the wrong contexts of the sends and announced phantoms of one life."""
    if run.info.tags == "none" or not run.causal:
        return
    wrong = _wrong_exact if run.info.tags == "exact" else _wrong_over
    bad = np.concatenate(
        [np.zeros(0, np.int64)]
        + [
            first + np.flatnonzero(wrong(run, life, vectors, slice(first, first + CHUNK_MARKS)))
            for first in range(0, len(life.mark_at), CHUNK_MARKS)
        ]
    )

    def missing(which: int) -> Dot | None:
        mark = int(bad[which])
        latest = life.frontier[:, mark : mark + 1]
        expected = latest[_maximal(run, latest, vectors)[:, 0], 0]
        named = life.mark_context.of(mark)
        if run.info.tags == "exact":
            lacking = np.setdiff1d(expected, named)
        else:
            lacking = expected[~_covered(run, expected, named, vectors)]
        return run.numbering.dot(int(lacking[0])) if len(lacking) else None

    log.findings.add("context-wrong", log.pos(life.mark_at[bad]), life.mark_id[bad], missing)


def _maximal(run: Run, latest: Ints, vectors: Ints) -> Mask:
    """[origin, mark]: whether the latest dot of that origin is in no other's past."""
    base = run.numbering.base[:-1, None]
    maximal: Mask = latest > base
    for origin in range(len(latest)):
        if bool(maximal[origin].any()) or bool((latest[origin] > base[origin]).any()):
            below = vectors[:, latest[origin]] >= latest
            below[origin] = False
            maximal &= ~below
    return maximal


def _wrong_exact(run: Run, life: Life, vectors: Ints, some: slice) -> Mask:
    latest = life.frontier[:, some]
    maximal = _maximal(run, latest, vectors)
    mark, entry = life.mark_context.entries(some)
    origin, named = life.mark_context.origins[entry], life.mark_context.ids[entry]
    hit = latest[origin, mark] == named
    logged = np.zeros_like(maximal)
    logged[origin[hit], mark[hit]] = True
    # Counting too finds what is named twice or is not the latest of its origin.
    same_size = np.bincount(mark, minlength=latest.shape[1]) == maximal.sum(axis=0)
    right: Mask = same_size & (logged == maximal).all(axis=0)
    return ~right


def _wrong_over(run: Run, life: Life, vectors: Ints, some: slice) -> Mask:
    cover = context_vectors(run, vectors, life.mark_context, some)
    wrong: Mask = np.any(life.frontier[:, some] > cover, axis=0)
    return wrong


def _covered(run: Run, dots: Ints, named: Ints, vectors: Ints) -> Mask:
    """Which of ``dots`` are in the past of a named one, or named."""
    if not len(named):
        return np.zeros(len(dots), np.bool_)
    cover = vectors[:, named].max(axis=1)
    origin = np.searchsorted(run.numbering.base, dots, side="right") - 1
    covered: Mask = cover[origin] >= dots
    return covered


def check_streams(run: Run, log: LogIndex, sent: Mask) -> None:
    """On a stream the caller chose the context: it can only name what is not there, or twice."""
    if run.info.tags == "none" or not run.causal:
        return
    bad: list[tuple[int, int, int]] = []
    for which, (at, dot) in enumerate(zip(log.stream_at, log.stream_id, strict=True)):
        named = log.stream_context.of(which)
        unsent = named[~sent[named]]
        origin = np.searchsorted(run.numbering.base, named, side="right")
        if len(unsent):
            bad.append((int(at), int(dot), int(unsent.min())))
        elif len(np.unique(origin)) < len(origin):
            bad.append((int(at), int(dot), -1))
    if bad:
        rows, dots, lacking = (np.array(column) for column in zip(*bad, strict=True))
        log.findings.add(
            "context-wrong",
            log.pos(rows),
            dots,
            lambda which: run.numbering.dot(int(lacking[which])),
        )
