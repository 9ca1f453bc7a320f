"""Happens-before among records, by a graph and a search; nothing of thence but the record.

Every record is a vertex.  An application's records are a chain; a message is a chain of its own
from its send over its arrivals to its delivery; a send on a stream follows what its context names
and the send before it on the stream, and what comes later in its log follows it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from thence.causal.dot import Dot
from thence.trace.record import Record

Place = tuple[str, int]
ARRIVALS = ("receive", "ready")


def with_arrivals(records: Sequence[Record], seed: int) -> list[Record]:
    """The same logs with a ``receive`` and a ``ready`` somewhere before most deliveries."""
    rng = random.Random(seed)
    logs: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: (record.node, record.pos)):
        log = logs.setdefault(record.node, [])
        if record.kind == "deliver" and rng.random() < 0.9:
            # Not before an own send: what was sent may be what led to the message.
            first = max((at + 1 for at, r in enumerate(log) if r.kind == "send"), default=0)
            ready = rng.randint(max(first, len(log) - 4), len(log))
            log.insert(ready, msgspec.structs.replace(record, kind="ready"))
            receive = rng.randint(max(first, ready - 6), ready)
            log.insert(receive, msgspec.structs.replace(record, kind="receive"))
        log.append(record)
    return [
        msgspec.structs.replace(record, pos=pos, t_us=10 * pos)
        for log in logs.values()
        for pos, record in enumerate(log)
    ]


def pasts(records: Sequence[Record]) -> dict[Place, set[Place]]:
    """By (node, position): everything that happens before it."""
    before = edges(records)
    found: dict[Place, set[Place]] = {}
    for place in before:
        seen: set[Place] = set()
        stack = list(before[place])
        while stack:
            other = stack.pop()
            if other not in seen:
                seen.add(other)
                stack += before[other]
        found[place] = seen
    return found


def edges(records: Sequence[Record]) -> dict[Place, list[Place]]:
    """By (node, position): what is directly before it."""
    sent = {r.dot: (r.node, r.pos) for r in records if r.kind == "send"}
    before: dict[Place, list[Place]] = {}
    latest: dict[str, list[Place]] = {}
    on_its_way: dict[tuple[str, object], Place] = {}
    for record in sorted(records, key=lambda record: (record.node, record.pos)):
        place = (record.node, record.pos)
        if record.kind in (*ARRIVALS, "deliver"):
            came = on_its_way.get((record.node, record.dot), sent.get(record.dot))
            before[place] = [came] if came is not None else []
            on_its_way[record.node, record.dot] = place
            if record.kind in ARRIVALS:
                continue
        elif record.kind == "send" and "/" in record.dot.node:
            named = [*(record.context or ()), Dot(record.dot.node, record.dot.seq - 1)]
            before[place] = [sent[dot] for dot in named if dot in sent]
            latest.setdefault(record.node, []).append(place)
            continue
        else:
            before[place] = []
        before[place] += latest.get(record.node, [])
        latest[record.node] = [place]
    return before
