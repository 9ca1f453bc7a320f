"""One trace record, and what is known of the run it belongs to.

The names of the fields are the trace format (docs/reference/trace.md).  A field that thence does
not know is kept in ``extra`` and written back where it was: another tool's data survives ours.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from thence.causal.dot import SEQ_MAX, Dot

VERSION: Final = 1

SEND: Final = "send"
RECEIVE: Final = "receive"
READY: Final = "ready"
DELIVER: Final = "deliver"
STABLE: Final = "stable"
PHANTOM: Final = "phantom"
SAMPLE: Final = "sample"
JOIN: Final = "join"
LEAVE: Final = "leave"
EVICT: Final = "evict"
SNAPSHOT: Final = "snapshot"
RESTART: Final = "restart"
END: Final = "end"

# In the order of the reference; other kinds are legal, kept and ignored.
KINDS: Final = (
    SEND, RECEIVE, READY, DELIVER, STABLE, PHANTOM, SAMPLE,
    JOIN, LEAVE, EVICT, SNAPSHOT, RESTART, END,
)  # fmt: skip
KINDS_WITH_DOT: Final = frozenset((SEND, RECEIVE, READY, DELIVER, STABLE, PHANTOM))

POS_MAX: Final = (1 << 53) - 1  # exact in a JSON number of any reader
CONTEXT_DOTS_MAX: Final = 1 << 16  # as many origins as there are slots (causal/dot.py)
NAME_CHARS_MAX: Final = 1024
VECTORS_MAX: Final = 1 << 16

Guarantee = Literal["fifo", "causal", "total", "causal-total", "synchronous"]
Tags = Literal["exact", "over", "none"]


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of one node's log."""

    # Defaults from a function are written even where omit_defaults leaves others out.
    v: int = msgspec.field(default_factory=lambda: VERSION)
    run: str
    node: str
    pos: int
    """Position in this node's log, dense from 0."""
    kind: str
    dot: Dot | None = None
    context: tuple[Dot, ...] | None = None
    """On ``send`` and ``phantom``: the immediate predecessors; absent means none.  On ``snapshot``
    and ``restart``: the latest dot of each origin that it contains, or that was confirmed."""
    t_us: int = msgspec.field(default_factory=lambda: 0)
    """The node's clock, microseconds, virtual or real; never compared between nodes."""
    bytes: int | None = None
    payload: Any = None
    to: tuple[str, ...] | None = None
    """Recipients of a multicast; absent means every member.  On ``snapshot`` and ``restart``: the
    members; absent means as before."""
    stream: str | None = None
    words: int | None = None
    peer: str | None = msgspec.field(default=None, name="from")
    stable: tuple[Dot, ...] | None = None
    """On ``snapshot`` and ``restart``: the latest dot of each origin that was told stable."""
    extra: dict[str, Any] = {}
    """Fields this version does not know, under their own names."""


# What a JSON object may call its own; ``extra`` is ours and never a key of the format.
RECORD_FIELDS: Final = frozenset(
    field.encode_name for field in msgspec.structs.fields(Record) if field.name != "extra"
)


def record_to_json(record: Record) -> bytes:
    """One line of JSON, without the newline; ``v`` and ``t_us`` are always written."""
    if not record.extra:
        return msgspec.json.encode(record)
    fields = msgspec.to_builtins(record)
    extra = fields.pop("extra")
    fields.update((name, value) for name, value in extra.items() if name not in RECORD_FIELDS)
    return msgspec.json.encode(fields)


def record_from_json(line: bytes) -> Record:
    """The record on one line; msgspec.MsgspecError (a ValueError) says which field is wrong."""
    fields = msgspec.json.decode(line, type=dict[str, Any])
    extra = {name: value for name, value in fields.items() if name not in RECORD_FIELDS}
    known = {name: value for name, value in fields.items() if name in RECORD_FIELDS}
    return msgspec.convert(known | {"extra": extra}, Record)


