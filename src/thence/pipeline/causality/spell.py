"""What was found, spelt out as a table of violations; only counts go back to the driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from thence.trace.files import join, write_file
from thence.trace.numbering import Numbering
from thence.trace.run import LogIndex
from thence.trace.segments import Quarantined
from thence.trace.verdict import Violation

VIOLATIONS: Final = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("node", pa.string(), nullable=False),
        pa.field("pos", pa.int64(), nullable=False),
        pa.field("rule", pa.string(), nullable=False),
        pa.field("dot_node", pa.string()),
        pa.field("dot_seq", pa.int64()),
        pa.field("missing_node", pa.string()),
        pa.field("missing_seq", pa.int64()),
        pa.field("why", pa.string(), nullable=False),
    ]
)


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What the driver learns of a judgement."""

    events: int
    counts: dict[str, int] = {}
    proved: bool = True
    nodes: tuple[str, ...] = ()
    """Those with a record, when a whole run was judged."""
    quarantined: int = 0
    listed: tuple[Quarantined, ...] = ()


def spell(
    run: str, node: str, log: LogIndex, numbering: Numbering, tables: str, stem: str, listed: int
) -> Judged:
    """Write the violations of one log, the first ``listed``, and count all."""
    violations = log.findings.listed(run, node, numbering.dot, listed)
    write_violations(violations, tables, stem)
    return Judged(events=log.events, counts=log.findings.counts())


def write_violations(violations: Sequence[Violation], tables: str, stem: str) -> None:
    """One file of the table of violations; none when there are none."""
    if not violations:
        return
    rows = [
        {
            "run": v.run,
            "node": v.node,
            "pos": v.pos,
            "rule": v.rule,
            "dot_node": None if v.dot is None else v.dot.node,
            "dot_seq": None if v.dot is None else v.dot.seq,
            "missing_node": None if v.missing is None else v.missing.node,
            "missing_seq": None if v.missing is None else v.missing.seq,
            "why": v.why,
        }
        for v in violations
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, VIOLATIONS), sink)
    write_file(join(tables, f"{stem}.parquet"), [sink.getvalue()])
