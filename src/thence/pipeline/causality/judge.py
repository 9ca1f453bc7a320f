"""Stage 2: every rule of one log, with what the others say read from where it is kept.

A worker keeps the vectors of the run it is busy with; all tasks on its logs share them.  The key is
the path of the run's header, which is made once, and the number of the round (below).

When the vectors of the scan are not exact (a delivery came early, a stream, a log that went back)
they are closed in rounds first: each task lets the vectors flow once through its log and keeps the
new ones, until a round changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

import msgspec
import numpy as np

from thence.pipeline.causality.kept import Rebase, load_index, recode
from thence.pipeline.causality.scan import Scanned, facts_path, index_path
from thence.pipeline.causality.shelf import load, save
from thence.pipeline.causality.spell import Judged, spell
from thence.trace.check import Facts, check_log, early_in
from thence.trace.columns import Ints, Mask, names_in_order
from thence.trace.files import join, read_bytes, write_file
from thence.trace.numbering import Numbering, numbering_of
from thence.trace.record import RunInfo
from thence.trace.rules_order import check_order, compared
from thence.trace.run import LogIndex, Run
from thence.trace.vectors import (
    empty_vectors,
    first_at_or_after,
    flow_through,
    never_after,
    own_entries,
    rise_along_origins,
)
from thence.trace.views import Group, founders_among, group_of


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What every judge of a run must know; kept once, read by each worker."""

    info: RunInfo
    names: tuple[str, ...]
    counts: tuple[int, ...]
    bystanders: tuple[str, ...]
    logs: tuple[Scanned, ...]
    work: str
    stem: str

    def log_stem(self, number: int) -> str:
        """Of the names of the files of one log."""
        return self.logs[number].stem


def header_of(info: RunInfo, logs: tuple[Scanned, ...], work: str, stem: str) -> Header:
    """Put the names and counts of all logs together."""
    counts: dict[str, int] = {}
    others = set(info.members)
    for log in logs:
        others.update(log.bystanders)
        for name, count in zip(log.names, log.counts, strict=True):
            counts[name] = max(count, counts.get(name, 0))
    names, bystanders = names_in_order(counts, others)
    return Header(
        info=info,
        names=names,
        counts=tuple(counts.get(name, 0) for name in names),
        bystanders=bystanders,
        logs=logs,
        work=work,
        stem=stem,
    )


def is_exact(header: Header) -> bool:
    """Whether the vectors of the scan can be exact, which the judges then prove."""
    count = dict(zip(header.names, header.counts, strict=True))
    return not any("/" in name for name in header.names) and all(
        log.in_order and log.sends in (0, count[log.node]) for log in header.logs
    )


def save_header(header: Header) -> str:
    """Keep a header; its path."""
    path = join(header.work, f"{header.stem}.header")
    write_file(path, [msgspec.msgpack.encode(header)])
    return path


class JudgeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One log to be judged, or to let vectors flow through."""

    header: str
    log: int
    round: int
    """0: the vectors of the scan; otherwise those of this round of closing."""
    tables: str
    listed: int


def judge_log(spec: JudgeSpec) -> Judged:
    """Judge one log; ``proved`` is False when the vectors of the scan turn out not to be exact."""
    shared = _shared(spec.header, spec.round)
    log = shared.log(spec.log)
    run = shared.run
    early: list[Mask] | None = None
    if spec.round == 0 and run.causal:
        early, proved = early_in(run, log, shared.vectors)
        if not proved:
            return Judged(events=log.events, proved=False)
    check_log(shared.facts, log, early)
    if run.total and log.node in shared.group.ever:
        nodes = compared(shared.group, sorted(shared.numbers))
        smaller = [shared.last_delivered(node) for node in nodes if node < log.node]
        check_order(run, log, smaller)
    name = run.numbering.names[log.node]
    return spell(
        run.info.run, name, log, run.numbering, spec.tables, shared.header.log_stem(spec.log),
        spec.listed,
    )  # fmt: skip


class Flowed(msgspec.Struct, frozen=True):
    """What a round did to one log's vectors."""

    changed: bool


def flow_log(spec: JudgeSpec) -> Flowed:
    """Let the vectors of one round flow through one log, and keep those of the next."""
    shared = _shared(spec.header, spec.round)
    log, numbering, vectors = shared.log(spec.log), shared.run.numbering, shared.vectors
    changed = flow_through(log, vectors)
    origins = np.flatnonzero(numbering.owner == log.node).tolist()
    blocks = {str(origin): vectors[:, numbering.messages(origin)] for origin in origins}
    path = _round_path(shared.header, spec.log, spec.round + 1)
    save(path, b"", blocks)
    return Flowed(changed)


def _round_path(header: Header, log: int, number: int) -> str:
    return join(header.work, f"{header.log_stem(log)}.round{number}")


