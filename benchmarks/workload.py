"""Executions to feed one node with: the same for every engine, made before the clock starts.

The model is the one of the thesis' experiments (8.1): N nodes send at exponential intervals over
links of equal latency, here with interval = 10 x latency (its 100 ms and 10 ms).  With a constant
latency everybody has consumed, at time t, what was sent before t - latency.  Node 0 is the one
under test: it receives the others' messages in the order of the arrival plan and sends its own in
between.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Iterable, Iterator

from thence.causal.dot import pack, slot_of
from thence.message import Message, VectorMessage

LATENCY = 1.0
INTERVAL_PER_LATENCY = 10.0
SLOW_FACTOR = 10.0
PAYLOAD = b"x" * 64

# One step of node 0: its own send (None), or a message that arrives, in both wire forms.
Step = tuple[Message, VectorMessage] | None


class _Sender:
    """A node as far as tagging goes: what it has consumed, as a context and as a vector."""

    def __init__(self, slot: int, nodes: int) -> None:
        self.slot = slot
        self.context: set[int] = set()
        self.vector = [0] * nodes
        self.consumed = 0  # position in the log of all messages

    def consume(self, packed: int, context: tuple[int, ...]) -> None:
        k = slot_of(packed)
        if k != self.slot:
            self.context.difference_update(context)
            self.context.add(packed)
            self.vector[k] += 1

    def send(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        self.vector[self.slot] += 1
        packed = pack(self.slot, self.vector[self.slot])
        context = tuple(sorted(self.context))
        self.context = {packed}
        return packed, context, tuple(self.vector)


def execution(nodes: int, messages: int, seed: int) -> Iterator[tuple[float, int, Step]]:
    """(time of sending, origin, step), in order of sending."""
    rng = random.Random(seed)
    mean = LATENCY * INTERVAL_PER_LATENCY
    due = [(rng.expovariate(1 / mean), k) for k in range(nodes)]
    heapq.heapify(due)
    senders = [_Sender(k, nodes) for k in range(nodes)]
    log: deque[tuple[float, int, tuple[int, ...]]] = deque()
    dropped = 0
    for number in range(messages):
        now, origin = heapq.heappop(due)
        heapq.heappush(due, (now + rng.expovariate(1 / mean), origin))
        sender = senders[origin]
        while sender.consumed - dropped < len(log):
            time, packed, context = log[sender.consumed - dropped]
            if time > now - LATENCY:
                break
            sender.consume(packed, context)
            sender.consumed += 1
        packed, context, vector = sender.send()
        log.append((now, packed, context))
        if number % 4096 == 0:
            slowest = min(s.consumed for s in senders)
            while dropped < slowest:
                log.popleft()
                dropped += 1
        step: Step = None
        if origin:
            seq = vector[origin]
            step = (
                Message(origin, seq, context, PAYLOAD),
                VectorMessage(origin, vector, PAYLOAD),
            )
        yield now, origin, step


def in_order(nodes: int, messages: int, seed: int) -> list[Step]:
    """Everything arrives in the order it was sent: nothing is ever held back."""
    delay = [0.0] + [LATENCY] * (nodes - 1)
    return _arrivals((t + delay[k], k, s) for t, k, s in execution(nodes, messages, seed))


def slow_link(nodes: int, messages: int, seed: int) -> list[Step]:
    """What node 1 sends takes ten times as long to node 0: its successors wait (8.1.3)."""
    delay = [0.0, LATENCY * SLOW_FACTOR] + [LATENCY] * (nodes - 2)
    return _arrivals((t + delay[k], k, s) for t, k, s in execution(nodes, messages, seed))


def backlog(nodes: int, messages: int, seed: int, pending: int) -> list[Step]:
    """The first message of node 1 is late: ``pending`` others wait for it, then it arrives."""
    steps = in_order(nodes, messages, seed)
    first = next(i for i, step in enumerate(steps) if step is not None and step[0].origin == 1)
    late = steps.pop(first)
    held = sum(1 for step in steps[:first] if step is not None)
    position = first
    while held < pending and position < len(steps):
        held += steps[position] is not None
        position += 1
    steps.insert(position, late)
    return steps


def _arrivals(timed: Iterable[tuple[float, int, Step]]) -> list[Step]:
    ordered = sorted(
        ((time, number, step) for number, (time, _, step) in enumerate(timed)),
        key=lambda entry: entry[:2],
    )
    return [step for _, _, step in ordered]


def mean_context(steps: list[Step]) -> float:
    """Dots per message on the wire."""
    sizes = [len(step[0].context) for step in steps if step is not None]
    return sum(sizes) / max(1, len(sizes))
