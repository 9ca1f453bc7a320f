"""What may be forgotten: causal stability is the watermark.

A message that is taken, and told stable, at every node where it must be is in the past of
everything that is still to come there; with everything in its past in the same position, no rule
looks at its own past again.  The *base* of an origin is the last such message.  A few more are kept
(``State.retain``), for nodes that restart a little behind or join with a state a little older.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from thence.trace.online_ranges import above, add_range, common, has, minus, numbers, up_to
from thence.trace.online_replay import Replay
from thence.trace.online_stable import settle_phantom
from thence.trace.online_state import Log, Origin, Pair

RETAIN_MESSAGES: Final = 64
"""Of each origin, kept although stable everywhere."""
RETAIN_REMOVED_TIMES: Final = 16
"""As many times that while the log of a removed node has not come to its end: it lags behind."""


def release(replay: Replay) -> None:
    """Forget what no rule needs any more."""
    state = replay.state
    if state.gave_up or state.disorder or state.covers or any(one.doubtful for one in state.early):
        return
    logs = needed_logs(replay)
    if not logs:
        return
    unfinished = [
        name
        for name in state.removals
        if name in state.logs and not (state.logs[name].is_ended or name in state.removals[name])
    ]
    retain = state.retain * RETAIN_REMOVED_TIMES if unfinished else state.retain
    limits = [_reach(replay, logs, number, retain) for number in range(len(state.origins))]
    _close(replay, limits)
    if any(limit > origin.base for limit, origin in zip(limits, state.origins, strict=True)):
        _drop(replay, logs, limits)


def needed_logs(replay: Replay) -> list[Log]:
    """The logs of all that belong to the group now; [] while one of them has not appeared."""
    state = replay.state
    names = (state.members | state.joined | state.logs.keys()) - state.removals.keys()
    if not all(name in state.logs for name in names):
        return []
    return [log for name, log in state.logs.items() if name in names]


def _reach(replay: Replay, logs: list[Log], number: int, retain: int) -> int:
    """How far an origin is done with everywhere, less what is retained."""
    origin = replay.state.origins[number]
    last, seq = origin.floor - retain, origin.base
    while seq < last:
        if not has(origin.sent, seq + 1):
            end = _end_of_hole(replay, logs, number, seq + 1, last)
            if end == seq:
                break
            seq = end
        elif all(is_done(replay, log, (number, seq + 1)) for log in logs):
            seq += 1
        else:
            break
    return seq


def _end_of_hole(replay: Replay, logs: list[Log], number: int, first: int, last: int) -> int:
    """The last of the messages from ``first`` on that nobody sent and nobody waits to be told of.

    A log may go from 1 to a billion: the hole is looked at as a whole.
    """
    origin = replay.state.origins[number]
    end = min(last, (above(origin.sent, first) or last + 1) - 1)
    for log in logs:
        here = common([first, end], log.there[number]) if end >= first else []
        untold = minus(here, log.told[number]) if replay.tells and not origin.is_stream else []
        if untold:
            end = untold[0] - 1
    return end


def is_done(replay: Replay, log: Log, dot: Pair) -> bool:
    """Whether a node will neither take nor be told of a dot any more."""
    number, seq = dot
    origin = replay.state.origins[number]
    if has(log.there[number], seq):
        return not replay.tells or origin.is_stream or has(log.told[number], seq)
    if not has(origin.sent, seq):
        return True
    to = origin.to.get(seq)
    if to is not None and log.name not in to:
        return not replay.tells  # the tables of what was told have no place for it
    return _is_cut_off(replay, log, origin, seq)


def _is_cut_off(replay: Replay, log: Log, origin: Origin, seq: int) -> bool:
    """Whether a message of a removed node does not count for this one."""
    removals = replay.state.removals.get(origin.owner)
    if removals is None or origin.owner in replay.members_at(log):
        return False
    cut = removals.get(log.name) or removals[min(removals)]
    return origin.is_stream or seq > cut.cut


def is_whole(replay: Replay, log: Log) -> bool:
    """Whether everything up to the bases is done with at a node."""
    for number, origin in enumerate(replay.state.origins):
        if not origin.base:
            continue
        here = up_to(log.there[number], origin.base)
        if replay.tells and not origin.is_stream and minus(here, log.told[number]):
            return False
        absent = minus([1, origin.base], here)
        if absent and replay.state.has_recipients:
            return False
        absent = common(absent, origin.sent)
        if not all(is_done(replay, log, (number, seq)) for seq in numbers(absent)):
            return False
    return True


def _close(replay: Replay, limits: list[int]) -> None:
    """Lower the limits until nothing below them has anything above them in its past."""
    origins = replay.state.origins
    changed = True
    while changed:
        changed = False
        for number, origin in enumerate(origins):
            while limits[number] > origin.base:
                past = replay.down((number, limits[number]))
                if all(seq <= limit for seq, limit in zip(past, limits, strict=False)):
                    break
                # What nobody sent has the past of the message before it.
                at = bisect_right(origin.seqs, limits[number]) - 1
                limits[number] = origin.seqs[at] - 1 if at >= 0 else origin.base
                changed = True


def _drop(replay: Replay, logs: list[Log], limits: list[int]) -> None:
    state = replay.state
    for number, limit in enumerate(limits):
        origin = state.origins[number]
        if limit <= origin.base:
            continue
        origin.ragged = origin.ragged or _is_ragged(replay, logs, number, limit)
        origin.base = limit
        end = bisect_right(origin.seqs, limit)
        del origin.seqs[:end], origin.downs[:end]
        origin.to = {seq: to for seq, to in origin.to.items() if seq > limit}
        if state.has_recipients:
            if origin.ragged:
                replay.give_up(f"{origin.name} skipped a message and sends to some members only")
            for log in logs:
                add_range(log.there[number], 1, limit)
    needed = {log.name for log in logs}
    for log in state.logs.values():
        _trim(replay, log)
        if log.name not in needed:
            log.is_whole = is_whole(replay, log)


def _is_ragged(replay: Replay, logs: list[Log], number: int, limit: int) -> bool:
    """Whether something up to the limit that others' pasts hold is not at every node."""
    state, origin = replay.state, replay.state.origins[number]
    # A removed node goes on with its own messages, which reach nobody.
    needed = {log.name for log in logs}
    tops = [
        replay.taken_top(log, number)
        for name, log in state.logs.items()
        if name != origin.owner or name in needed
    ]
    reached = min(limit, max(tops, default=0))
    if reached <= origin.base:
        return False
    for log in logs:
        for seq in numbers(minus([origin.base + 1, reached], log.there[number])):
            to = origin.to.get(seq)
            if to is None or log.name in to:
                return True
    return False


def _trim(replay: Replay, log: Log) -> None:
    """Forget what a log has kept about messages up to the bases."""
    origins = replay.state.origins
    for number, deliveries in list(log.deliveries.items()):
        base = origins[number].base
        kept = [(seq, pos) for seq, pos in deliveries if seq > base]
        if kept:
            log.deliveries[number] = kept
        else:
            del log.deliveries[number]
    for phantom in log.phantoms:
        settle_phantom(replay, phantom)
    log.phantoms = [
        phantom
        for phantom in log.phantoms
        if phantom.open
        or phantom.next - 1 > origins[phantom.origin].base
        or any(seq > origins[at].base for at, seq in enumerate(phantom.knows))
    ]
