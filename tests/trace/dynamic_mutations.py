"""Ways to break an execution of a group whose members come and go.

As the mutators of tests/trace/executions.py: each changes the logs in place and may return another
RunInfo.  One that finds nothing to change leaves all as it was.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from tests.trace.executions import D, Logs, any_dot, pick
from thence.trace.record import RunInfo

VIEW_KINDS = ("join", "leave", "evict")
REMOVALS = ("leave", "evict")
STATES = ("snapshot", "restart")
MEMBERSHIP = VIEW_KINDS + STATES

Place = tuple[list[dict[str, Any]], int]
Mutator = Callable[[random.Random, Logs, RunInfo], RunInfo | None]


def _change(place: Place, **fields: Any) -> None:
    log, at = place
    log[at] = {**log[at], **fields}


def _names(logs: Logs, info: RunInfo) -> list[str]:
    """Every node named anywhere, and one that is not."""
    peers = {e["peer"] for log in logs.values() for e in log if e.get("peer")}
    return sorted({*logs, *info.members, *peers, "zz"})


def _next_dot(log: list[dict[str, Any]], name: str) -> D:
    sent = [e["dot"][1] for e in log if e["kind"] == "send" and e["dot"][0] == name]
    return (name, max(sent, default=0) + 1)


def drop_change(rng, logs, info):
    if place := pick(rng, logs, *MEMBERSHIP):
        del place[0][place[1]]


def drop_everywhere(rng, logs, info):
    """All records of one kind about one node."""
    if place := pick(rng, logs, *VIEW_KINDS):
        event = place[0][place[1]]
        for log in logs.values():
            log[:] = [
                e for e in log if (e["kind"], e.get("peer")) != (event["kind"], event.get("peer"))
            ]


def move_change(rng, logs, info):
    if place := pick(rng, logs, *MEMBERSHIP):
        log, at = place
        event = log.pop(at)
        near = (max(0, at - 3), min(len(log), at + 3))
        log.insert(rng.randint(*rng.choice((near, near, (0, len(log))))), event)


def repeat_change(rng, logs, info):
    if place := pick(rng, logs, *MEMBERSHIP):
        log, at = place
        other = rng.choice((log, log, rng.choice(list(logs.values()))))
        other.insert(rng.randint(0, len(other)), dict(log[at]))


def swap_with_neighbour(rng, logs, info):
    if place := pick(rng, logs, *MEMBERSHIP):
        log, at = place
        other = at + rng.choice((-1, 1))
        if 0 <= other < len(log):
            log[at], log[other] = log[other], log[at]


def other_cut(rng, logs, info):
    if place := pick(rng, logs, *REMOVALS):
        event = place[0][place[1]]
        seq = event["dot"][1] if event["dot"] else 0
        name = event.get("peer") or "zz"
        dots = [(name, seq + 1), (name, seq + 1), (f"{name}/s1", 1), any_dot(rng, logs), None]
        _change(place, dot=rng.choice([*dots, (name, seq - 1)] if seq > 1 else dots))


def other_peer(rng, logs, info):
    if place := pick(rng, logs, *MEMBERSHIP):
        _change(place, peer=rng.choice([*_names(logs, info), None]))


def other_change(rng, logs, info):
    if place := pick(rng, logs, *MEMBERSHIP):
        _change(place, kind=rng.choice(MEMBERSHIP))


def _other_frontier(rng: random.Random, logs: Logs, dots: list[D] | None) -> list[D] | None:
    dots = list(dots or ())
    at = rng.randrange(len(dots)) if dots else None
    roll = rng.random()
    if at is None or roll < 0.25:
        dots.append(any_dot(rng, logs))
    elif roll < 0.5:
        dots[at] = (dots[at][0], dots[at][1] + rng.choice((1, 1, 2)))
    elif roll < 0.7:
        dots[at] = (dots[at][0], max(1, dots[at][1] - 1))
    elif roll < 0.9:
        del dots[at]
    else:
        return rng.choice((None, []))
    return dots


def other_state(rng, logs, info):
    if place := pick(rng, logs, *STATES):
        event = place[0][place[1]]
        _change(place, context=_other_frontier(rng, logs, event.get("context")))


def other_told(rng, logs, info):
    if place := pick(rng, logs, *STATES):
        event = place[0][place[1]]
        _change(place, stable=_other_frontier(rng, logs, event.get("stable")))


def other_members(rng, logs, info, kind="snapshot"):
    if place := pick(rng, logs, kind):
        to = list(place[0][place[1]].get("to") or ())
        if to and rng.random() < 0.5:
            to.remove(rng.choice(to))
        else:
            to.append(rng.choice(_names(logs, info)))
        _change(place, to=rng.choice((to, to, to, None, [])))


def new_change(rng, logs, info):
    """A record of somebody's coming or going that never happened, or happened elsewhere."""
    log = rng.choice(list(logs.values()))
    name = rng.choice(_names(logs, info))
    dot = rng.choice((None, (name, rng.randint(1, 4))))
    event = {"kind": rng.choice(VIEW_KINDS), "dot": dot, "peer": name}
    log.insert(rng.randint(0, len(log)), event)


