"""What each kind of record does when its turn comes: the rules of docs/reference/trace.md.

A handler returns False when its record has to wait for the send of another one; it has then
changed nothing.  Records of other kinds pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from thence.trace.online_context import judge_context, judge_stream_context
from thence.trace.online_order import forget_order
from thence.trace.online_ranges import (
    Ranges,
    above,
    add,
    add_range,
    first_gap,
    has,
    minus,
    top,
    up_to,
)
from thence.trace.online_replay import Replay, join
from thence.trace.online_stable import hear_phantom, judge_stable
from thence.trace.online_state import Event, Log, Pair, Removal, Snap, Vector
from thence.trace.online_watermark import is_whole
from thence.trace.record import (
    DELIVER,
    END,
    EVICT,
    JOIN,
    LEAVE,
    PHANTOM,
    RESTART,
    SEND,
    SNAPSHOT,
    STABLE,
)

Handler = Callable[[Replay, Log, int, Event], bool]


def is_met(replay: Replay, log: Log, dot: Pair) -> bool:
    """Whether a dot's past is known; if not the log waits for it."""
    if replay.is_settled(dot):
        return True
    origin = replay.state.origins[dot[0]]
    owner = replay.state.logs.get(origin.owner)
    if owner is not None and owner.is_ended:
        # Its log is complete, so it was never sent; a record after the end would say otherwise.
        origin.floor = dot[1]
        replay.state.has_doubt = True
        return True
    if log.waits != dot:
        log.waits = dot
        replay.waiting.setdefault(dot, []).append(log.name)
    return False


def on_send(replay: Replay, log: Log, pos: int, event: Event) -> bool:
    """A message of this node."""
    assert event.dot is not None
    dot = number, seq = replay.pair(event.dot)
    origin = replay.state.origins[number]
    if origin.owner != log.name:
        replay.say(log.name, pos, "send-foreign", dot)
        return True
    if has(origin.sent, seq):
        replay.say(log.name, pos, "send-duplicate", dot)
        return True
    named = [one for one in replay.pairs(event.context) if one != dot]
    if origin.is_stream and replay.causal and not all(is_met(replay, log, one) for one in named):
        return False
    _judge_send_outside(replay, log, pos, dot)
    judge_next(replay, log, pos, dot)
    if seq <= origin.floor:
        # Others' pasts were computed without it: they hold the earlier messages of an origin.
        replay.give_up(f"{log.name} went back to {event.dot}")
        return True
    if seq > origin.floor + 1:
        replay.state.has_doubt = True  # what was skipped might still come
    past = _past_of_send(replay, log, dot, named)
    if origin.is_stream:
        judge_stream_context(replay, log, pos, dot, event)
    else:
        judge_context(replay, log, pos, dot, event)
    add(origin.sent, seq)
    origin.floor = seq
    origin.seqs.append(seq)
    origin.downs.append(past)
    if event.to is not None:
        origin.to[seq] = event.to
        replay.state.has_recipients = True
    if not replay.total:
        add(log.there[number], seq)
        _judge_after_stable(replay, log, pos, dot, past)
    take(log, dot, past)
    return True


def _past_of_send(replay: Replay, log: Log, dot: Pair, named: list[Pair]) -> Vector:
    number, seq = dot
    if not replay.causal:
        past = [0] * (number + 1)
    elif not replay.state.origins[number].is_stream:
        past = log.known.copy()
    else:
        past = [0] * len(log.known)
        last = top(replay.state.origins[number].sent)
        for before in [*named, (number, last)] if last else named:
            if replay.is_dropped(before) and any(one.ragged for one in replay.state.origins):
                replay.give_up(f"{replay.dot(dot)} names {replay.dot(before)}, long stable")
            join(past, replay.down(before))
    past[number] = seq
    return past


def take(log: Log, dot: Pair, past: Vector) -> None:
    """Count a dot among what a node has taken."""
    number, seq = dot
    if log.known[number] < seq:  # else it is in the past of something taken before
        latest = log.latest
        for other in [one for one, at in latest.items() if one < len(past) and at <= past[one]]:
            del latest[other]
        latest[number] = seq
    join(log.known, past)


def judge_next(replay: Replay, log: Log, pos: int, dot: Pair) -> None:
    """send-gap."""
    number, seq = dot
    expected = top(replay.state.origins[number].sent) + 1
    if seq != expected:
        missing = (number, expected) if seq > expected else None
        replay.say(log.name, pos, "send-gap", dot, missing)


def _judge_send_outside(replay: Replay, log: Log, pos: int, dot: Pair) -> None:
    if log.name not in log.view:
        _say_if_dynamic(replay, log, pos, "send-outside", dot)


