"""Causal order as a pair of filters (Dewan's slides 39 to 42 and 57 to 62).

The group below need not know of causality: the send filter stamps messages with a vector of counts,
the receive filter holds back what comes too early.  Both share a *causality manager*, which has the
vector.  What to do with a message that is concurrent with what was delivered is a policy:

    deliver    it is delivered in its turn, as any other
    flag       the same, with ``Passing.flag`` set to ``concurrent``
    refuse     the same with ``refused``: it is the application that can tell its sender
    branch     the tree of message paths: each path has its own vector, and ``flag`` is its number.
               A message goes on with the path that it comes after; one that comes after none begins
               another one; one that comes after several ends all but the first of them

The steps that the slides trace have their names here (``STEPS``), and go to ``steps``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from thence.client.filter_kinds import HELD_MAX
from thence.client.filters import Filter, Passing, Pipes
from thence.errors import LimitError, WireError

Concurrent = Literal["deliver", "flag", "refuse", "branch"]
STEPS: Final = (
    "VectorTimeStampCreated",
    "UserAddedToVectorTimeStamp",
    "LocalCountIncrementedInSiteVectorTimeStamp",
    "VectorTimeStampedMessageSent",
    "VectorTimeStampedMessageReceived",
    "ConcurrentVectorTimeStampedMessageDetected",
    "VectorTimeStampedMessageBuffered",
    "VectorTimeStampedMessageRemovedFromBuffer",
    "VectorTimeStampCopiedAndNewBufferCreated",
    "VectorTimeStampedMessageDelivered",
)
"""What the slides trace, in the order in which a message meets it."""


class _Stamped(msgspec.Struct, frozen=True, array_like=True):
    vector: list[int]
    payload: bytes


_decoder: Final = msgspec.msgpack.Decoder(_Stamped)


class CausalityManager:
    """The vector of one member, and what is held back there."""

    def __init__(
        self, member: str, members: Sequence[str], concurrent: Concurrent = "deliver",
        steps: Callable[[str, Any], None] | None = None,
    ) -> None:  # fmt: skip
        """``steps`` is called with the name of each step and what it is about."""
        self._members = sorted(members)
        self._me = self._members.index(member)
        self._policy = concurrent
        self._step = steps or (lambda step, about: None)
        self._step("VectorTimeStampCreated", len(self._members))
        for each in self._members:
            self._step("UserAddedToVectorTimeStamp", each)
        self.vector = [0] * len(self._members)
        """Messages delivered of each member; of this one, sent."""
        self._held: list[tuple[int, list[int], Passing]] = []
        self._branches: dict[int, list[int]] = {}  # the newest vector of each path
        self._paths = 0

    def pipes(self) -> Pipes:
        """The two filters."""
        return Pipes([_Send(self)], [_Receive(self)])

    def stamp(self, message: Passing) -> Passing:
        """Count a message of this member, and put the counts before its payload."""
        self.vector[self._me] += 1
        self._step("LocalCountIncrementedInSiteVectorTimeStamp", list(self.vector))
        payload = msgspec.msgpack.encode(_Stamped(self.vector, message.payload))
        self._step("VectorTimeStampedMessageSent", list(self.vector))
        if self._policy == "branch":
            self._branch(list(self.vector))
        return replace(message, payload=payload)

    def receive(self, message: Passing) -> list[Passing]:
        """What may be delivered now that this came."""
        stamped = self._read(message)
        origin, vector = self._members.index(message.origin), stamped.vector
        self._step("VectorTimeStampedMessageReceived", vector)
        if vector[origin] <= self.vector[origin]:
            return []  # it is here already
        if len(self._held) >= HELD_MAX:
            raise LimitError(f"more than {HELD_MAX} messages are held back")
        self._held.append((origin, vector, replace(message, payload=stamped.payload)))
        self._step("VectorTimeStampedMessageBuffered", vector)
        found: list[Passing] = []
        while ready := next((each for each in self._held if self._is_next(each)), None):
            self._held.remove(ready)
            self._step("VectorTimeStampedMessageRemovedFromBuffer", ready[1])
            found.append(self._deliver(*ready))
        return found

    def _read(self, message: Passing) -> _Stamped:
        try:
            stamped = _decoder.decode(message.payload)
        except msgspec.MsgspecError as error:
            raise WireError(f"{message.origin} sent no vector: {error}") from error
        if len(stamped.vector) != len(self._members) or message.origin not in self._members:
            raise WireError(f"{message.origin} sent a vector of other members")
        return stamped

    def _is_next(self, held: tuple[int, list[int], Passing]) -> bool:
        origin, vector, _ = held
        return vector[origin] == self.vector[origin] + 1 and all(
            count <= self.vector[slot] for slot, count in enumerate(vector) if slot != origin
        )

    def _deliver(self, origin: int, vector: list[int], message: Passing) -> Passing:
        is_concurrent = any(
            count < self.vector[slot] for slot, count in enumerate(vector) if slot != origin
        )
        if is_concurrent:
            self._step("ConcurrentVectorTimeStampedMessageDetected", vector)
        flag = ""
        if self._policy == "branch":
            flag = str(self._branch(vector))
        elif is_concurrent:
            flag = {"deliver": "", "flag": "concurrent", "refuse": "refused"}[self._policy]
        self.vector[origin] = vector[origin]
        self._step("VectorTimeStampedMessageDelivered", vector)
        return replace(message, flag=flag)

    def _branch(self, vector: list[int]) -> int:
        """The number of the path that a message goes on with.  There are never more paths than
        members: their vectors are concurrent."""
        before = [
            number
            for number, newest in self._branches.items()
            if all(one <= other for one, other in zip(newest, vector, strict=True))
        ]
        if not before:
            self._paths += 1
            before = [self._paths]
            self._step("VectorTimeStampCopiedAndNewBufferCreated", vector)
        for ended in before[1:]:
            del self._branches[ended]
        self._branches[before[0]] = vector
        return before[0]

    def drain(self) -> list[Passing]:
        """Everything that is held back, in the order in which it came."""
        held, self._held = self._held, []
        return [message for _, _, message in held]


class _Send(Filter):
    name = "causal"

    def __init__(self, manager: CausalityManager) -> None:
        self._manager = manager

    def feed(self, message: Passing, now: float) -> Sequence[Passing]:
        return (self._manager.stamp(message),)


class _Receive(Filter):
    name = "causal"

    def __init__(self, manager: CausalityManager) -> None:
        self._manager = manager

    def feed(self, message: Passing, now: float) -> Sequence[Passing]:
        return self._manager.receive(message)

    def drain(self) -> Sequence[Passing]:
        return self._manager.drain()