def new_state(rng, logs, info):
    """A snapshot or a restart out of nowhere; what it says is what some other one said."""
    log = rng.choice(list(logs.values()))
    place = pick(rng, logs, *STATES)
    event = dict(place[0][place[1]]) if place else {"dot": None, "context": [], "stable": []}
    event["kind"] = rng.choice(STATES)
    if rng.random() < 0.5:
        event["context"] = _other_frontier(rng, logs, event.get("context"))
    log.insert(rng.randint(0, len(log)), event)


def _two(rng: random.Random, logs: Logs, matches: Callable[..., bool]) -> tuple[Any, int, int]:
    """A log, where it changes the view or the state, and a related record; or an empty log."""
    places = [
        (log, at, other)
        for log in logs.values()
        for at, change in enumerate(log)
        if change["kind"] in MEMBERSHIP
        for other, event in enumerate(log)
        if matches(change, event, other - at)
    ]
    return rng.choice(places) if places else ([{}], 0, 0)


def _delivers_from_peer(change: dict[str, Any], event: dict[str, Any]) -> bool:
    return event["kind"] == "deliver" and event["dot"][0] == change.get("peer")


def deliver_after_removal(rng, logs, info):
    """A delivery of a removed node's message slips behind the record."""
    log, at, other = _two(
        rng,
        logs,
        lambda change, event, distance: (
            change["kind"] in REMOVALS and distance < 0 and _delivers_from_peer(change, event)
        ),
    )
    log.insert(at, log.pop(other))


def deliver_above_cut(rng, logs, info):
    if place := pick(rng, logs, *REMOVALS):
        log, at = place
        dot, name = log[at].get("dot"), log[at].get("peer")
        event = {"kind": "deliver", "dot": (name or "zz", (dot[1] if dot else 0) + 1)}
        log.insert(rng.randint(max(0, at - 2), min(len(log), at + 2)), event)


def deliver_before_join(rng, logs, info):
    log, at, other = _two(
        rng,
        logs,
        lambda change, event, distance: (
            change["kind"] == "join" and distance > 0 and _delivers_from_peer(change, event)
        ),
    )
    log.insert(at, log.pop(other))


def deliver_before_snapshot(rng, logs, info):
    log, at, other = _two(
        rng,
        logs,
        lambda change, event, distance: (
            change["kind"] == "snapshot" and distance > 0 and event["kind"] == "deliver"
        ),
    )
    log.insert(at, log.pop(other))


def send_when_gone(rng, logs, info):
    """A send after the node's own removal, or before its snapshot."""
    places = [
        (name, log, at)
        for name, log in logs.items()
        for at, event in enumerate(log)
        if (event["kind"] in REMOVALS and event.get("peer") == name) or event["kind"] == "snapshot"
    ]
    if places:
        name, log, at = rng.choice(places)
        before = log[at]["kind"] == "snapshot"
        event = {"kind": "send", "dot": _next_dot(log, name), "context": []}
        log.insert(at if before else rng.randint(at + 1, len(log)), event)


def stable_without_joiner(rng, logs, info):
    """A join before a stable that did not wait for the joiner."""
    log, at, other = _two(
        rng,
        logs,
        lambda change, event, distance: (
            change["kind"] == "join" and distance < 0 and event["kind"] == "stable"
        ),
    )
    log.insert(other, log.pop(at))


def stable_too_soon(rng, logs, info):
    """A stable moves up to the last change of view or state before it."""
    log, at, other = _two(
        rng, logs, lambda _, event, distance: distance > 0 and event["kind"] == "stable"
    )
    log.insert(at + 1, log.pop(other))


def drop_repetition(rng, logs, info):
    """What a restart took back does not come again."""
    again = [
        (log, at)
        for log in logs.values()
        for at, event in enumerate(log)
        if event["kind"] in ("deliver", "stable")
        if any((e["kind"], e.get("dot")) == (event["kind"], event["dot"]) for e in log[:at])
    ]
    if again:
        log, at = rng.choice(again)
        del log[at]


