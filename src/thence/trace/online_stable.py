"""The stability rules, and what of them has to wait for records that are still to come.

A stable event is judged when it is met, by what its node has there.  Two things may not be known
then: the past of a dot in a phantom's context whose send was not met, and, once the event is
early, the first message of the member that was not waited for, which ``missing`` names.
"""

from __future__ import annotations

from bisect import bisect_left

from thence.trace.online_ranges import top
from thence.trace.online_replay import Replay, join
from thence.trace.online_state import Disorder, Early, Log, Pair, Phantom


def judge_stable(replay: Replay, log: Log, pos: int, dot: Pair) -> None:
    """stable-early and stable-disorder."""
    if replay.state.origins[dot[0]].is_stream:
        replay.say(log.name, pos, "stable-early", dot)
        return
    if replay.is_dropped(dot):
        replay.give_up(f"{log.name} was told of {replay.dot(dot)} long after all others")
        return
    lacking, doubtful = waits_for(replay, log, dot)
    if lacking or doubtful:
        unjoined = not log.is_dynamic and log.name not in replay.state.members
        replay.state.early.append(Early(log.name, pos, dot, unjoined, lacking, doubtful))
    told = Disorder(log.name, pos, dot, log.told)
    if replay.is_settled(dot):
        _judge_disorder(replay, told)
    else:
        told.told = [ranges.copy() for ranges in log.told]
        replay.state.disorder.append(told)


def _judge_disorder(replay: Replay, event: Disorder) -> None:
    log = replay.state.logs[event.node]
    past = replay.down(event.dot)
    while len(event.told) < len(replay.state.origins):
        event.told.append([])
    missing = replay.first_absent(log, event.told, past, event.dot, default_only=True)
    if missing is not None:
        replay.say(event.node, event.pos, "stable-disorder", event.dot, missing)


def waits_for(replay: Replay, log: Log, dot: Pair) -> tuple[dict[int, int], dict[int, list[Pair]]]:
    """The other members that are not known here to be past a dot, and those in doubt."""
    lacking: dict[int, int] = {}
    doubtful: dict[int, list[Pair]] = {}
    for name in sorted(replay.members_at(log)):
        if name == log.name:
            continue
        member = replay.origin(name)
        last = top(log.there[member])
        if last and replay.covers((member, last), dot):
            continue
        undecided = _by_phantoms(replay, log, member, dot)
        if undecided is None:
            continue
        if undecided:
            doubtful[member] = undecided
        else:
            lacking[member] = 0
    return lacking, doubtful


def _by_phantoms(replay: Replay, log: Log, member: int, dot: Pair) -> list[Pair] | None:
    """None if a phantom says that the member is past the dot; else the dots that may say so."""
    undecided: list[Pair] = []
    for phantom in log.phantoms:
        if phantom.origin != member or not is_usable(replay, log, phantom):
            continue
        if phantom.origin == dot[0] and dot[1] < phantom.next:
            return None
        settle_phantom(replay, phantom)
        if dot in phantom.open:
            return None
        if dot[0] < len(phantom.knows) and dot[1] <= phantom.knows[dot[0]]:
            return None
        undecided += phantom.open
    return undecided


def is_usable(replay: Replay, log: Log, phantom: Phantom) -> bool:
    """Whether all messages that the announcer had sent, as far as for this node, are there."""
    ranges = log.there[phantom.origin]
    return not replay.gap(log, phantom.origin, ranges, phantom.next - 1)


def settle_phantom(replay: Replay, phantom: Phantom) -> None:
    """Take up the pasts of its dots that are known by now."""
    settled = [dot for dot in phantom.open if replay.is_settled(dot)]
    if settled:
        phantom.open = [dot for dot in phantom.open if not replay.is_settled(dot)]
        phantom.knows += [0] * (len(replay.state.origins) - len(phantom.knows))
        for dot in settled:
            join(phantom.knows, replay.down(dot))


def hear_phantom(replay: Replay, log: Log, dot: Pair, context: list[Pair]) -> None:
    """Note a phantom that a node took into account; of the same messages one is enough."""
    for phantom in log.phantoms:
        if (phantom.origin, phantom.next) == dot:
            phantom.open += [one for one in context if one not in phantom.open]
            settle_phantom(replay, phantom)
            return
    log.phantoms.append(Phantom(dot[0], dot[1], [], context))


def settle_stable(replay: Replay) -> None:
    """Tell what has been decided since the last time."""
    state = replay.state
    waiting = [one for one in state.disorder if not replay.is_settled(one.dot)]
    for event in state.disorder:
        if replay.is_settled(event.dot):
            _judge_disorder(replay, event)
    state.disorder = waiting
    state.early = [event for event in state.early if not _is_decided(replay, event)]


def _is_decided(replay: Replay, event: Early) -> bool:
    """Whether it is known what to say of a stable event; if so it is said."""
    for member, dots in list(event.doubtful.items()):
        left = [dot for dot in dots if not replay.is_settled(dot)]
        past = any(replay.is_settled(dot) and replay.covers(dot, event.dot) for dot in dots)
        if past or not left:
            del event.doubtful[member]
        else:
            event.doubtful[member] = left
        if not past and not left:
            event.lacking[member] = 0
    for member, first in event.lacking.items():
        event.lacking[member] = first or first_after(replay, member, event.dot)
    closed = replay.state.closed
    if event.doubtful or (event.unjoined and not closed):
        return False
    missing = None
    for member in sorted(event.lacking, key=lambda one: replay.state.origins[one].name):
        if event.lacking[member]:
            missing = (member, event.lacking[member])
            break
        if not closed:
            return False  # its first message will be the one to name
    if event.lacking:
        replay.say(event.node, event.pos, "stable-early", event.dot, missing)
    return True


def first_after(replay: Replay, member: int, dot: Pair) -> int:
    """The first message of a member that is the dot or has it in its past, or 0."""
    origin = replay.state.origins[member]
    if member == dot[0]:
        at = bisect_left(origin.seqs, dot[1])
    else:
        # Pasts only grow along an origin.
        number = dot[0]
        at = bisect_left(
            origin.downs, dot[1], key=lambda past: past[number] if number < len(past) else 0
        )
    return origin.seqs[at] if at < len(origin.seqs) else 0
