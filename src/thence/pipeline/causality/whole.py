"""A run checked by one task, with the code of the local checker."""

from __future__ import annotations

import msgspec

from thence.pipeline.causality.pieces import Piece, read_pieces
from thence.pipeline.causality.spell import Judged, write_violations
from thence.trace.check import check_run
from thence.trace.columns import gather_runs, used_codes
from thence.trace.record import RunInfo
from thence.trace.segments import Quarantine


class WholeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    run: str
    info: RunInfo
    members: tuple[str, ...]
    pieces: tuple[Piece, ...]
    tables: str
    stem: str
    listed: int


def check_whole(spec: WholeSpec) -> Judged:
    """Check one run."""
    quarantine = Quarantine()
    parts = read_pieces(spec.pieces, quarantine)
    found = [run for run in gather_runs(parts, spec.members) if run.run == spec.run]
    listed = tuple(quarantine.listed)
    if not found:
        return Judged(events=0, quarantined=quarantine.count, listed=listed)
    columns = found[0]
    verdict = check_run(columns, spec.info, spec.listed)
    write_violations(verdict.violations, spec.tables, spec.stem)
    return Judged(
        events=verdict.events,
        counts=verdict.counts,
        nodes=tuple(columns.names[code] for code in used_codes(columns.node, len(columns.names))),
        quarantined=quarantine.count,
        listed=listed,
    )
