"""What every engine is: a client process and a middleware process, as in the thesis (4.2.1).

The *client* lives with the application.  It tags a message at the moment of the call with what the
application has consumed, and moves its knowledge when the application takes an event.  The
*engine* (the middleware) orders what arrives and says what is ready and what is stable.  They are
joined by two FIFO queues that belong to the driver (or to the simulator, which interleaves them):

    application -> client.broadcast -> [queue] -> engine.broadcast -> effects.send -> peers
    peers -> engine.receive -> effects.deliver/stable -> [queue] -> client.consume/stabilised
    client.stabilised -> [queue] -> engine.forget

Both halves are pure: no clock, no socket, no randomness.  The same state and input give the same
effects under any hash seed.  A peer's nonsense becomes a ``Reject`` effect, never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, get_args

import msgspec

from thence.causal.members import Members
from thence.engine.effects import Effects
from thence.engine.reject import Waiting
from thence.errors import LocalProtocolError
from thence.message import Phantom, WireMessage

PENDING_PER_ORIGIN_MAX = 65_536

Guarantee = Literal["fifo", "causal", "total", "causal-total", "synchronous"]
Reach = Literal["broadcast", "multicast", "unicast"]
TagKind = Literal["exact", "over", "none"]
Concurrent = Literal["deliver", "flag", "refuse", "branch"]


class EngineOptions(msgspec.Struct, frozen=True):
    """What a user may choose.  An engine ignores what it does not have."""

    stability: bool = True
    stability_batch: int = 0
    """Messages taken between stability passes; 1 tells each at once, 0 is amortised."""
    k: int = 0
    """Report messages known to have been consumed by this many members; 0 reports none."""
    pending_per_origin_max: int = PENDING_PER_ORIGIN_MAX
    """Messages of one origin that are held back at most, from 1."""
    concurrent: Concurrent = "deliver"
    """What becomes of a message that is concurrent with one sent or taken here before it, where the
    engine can tell (engine/branches.py)."""
    clock: Callable[[int], int] | None = None
    """The time at the member in a slot, in microseconds, never negative: for engines that are
    ``timed``.  Simulator and real nodes set it if it is not given."""
    wait_us: int = 0
    """How long after it was sent a ``timed`` engine holds a message back for earlier ones."""

    def __post_init__(self) -> None:
        if self.stability_batch < 0 or self.k < 0:
            raise LocalProtocolError("stability_batch and k are 0 (off) or more")
        if self.pending_per_origin_max < 1:
            raise LocalProtocolError("pending_per_origin_max is at least 1")
        if self.wait_us < 0:
            raise LocalProtocolError("wait_us is 0 or more")
        if self.concurrent not in get_args(Concurrent):
            raise LocalProtocolError(f"concurrent is one of {', '.join(get_args(Concurrent))}")


class EngineTag(Protocol):
    """What simulator, trace and oracle need of any engine's tag."""

    @property
    def origin(self) -> int:
        """Slot of the sender."""

    @property
    def seq(self) -> int:
        """Sequence number at the sender, from 1."""

    @property
    def payload(self) -> bytes: ...

    @property
    def predecessors(self) -> tuple[int, ...] | None:
        """Immediate predecessors as sorted packed dots; None for engines that tag by vectors."""

    @property
    def vector(self) -> tuple[int, ...] | None:
        """Messages per slot in the causal past, itself included; None for engines of dots."""


class Client(Protocol):
    """The client process: the application's side of a node."""

    def broadcast(self, payload: bytes) -> EngineTag:
        """Tag a message now; the returned tag goes to ``engine.broadcast`` through the queue."""

    def consume(self, tag: Any) -> None:
        """The application takes this delivery; called before its code runs."""

    def stabilised(self, tag: Any) -> None:
        """The application takes this stable event; then the tag goes to ``engine.forget``."""

    def phantom(self) -> Phantom | None:
        """What was consumed, for ``engine.announce``; None where there are no phantoms."""


class Engine(Protocol):
    """The middleware process: one step per call, effects into ``out``."""

    def broadcast(self, tag: Any, out: Effects) -> None:
        """Take a message from the client's queue."""

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """Take a phantom from the client's queue."""

    def forget(self, tag: Any) -> None:
        """The application has consumed the stable event of this tag."""

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """A message or phantom arrived from the peer in that slot."""

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """The same for a batch."""

    def flush(self, out: Effects) -> None:
        """Find everything that is stable by now (the idle timer calls this)."""

    def waiting(self) -> list[Waiting]:
        """Messages held back, sorted by dot, each with one missing predecessor."""

    def words(self) -> int:
        """Metadata held, in words of 8 bytes, counted by the thesis' method (8.3.1)."""


WORD_BYTES = 8


def memory_bytes(engine: Engine) -> int:
    """Metadata held, in bytes, by the same count; what travels is ``codec.metadata_bytes``."""
    return engine.words() * WORD_BYTES


class EngineSpec(msgspec.Struct, frozen=True):
    """One line of ``ENGINES``: what it guarantees, as data, and how to make one."""

    name: str
    summary: str
    guarantee: Guarantee
    tags: TagKind
    stability: bool
    phantoms: bool
    make: Callable[[Members, int, EngineOptions], tuple[Client, Engine]]
    """``make(members, my_slot, options)``"""
    k_stability: bool = False
    """Whether it reports messages known to k members (``EngineOptions.k``)."""
    streams: bool = False
    """Whether its client takes ``after=``, ``ordered=`` and ``stream=`` (engine/tagger.py)."""
    vectors: int = 0
    """Vectors with an entry for each member that travel with a message; 0 for engines of dots."""
    reach: tuple[Reach, ...] = ("broadcast",)
    """Whom one call can send to: everyone, some, one; the last two by ``to=``, a list of slots."""
    stamped: bool = False
    """Whether it orders by ``Stamped`` messages, and may send some members only, or later."""
    relays: bool = False
    """Whether messages of one member may come through another."""
    fifo_links: bool = False
    """Whether the guarantee needs links that bring messages in the order of sending."""
    timed: bool = False
    """Whether it reads a clock (``EngineOptions.clock``); its engine has ``due``, which says when
    it has to be flushed."""
    own: bool = False
    """Whether a sender gets its own messages back, in their place in the order."""
    survives: bool = False
    """Whether it goes on when members crash, once that is certain (``crashed``)."""

    @property
    def multicast(self) -> bool:
        """Whether its client takes ``to=``."""
        return "multicast" in self.reach