def version_fault(version: int | None) -> str:
    """What to say of another version of the format than ours."""
    if version is not None and version > VERSION:
        return f"v: expected {VERSION}, got {version}: a newer thence wrote it; upgrade"
    return f"v: expected {VERSION}" + ("" if version is None else f", got {version}")


def fault(record: Record) -> str | None:
    """What is wrong with a record whose types are right, or None."""
    if record.v != VERSION:
        return version_fault(record.v)
    if not 0 <= record.pos <= POS_MAX:
        return f"pos: expected 0 to 2**53-1, got {record.pos}"
    if not -(1 << 63) <= record.t_us < 1 << 63:
        return f"t_us: expected a 64-bit integer, got {record.t_us}"
    if not _is_name(record.node) or "/" in record.node:
        return f"node: expected a name without '/', got {record.node[:40]!r}"
    if not _is_name(record.run):
        return f"run: expected a name, got {record.run[:40]!r}"
    if not record.kind:
        return "kind: expected a word, got ''"
    if record.dot is None:
        if record.kind in KINDS_WITH_DOT:
            return f"dot: a {record.kind} record needs [node, seq]"
    elif (wrong := dot_fault(record.dot)) is not None:
        return f"dot: {wrong}"
    for name, dots in (("context", record.context), ("stable", record.stable)):
        if dots is None:
            continue
        if len(dots) > CONTEXT_DOTS_MAX:
            return f"{name}: expected at most {CONTEXT_DOTS_MAX} dots, got {len(dots)}"
        for at, dot in enumerate(dots):
            if (wrong := dot_fault(dot)) is not None:
                return f"{name}[{at}]: {wrong}"
    for name, size in (("bytes", record.bytes), ("words", record.words)):
        if size is not None and not 0 <= size < 1 << 63:
            return f"{name}: expected a size, got {size}"
    return None


def dot_fault(dot: Dot) -> str | None:
    """What is wrong with a dot read from outside, or None."""
    if not _is_name(dot.node):
        return f"expected the name of a node, got {dot.node[:40]!r}"
    if not 1 <= dot.seq <= SEQ_MAX:
        return f"expected a seq from 1 to 2**40-1, got {dot.seq}"
    return None


def _is_name(text: str) -> bool:
    return 0 < len(text) <= NAME_CHARS_MAX


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """``run.json``: what the checker must know that no record says."""

    v: int = VERSION
    run: str
    engine: str = ""
    members: tuple[str, ...] = ()
    complete: bool = False
    """True: the run ended of its own accord, so what never happened is missing."""
    guarantee: Guarantee = "causal"
    tags: Tags = "exact"
    stability: bool = True
    """False: the engine computes no stability, so none can be missing."""
    vectors: Annotated[int, msgspec.Meta(ge=0, le=VECTORS_MAX)] = 0
    """Vectors with an entry for each member that travel with a message; 0: only the context."""
    scenario: dict[str, Any] = {}
    extra: dict[str, Any] = {}


INFO_FIELDS: Final = frozenset(field for field in RunInfo.__struct_fields__ if field != "extra")


def info_to_json(info: RunInfo) -> bytes:
    """The text of ``run.json``: the same info gives the same bytes."""
    fields = msgspec.to_builtins(info)
    extra = fields.pop("extra")
    fields.update((name, value) for name, value in extra.items() if name not in INFO_FIELDS)
    return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"


def info_from_json(text: bytes) -> RunInfo:
    """What ``run.json`` says; msgspec.MsgspecError (a ValueError) says which field is wrong."""
    fields = msgspec.json.decode(text, type=dict[str, Any])
    extra = {name: value for name, value in fields.items() if name not in INFO_FIELDS}
    known = {name: value for name, value in fields.items() if name in INFO_FIELDS}
    info = msgspec.convert(known | {"extra": extra}, RunInfo)
    if info.v != VERSION:
        raise msgspec.ValidationError(version_fault(info.v))
    return info
