"""Hypothesis strategies shared by the tests: values of the causal vocabulary, whole executions."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from thence.causal.context import Context, Frontier
from thence.causal.dot import pack
from thence.causal.history import CausalHistory
from thence.causal.lamport import LamportClock, Stamp
from thence.causal.matrix import MatrixClock
from thence.causal.vector import VersionVector
from thence.message import Aside, Message, Phantom, StreamDot, VectorMessage, WireMessage

SEQ_SMALL_MAX = 6


def packed_dots(slots: int) -> st.SearchStrategy[int]:
    """Few sequence numbers, so that dots meet."""
    return st.builds(pack, st.integers(0, slots - 1), st.integers(1, SEQ_SMALL_MAX))


def version_vectors(slots: int) -> st.SearchStrategy[VersionVector]:
    """Few counts, so that vectors are often ordered."""
    counts = st.lists(st.integers(0, SEQ_SMALL_MAX), min_size=slots, max_size=slots)
    return counts.map(lambda drawn: VersionVector(tuple(drawn)))


def matrix_clocks(slots: int) -> st.SearchStrategy[MatrixClock]:
    """Any rows."""

    def build(rows: list[VersionVector]) -> MatrixClock:
        matrix = MatrixClock(slots)
        for slot, row in enumerate(rows):
            matrix.merge_row(slot, row)
        return matrix

    return st.lists(version_vectors(slots), min_size=slots, max_size=slots).map(build)


def contexts(slots: int) -> st.SearchStrategy[Context]:
    """Well-formed: sorted, at most one dot per slot."""
    chosen = st.dictionaries(st.integers(0, slots - 1), st.integers(1, SEQ_SMALL_MAX))
    return chosen.map(lambda drawn: tuple(sorted(pack(slot, seq) for slot, seq in drawn.items())))


class Sent(NamedTuple):
    """A message of an execution and what each mechanism says of it."""

    dot: int
    history: CausalHistory
    vector: VersionVector
    context: Context
    context_by_vectors: Context
    stamp: Stamp


class _Node:
    """One application, tracked by every mechanism at once."""

    def __init__(self, slot: int, size: int) -> None:
        self.slot = slot
        self.history = CausalHistory()
        self.vector = VersionVector.zero(size)
        self.frontier = Frontier()
        self.frontier_by_vectors = Frontier()
        self.clock = LamportClock(slot)

    def send(self) -> Sent:
        self.vector = self.vector.increment(self.slot)
        dot = pack(self.slot, self.vector[self.slot])
        self.history = self.history.event(dot)
        sent = Sent(
            dot,
            self.history,
            self.vector,
            self.frontier.context(),
            self.frontier_by_vectors.context(),
            self.clock.tick(),
        )
        self.frontier.send(dot)
        self.frontier_by_vectors.send(dot)
        return sent

    def can_take(self, message: Sent) -> bool:
        missing = message.history.dots - self.history.dots
        return missing == {message.dot}

    def take(self, message: Sent) -> None:
        self.history = self.history.union(message.history)
        self.vector = self.vector.merge(message.vector)
        self.frontier.consume(message.dot, message.context)
        self.frontier_by_vectors.consume_vector(message.dot, message.vector.counts)
        self.clock.witness(message.stamp)


@st.composite
def executions(draw: st.DrawFn, nodes_max: int = 4, steps_max: int = 16) -> list[Sent]:
    """The messages of a causally delivered execution, in an order of sending."""
    size = draw(st.integers(1, nodes_max))
    step = st.tuples(st.integers(0, size - 1), st.integers(0, 7))
    steps = draw(st.lists(step, max_size=steps_max))
    nodes = [_Node(slot, size) for slot in range(size)]
    sent: list[Sent] = []
    for slot, choice in steps:
        node = nodes[slot]
        ready = [message for message in sent if node.can_take(message)]
        if choice < 3 or not ready:
            sent.append(node.send())
        else:
            node.take(ready[choice % len(ready)])
    return sent


def anything_sent(slots: int) -> st.SearchStrategy[WireMessage]:
    """Whatever a peer might put into a message of any kind: mostly wrong, sometimes right."""
    number = st.integers(-2, slots + 2) | st.sampled_from((1 << 40, 1 << 64, -(1 << 70)))
    dots = packed_dots(slots + 1) | number
    mixed: st.SearchStrategy[object] = dots | st.sampled_from((None, "a", 1.5, b""))
    loose: st.SearchStrategy[tuple[object, ...]] = st.lists(mixed, max_size=slots + 1).map(tuple)
    context = contexts(slots) | loose | st.none()
    counts = st.lists(number, min_size=slots, max_size=slots).map(tuple) | context
    payload: st.SearchStrategy[object] = st.binary(max_size=3) | st.none()
    origin: st.SearchStrategy[object] = number | st.sampled_from((None, "a", 0.5))
    seq = origin
    # Structs do not check types when they are made, so a peer's nonsense can be put in as it is.
    message = st.builds(Message, origin, seq, context, payload)
    aside = st.just(Aside("s", (StreamDot(0, "s", 1),)))
    on_stream = st.builds(Message, origin, seq, context, payload, aside)
    phantom = st.builds(Phantom, origin, seq, context)
    vector = st.builds(VectorMessage, origin, counts, payload, counts)
    return message | on_stream | phantom | vector
