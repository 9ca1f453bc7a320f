"""What the vector clocks of a log amount to: deliveries, contexts, and what is odd about them.

The order of a host's events is that of their own entries, as in ShiViz; the order in the text does
not matter.  ``taken`` is what a host had sent or named up to an event, clocks only ever adding to
it.  ``past`` is that with the pasts of everything in it: the same when the clocks are vector
clocks, more when an entry of a clock names an event without what precedes it.  Both are version
vectors, host to sequence number.

Nothing odd is repaired, and nothing is dropped that has a place in a trace:

clock or own entry                        becomes
own entry that another event has          set aside
own entry after a gap                     a send; the check reports send-gap, and deliver-unsent
                                          where a host names the missing event
own entry after a gap of more than        set aside, and so is what follows it at that host
GAP_EVENTS_MAX
an entry lower than before                a remark; nothing is untaken
an event after the last one of its host   a remark; it is not delivered
an event without what precedes it         a remark; the check reports deliver-early
an event that has this one in its past    a remark; the check reports deliver-early, and may
                                          report context-wrong: no context is right
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from thence.causal.dot import Dot
from thence.pipeline.importers import Output
from thence.trace.record import DELIVER, RECORD_FIELDS, SEND, Record

GAP_EVENTS_MAX: Final = 10_000
"""Missing events in a row that hosts may still deliver: a record each, at each host."""

Vector = dict[str, int]


class Event(msgspec.Struct, frozen=True, eq=False):
    """One event of the text."""

    host: str
    seq: int
    """The entry of its own host."""
    clock: Vector
    """Without zeros."""
    line: int
    text: str
    groups: dict[str, str]
    """What the other groups of the expression matched."""
    match: str


Logs = dict[str, list[Event]]
"""The events of each host by their own entries, hosts in order of their names."""


def arrange(events: Sequence[Event], out: Output) -> Logs:
    """The logs of the hosts; an event that has no place in one is set aside."""
    found: Logs = {}
    for event in sorted(events, key=lambda event: (event.host, event.seq, event.line)):
        log = found.setdefault(event.host, [])
        last = log[-1].seq if log else 0
        if log and event.seq == last:
            reason = f"clock: {event.host}:{event.seq} is already the event of line {log[-1].line}"
        elif event.seq - last - 1 > GAP_EVENTS_MAX:
            reason = (
                f"clock: the own entry goes from {last} to {event.seq}, more than "
                f"{GAP_EVENTS_MAX} events are missing"
            )
        else:
            log.append(event)
            if event.seq != last + 1:
                out.remark(event.line, f"the own entry goes from {last} to {event.seq}")
            continue
        out.set_aside(event.line, reason, event.match)
    return {host: log for host, log in found.items() if log}


def records_of(run: str, logs: Logs, out: Output) -> Iterator[Record]:
    """The trace of these logs, host by host."""
    pasts = _Pasts(logs, out)
    for host, log in logs.items():
        pos = 0
        before: Vector = {}
        previous: Event | None = None
        for event in log:
            taken = pasts.taken[event]
            for dot in pasts.deliveries(host, before, taken):
                yield Record(run=run, node=host, pos=pos, kind=DELIVER, dot=dot)
                pos += 1
            yield Record(
                run=run, node=host, pos=pos, kind=SEND, dot=Dot(host, event.seq),
                context=pasts.context(previous, event), payload=event.text, extra=_extra(event),
            )  # fmt: skip
            out.took(event.line)
            pos += 1
            before, previous = taken, event


def _extra(event: Event) -> dict[str, Any]:
    """The other groups, under names that the trace format does not have, and the line."""
    named = {f"{k}_" if k in RECORD_FIELDS else k: v for k, v in event.groups.items()}
    return {"line": event.line, **named}


class _Pasts:
    """What each event had taken, and its past."""

    def __init__(self, logs: Logs, out: Output) -> None:
        self._logs = logs
        self._seqs = {host: [event.seq for event in log] for host, log in logs.items()}
        self._out = out
        self.taken: dict[Event, Vector] = {}
        self._past: dict[Event, Vector] = {}
        for host, log in logs.items():
            self._take(host, log)
        self._close()

    def _take(self, host: str, log: list[Event]) -> None:
        taken: Vector = {}
        clock: Vector = {}
        for event in log:
            for name, value in clock.items():
                if event.clock.get(name, 0) < value and name != host:
                    now = event.clock.get(name, 0)
                    self._out.remark(event.line, f"the entry of {name} goes from {value} to {now}")
            taken = dict(taken)
            for name, value in event.clock.items():
                last = self._seqs[name][-1] if name in self._seqs else 0
                if value > last and value > clock.get(name, 0):
                    self._out.remark(event.line, _not_in_log(name, value, last))
                if min(value, last) > taken.get(name, 0):
                    taken[name] = min(value, last)
            clock = event.clock
            self.taken[event] = taken

    def event_at(self, host: str, seq: int) -> Event | None:
        """The last event of a host up to this one: what stands for an event that is missing."""
        at = bisect_right(self._seqs[host], seq)
        return self._logs[host][at - 1] if at else None

    def _close(self) -> None:
        """Find the past of every event, each after those in its past: a worklist, no recursion."""
        waits: dict[Event, int] = {}
        waiting: dict[Event, list[Event]] = {}
        ready: list[Event] = []
        direct = dict(self._directly_before())
        for event, needed in direct.items():
            waits[event] = len(needed)
            for other in needed:
                waiting.setdefault(other, []).append(event)
            if not needed:
                ready.append(event)
        while ready:
            event = ready.pop()
            self._close_one(event, direct[event])
            for other in waiting.get(event, ()):
                waits[other] -= 1
                if not waits[other]:
                    ready.append(other)
        circular = [event for event in direct if event not in self._past]
        self._circular = bool(circular)
        for event in circular:
            self._out.remark(event.line, "by the clocks, this event is in its own past")
            self._past[event] = self.taken[event]
        while any([self._close_one(event, direct[event], tell=False) for event in circular]):
            pass  # pasts that contain each other grow until they are the same

    def _directly_before(self) -> Iterator[tuple[Event, list[Event]]]:
        """Each event with its host's previous one and the latest of each host it names anew."""
        for host, log in self._logs.items():
            before: Vector = {}
            previous: list[Event] = []
            for event in log:
                risen = self._risen(host, before, self.taken[event])
                named = (self.event_at(name, self.taken[event][name]) for name in risen)
                yield event, previous + [other for other in named if other is not None]
                before, previous = self.taken[event], [event]

    def _close_one(self, event: Event, direct: Sequence[Event], tell: bool = True) -> bool:
        """Put the pasts of what is directly before an event together; whether that adds to it."""
        past = known = self._past.get(event, self.taken[event])
        for other in direct:
            for name, seq in self._past[other].items():
                if seq > past.get(name, 0) and name != event.host:
                    past = dict(known) if past is known else past
                    past[name] = seq
                    if tell and other.host != event.host:
                        missing, there = Dot(name, seq), Dot(other.host, other.seq)
                        reason = f"the clock names {there} and not {missing}, which precedes it"
                        self._out.remark(event.line, reason)
        self._past[event] = past
        return past is not known

    def _risen(self, host: str, before: Vector, taken: Vector) -> list[str]:
        return [o for o in taken if o != host and taken[o] > before.get(o, 0)]

    def deliveries(self, host: str, before: Vector, taken: Vector) -> list[Dot]:
        """What a host takes between two of its events, causes before effects.

        The entries of a past grow along every causal chain, so their sum is a position in one
        order of all events that respects causality.
        """
        found = []
        for origin in self._risen(host, before, taken):
            for seq in range(before.get(origin, 0) + 1, taken[origin] + 1):
                event = self.event_at(origin, seq)
                known = 0 if event is None else event.seq
                total = 0 if event is None else sum(self._past[event].values())
                found.append((total + seq - known, origin, seq))
        return [Dot(origin, seq) for _, origin, seq in sorted(found)]

    def context(self, previous: Event | None, event: Event) -> tuple[Dot, ...]:
        """The latest of what a host had taken before an event."""
        taken = self.taken[event]
        # What was taken before the previous event is in its past and has it not in its own, unless
        # pasts contain each other.
        before = {} if previous is None or self._circular else self.taken[previous]
        found = {name: taken[name] for name in self._risen(event.host, before, taken)}
        if previous is not None:
            found[previous.host] = previous.seq
        pasts = {name: self._past_of(name, seq) for name, seq in found.items()}
        return tuple(
            Dot(name, seq)
            for name, seq in sorted(found.items())
            if not any(past.get(name, 0) >= seq for other, past in pasts.items() if other != name)
        )

    def _past_of(self, host: str, seq: int) -> Vector:
        event = self.event_at(host, seq)
        return {} if event is None else self._past[event]


def _not_in_log(name: str, value: int, last: int) -> str:
    if not last:
        return f"the clock names {name}:{value}, and the log has no events of {name}"
    return f"the clock names {name}:{value}, and the log of {name} ends with {last}"
