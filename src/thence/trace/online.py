"""The online checker: the rules of docs/reference/trace.md while the logs are still being written.

``feed`` takes records of any nodes as they come, in pieces of any size and, within one log, in any
order of pieces; it returns the violations that are certain by then.  ``close`` ends the run and
returns the rest.  Together they are what the check of the whole run finds, each once.

The logs are read in causal order: a delivery waits for the send.  So the past of every message is
known exactly when it is needed, and it is forgotten when the message is stable everywhere
(online_watermark.py): what is held does not grow with the run but with what is not yet stable.

Some logs cannot be read in causal order, because they contradict each other (a message before
itself, a sender that went back), or ask for what was forgotten.  Then ``needs_batch`` says why, the
checker takes nothing more, and the whole run has to be checked from its files; ``rest_of`` gives
what of that check has not been told.  Whatever was told before is right.  What depends on a message
being skipped for good is held back to the end for that reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from thence.errors import LocalProtocolError, UnusableInputError
from thence.trace.online_context import settle_contexts
from thence.trace.online_end import judge_end
from thence.trace.online_order import settle_order
from thence.trace.online_records import HANDLERS
from thence.trace.online_replay import Replay, hash_of
from thence.trace.online_stable import settle_stable
from thence.trace.online_state import STATE_VERSION, Event, Log, State
from thence.trace.online_watermark import RETAIN_MESSAGES, release
from thence.trace.record import END, JOIN, SEND, SNAPSHOT, Record, RunInfo
from thence.trace.verdict import Violation

WAITING_RECORDS_MAX: Final = 1 << 18
"""Records of one run that wait for others."""
VECTOR_ENTRIES_MAX: Final = 1 << 23
"""Dots that are not stable everywhere, times origins; about 64 MB."""
PENDING_MAX: Final = 1 << 16
"""Violations of one run that wait for what is to come; order of total orders included."""
TOLD_MAX: Final = 1 << 18
"""Violations of one run that are told before it ends: each is remembered, so that none comes again
when the run is checked as a whole."""


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """How much a checker holds."""

    events: int
    """Records taken so far."""
    waiting: int
    """Records that wait for others."""
    dots: int
    """Messages whose past is kept."""
    pending: int
    """Violations, certain or not, that are not told yet."""
    told: int
    """Violations that were told: a number is kept of each."""


class OnlineChecker:
    """Checks one run while it is written.  No clock, no files."""

    def __init__(
        self, run: str, info: RunInfo | None = None, retain: int = RETAIN_MESSAGES
    ) -> None:
        """``info`` may come later (``begin``); until it does, records are only kept.

        ``retain``: messages of each origin kept after they are stable everywhere.
        """
        if retain < 1:
            raise LocalProtocolError("retain must be at least 1")
        self._replay = Replay(State(run=run, retain=retain))
        if info is not None:
            self.begin(info)

    @property
    def run(self) -> str:
        """The name of the run."""
        return self._replay.state.run

    @property
    def info(self) -> RunInfo | None:
        """What is known of the run."""
        return self._replay.state.info

    @property
    def needs_batch(self) -> str:
        """Why the whole run has to be checked from its files; empty if it has not."""
        return self._replay.state.gave_up

    @property
    def closed(self) -> bool:
        """Whether the run has ended."""
        return self._replay.state.closed

    def counters(self) -> Counters:
        """How much is held."""
        state = self._replay.state
        pending = len(state.early) + len(state.disorder) + len(state.covers) + len(state.held)
        pending += sum(len(log.order) + len(log.unjoined) for log in state.logs.values())
        pending += sum(len(one.again) for logs in state.removals.values() for one in logs.values())
        return Counters(
            events=state.events,
            waiting=sum(len(log.waiting) for log in state.logs.values()),
            dots=sum(len(origin.seqs) for origin in state.origins),
            pending=pending,
            told=len(state.emitted),
        )

    def waiting(self, node: str) -> int:
        """How many records of one log wait for others."""
        log = self._replay.state.logs.get(node)
        return 0 if log is None else len(log.waiting)

    def begin(self, info: RunInfo) -> list[Violation]:
        """Take what is known of the run; records fed before are judged now."""
        state = self._replay.state
        if state.info is not None:
            raise LocalProtocolError(f"{self.run}: the checker has its info already")
        if not info.members:
            # The default is the nodes seen that did not join: known when all are seen.
            return []
        self._replay.begin(info)
        return self.feed(())

    def feed(self, records: Iterable[Record]) -> list[Violation]:
        """Take records and return the violations that are certain now.

        Of two records with one position the first one counts.
        """
        state = self._replay.state
        if state.closed:
            raise LocalProtocolError(f"{self.run} is closed")
        fresh: set[tuple[str, int]] = set()
        for record in records:
            state.events += 1
            if not state.gave_up:
                self._put(record, fresh)
        if state.info is not None:
            self._go([name for name, log in state.logs.items() if log.waits is None], ending=False)
            self._settle()
        self._mind_limits()
        return self._replay.violations()

    def _put(self, record: Record, fresh: set[tuple[str, int]]) -> None:
        replay = self._replay
        log, pos = replay.log(record.node), record.pos
        if pos < log.next or pos in log.waiting:
            replay.say(log.name, pos, "log-gap", None)
            if (log.name, pos) not in fresh:
                # Which of them counts depends on the order of files, which nobody knows here.
                replay.give_up(f"{log.name} has position {pos} twice")
            return
        fresh.add((log.name, pos))
        kind = record.kind
        if kind in HANDLERS:
            log.waiting[pos] = Event(
                kind, record.dot, record.context, record.to, record.peer, record.stable
            )
        else:
            log.waiting[pos] = Event("")

    def _go(self, names: list[str], ending: bool) -> None:
        """Read on in these logs, and in those that waited for what is met."""
        replay, logs = self._replay, self._replay.state.logs
        work = names[::-1]
        while work and not replay.state.gave_up:
            self._read(logs[work.pop()], work, ending)

    def _read(self, log: Log, work: list[str], ending: bool) -> None:
        replay = self._replay
        while not replay.state.gave_up:
            pos = log.next
            event = log.waiting.get(pos)
            if event is None:
                if not (ending and log.waiting):
                    return
                pos = min(log.waiting)
                event = log.waiting[pos]
            handler = HANDLERS.get(event.kind)
            if handler is not None and not handler(replay, log, pos, event):
                return
            if pos != log.next:
                replay.say(log.name, pos, "log-gap", None)
            del log.waiting[pos]
            log.next, log.waits = pos + 1, None
            if event.kind == SEND and event.dot is not None:
                work += replay.waiting.pop(replay.pair(event.dot), ())
            elif event.kind == END:
                self._wake_for(log, work)

    def _wake_for(self, log: Log, work: list[str]) -> None:
        """No more messages of this node will come: nobody needs to wait for one."""
        replay = self._replay
        for dot in [
            dot for dot in replay.waiting if replay.state.origins[dot[0]].owner == log.name
        ]:
            work += replay.waiting.pop(dot)

    def _settle(self) -> None:
        if not self._replay.state.gave_up:
            settle_stable(self._replay)
            settle_contexts(self._replay)
            settle_order(self._replay)
            release(self._replay)

    def _mind_limits(self) -> None:
        replay, counters = self._replay, self.counters()
        if counters.waiting > WAITING_RECORDS_MAX:
            replay.give_up(f"more than {WAITING_RECORDS_MAX} records wait for others")
        if counters.dots * len(replay.state.origins) > VECTOR_ENTRIES_MAX:
            replay.give_up(f"{counters.dots} messages are not stable everywhere")
        if counters.pending > PENDING_MAX:
            replay.give_up(f"more than {PENDING_MAX} violations are undecided")
        if counters.told > TOLD_MAX:
            replay.give_up(f"more than {TOLD_MAX} violations were told")
        if replay.state.gave_up:
            self._forget()

    def _forget(self) -> None:
        """Keep only what says which violations were told."""
        replay, state = self._replay, self._replay.state
        self._replay = Replay(
            State(
                run=state.run,
                retain=state.retain,
                info=state.info,
                events=state.events,
                emitted=state.emitted,
                gave_up=state.gave_up,
                closed=state.closed,
            )
        )
        self._replay.found = replay.found

    def close(self, info: RunInfo) -> list[Violation]:
        """End the run: nothing more will come.  ``info`` is what is known of it now.

        Look at ``needs_batch`` afterwards: if it gives a reason the rest is ``rest_of`` a check
        of the whole run.
        """
        replay, state = self._replay, self._replay.state
        if state.closed:
            return []
        if state.info is None:
            replay.begin(msgspec.structs.replace(info, members=info.members or self._founders()))
        elif not _agree(state.info, info):
            replay.give_up("what run.json says of the run has changed")
        self._go_to_the_end()
        if not state.gave_up:
            state.closed = True
            self._settle()
            judge_end(replay, info)
        if not state.gave_up:
            for found in state.held:
                replay.tell(found)
        state.closed = True
        self._forget()
        return self._replay.violations()

    def _founders(self) -> tuple[str, ...]:
        """The nodes seen whose log has no snapshot and that no join names."""
        logs = self._replay.state.logs
        joined = {
            name if event.kind == SNAPSHOT else event.peer
            for name, log in logs.items()
            for event in log.waiting.values()
            if event.kind in (SNAPSHOT, JOIN)
        }
        return tuple(sorted(logs.keys() - joined))

    def _go_to_the_end(self) -> None:
        replay, state = self._replay, self._replay.state
        self._go(list(state.logs), ending=True)
        while not state.gave_up and any(log.waiting for log in state.logs.values()):
            ready = self._settle_unsent()
            if not ready:
                stuck = min(name for name, log in state.logs.items() if log.waiting)
                dot = replay.dot(state.logs[stuck].waits)
                replay.give_up(f"{stuck} waits for {dot}, which comes after: the logs contradict")
            self._go(ready, ending=True)

    def _settle_unsent(self) -> list[str]:
        """The logs that wait for what nobody is going to send."""
        replay, state = self._replay, self._replay.state
        coming: dict[str, int] = {}  # the first message of each origin that is still to be met
        for log in state.logs.values():
            for event in log.waiting.values():
                dot = event.dot
                if event.kind != SEND or dot is None or dot.node.partition("/")[0] != log.name:
                    continue
                if not replay.is_sent(replay.pair(dot)):
                    coming[dot.node] = min(dot.seq, coming.get(dot.node, dot.seq))
        ready: list[str] = []
        for waited in list(replay.waiting):
            origin = state.origins[waited[0]]
            if coming.get(origin.name, waited[1] + 1) > waited[1]:
                origin.floor = max(origin.floor, waited[1])
                ready += replay.waiting.pop(waited)
        return ready

    def rest_of(self, violations: Sequence[Violation]) -> tuple[list[Violation], int]:
        """Of what a check of the whole run found: what was not told, and how many it denies.

        The second is 0 unless what ``run.json`` says changed while the run was followed.
        """
        emitted = self._replay.state.emitted
        hashes = [hash_of((v.node, v.pos, v.rule, v.dot, v.missing)) for v in violations]
        rest = [v for v, key in zip(violations, hashes, strict=True) if key not in emitted]
        denied = len(emitted.difference(hashes))
        emitted.update(hashes)
        return rest, denied

    def dump(self) -> bytes:
        """Everything, so that ``load`` goes on from here in another process."""
        return msgspec.msgpack.encode(self._replay.state)

    @staticmethod
    def load(data: bytes) -> OnlineChecker:
        """The checker that was dumped; UnusableInputError if another version dumped it."""
        try:
            state = _decode(data)
        except msgspec.MsgspecError as error:
            raise UnusableInputError(f"this is no state of the online checker: {error}") from None
        if state.v != STATE_VERSION:
            raise UnusableInputError(
                f"the online checker cannot go on from version {state.v} of its state: start with "
                "an empty checkpoint"
            )
        checker = OnlineChecker(state.run, retain=state.retain)
        checker._replay = Replay(state)
        return checker


_decode: Final = msgspec.msgpack.Decoder(State).decode


def _agree(one: RunInfo, other: RunInfo) -> bool:
    """Whether two accounts of a run are the same to the rules that are judged on the way."""
    return (
        (one.guarantee, one.tags, one.stability) == (other.guarantee, other.tags, other.stability)
    ) and (set(one.members) == set(other.members) or not other.members)