def _say_if_dynamic(replay: Replay, log: Log, pos: int, rule: str, dot: Pair) -> None:
    """A log is dynamic when it has a record that changes views, be it a later one."""
    if log.is_dynamic:
        replay.say(log.name, pos, rule, dot)
    else:
        log.unjoined.append((pos, rule, dot))


def on_deliver(replay: Replay, log: Log, pos: int, event: Event) -> bool:
    """The application took a message."""
    assert event.dot is not None
    dot = number, seq = replay.pair(event.dot)
    origin = replay.state.origins[number]
    if origin.owner == log.name and not replay.total:
        replay.say(log.name, pos, "deliver-own", dot)
        return True
    if has(log.there[number], seq):
        if replay.state.has_recipients and replay.is_dropped(dot):
            replay.give_up(f"{log.name} delivered {event.dot}, long stable, once more")
        replay.say(log.name, pos, "deliver-duplicate", dot)
        return True
    if not is_met(replay, log, dot):
        return False
    _judge_deliver_outside(replay, log, pos, dot)
    if replay.is_dropped(dot):
        replay.give_up(f"{log.name} delivered {event.dot} long after all others")
        return True
    past = replay.down(dot)
    judge_arrival(replay, log, pos, dot, past)
    if replay.is_sent(dot):
        _judge_after_stable(replay, log, pos, dot, past)
    add(log.there[number], seq)
    if not origin.is_stream:
        log.deliveries.setdefault(number, []).append((seq, pos))
    if replay.total:
        log.order.append((number, seq, pos))
    take(log, dot, past)
    return True


def judge_arrival(replay: Replay, log: Log, pos: int, dot: Pair, past: Vector) -> None:
    """deliver-unsent and deliver-early, of a delivery or of a dot that a snapshot names."""
    origin = replay.state.origins[dot[0]]
    if first_gap(log.there[dot[0]], 1, origin.base):
        origin.ragged = True  # now a past holds messages that were cut off and forgotten
    if not replay.is_sent(dot):
        replay.say(log.name, pos, "deliver-unsent", dot)
    if replay.orders_causes:
        missing = replay.first_absent(log, log.there, past, dot)
        if missing is not None:
            replay.say(log.name, pos, "deliver-early", dot, missing)


def _judge_deliver_outside(replay: Replay, log: Log, pos: int, dot: Pair) -> None:
    origin = replay.state.origins[dot[0]]
    mine = replay.state.removals.get(origin.owner, {}).get(log.name)
    above_cut = mine is not None and not origin.is_stream and dot[1] > mine.cut
    if origin.owner not in log.view or above_cut:
        _say_if_dynamic(replay, log, pos, "deliver-outside", dot)


def _judge_after_stable(replay: Replay, log: Log, pos: int, dot: Pair, past: Vector) -> None:
    origins = replay.state.origins
    if not replay.causal or origins[dot[0]].is_stream:
        return
    for number in replay.by_name:
        told = log.told[number]
        last = past[number] if number < len(past) else 0
        if told and told[-1] > last and not origins[number].is_stream:
            replay.say(
                log.name, pos, "deliver-after-stable", dot, (number, above(told, last))
            )  # fmt: skip
            return


def on_stable(replay: Replay, log: Log, pos: int, event: Event) -> bool:
    """The application was told that a message is stable."""
    assert event.dot is not None
    dot = number, seq = replay.pair(event.dot)
    if has(log.told[number], seq):
        replay.say(log.name, pos, "stable-duplicate", dot)
        return True
    if not has(log.there[number], seq):
        replay.say(log.name, pos, "stable-undelivered", dot)
    if replay.causal:
        judge_stable(replay, log, pos, dot)
    add(log.told[number], seq)
    return True


def on_phantom(replay: Replay, log: Log, pos: int, event: Event) -> bool:
    """Announced here, or taken into account."""
    assert event.dot is not None
    dot = replay.pair(event.dot)
    if replay.state.origins[dot[0]].is_stream:
        return True
    if dot[0] == log.origin:
        judge_next(replay, log, pos, dot)
        judge_context(replay, log, pos, dot, event)
    else:
        hear_phantom(replay, log, dot, replay.pairs(event.context))
    return True


def on_snapshot(replay: Replay, log: Log, pos: int, event: Event) -> bool:
    """Everything up to the dots named is taken at once."""
    named = replay.pairs(event.context)
    if not all(is_met(replay, log, dot) for dot in named):
        return False
    cover = _frontier(named)
    brought: list[Ranges] = [[] for _ in replay.state.origins]
    for number, seq in cover.items():
        brought[number] = minus([1, seq], log.there[number])
        add_range(log.there[number], 1, seq)
    for dot in dict.fromkeys(named):
        judge_arrival(replay, log, pos, dot, replay.down(dot))
    for number, seq in _frontier(replay.pairs(event.stable)).items():
        add_range(log.told[number], 1, seq)
    _become_dynamic(replay, log)
    log.view = (log.view if event.to is None else set(event.to)) | {log.name}
    replay.state.joined.add(log.name)
    if replay.total:
        log.snaps.append(Snap(pos, brought))
    _take_again(replay, log)
    return True


