"""``thence status``: what a running node says of itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from thence.config import SETTINGS, STATUS_ADDRESS, split_address
from thence.errors import UnusableInputError
from thence.telemetry.asking import decode, fetch
from thence.telemetry.snapshot import (
    GroupNumbers,
    MemberNumbers,
    MembershipNumbers,
    PeerNumbers,
    Status,
)


def command(
    address: str | None = None,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    timeout_s: float = 5.0,
) -> int:
    """Show what a running node says of itself; exit code 0 ready, 1 not ready, 2 unreachable.

    Parameters
    ----------
    address
        HOST:PORT that the node was given as `--status`. Default: THENCE_STATUS, or 127.0.0.1:9464.
    as_json
        Print the JSON object that the node answered instead of tables.
    timeout_s
        How long to wait for the answer, in seconds.
    """
    where, host_port = where_of(address)
    if not 0 < timeout_s <= 3600:
        raise UnusableInputError(f"timeout {timeout_s:g}: expected more than 0, at most 3600 s")
    body = fetch(*host_port, timeout_s)
    status = decode(where, body)
    if as_json:
        print(msgspec.json.format(body, indent=2).decode())
    else:
        print(text(status), end="")
    return 0 if status.ready else 1


def where_of(address: str | None) -> tuple[str, tuple[str, int]]:
    """The status page that is meant, as text and as (host, port)."""
    where = address or os.environ.get(SETTINGS["status"].variable) or STATUS_ADDRESS
    host_port = split_address(where)
    if host_port is None:
        raise UnusableInputError(f"{where!r} is no address; expected HOST:PORT")
    return where, host_port


# ---- for people -------------------------------------------------------------------------------

GROUP_COLUMNS: Final = (
    "group", "engine", "sent", "delivered", "stable", "held back", "waiting for", "unstable",
    "lag ms p50", "p99", "outbox", "outbox bytes", "events", "journal bytes",
)  # fmt: skip
PEER_COLUMNS: Final = (
    "peer", "connected", "bytes sent", "received", "backlog", "credit", "sent again",
    "reconnects", "rtt ms", "address",
)  # fmt: skip
MEMBERSHIP_COLUMNS: Final = (
    "elastic", "view", "members", "suspected", "state", "changes", "handed over", "newcomers",
    "kept bytes", "in journal",
)  # fmt: skip
MEMBER_COLUMNS: Final = ("member", "group", "state", "silent s", "address")
STATES: Final = {"self": "this node", "condemned": "to be evicted"}


def text(status: Status) -> str:
    """Who it is and whether it is ready; a row per group, of elastic groups one more and a row per
    member; a row per peer; what was refused."""
    snapshot = status.snapshot
    state = "ready" if status.ready else f"NOT READY: {status.why or 'it does not say why'}"
    who = f"node {snapshot.node}, thence {snapshot.version or '?'}"
    lines = [f"{who}, up {_age(snapshot.uptime_s)}: {state}"]
    if snapshot.groups:
        lines += ["", *_aligned([GROUP_COLUMNS, *map(_group_row, snapshot.groups)])]
    for each in snapshot.joining:
        received = f"; {each.received_bytes:,} bytes received" if each.received_bytes else ""
        lines += ["", f"joining {each.group}: {each.waiting_for}{received}"]
    elastic = [(each.name, each.membership) for each in snapshot.groups if each.membership]
    if elastic:
        members = [(name, each) for name, numbers in elastic for each in numbers.members]
        lines += ["", *_aligned([MEMBERSHIP_COLUMNS, *(_view_row(*each) for each in elastic)])]
        lines += ["", *_aligned([MEMBER_COLUMNS, *(_member_row(*each) for each in members)])]
    if snapshot.peers:
        lines += ["", *_aligned([PEER_COLUMNS, *map(_peer_row, snapshot.peers)])]
    if snapshot.rejected:
        counts = (f"{reason} {count:,}" for reason, count in sorted(snapshot.rejected.items()))
        lines += ["", f"refused: {', '.join(counts)}"]
    return "".join(f"{_printable(line)}\n" for line in lines)


def _group_row(group: GroupNumbers) -> tuple[str, ...]:
    def fill(queue: str) -> str:
        held, limit = getattr(group, queue), group.limits.get(queue)
        return f"{held:,}" if limit is None else f"{held:,}/{limit:,}"

    most = max(group.blocked_on, key=lambda peer: (group.blocked_on[peer], peer), default="-")
    return (
        group.name,
        group.engine or "-",
        f"{group.sent:,}",
        f"{group.delivered:,}",
        f"{group.stable:,}",
        fill("pending"),
        most,
        fill("unstable"),
        _ms(group.lag.quantile_s(0.5)),
        _ms(group.lag.quantile_s(0.99)),
        fill("outbox_messages"),
        fill("outbox_bytes"),
        fill("events_waiting"),
        fill("journal_bytes"),
    )


def _view_row(group: str, membership: MembershipNumbers) -> tuple[str, ...]:
    state = "minority" if membership.minority else "majority"
    if membership.out or membership.leaving:
        state = "out" if membership.out else "leaving"
    return (
        group,
        f"{membership.view:,}",
        f"{len(membership.members):,}",
        f"{membership.suspects:,}",
        state,
        f"{membership.changes:,}",
        f"{membership.handovers:,}",
        f"{membership.newcomers:,}",
        f"{membership.kept_bytes:,}",
        f"{membership.shelved_bytes:,}",
    )


def _member_row(group: str, member: MemberNumbers) -> tuple[str, ...]:
    return (
        member.name,
        group,
        STATES.get(member.state, member.state),
        "-" if member.silence_s is None else f"{member.silence_s:,.1f}",
        member.address or "-",
    )


def _peer_row(peer: PeerNumbers) -> tuple[str, ...]:
    return (
        peer.name,
        "yes" if peer.connected else "no",
        f"{peer.bytes_sent:,}",
        f"{peer.bytes_received:,}",
        f"{peer.backlog_bytes:,}",
        f"{peer.credit_messages:,}",
        f"{peer.retransmissions:,}",
        f"{peer.reconnects:,}",
        _ms(peer.rtt_s),
        peer.address or "-",
    )


def _ms(seconds: float | None) -> str:
    """Lag is known to the bounds of its buckets only, hence ``>``."""
    if seconds is None:
        return "-"
    if seconds == float("inf"):
        return ">10,000"
    ms = seconds * 1000
    return f"{ms:,.0f}" if ms >= 1000 else f"{ms:.4g}"


def _age(uptime_s: float) -> str:
    minutes, seconds = divmod(int(uptime_s), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Names to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines


def _printable(line: str) -> str:
    return line if line.isprintable() else ascii(line)[1:-1]
