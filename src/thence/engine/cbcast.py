"""``cbcast`` and ``cbcast-e2e``: algorithm 1, the classic, alone and with double tagging.

Theory of operation
    ``cbcast``: the middleware keeps one vector clock.  It tags a message when it takes it from the
    client's queue, with what *it* has delivered by then, and delivers a message of j when it is the
    next of j and counts nothing of the others that is not delivered.  What is not ready is held
    back.  So a message is ordered after what was still waiting for its own application (thesis 3.6,
    figure 17): its tag covers what the application had consumed, and may count more ("over").

    ``cbcast-e2e``: what applications do to get exact tags from such a middleware (thesis 3.5.1,
    experiment 1): the client counts what its application has consumed and sends that second vector
    along.  The middleware does not read it to order messages, so its delays remain.

Stability
    Only ``cbcast-e2e`` has it.  The middleware's vectors say what middlewares had delivered when
    they tagged, not what applications had consumed when they sent; a matrix of them calls messages
    stable with which later deliveries are concurrent, end to end
    (test_the_middlewares_own_vectors_are_no_ground_for_stability in tests/thesis/test_figures.py).
    So the matrix of algorithm 7 is fed with the application's vectors.

Invariants
    ``clock[j]`` messages of j were handed over, the first so many, in order; ``clock[me]`` were
    sent.  ``pending`` has exactly the dots held back.  Between steps nothing held back is ready.

Differences from the thesis (tests in tests/thesis/test_figures.py and tests/engine/test_cbcast.py)
    1:8   each message gets a copy of the clock.
    1:14  the printed algorithm never looks at what it enqueued again; here it does after every
          delivery, and a message that is held back already is a duplicate.
    1:9   input is checked, and the distance ahead of VC[j] is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import gt

import msgspec

from thence.causal.dot import pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.matrix_stability import MatrixStability
from thence.engine.reject import BAD_CONTEXT, DUPLICATE, WRONG_KIND, Reject, Waiting
from thence.engine.vector_rules import is_ready, is_vector, refusal, waiting
from thence.errors import LimitError, LocalProtocolError
from thence.message import PAYLOAD_BYTES_MAX, Phantom, VectorMessage, WireMessage


class CbcastTag(msgspec.Struct, eq=False, gc=False):
    """A message and its vector, which ``cbcast`` fills in when the middleware takes the message."""

    origin: int
    seq: int
    vector: tuple[int, ...] | None
    payload: bytes

    @property
    def predecessors(self) -> tuple[int, ...] | None:
        """This engine tags by vectors."""
        return None


class CbcastClient:
    """The application's side of the classic: it only numbers messages."""

    __slots__ = ("_seq", "_slot")

    def __init__(self, slot: int) -> None:
        self._slot = slot
        self._seq = 0

    def broadcast(self, payload: bytes) -> CbcastTag:
        """The tag has no vector yet."""
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise LimitError(f"a payload has at most {PAYLOAD_BYTES_MAX} bytes")
        self._seq += 1
        return CbcastTag(self._slot, self._seq, None, payload)

    def consume(self, tag: CbcastTag) -> None:
        """Nothing to learn: the middleware tags."""

    def stabilised(self, tag: CbcastTag) -> None:
        """The client keeps nothing."""

    def phantom(self) -> None:
        """There are none."""


class EndToEndClient:
    """The application keeps a vector of its own, of what it has consumed (thesis 3.5.1)."""

    __slots__ = ("_slot", "_vector")

    def __init__(self, size: int, slot: int) -> None:
        self._slot = slot
        self._vector = [0] * size

    def broadcast(self, payload: bytes) -> CbcastTag:
        """Tag now, with what the application has consumed."""
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise LimitError(f"a payload has at most {PAYLOAD_BYTES_MAX} bytes")
        self._vector[self._slot] += 1
        return CbcastTag(self._slot, self._vector[self._slot], tuple(self._vector), payload)

    def consume(self, tag: CbcastTag) -> None:
        """The application takes this delivery."""
        self._vector[tag.origin] = tag.seq

    def stabilised(self, tag: CbcastTag) -> None:
        """The client keeps nothing."""

    def phantom(self) -> None:
        """There are none."""


