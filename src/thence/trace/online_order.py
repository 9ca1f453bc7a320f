"""order-disagree: two members delivered two messages in opposite orders.

The deliveries of all logs are kept until they are compared.  A block of messages can be compared
when, in every log, they are the first of those that are kept: no other message comes between.
What is found is held to the end, because a restart may take deliveries back, and they count only
if they are there in the last life.
"""

from __future__ import annotations

from typing import Final

from thence.trace.online_ranges import add, common, has, minus, numbers, size
from thence.trace.online_replay import Replay
from thence.trace.online_state import Found, Log, Pair, Snap
from thence.trace.online_watermark import needed_logs

BROUGHT_MAX: Final = 1 << 16
"""Messages of one origin that a snapshot brought and others have not compared yet."""

Places = dict[Pair, int]
"""Where each message came at one node, by position."""


def forget_order(replay: Replay, log: Log) -> None:
    """A restart took back what is no longer there."""
    log.order = [one for one in log.order if has(log.there[one[0]], one[1])]
    for snap in log.snaps:
        for number, ranges in enumerate(snap.brought):
            snap.brought[number] = common(ranges, log.there[number])
    for number, ranges in enumerate(replay.state.settled):
        if minus(ranges, log.there[number]):
            replay.give_up(f"{log.name} began again before what was compared with others")


def settle_order(replay: Replay) -> None:
    """Compare what can be compared, and forget it."""
    state = replay.state
    if not replay.total or state.gave_up:
        return
    active = needed_logs(replay)
    belonged = state.members | state.joined | state.removals.keys()
    if not active or not state.logs.keys() <= belonged:
        return
    _settle_agreed(replay, active)
    places = {name: _places(replay, log) for name, log in state.logs.items()}
    while not state.gave_up:
        block = _block(replay, active, places)
        if not block:
            return
        inside = {
            name: {dot: at for dot, at in here.items() if dot in block}
            for name, here in places.items()
        }
        state.held += _disagreements(replay, inside)
        for number, seq in sorted(block):
            add(state.settled[number], seq)
        for name, log in state.logs.items():
            log.order = [one for one in log.order if one[:2] not in block]
            places[name] = {dot: at for dot, at in places[name].items() if dot not in block}
            _trim_snaps(replay, log)


def _settle_agreed(replay: Replay, active: list[Log]) -> None:
    """Forget at once what all logs have in the same order: the common case."""
    state = replay.state
    others = [log for log in state.logs.values() if not any(log is one for one in active)]
    if any(log.order for log in others) or any(log.snaps for log in state.logs.values()):
        return
    agreed = 0
    most = min(len(log.order) for log in active) - state.retain
    first = active[0].order
    while agreed < most and all(log.order[agreed][:2] == first[agreed][:2] for log in active):
        agreed += 1
    for number, seq, _ in first[: max(agreed, 0)]:
        add(state.settled[number], seq)
    for log in active:
        del log.order[:agreed]


def judge_order(replay: Replay) -> None:
    """At the end: compare everything that is left."""
    state = replay.state
    belonged = state.members | state.joined | state.removals.keys()
    places = {name: _places(replay, log) for name, log in state.logs.items() if name in belonged}
    for found in _disagreements(replay, places):
        replay.tell(found)


def _places(replay: Replay, log: Log) -> Places:
    places: Places = {(number, seq): pos for number, seq, pos in log.order}
    for snap in log.snaps:
        for number, ranges in enumerate(snap.brought):
            fresh = minus(ranges, replay.state.settled[number])
            if size(fresh) > BROUGHT_MAX:
                replay.give_up(f"a snapshot of {log.name} brought more than {BROUGHT_MAX} messages")
                return {}
            for seq in numbers(fresh):
                places[number, seq] = snap.pos
    return places


def _trim_snaps(replay: Replay, log: Log) -> None:
    snaps = []
    for snap in log.snaps:
        brought = [
            minus(ranges, settled)
            for ranges, settled in zip(snap.brought, replay.state.settled, strict=False)
        ]
        if any(brought):
            snaps.append(Snap(snap.pos, brought))
    log.snaps = snaps


def _block(replay: Replay, active: list[Log], places: dict[str, Places]) -> set[Pair]:
    """The smallest set that comes first in every log; empty if there is none yet."""
    retain = replay.state.retain
    if any(len(log.order) <= retain for log in active):
        return set()
    first = active[0].order[0]
    block: set[Pair] = {(first[0], first[1])}
    ends = dict.fromkeys(places, -1)  # the last position of the block in each log
    work = list(block)
    while work:
        dot = work.pop()
        for name, log in replay.state.logs.items():
            at = places[name].get(dot)
            if at is None:
                if any(log is one for one in active):
                    return set()  # not there yet
                continue
            if at > ends[name]:
                ends[name] = at
                fresh = [one for one, pos in places[name].items() if pos <= at]
                work += [one for one in fresh if one not in block]
                block.update(fresh)
    limits = [log.order[-retain - 1][2] for log in active]
    if any(ends[log.name] > limit for log, limit in zip(active, limits, strict=True)):
        return set()
    return block


def _disagreements(replay: Replay, places: dict[str, Places]) -> list[Found]:
    """Deliveries that a log with a smaller name has before one that came earlier here."""
    found: list[Found] = []
    names = sorted(places)
    for at, name in enumerate(names):
        mine = places[name]
        delivered = {(number, seq) for number, seq, _ in replay.state.logs[name].order}
        sequence = sorted(mine, key=mine.__getitem__)
        late: dict[Pair, list[Places]] = {}
        for other in names[:at]:
            for dot in _late(sequence, mine, places[other]):
                late.setdefault(dot, []).append(places[other])
        for dot, others in late.items():
            if dot in delivered:  # a snapshot is no delivery
                before = [one for one in sequence if mine[one] < mine[dot]]
                swapped = [
                    one for one in before for theirs in others if theirs.get(one, -1) > theirs[dot]
                ]
                missing = replay.dot(min(swapped, key=replay.name_key))
                found.append((name, mine[dot], "order-disagree", replay.dot(dot), missing))
    return found


def _late(sequence: list[Pair], mine: Places, theirs: Places) -> list[Pair]:
    """The dots that came here after one that the other log has later."""
    late: list[Pair] = []
    latest = pending = -1  # pending: of the position being looked at, which has no order within
    position = -1
    for dot in sequence:
        if mine[dot] > position:
            position, latest = mine[dot], max(latest, pending)
        where = theirs.get(dot)
        if where is not None:
            if where < latest:
                late.append(dot)
            pending = max(pending, where)
    return late