def _frontier(dots: list[Pair]) -> dict[int, int]:
    """The latest dot of each origin."""
    last: dict[int, int] = {}
    for number, seq in dots:
        last[number] = max(seq, last.get(number, 0))
    return last


def on_restart(replay: Replay, log: Log, pos: int, event: Event) -> bool:
    """A new life: only what was confirmed, and the node's own sends, is taken; the view may be an
    earlier one again."""
    origins = replay.state.origins
    if event.context is not None:
        kept = _frontier(replay.pairs(event.context))
        for number, origin in enumerate(origins):
            log.there[number] = up_to(log.there[number], kept.get(number, 0))
            if origin.owner == log.name and not replay.total:
                for at in range(0, len(origin.sent), 2):
                    add_range(log.there[number], origin.sent[at], origin.sent[at + 1])
        forget_order(replay, log)
    if event.stable is not None:
        kept = _frontier(replay.pairs(event.stable))
        for number in range(len(origins)):
            log.told[number] = up_to(log.told[number], kept.get(number, 0))
    if event.to is not None:
        _become_dynamic(replay, log)
        log.view = {*event.to, log.name}
    _take_again(replay, log)
    return True


def _take_again(replay: Replay, log: Log) -> None:
    """Work out the past and the latest dots of everything taken; is the log whole?"""
    state = replay.state
    log.is_whole = is_whole(replay, log)
    tops = [(number, replay.taken_top(log, number)) for number in range(len(state.origins))]
    dropped = [dot for dot in tops if dot[1] and replay.is_dropped(dot)]
    if dropped and (not log.is_whole or any(origin.ragged for origin in state.origins)):
        replay.give_up(f"{log.name} begins again before what is stable everywhere")
    log.known = [0] * len(state.origins)
    log.latest = {}
    for dot in tops:
        if dot[1] and not replay.is_dropped(dot):
            take(log, dot, replay.down(dot))
    alone = [dot for dot in dropped if log.known[dot[0]] < dot[1]]
    if len(alone) > 1:
        replay.give_up(f"{log.name} begins again with dots that are long stable")
    for dot in dropped:
        take(log, dot, replay.down(dot))


def on_membership(replay: Replay, log: Log, pos: int, event: Event) -> bool:
    """Somebody came or went."""
    _become_dynamic(replay, log)
    peer = event.peer
    if peer is None:
        return True
    if event.kind == JOIN:
        replay.state.joined.add(peer)
        log.view.add(peer)
        return True
    if peer == log.name:
        log.view.clear()
    else:
        log.view.discard(peer)
    logs = replay.state.removals.setdefault(peer, {})
    dot = event.dot
    cut = dot.seq if dot is not None and dot.node == peer else 0
    if log.name in logs:
        logs[log.name].again.append((pos, cut))
    else:
        logs[log.name] = Removal(pos, cut)
        _judge_earlier_deliveries(replay, log, peer, cut)
    return True


def _judge_earlier_deliveries(replay: Replay, log: Log, peer: str, cut: int) -> None:
    """deliver-outside of what was delivered above the cut that came only now."""
    number = replay.origin(peer)
    base = replay.state.origins[number].base
    if cut < base and above(up_to(log.there[number], base), cut):
        replay.give_up(f"{log.name} removed {peer} before what is stable everywhere")
    for seq, pos in log.deliveries.get(number, ()):
        if seq > cut:
            replay.say(log.name, pos, "deliver-outside", (number, seq))


def _become_dynamic(replay: Replay, log: Log) -> None:
    if log.is_dynamic:
        return
    log.is_dynamic = True
    for pos, rule, dot in log.unjoined:
        replay.say(log.name, pos, rule, dot)
    log.unjoined = []
    replay.state.early = [
        one for one in replay.state.early if not (one.unjoined and one.node == log.name)
    ]


def on_end(replay: Replay, log: Log, pos: int, event: Event) -> bool:
    """This log is complete."""
    log.is_ended = True
    return True


HANDLERS: Final[dict[str, Handler]] = {
    SEND: on_send,
    DELIVER: on_deliver,
    STABLE: on_stable,
    PHANTOM: on_phantom,
    SNAPSHOT: on_snapshot,
    RESTART: on_restart,
    JOIN: on_membership,
    LEAVE: on_membership,
    EVICT: on_membership,
    END: on_end,
}
