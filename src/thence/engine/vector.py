"""``vector``: the thesis' vector-based engine, algorithms 6 (client) and 7 (middleware).

Without stability it is algorithms 2 and 3.  It is kept faithful, scans and all: it is what the
flagship is measured against.

Theory of operation
    The client counts what its application has consumed of each origin, and tags a message at the
    call with those counts, itself included.  The middleware counts what it has delivered; a message
    of j is ready when it is the next of j and counts of the others nothing that is not delivered.
    What is not ready goes into the delivery queue, which is scanned from the start as long as a
    scan delivers something.  Stability is in engine/matrix_stability.py.

Invariants
    ``delivered[j]`` messages of j were handed over, the first so many, in order.  ``pending`` has
    exactly the dots of the delivery queue.  Between steps nothing in the queue is ready.

Differences from the thesis, each with a test in tests/thesis/test_errata.py
    2:6, 6:6    V := V[i]+1 would replace the vector by a number; the entry is incremented.
    2:8, 6:8    the message gets a copy of V, not V itself.
    3:13, 7:23  R counts arrivals, so message 1 is dropped when 2 comes first; here the dots in the
                queue are remembered.  R is still counted in ``words``.
    3:16, 7:27  V[j] is advanced on immediate delivery too, before the message is handed over.
    3:38, 7:63  a message that stays is moved to DQ[to], not overwritten by it.
    7:38-41, 73 in engine/matrix_stability.py.
    3:12, 7:22  input is checked, and the distance ahead of V[j] is bounded
                (tests/engine/test_vector.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from thence.causal.dot import pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.matrix_stability import MatrixStability
from thence.engine.reject import DUPLICATE, WRONG_KIND, Reject, Waiting
from thence.engine.vector_rules import is_ready, refusal, waiting
from thence.errors import LimitError, LocalProtocolError
from thence.message import PAYLOAD_BYTES_MAX, Phantom, VectorMessage, WireMessage


class VectorTag(msgspec.Struct, frozen=True, gc=False):
    """A message and how many messages of each slot are in its causal past, itself included."""

    origin: int
    seq: int
    vector: tuple[int, ...]
    payload: bytes

    @property
    def predecessors(self) -> tuple[int, ...] | None:
        """This engine tags by vectors."""
        return None


class VectorClient:
    """Algorithm 6: the application's side."""

    __slots__ = ("_slot", "_vector")

    def __init__(self, size: int, slot: int) -> None:
        self._slot = slot
        self._vector = [0] * size

    def broadcast(self, payload: bytes) -> VectorTag:
        """6:5-8."""
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise LimitError(f"a payload has at most {PAYLOAD_BYTES_MAX} bytes")
        self._vector[self._slot] += 1
        return VectorTag(self._slot, self._vector[self._slot], tuple(self._vector), payload)

    def consume(self, tag: VectorTag) -> None:
        """6:10-12."""
        self._vector[tag.origin] = tag.seq

    def stabilised(self, tag: VectorTag) -> None:
        """6:13-14: the client keeps nothing."""

    def phantom(self) -> None:
        """There are none."""


class VectorEngine:
    """Algorithm 7: the middleware."""

    __slots__ = (
        "_delivered",
        "_members",
        "_pending",
        "_pending_max",
        "_queue",
        "_slot",
        "_stability",
    )

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        self._members = members
        self._slot = slot
        self._pending_max = max(1, options.pending_per_origin_max)
        self._delivered = [0] * len(members.names)
        self._queue: list[VectorMessage] = []
        self._pending: set[int] = set()
        self._stability = MatrixStability(slot, self._delivered) if options.stability else None

    def broadcast(self, tag: VectorTag, out: Effects) -> None:
        """7:18-21."""
        if tag.origin != self._slot or tag.seq != self._delivered[self._slot] + 1:
            raise LocalProtocolError(f"{tag} is not the next message of slot {self._slot}")
        self._delivered[self._slot] += 1
        if self._stability is not None:
            self._stability.update(self._slot, tag.vector, tag, out)
        out.send.append(VectorMessage(self._slot, tag.vector, tag.payload))

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """There are none."""
        raise LocalProtocolError("the vector engine has no phantoms")

    def forget(self, tag: VectorTag) -> None:
        """7:71 forgot it when it told."""

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """7:22-31."""
        if not isinstance(message, VectorMessage):
            out.reject.append(Reject(peer, WRONG_KIND, "this engine takes messages with vectors"))
            return
        if message.application:
            out.reject.append(Reject(peer, WRONG_KIND, "this engine takes one vector, not two"))
            return
        refused = refusal(
            peer, message, self._members, self._slot, self._delivered, self._pending_max
        )
        if refused is not None:
            out.reject.append(refused)
            return
        origin = message.origin
        seq = message.vector[origin]
        if seq <= self._delivered[origin] or pack(origin, seq) in self._pending:
            out.reject.append(Reject(peer, DUPLICATE, f"message {seq} of slot {origin} is here"))
            return
        if is_ready(message, self._delivered):
            self._delivered[origin] += 1
            self._hand_over(message, out)
            if self._queue:
                self._deliver(out)
        else:
            self._pending.add(pack(origin, seq))
            self._queue.append(message)

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """One after the other."""
        for message in messages:
            self.receive(peer, message, out)

    def _hand_over(self, message: VectorMessage, out: Effects) -> None:
        """7:27-28, 7:60-61."""
        origin, vector = message.origin, message.vector
        tag = VectorTag(origin, vector[origin], vector, message.payload)
        out.deliver.append(tag)
        if self._stability is not None:
            self._stability.update(origin, vector, tag, out)

    def _deliver(self, out: Effects) -> None:
        """7:44-65: scan the queue until a scan delivers nothing, closing the gaps on the way."""
        queue = self._queue
        source = target = 0
        while True:
            if source >= len(queue):
                if target >= source:
                    break
                del queue[target:]
                if not queue:
                    break
                source = target = 0
            else:
                message = queue[source]
                if is_ready(message, self._delivered):
                    origin = message.origin
                    self._delivered[origin] += 1
                    self._pending.remove(pack(origin, message.vector[origin]))
                    self._hand_over(message, out)
                else:
                    queue[target] = queue[source]
                    target += 1
                source += 1

    def flush(self, out: Effects) -> None:
        """Stability is up to date after every delivery."""

    def waiting(self) -> list[Waiting]:
        """What is in the delivery queue, each with the first message it lacks."""
        return waiting(self._queue, self._delivered)

    def words(self) -> int:
        """R, V, N + 1 per queued message, and stability (thesis 8.3.1.2)."""
        size = len(self._delivered)
        words = 2 * size + len(self._queue) * (size + 1)
        return words if self._stability is None else words + self._stability.words()


def make(members: Members, slot: int, options: EngineOptions) -> tuple[VectorClient, VectorEngine]:
    """Both processes of one node."""
    return VectorClient(len(members.names), slot), VectorEngine(members, slot, options)


SPEC = EngineSpec(
    name="vector",
    summary="version vectors, a delivery queue and a stability matrix (algorithms 6 and 7)",
    guarantee="causal",
    tags="exact",
    stability=True,
    phantoms=False,
    make=make,
    vectors=1,
)