def repeat_carried(rng, logs, info):
    """What was confirmed, or came with a snapshot, comes again."""
    if place := pick(rng, logs, *STATES):
        log, at = place
        kind, named = rng.choice((("deliver", "context"), ("stable", "stable")))
        if log[at].get(named):
            node, seq = rng.choice(log[at][named])
            event = {"kind": kind, "dot": (node, rng.randint(1, seq))}
            log.insert(rng.randint(at + 1, len(log)), event)


def other_confirmed(rng, logs, info):
    """Other members than the application had confirmed; or a restart says them, or no longer."""
    other_members(rng, logs, info, "restart")


def _told_again(logs: Logs) -> list[Place]:
    """Where a log tells of a change of view that it told before."""
    return [
        (log, at)
        for log in logs.values()
        for at, event in enumerate(log)
        if event["kind"] in VIEW_KINDS
        if any((e["kind"], e.get("peer")) == (event["kind"], event.get("peer")) for e in log[:at])
    ]


def drop_change_again(rng, logs, info):
    """A change of view that a restart took back is not told again."""
    if again := _told_again(logs):
        log, at = rng.choice(again)
        del log[at]


def other_cut_again(rng, logs, info):
    """What is told again is not what was told first."""
    again = [(log, at) for log, at in _told_again(logs) if log[at]["kind"] in REMOVALS]
    if again:
        log, at = rng.choice(again)
        name, seq = log[at]["dot"] or (log[at]["peer"], 0)
        log[at] = {**log[at], "dot": rng.choice([(name, seq + 1), (name, max(1, seq - 1)), None])}


def _after_restart(rng: random.Random, logs: Logs) -> tuple[Any, int, int]:
    """A log, a restart that says members, and where the next change of view is, or the end."""
    places = []
    for log in logs.values():
        for at, event in enumerate(log):
            if event["kind"] == "restart" and event.get("to") is not None:
                later = (n for n, e in enumerate(log) if n > at and e["kind"] in MEMBERSHIP)
                places.append((log, at, next(later, len(log))))
    return rng.choice(places) if places else ([], 0, 0)


def deliver_in_earlier_view(rng, logs, info):
    """In the earlier view something is delivered that only a later one has, or above a cut."""
    log, at, end = _after_restart(rng, logs)
    if log:
        named = [e["peer"] for e in log if e.get("peer")]
        name = rng.choice(named or ["zz"])
        event = {"kind": "deliver", "dot": (name, rng.randint(1, 4))}
        log.insert(rng.randint(at + 1, end), event)


def stable_in_earlier_view(rng, logs, info):
    """What was told in the later view is told in the earlier one, which may have more members."""
    log, at, end = _after_restart(rng, logs)
    told = [event["dot"] for event in log if event["kind"] == "stable"]
    if told:
        log.insert(rng.randint(at + 1, end), {"kind": "stable", "dot": rng.choice(told)})


def crash_when_gone(rng, logs, info):
    """A node that was told of its own removal is in the group again, or is not."""
    places = [
        (name, log, at)
        for name, log in logs.items()
        for at, event in enumerate(log)
        if event["kind"] in REMOVALS and event.get("peer") == name
    ]
    if places:
        name, log, at = rng.choice(places)
        to = rng.choice((None, [], rng.sample(_names(logs, info), 2)))
        log.insert(at + 1, {"kind": "restart", "dot": None, "to": to})
        event = {"kind": "send", "dot": _next_dot(log, name), "context": []}
        log.insert(rng.randint(at + 2, len(log)), event)


def other_founders(rng, logs, info):
    """The members of the run are not said, or are others."""
    named = _names(logs, info)
    return msgspec.structs.replace(info, members=rng.choice(((), (), tuple(named[:2]))))


MEMBERSHIP_MUTATORS: list[Mutator] = [
    drop_change, drop_change, drop_everywhere, move_change, move_change, repeat_change,
    swap_with_neighbour, other_cut, other_cut, other_peer, other_change, other_state, other_state,
    other_told, other_told, other_members, new_change, new_state, deliver_after_removal,
    deliver_above_cut, deliver_before_join, deliver_before_snapshot, send_when_gone,
    stable_without_joiner, stable_too_soon, drop_repetition, repeat_carried, other_founders,
]  # fmt: skip

TAKEN_BACK_MUTATORS: list[Mutator] = [
    other_confirmed, other_confirmed, drop_change_again, drop_change_again, other_cut_again,
    other_cut_again, deliver_in_earlier_view, deliver_in_earlier_view, stable_in_earlier_view,
    crash_when_gone,
]  # fmt: skip
"""For executions in which restarts take views back."""
