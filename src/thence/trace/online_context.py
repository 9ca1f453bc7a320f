"""context-wrong: is the logged context the set of latest dots that the node had taken?

With tags ``exact`` the two sets are compared.  With tags ``over`` every latest dot must be in the
context or in the past of a dot of it, and those pasts may not be known yet.
"""

from __future__ import annotations

from thence.trace.online_replay import Replay, join
from thence.trace.online_state import Cover, Event, Log, Pair


def judge_context(replay: Replay, log: Log, pos: int, dot: Pair, event: Event) -> None:
    """The context of a send on the default stream, or of a phantom announced here."""
    info = replay.state.info
    assert info is not None
    if info.tags == "none" or not replay.causal:
        return
    named = replay.pairs(event.context)
    latest = list(log.latest.items())
    if info.tags == "over":
        cover = Cover(log.name, pos, dot, latest, named)
        if not _is_decided(replay, cover):
            replay.state.covers.append(cover)
    elif len(named) != len(latest) or set(named) != set(latest):
        lacking = [one for one in latest if one not in named]
        missing = min(lacking, key=replay.name_key, default=None)
        replay.say(log.name, pos, "context-wrong", dot, missing)


def judge_stream_context(replay: Replay, log: Log, pos: int, dot: Pair, event: Event) -> None:
    """On a stream the caller chose the context: it can only name what is not there, or twice."""
    info = replay.state.info
    assert info is not None
    if info.tags == "none" or not replay.causal:
        return
    named = replay.pairs(event.context)
    unsent = [one for one in named if one != dot and not replay.is_sent(one)]
    if unsent or len({one[0] for one in named}) < len(named):
        missing = min(unsent, key=replay.name_key, default=None)
        replay.say(log.name, pos, "context-wrong", dot, missing)


def settle_contexts(replay: Replay) -> None:
    """Tell what has been decided since the last time."""
    state = replay.state
    state.covers = [cover for cover in state.covers if not _is_decided(replay, cover)]


def _is_decided(replay: Replay, cover: Cover) -> bool:
    """Whether the pasts that matter are known; if so a wrong context is told."""
    named = [dot for dot in cover.named if replay.is_settled(dot)]
    past = [0] * len(replay.state.origins)
    for dot in named:
        join(past, replay.down(dot))
    lacking = [dot for dot in cover.latest if past[dot[0]] < dot[1] and dot not in cover.named]
    if lacking and len(named) < len(cover.named):
        return False
    if lacking and any(replay.is_dropped(dot) for dot in named):
        if any(replay.is_dropped(dot) for dot in lacking):
            replay.give_up(
                f"the context of {replay.dot(cover.dot)} names dots that are long stable"
            )
    if lacking:
        missing = min(lacking, key=replay.name_key)
        replay.say(cover.node, cover.pos, "context-wrong", cover.dot, missing)
    return True
