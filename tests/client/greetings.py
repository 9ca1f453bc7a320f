"""What a peer says, in tests of a hub."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.client.fakes import FakeConnection
from thence.client.hub import Hub
from thence.wire import talk


def array(*fields: Any) -> bytes:
    return msgspec.msgpack.encode(list(fields))


def hello(
    node: str = "b", boot: int = 1, least: int = 1, most: int = 1, is_newcomer: bool = False
) -> tuple[int, bytes]:
    return talk.HELLO, array("thence", least, most, node, boot, "test", is_newcomer)


def opening(
    channel: int = 0, group: str = "g", members: tuple[str, ...] = ("a", "b", "c"), have: int = 0,
    limit: int = 100, engine: str = "tagged", stability: bool = True,
) -> tuple[int, bytes]:  # fmt: skip
    said = talk.Open(channel, group, engine, members, have, limit, 1 << 30, stability)
    return talk.OPEN, msgspec.msgpack.encode(said)


def greeted(
    hub: Hub, node: str = "b", boot: int = 1, dialled: bool = False, now: float = 0.0,
    is_newcomer: bool = False,
) -> FakeConnection:  # fmt: skip
    """A connection on which a peer said who it is."""
    connection = FakeConnection(dialled)
    hub.connected(connection, node if dialled else "", now)
    hub.received(connection, [hello(node, boot, is_newcomer=is_newcomer)], now)
    return connection


def refusal(connection: FakeConnection) -> tuple[int, str]:
    """Why it was refused; it is closed then."""
    assert connection.closed is not None
    kind, body = connection.said()[-1]
    assert kind == talk.REFUSE
    said = talk.read(body, talk.Refuse)
    return said.code, said.sentence
