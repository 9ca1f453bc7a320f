"""One run of a stream: its files go in, rows of the table of findings come out.  No Spark.

A run may have several folders, one for each node.  It is closed when every folder of it that was
found has its ``run.closed``; then what is missing is missing, and a run that the online checker
could not follow to the end is checked as a whole from its files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from thence.errors import ThenceError, UnusableInputError
from thence.pipeline.stream_files import Entry
from thence.trace.check import check_run
from thence.trace.columns import Part
from thence.trace.files import join
from thence.trace.online import OnlineChecker
from thence.trace.online_parts import nodes_of, records_of_part
from thence.trace.parquet import read_parquet
from thence.trace.reader import INFO_FILE, Place, info_of, iter_runs, look_at_group, read_info
from thence.trace.record import RunInfo
from thence.trace.segments import Quarantine, read_lines
from thence.trace.verdict import Violation

FEED_RECORDS: Final = 4096
"""Records of one log that are fed at a time: what waits for other logs is kept as objects."""
LISTED_MAX: Final = 1 << 20
"""Violations that a check of a whole run spells out; all are counted."""
STATE_VERSION: Final = 1


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table of findings; what it means depends on ``what``."""

    what: str
    """violation; quarantine: input set aside; opened, closed: of a run; note: a sentence."""
    run: str | None = None
    node: str | None = None
    pos: int | None = None
    rule: str | None = None
    dot_node: str | None = None
    dot_seq: int | None = None
    missing_node: str | None = None
    missing_seq: int | None = None
    why: str | None = None
    """Of a violation: the sentence.  Of a closed run: why it was checked as a whole, if it was."""
    file: str | None = None
    line: int | None = None
    reason: str | None = None
    """Of something set aside."""
    events: int | None = None
    """Of a closed run: its records.  Of something set aside: how many, if it is more than one."""
    violations: int | None = None
    """Of a closed run: how many there are, the listed ones and the others."""


class _Saved(msgspec.Struct, kw_only=True):
    v: int = STATE_VERSION
    group: str
    folders: dict[str, bool] = {}
    """The folders of the run, and whether each is closed."""
    homes: dict[str, str] = {}
    """Run and node to the folder that holds its log."""
    checkers: dict[str, bytes] = {}
    told: int = 0
    opened: bool = False
    closed: bool = False


class _Piece(msgspec.Struct):
    """The records of one log in one segment that have not been fed."""

    run: str
    node: str
    part: Part
    rows: Any
    at: int = 0


