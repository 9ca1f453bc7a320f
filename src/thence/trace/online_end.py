"""The rules that are judged when nothing more will come."""

from __future__ import annotations

from thence.trace.online_order import judge_order
from thence.trace.online_ranges import common, minus, numbers, up_to
from thence.trace.online_replay import Replay
from thence.trace.online_stable import waits_for
from thence.trace.online_state import Log
from thence.trace.record import RunInfo


def judge_end(replay: Replay, info: RunInfo) -> None:
    """Everything that only the end decides."""
    state = replay.state
    group = (state.members | state.joined) - state.removals.keys()
    for log in state.logs.values():
        if info.complete and log.is_ended and log.name in group:
            _judge_missing(replay, log, group)
            if replay.tells:
                _judge_untold(replay, log)
    _judge_views(replay)
    if replay.total:
        judge_order(replay)


def _judge_missing(replay: Replay, log: Log, group: set[str]) -> None:
    """deliver-missing."""
    removals = replay.state.removals
    for number, origin in enumerate(replay.state.origins):
        ranges = minus(origin.sent, log.there[number])
        if origin.owner in removals:
            logs = removals[origin.owner]
            cut = (logs.get(log.name) or logs[min(logs)]).cut
            ranges = [] if origin.is_stream else up_to(ranges, cut)
        elif origin.owner not in group:
            continue
        for seq in numbers(ranges):
            if replay.is_for((number, seq), log):
                replay.say(log.name, log.next, "deliver-missing", (number, seq))


def _judge_untold(replay: Replay, log: Log) -> None:
    """stable-missing."""
    for number, origin in enumerate(replay.state.origins):
        if origin.is_stream:
            continue
        untold = minus(log.there[number], log.told[number])
        # A snapshot may name any number: only what was sent is looked at one by one.
        for seq in numbers(common(untold, origin.sent)):
            if replay.is_dropped((number, seq)):
                replay.give_up(f"{log.name} was never told of {replay.dot((number, seq))}")
                return
            lacking, _ = waits_for(replay, log, (number, seq))
            if not lacking:
                replay.say(log.name, log.next, "stable-missing", (number, seq))


def _judge_views(replay: Replay) -> None:
    """view-disagree."""
    for peer, logs in replay.state.removals.items():
        agreed = logs[min(logs)].cut
        number = replay.origin(peer)
        other = (number, agreed) if agreed else None
        for name, removal in logs.items():
            for pos, cut in [(removal.pos, removal.cut), *removal.again]:
                if cut != agreed:
                    replay.say(name, pos, "view-disagree", (number, cut) if cut else None, other)