class _Shared:
    """One run as its judges see it."""

    def __init__(self, path: str, number: int) -> None:
        self.header = msgspec.msgpack.decode(read_bytes(path), type=Header)
        self.round = number
        header = self.header
        records = sum(log.events + log.named for log in header.logs)
        whole = numbering_of(
            header.info.run, header.names, np.array(header.counts, np.int64), {},
            header.bystanders, records,
        )  # fmt: skip
        code_of = whole.codes()
        self.own = [
            numbering_of(log.node, log.names, np.array(log.counts, np.int64), {}, log.bystanders)
            for log in header.logs
        ]
        changes = [
            (
                code_of[log.node],
                tuple(recode(change, rebase.code) for change in log.changes),
            )
            for log, rebase in zip(
                header.logs, [Rebase(own, whole) for own in self.own], strict=True
            )
        ]
        members = tuple(sorted(code_of[name] for name in header.info.members))
        self.run = Run(
            info=header.info, numbering=whole, members=members or founders_among(changes)
        )
        self.changes = changes
        self.group: Group = group_of(self.run.members, changes)
        self.numbers = {node: number for number, (node, _) in enumerate(changes)}

    def log(self, number: int) -> LogIndex:
        """The index of one log in the numbering of the run."""
        path = index_path(self.header.work, self.header.log_stem(number))
        return load_index(path, self.own[number], self.run.numbering)

    def last_delivered(self, node: int) -> Ints:
        """By id: where it is there in the last life of a node."""
        number = self.numbers[node]
        path = index_path(self.header.work, self.header.log_stem(number))
        _, arrays = load(path)
        last = max(int(name.partition(".")[0]) for name in arrays if name.endswith(".delivered"))
        rebase = Rebase(self.own[number], self.run.numbering)
        return rebase.table(arrays[f"{last}.delivered"])

    @cached_property
    def vectors(self) -> Ints:
        """The past of every dot, as far as it is known in this round."""
        run = self.run
        vectors = empty_vectors(run.numbering)
        for number in range(len(self.header.logs)) if run.causal else ():
            if self.round > 1:
                self._take_round(number, vectors)
            else:
                self._take_scan(number, vectors)
        if self.round:
            rise_along_origins(vectors, run.numbering)
        return vectors

    def _take_round(self, number: int, vectors: Ints) -> None:
        _, arrays = load(_round_path(self.header, number, self.round))
        for origin, block in arrays.items():
            vectors[:, self.run.numbering.messages(int(origin))] = block

    def _take_scan(self, number: int, vectors: Ints) -> None:
        _, arrays = load(facts_path(self.header.work, self.header.log_stem(number)))
        rebase = Rebase(self.own[number], self.run.numbering)
        ids, node = rebase.ids(arrays["vector_id"]), self.changes[number][0]
        if not len(ids):
            return
        block = rebase.frontier(arrays["vectors"])
        dense = bool((np.diff(ids) == 1).all())
        where: slice | Ints = slice(int(ids[0]), int(ids[-1]) + 1) if dense else ids
        for origin in range(len(block)):
            if origin != node:
                vectors[origin, where] = block[origin]

    @cached_property
    def facts(self) -> Facts:
        """What the check of one log must know of the others."""
        run = self.run
        sent = np.zeros(run.numbering.total, np.bool_)
        recipients: dict[int, tuple[int, ...]] = {}
        given: dict[int, Ints] = {}
        for number, (node, _) in enumerate(self.changes):
            meta, arrays = load(facts_path(self.header.work, self.header.log_stem(number)))
            rebase = Rebase(self.own[number], run.numbering)
            sent[rebase.ids(arrays["send_id"])] = True
            _, mine = msgspec.msgpack.decode(meta, type=tuple[int, dict[int, tuple[int, ...]]])
            for dot, to in mine.items():
                moved = int(rebase.ids(np.array([dot], np.int32))[0])
                recipients[moved] = tuple(int(rebase.code[code]) for code in to)
            if self.round == 0 and "firsts" in arrays:
                given[node] = arrays["firsts"]
        if self.round:
            own_entries(self.vectors, run.numbering)  # logs that contradict each other
        return Facts(
            run=run,
            group=self.group,
            vectors=self.vectors,
            firsts=_Firsts(self, given),
            sent=sent,
            recipients=recipients,
        )


class _Firsts(Mapping[int, Ints]):
    """By member: by id, its first message at or after the dot; made when it is asked for."""

    def __init__(self, shared: _Shared, given: dict[int, Ints]) -> None:
        self._shared = shared
        self._given = given
        self._made: dict[int, Ints] = {}
        self._none = never_after(shared.run.numbering)

    def __getitem__(self, member: int) -> Ints:
        if self._shared.run.numbering.is_silent(member):
            return self._none
        if member not in self._made:
            if member in self._given:
                self._made[member] = self._moved(member)
            else:
                run = self._shared.run
                self._made[member] = first_at_or_after(run, member, self._shared.vectors)
        return self._made[member]

    def _moved(self, member: int) -> Ints:
        """The table of a scan in the numbering of the run."""
        whole: Numbering = self._shared.run.numbering
        own = self._shared.own[self._shared.numbers[member]]
        rebase = Rebase(own, whole)
        mine = whole.messages(member)
        own_code = own.names.index(whole.names[member])
        given = self._given[member]
        # "None" of a scan is one past the messages it knows; the run may know of more.
        known = given < own.messages(own_code).stop
        moved = np.where(known, given + int(rebase.shift[own_code]), mine.stop)
        table = np.full(whole.total, mine.stop, np.int32)
        for origin, code in enumerate(rebase.origins.tolist()):
            some, new = own.messages(origin), whole.messages(code).start
            table[new : new + some.stop - some.start] = moved[some]
        table[mine] = np.arange(mine.start, mine.stop)
        return table

    def __iter__(self) -> Iterator[int]:
        return iter(self._shared.group.ever)

    def __len__(self) -> int:
        return len(self._shared.group.ever)


_CACHE: Final[dict[tuple[str, int], _Shared]] = {}


def _shared(path: str, number: int) -> _Shared:
    """The run this worker is busy with; the paths of headers are never used twice."""
    key = (path, number)
    if key not in _CACHE:
        _CACHE.clear()
        _CACHE[key] = _Shared(path, number)
    return _CACHE[key]
