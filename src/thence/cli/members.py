"""What a node says, as a process, of members that come and go, and of its own way into a group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from thence.client.events import (
    Blocked,
    Event,
    Evicted,
    Joined,
    Left,
    Majority,
    Minority,
    Suspected,
    Trusted,
)
from thence.client.group import Group
from thence.client.node import Node
from thence.telemetry.logs import event as log_event

LOOK_S: Final = 0.2
"""How often a newcomer is asked how far it is."""
SILENCE_S: Final = 0.4
"""A way into a group that takes no longer than this is nothing to talk about."""
BYTES_S: Final = 2.0
"""Time between two lines about a state that is on its way."""
NO_HOOKS: Final[Mapping[str, Any]] = MappingProxyType({})
"""Of an application without state of its own."""

_log: Final = logging.getLogger("thence.members")

Say = Callable[[str], None]


def sentence(event: Event) -> str:
    """What happened to the members, for people; empty if that is not what the event is about."""
    if isinstance(event, Joined):
        return f"{event.member} joined (view {event.view})"
    if isinstance(event, Left):
        return f"{event.member} left (view {event.view})"
    if isinstance(event, Evicted):
        return f"{event.member} was evicted (view {event.view})"
    if isinstance(event, Suspected):
        return f"{event.member} is suspected: not heard for {event.silence_s:.1f} s"
    if isinstance(event, Trusted):
        return f"{event.member} is heard again"
    if isinstance(event, Minority):
        away = [name for name in event.members if name not in event.reachable]
        return (
            f"only a minority is reachable: {', '.join(event.reachable)}; not {', '.join(away)}: "
            "nobody can join, leave or be evicted"
        )
    return "most members are reachable again" if isinstance(event, Majority) else ""


def log_change(group: str, event: Event) -> None:
    """Log it, if it is about the members."""
    fields: dict[str, object] = {"group": group}
    for name in ("member", "view", "silence_s", "reachable", "members"):
        if (found := getattr(event, name, None)) is not None:
            fields[name] = ",".join(found) if isinstance(found, tuple) else found
    if isinstance(event, Suspected):
        fields["silence_s"] = f"{event.silence_s:.1f}"
    if sentence(event):
        bad = isinstance(event, Evicted | Suspected | Minority)
        level = logging.WARNING if bad else logging.INFO
        log_event(_log, level, type(event).__name__.lower(), **fields)


def log_full(group: Group, event: Blocked) -> None:
    """Log that broadcasts wait, if it is for members that are away: it may last."""
    away = [name for name in event.waiting_for if name.partition("#")[0] not in group.connected]
    if away:
        outbox = group.driver.exchange.outbox
        log_event(
            _log, logging.WARNING, "writes wait", group=group.name, away=",".join(away),
            messages=outbox.waiting, bytes=outbox.waiting_bytes, unstable=group.driver.unstable,
        )  # fmt: skip


def fate(group: Group) -> str:
    """What is to be said by a node that was evicted."""
    count = len(group.rejected)
    lost = f"{count:,} of its messages were not accepted" if count else "all it sent was accepted"
    return f"{group.node} was evicted from {group.name}: {lost}"


async def enter(
    node: Node, name: str, say: Say, is_again: bool = False, hooks: Mapping[str, Any] = NO_HOOKS
) -> Group:
    """Take part in a group, and say what it waits for if that takes a while."""
    telling = asyncio.ensure_future(_tell(node, name, say))
    try:
        return await (node.rejoin(name, **hooks) if is_again else node.group(name, **hooks))
    finally:
        telling.cancel()


async def _tell(node: Node, name: str, say: Say) -> None:
    await asyncio.sleep(SILENCE_S)
    said, told_bytes, told_at = "", 0, 0.0
    clock = asyncio.get_running_loop().time
    while True:
        newcomer = node.runtime.hub.newcomers.get(name)
        if newcomer is not None:
            if newcomer.waiting_for != said:
                said = newcomer.waiting_for
                say(f"joining {name}: {said}")
            received = newcomer.received_bytes
            if received != told_bytes and clock() >= told_at + BYTES_S:
                told_bytes, told_at = received, clock()
                say(f"joining {name}: {received:,} bytes of the state are here")
        await asyncio.sleep(LOOK_S)


async def tell_connected(node: Node) -> None:
    """Say when all members of its groups are connected."""
    for group in node.groups.values():
        await group.until_connected()
    groups = node.groups.values()
    peers = sorted({name for each in groups for name in each.members if name != each.node})
    say(f"node {node.name} is connected to {', '.join(peers) or 'nobody: alone'}")


def say(sentence: str) -> None:
    """Print a line now, also into a pipe."""
    print(sentence, flush=True)