class RunFollower:
    """What is known of one group of folders: nearly always one run."""

    def __init__(self, group: str, saved: bytes = b"") -> None:
        self._state = _Saved(group=group)
        if saved:
            self._state = msgspec.msgpack.decode(saved, type=_Saved)
            if self._state.v != STATE_VERSION:
                raise UnusableInputError(
                    "the checkpoint was written by another version of thence: start a new one"
                )
        self._checkers = {
            run: OnlineChecker.load(data) for run, data in self._state.checkers.items()
        }

    def dump(self) -> bytes:
        """Everything, so that another process goes on from here."""
        self._state.checkers = {run: checker.dump() for run, checker in self._checkers.items()}
        return msgspec.msgpack.encode(self._state)

    @property
    def closed(self) -> bool:
        """Whether the run has ended."""
        return self._state.closed

    def take(self, entries: Sequence[Entry]) -> Iterator[Finding]:
        """What these files say, in order of folder and name whatever order they come in."""
        if not self._state.group:
            yield from map(_aside, entries)  # of no run: there was no run.json to name one
            return
        if self._state.closed:
            yield from map(_late, entries)
            return
        for entry in entries:
            self._state.folders.setdefault(entry.folder, False)
        if not self._state.opened:
            self._state.opened = True
            yield Finding(what="opened", run=self._name(), file=min(self._state.folders))
        segments = [entry for entry in entries if entry.kind == "segment"]
        pieces: list[_Piece] = []
        for entry in sorted(segments, key=lambda one: (one.folder, one.name)):
            yield from self._open(entry, pieces)
        for violation in self._feed(pieces):
            yield self._found(violation)
        for entry in entries:
            if entry.kind == "closed":
                self._state.folders[entry.folder] = True
        if all(self._state.folders.values()):
            yield from self._close()

    def _name(self) -> str:
        """The name of the run, or the folder of one that has no run.json."""
        return self._state.group.partition(" ")[2]

    # Reading.

    def _open(self, entry: Entry, pieces: list[_Piece]) -> Iterator[Finding]:
        """Read one segment; what cannot be used is set aside."""
        path = join(entry.folder, entry.name)
        quarantine = Quarantine()
        read = read_parquet if entry.name.endswith(".parquet") else read_lines
        part = read(path, quarantine)
        for run, node, rows in [] if part is None else nodes_of(part):
            home = self._state.homes.setdefault(f"{run}/{node}", entry.folder)
            if home != entry.folder:
                reason = f"{home} holds a log of {node} in the same run"
                quarantine.add(path, None, reason)
            elif part is not None:
                pieces.append(_Piece(run, node, part, rows))
        for item in quarantine.listed:
            yield Finding(what="quarantine", file=item.file, line=item.line, reason=item.reason)
        more = quarantine.count - len(quarantine.listed)
        if more:
            reason = f"{more} more lines like these"
            yield Finding(what="quarantine", file=path, reason=reason, events=more)

    def _feed(self, pieces: list[_Piece]) -> Iterator[Violation]:
        """Feed the logs side by side: always the one of which the fewest records wait.

        One whole log after the other would make all of the first wait for the second.
        """
        yield from self._begin(sorted({piece.run for piece in pieces}))
        queues: dict[tuple[str, str], list[_Piece]] = {}
        for piece in reversed(pieces):
            queues.setdefault((piece.run, piece.node), []).append(piece)
        while queues:
            run, node = min(queues, key=lambda one: (self._checkers[one[0]].waiting(one[1]), one))
            piece = queues[run, node][-1]
            some = piece.rows[piece.at : piece.at + FEED_RECORDS]
            piece.at += len(some)
            if piece.at >= len(piece.rows):
                queues[run, node].pop()
                if not queues[run, node]:
                    del queues[run, node]
            yield from self._checkers[run].feed(records_of_part(piece.part, some))

    def _begin(self, runs: Sequence[str]) -> Iterator[Violation]:
        """Have a checker for each run, and tell it what run.json says as soon as it says it."""
        unknown = []
        for run in runs:
            checker = self._checkers.setdefault(run, OnlineChecker(run))
            if checker.info is None and not checker.needs_batch:
                unknown.append(run)
        for info in self._infos() if unknown else ():
            if info.run in unknown and info.members:
                unknown.remove(info.run)
                yield from self._checkers[info.run].begin(info)

    def _infos(self) -> list[RunInfo]:
        """What the folders say of their runs now; those that say nothing are left out."""
        return [place.info for place in self._places() if place.info is not None]

    def _places(self) -> list[Place]:
        """The folders as other commands see them; which files they hold does not matter here."""
        places = []
        for folder in sorted(self._state.folders):
            name, info = read_info(folder)
            if isinstance(info, str):
                places.append(Place(folder, (folder,), None, name))
            else:
                places.append(Place(folder, (folder,), info))
        return places

    # The end.

    def _close(self) -> Iterator[Finding]:
        yield from self._look_back()
        infos = self._infos()
        for run, checker in sorted(self._checkers.items()):
            for violation in checker.close(info_of(run, infos)):
                yield self._found(violation)
        unlisted = 0
        if any(checker.needs_batch for checker in self._checkers.values()):
            for finding in self._check_whole():
                unlisted += finding.violations or 0
                yield finding
        reasons = [
            checker.needs_batch for checker in self._checkers.values() if checker.needs_batch
        ]
        yield Finding(
            what="closed",
            run=self._name(),
            file=min(self._state.folders),
            events=sum(checker.counters().events for checker in self._checkers.values()),
            violations=self._state.told + unlisted,
            why="; ".join(reasons) or None,
        )
        self._state = _Saved(group=self._state.group, opened=True, closed=True)
        self._checkers = {}

    def _look_back(self) -> Iterator[Finding]:
        """What other commands say of such folders too: logs that are not there."""
        quarantine, notes = Quarantine(), list[str]()
        nodes: dict[str, set[str]] = {}
        for home in self._state.homes:
            run, _, node = home.rpartition("/")
            nodes.setdefault(run, set()).add(node)
        look_at_group(self._places(), nodes, quarantine, notes)
        for item in quarantine.listed:
            yield Finding(what="quarantine", file=item.file, reason=item.reason)
        for note in notes:
            yield Finding(what="note", reason=note)

    def _check_whole(self) -> Iterator[Finding]:
        """What a check of all files finds that was not told."""
        try:
            for columns, info in iter_runs(sorted(self._state.folders), Quarantine()):
                checker = self._checkers.get(columns.run)
                if checker is None or not checker.needs_batch:
                    continue
                verdict = check_run(columns, info, listed=LISTED_MAX)
                rest, denied = checker.rest_of(verdict.violations)
                for violation in rest:
                    yield self._found(violation)
                total = sum(verdict.counts.values())
                if total > len(verdict.violations):
                    text = f"{columns.run}: {total:,} violations, of which the first are listed"
                    unlisted = total - len(verdict.violations)
                    yield Finding(what="note", run=columns.run, reason=text, violations=unlisted)
                elif denied:
                    text = f"{columns.run}: {denied} violations told before do not hold: "
                    yield Finding(
                        what="note", run=columns.run, reason=text + checker.needs_batch
                    )  # fmt: skip
        except ThenceError as error:
            yield Finding(what="quarantine", file=min(self._state.folders), reason=str(error))

    def _found(self, violation: Violation) -> Finding:
        self._state.told += 1
        dot, missing = violation.dot, violation.missing
        return Finding(
            what="violation",
            run=violation.run,
            node=violation.node,
            pos=violation.pos,
            rule=violation.rule,
            dot_node=None if dot is None else dot.node,
            dot_seq=None if dot is None else dot.seq,
            missing_node=None if missing is None else missing.node,
            missing_seq=None if missing is None else missing.seq,
            why=violation.why,
        )


def _aside(entry: Entry) -> Finding:
    """What to say of a folder that belongs to no run yet."""
    if entry.kind == "bad":
        path = join(entry.folder, entry.name)
        return Finding(what="quarantine", file=path, reason=entry.reason)
    text = f"{entry.folder} has no {INFO_FILE}: it is checked when it is closed"
    return Finding(what="note", file=entry.folder, reason=text)


def _late(entry: Entry) -> Finding:
    path = join(entry.folder, entry.name)
    reason = f"{entry.group} had been closed before this came: are there two of that name?"
    return Finding(what="quarantine", file=path, reason=reason)