class CbcastEngine:
    """Algorithm 1: the middleware, for both."""

    __slots__ = (
        "_clock",
        "_end_to_end",
        "_held",
        "_members",
        "_pending",
        "_pending_max",
        "_slot",
        "_stability",
    )

    def __init__(
        self, members: Members, slot: int, options: EngineOptions, end_to_end: bool
    ) -> None:
        self._members = members
        self._slot = slot
        self._end_to_end = end_to_end
        self._pending_max = max(1, options.pending_per_origin_max)
        self._clock = [0] * len(members.names)
        self._held: list[VectorMessage] = []
        self._pending: set[int] = set()
        self._stability: MatrixStability | None = None
        if end_to_end and options.stability:
            self._stability = MatrixStability(slot, self._clock)

    def broadcast(self, tag: CbcastTag, out: Effects) -> None:
        """1:5-8: the middleware tags now."""
        slot = self._slot
        if tag.origin != slot or tag.seq != self._clock[slot] + 1:
            raise LocalProtocolError(f"{tag} is not the next message of slot {slot}")
        self._clock[slot] += 1
        vector = tuple(self._clock)
        if tag.vector is None:
            tag.vector = vector
            out.send.append(VectorMessage(slot, vector, tag.payload))
            return
        if self._stability is not None:
            self._stability.update(slot, tag.vector, tag, out)
        out.send.append(VectorMessage(slot, vector, tag.payload, tag.vector))

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """There are none."""
        raise LocalProtocolError("cbcast has no phantoms")

    def forget(self, tag: CbcastTag) -> None:
        """It was forgotten when it was told."""

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """1:9-14."""
        if not isinstance(message, VectorMessage):
            out.reject.append(Reject(peer, WRONG_KIND, "this engine takes messages with vectors"))
            return
        refused = refusal(peer, message, self._members, self._slot, self._clock, self._pending_max)
        if refused is not None:
            out.reject.append(refused)
            return
        origin = message.origin
        seq = message.vector[origin]
        if seq <= self._clock[origin] or pack(origin, seq) in self._pending:
            out.reject.append(Reject(peer, DUPLICATE, f"message {seq} of slot {origin} is here"))
            return
        if not self._application_fits(message):
            detail = "the application's vector is not a part of the middleware's"
            out.reject.append(Reject(peer, BAD_CONTEXT, detail))
            return
        if is_ready(message, self._clock):
            self._hand_over(message, out)
            self._release(out)
        else:
            self._pending.add(pack(origin, seq))
            self._held.append(message)

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """One after the other."""
        for message in messages:
            self.receive(peer, message, out)

    def _application_fits(self, message: VectorMessage) -> bool:
        """An application has consumed at most what its middleware has delivered."""
        vector, application = message.vector, message.application
        if not self._end_to_end:
            return application == ()
        return (
            is_vector(application, len(vector))
            and application[message.origin] == vector[message.origin]
            and True not in map(gt, application, vector)
        )

    def _hand_over(self, message: VectorMessage, out: Effects) -> None:
        """1:11-12."""
        origin = message.origin
        self._clock[origin] += 1
        vector = message.application if self._end_to_end else message.vector
        tag = CbcastTag(origin, message.vector[origin], vector, message.payload)
        out.deliver.append(tag)
        if self._stability is not None:
            self._stability.update(origin, vector, tag, out)

    def _release(self, out: Effects) -> None:
        """Hand over what is held back and ready, until nothing is."""
        found = True
        while found and self._held:
            found = False
            kept: list[VectorMessage] = []
            for message in self._held:
                if is_ready(message, self._clock):
                    self._pending.remove(pack(message.origin, message.vector[message.origin]))
                    self._hand_over(message, out)
                    found = True
                else:
                    kept.append(message)
            self._held = kept

    def flush(self, out: Effects) -> None:
        """Stability is up to date after every delivery."""

    def waiting(self) -> list[Waiting]:
        """What is held back, each with the first message it lacks in the middleware's order."""
        return waiting(self._held, self._clock)

    def words(self) -> int:
        """VC and N + 1 per message held back; the second vector wherever it is kept too."""
        size = len(self._clock)
        vectors = 2 if self._end_to_end else 1
        words = vectors * size + len(self._held) * (vectors * size + 1)
        return words if self._stability is None else words + self._stability.words(vectors)


def make(members: Members, slot: int, options: EngineOptions) -> tuple[CbcastClient, CbcastEngine]:
    """Both processes of one node, the classic."""
    return CbcastClient(slot), CbcastEngine(members, slot, options, end_to_end=False)


def make_end_to_end(
    members: Members, slot: int, options: EngineOptions
) -> tuple[EndToEndClient, CbcastEngine]:
    """Both processes of one node, with the application's own vector."""
    client = EndToEndClient(len(members.names), slot)
    return client, CbcastEngine(members, slot, options, end_to_end=True)


SPEC = EngineSpec(
    name="cbcast",
    summary="the classic: the middleware tags, and over-orders (algorithm 1)",
    guarantee="causal",
    tags="over",
    stability=False,
    phantoms=False,
    make=make,
    vectors=1,
)

SPEC_E2E = EngineSpec(
    name="cbcast-e2e",
    summary="the classic plus the application's own vector: double tagging (section 3.5.1)",
    guarantee="causal",
    tags="exact",
    stability=True,
    phantoms=False,
    make=make_end_to_end,
    vectors=2,
)
