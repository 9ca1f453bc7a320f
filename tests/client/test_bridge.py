"""Bridges between real groups, and what crosses them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.client.meshes import each_scheme, run, started
from thence import Delivered, Group
from thence.causal.members import Members
from thence.client.bridge import ENVELOPE_BYTES_MAX, Bridge, Crossing, Forwarded, Side, unwrap
from thence.engine.matrix import SPEC as MATRIX
from thence.engine.plain import PlainTag
from thence.engine.synchronous import SPEC as SYNCHRONOUS
from thence.errors import LimitError, LocalProtocolError, WireError
from thence.message import PAYLOAD_BYTES_MAX

LEFT, RIGHT = ("a", "b", "hub"), ("hub", "x", "y")


@asynccontextmanager
async def joined(
    scheme: str, engines: tuple[str, str], seen: Any = None
) -> AsyncIterator[tuple[dict[str, Group], Bridge]]:
    """Two groups and the bridge between them; the groups of those that are no bridge, by name."""
    async with started(("a", "b", "hub", "x", "y"), scheme) as nodes:
        groups: dict[str, Group] = {}
        ends: list[Group] = []
        for name, members, engine in zip(("left", "right"), (LEFT, RIGHT), engines, strict=True):
            some = {
                node: await nodes[node].group(name, members=members, engine=engine)
                for node in members
            }
            ends.append(some.pop("hub"))
            groups |= some
        for group in (*groups.values(), *ends):
            await group.until_connected()
        bridge = Bridge(*ends, seen=seen)
        running = asyncio.create_task(bridge.run())
        try:
            yield groups, bridge
        finally:
            running.cancel()
            await asyncio.wait([running])


async def texts(group: Group, count: int) -> list[str]:
    """The next messages, those that crossed with who sent them where."""
    found: list[str] = []
    while len(found) < count:
        event = await group.next()
        if isinstance(event, Delivered):
            sender = group.driver.members.names[event.tag.origin]
            if sender == "hub":
                message = unwrap(event.payload)
                text = f"{message.group} {message.sender}:{message.seq} {message.payload.decode()}"
            else:
                text = event.payload.decode()
            found.append(text)
    return found


@each_scheme
def test_a_conversation_over_a_bridge_is_read_in_order_by_all(scheme: str):
    async def main() -> None:
        heard: list[Forwarded] = []
        async with joined(scheme, ("tagged", "matrix"), heard.append) as (groups, bridge):
            await groups["a"].broadcast(b"lunch?")
            assert await texts(groups["x"], 1) == ["left a:1 lunch?"]
            await groups["x"].broadcast(b"yes")
            assert await texts(groups["b"], 2) == ["lunch?", "right x:1 yes"]
            await groups["b"].broadcast(b"when?")
            assert await texts(groups["y"], 3) == ["left a:1 lunch?", "yes", "left b:1 when?"]
            assert await texts(groups["a"], 2) == ["right x:1 yes", "when?"]
            assert bridge.crossed == [2, 1]
            assert [message.payload for message in heard] == [b"lunch?", b"yes", b"when?"]

    run(main())


def test_groups_that_give_messages_back_can_be_joined():
    async def main() -> None:
        async with joined("mem", ("synchronous", "tagged")) as (groups, bridge):
            await groups["x"].broadcast(b"one")
            assert await texts(groups["a"], 1) == ["right x:1 one"]
            await groups["a"].broadcast(b"two")
            assert await texts(groups["x"], 1) == ["left a:1 two"]
            assert bridge.crossed == [1, 1]

    run(main())


def test_many_messages_cross_while_groups_are_slow():
    async def main() -> None:
        async with joined("mem", ("tagged", "tagged")) as (groups, _):
            count = 2000
            reading = [
                asyncio.create_task(texts(groups[name], 2 * count if name in "by" else count))
                for name in "abxy"
            ]
            await asyncio.gather(
                *(groups[name].broadcast_many([b"%d" % n for n in range(count)]) for name in "ax")
            )
            at_a, at_b, at_x, _ = await asyncio.gather(*reading)
            assert at_a == [f"right x:{n + 1} {n}" for n in range(count)]
            assert at_x == [f"left a:{n + 1} {n}" for n in range(count)]
            assert [text for text in at_b if " " not in text] == [str(n) for n in range(count)]

    run(main())


# ---- what crosses --------------------------------------------------------------------------------


def side(*bridges: str, spec: Any = MATRIX) -> Side:
    return Side("left", spec, Members(("a", "b", "hub")), "hub", frozenset(bridges))


def test_what_the_bridge_sent_itself_does_not_cross_back():
    crossing = Crossing(side(spec=SYNCHRONOUS), side())
    assert crossing.read(0, PlainTag(2, 1, b"own")) is None


def test_what_another_bridge_brought_keeps_its_envelope():
    crossing = Crossing(side("b"), side())
    first = Forwarded("far", "z", 9, b"hello")
    assert crossing.read(0, PlainTag(1, 4, Crossing.wrap(first))) == first
    assert crossing.read(0, PlainTag(0, 4, b"hello")) == Forwarded("left", "a", 4, b"hello")


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x90", b"\x94\xa1a\xa1b\x00\xc4\x00"])
def test_nonsense_of_another_bridge_is_refused(payload: bytes):
    with pytest.raises(WireError, match="not a message of a bridge"):
        Crossing(side("b"), side()).read(0, PlainTag(1, 1, payload))


def test_a_payload_that_leaves_no_room_for_the_envelope_is_refused():
    crossing = Crossing(side(), side())
    longest = PAYLOAD_BYTES_MAX - ENVELOPE_BYTES_MAX
    message = crossing.read(0, PlainTag(0, 1, b"." * longest))
    assert message is not None
    assert len(Crossing.wrap(message)) <= PAYLOAD_BYTES_MAX
    with pytest.raises(LimitError, match="does not fit"):
        crossing.read(0, PlainTag(0, 1, b"." * (longest + 1)))


def test_only_causal_groups_can_be_joined():
    from thence.engine.fifo import SPEC as FIFO

    with pytest.raises(LocalProtocolError, match="keeps the order fifo"):
        Crossing(side(), side(spec=FIFO))
