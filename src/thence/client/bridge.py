"""``Bridge``: two groups joined through a node that is a member of both (Garg's problem 12.7; the
interconnection servers of the thesis, 2.4.3.4).

Each group keeps its own engine, and its metadata is as large as the group, not as all groups.  The
bridge takes what is delivered in one group and broadcasts it in the other, in the order in which it
takes it.  That is causal across both: what a message of one group has in its past there was taken
by the bridge before it, and so was sent on before it; and what the bridge brings back comes, in
each group, after everything that the bridge had taken there.  So it is with more groups, as long as
groups and bridges form a tree: with a circle a message would come to a group twice.

What crosses says where it is from (``Forwarded``, read with ``unwrap``), because in the other group
its sender is the bridge.  What is for some members only crosses if the bridge is among them, and is
for everyone then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final

import msgspec

from thence.causal.members import Members
from thence.client.events import Delivered
from thence.client.group import Group
from thence.engine.base import EngineSpec
from thence.errors import Full, LimitError, LocalProtocolError, WireError
from thence.message import PAYLOAD_BYTES_MAX, Seq

ENVELOPE_BYTES_MAX: Final = 4096
"""Room for where it is from: a payload that is to cross is shorter than others by this."""
CAUSAL: Final = ("causal", "causal-total", "synchronous")
"""Guarantees of groups that can be joined; with others nothing would be causal across them."""
_NAME = Annotated[str, msgspec.Meta(max_length=256)]


class Forwarded(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message that came over a bridge."""

    group: _NAME
    """Where it was sent."""
    sender: _NAME
    """Who sent it there; with the stream, if it was on one (``a/s``)."""
    seq: Seq
    payload: bytes


_decode: Final = msgspec.msgpack.Decoder(Forwarded).decode
_encode: Final = msgspec.msgpack.Encoder().encode


def unwrap(payload: bytes) -> Forwarded:
    """What a bridge sent on; WireError if that cannot be.  Whether a message is of a bridge its
    sender's name says."""
    try:
        return _decode(payload)
    except msgspec.MsgspecError as error:
        raise WireError(f"not a message of a bridge: {error}") from error


class Side(msgspec.Struct, frozen=True):
    """One of the two groups, seen by the bridge."""

    group: str
    spec: EngineSpec
    members: Members
    name: str
    """Of the bridge in this group."""
    bridges: frozenset[str] = frozenset()
    """Other members that are bridges: what they send has its envelope."""


class Crossing:
    """What crosses, and in which form: the rules of a bridge without IO, for real and simulated
    groups."""

    def __init__(self, one: Side, other: Side) -> None:
        for side in (one, other):
            if side.spec.guarantee not in CAUSAL:
                raise LocalProtocolError(
                    f"group {side.group} keeps the order {side.spec.guarantee}: a bridge needs "
                    f"groups that keep one of {', '.join(CAUSAL)}"
                )
        self.sides = (one, other)

    def read(self, side: int, tag: Any) -> Forwarded | None:
        """A delivery of one side: what is to be sent on.  None for what the bridge itself sent
        there; WireError for nonsense of another bridge, LimitError for what is too long."""
        here = self.sides[side]
        name = here.members.names[tag.origin]
        if name == here.name:
            return None
        if len(tag.payload) > PAYLOAD_BYTES_MAX - ENVELOPE_BYTES_MAX:
            raise LimitError(f"a payload of {len(tag.payload)} bytes does not fit an envelope")
        if name in here.bridges:
            return unwrap(tag.payload)
        stream = getattr(tag, "stream", "")
        sender = f"{name}/{stream}" if stream else name
        return Forwarded(here.group, sender, tag.seq, tag.payload)

    @staticmethod
    def wrap(message: Forwarded) -> bytes:
        """The payload for the other side."""
        return _encode(message)


class Bridge:
    """A bridge between two groups of one node: ``async with node: await Bridge(one, other).run()``.

    It takes all events of both groups.  What the node's own application wants to read it gets by
    ``seen``, which is called with each message before it crosses.
    """

    def __init__(
        self,
        one: Group,
        other: Group,
        *,
        bridges: Iterable[str] = (),
        seen: Callable[[Forwarded], None] | None = None,
    ) -> None:
        """``bridges``: members of either group that are bridges to further groups."""
        self._groups = (one, other)
        names = frozenset(bridges)
        self._crossing = Crossing(*(_side(group, names) for group in self._groups))
        self._seen = seen
        self.crossed = [0, 0]
        """Messages that were sent on, from each side."""
        self.refused = 0
        """Messages that were not, because they are too long or no message of a bridge."""

    async def run(self) -> None:
        """Carry messages until one of the groups is closed, or until cancelled.

        A message is taken when the one before it was accepted on the other side: a full group holds
        back what comes from the other, and nothing piles up here.
        """
        async with asyncio.TaskGroup() as tasks:
            both = [tasks.create_task(self._carry(side)) for side in (0, 1)]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in both:
                task.cancel()

    async def _carry(self, side: int) -> None:
        there = self._groups[1 - side]
        async for event in self._groups[side].events():
            if not isinstance(event, Delivered):
                continue
            try:
                message = self._crossing.read(side, event.tag)
                if message is None:
                    continue
                if self._seen is not None:
                    self._seen(message)
                await there.broadcast(Crossing.wrap(message))
                self.crossed[side] += 1
            except Full:
                raise  # broadcast waits for room: this cannot be
            except (LimitError, WireError) as error:
                self._refuse(side, error)

    def _refuse(self, side: int, error: Exception) -> None:
        self.refused += 1
        group = self._groups[side].name
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"a message of group {group} did not cross", "exception": error}
        )


def _side(group: Group, bridges: frozenset[str]) -> Side:
    driver = group.driver
    return Side(driver.group, driver.spec, driver.members, driver.name, bridges - {driver.name})
