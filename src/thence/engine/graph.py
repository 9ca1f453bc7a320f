"""``graph``: the thesis' graph-based engine, algorithms 10 (client) and 11 (middleware).

Without stability it is algorithms 4 and 5, and a node is deleted when it is delivered.  It is kept
faithful: it is what the flagship is measured against.

Theory of operation
    The client tags a message with its dot and the antichain of its immediate predecessors.  The
    middleware keeps a graph of messages.  A node is a slot (named, not received), received,
    delivered or stable.  Its bit string says, while it is received, of which origins a predecessor
    is not delivered; at zero it is delivered.  From then on the string says whose next message is
    not yet known to come after it; a delivered message of j and a usable phantom of j clear bit j
    of their predecessors and of everything before those.  At zero the node is stable, after its
    predecessors; it leaves the graph once the application has taken its stable event.

Invariants
    Everything below V[j] of an origin was delivered, in order.  Edges lead from delivered or
    received nodes to nodes of the graph; ``pred`` of a delivered node has delivered or stable nodes
    only.  Among delivered nodes bits shrink towards ancestors, so stability comes in causal order.
    At most one phantom is kept per origin.

Differences from the thesis, each with a test in tests/thesis/test_errata.py
    10:5        dots are from 1.
    10:8-11     the message is tagged and leaves first; then the context becomes {d}, replaced and
                not added to, and the dot is incremented.
    5:19, 9:25, 11:25  the sum of bits is right only with at most one predecessor per origin, so
                other contexts are refused.
    5:27, 9:37, 11:38  the full context is kept and handed over, not what was left to wait for.
    9:15, 11:15 the complement is of N bits.
    9:41        the own bits are cleared through ``_update_stability``, as 11:42-43 do, so that a
                node whose bits are 0 at once becomes stable.
    10:20       the acknowledgement names the stable dot.
    11:30       a message counts for stability when it is delivered, as 5.1 defines it, not when it
                is received: told so early, nothing delivered here shows why.
    11:33       a phantom is broadcast.
    11:50-53    an early phantom is kept until its next dot and its context are delivered.
    11:37-73    recursion is a worklist that keeps the printed order (tests/engine/test_graph.py).
    11:18       input is checked and bounded, and a message whose predecessor at its own origin is
                missing although its context is delivered (no correct node sends that) waits for it
                (tests/engine/test_graph.py).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from thence.causal.dot import SEQ_BITS, SEQ_MAX, pack, seq_of, slot_of
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_SEQ,
    BAD_STREAM,
    DUPLICATE,
    NOT_A_MEMBER,
    NOT_MY_MESSAGE,
    TOO_FAR_AHEAD,
    TOO_LARGE,
    UNSENT_OWN_DOT,
    WRONG_KIND,
    Reject,
    Waiting,
)
from thence.errors import LimitError, LocalProtocolError
from thence.message import PAYLOAD_BYTES_MAX, Message, Phantom, WireMessage

SLT: Final = 0
RCV: Final = 1
DLV: Final = 2
STB: Final = 3


class GraphTag(msgspec.Struct, frozen=True, gc=False):
    """A message and its immediate predecessors."""

    origin: int
    seq: int
    predecessors: tuple[int, ...]
    payload: bytes

    @property
    def vector(self) -> tuple[int, ...] | None:
        """This engine tags by dots."""
        return None


class GraphClient:
    """Algorithm 10: the application's side."""

    __slots__ = ("_context", "_phantoms", "_seq", "_slot")

    def __init__(self, slot: int, phantoms: bool) -> None:
        self._slot = slot
        self._phantoms = phantoms
        self._seq = 1
        self._context: set[int] = set()

    def broadcast(self, payload: bytes) -> GraphTag:
        """10:7-12.  The caller enqueues the tag, then runs the application's code."""
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise LimitError(f"a payload has at most {PAYLOAD_BYTES_MAX} bytes")
        tag = GraphTag(self._slot, self._seq, tuple(sorted(self._context)), payload)
        self._context = {pack(self._slot, self._seq)}
        self._seq += 1
        return tag

    def consume(self, tag: GraphTag) -> None:
        """10:15-17."""
        self._context.difference_update(tag.predecessors)
        self._context.add(pack(tag.origin, tag.seq))

    def stabilised(self, tag: GraphTag) -> None:
        """10:18-20: the caller acknowledges it to the middleware."""

    def phantom(self) -> Phantom | None:
        """10:13-14."""
        if not self._phantoms:
            return None
        return Phantom(self._slot, self._seq, tuple(sorted(self._context)))


class Node:
    """A message in the graph."""

    __slots__ = ("bits", "pred", "stage", "succ", "tag")

    def __init__(self, stage: int, bits: int, pred: list[int], tag: GraphTag | None) -> None:
        self.stage = stage
        self.bits = bits
        self.pred = pred
        """Those that were not stable when it came and have not been deleted since; sorted."""
        self.succ: list[int] = []
        """In the order in which they came."""
        self.tag = tag
        """None for a slot."""


class GraphEngine:
    """Algorithm 11: the middleware."""

    __slots__ = (
        "_delivered",
        "_everyone",
        "_graph",
        "_members",
        "_pending_max",
        "_phantoms",
        "_slot",
        "_stability",
    )

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        size = len(members.names)
        self._members = members
        self._slot = slot
        self._stability = options.stability
        self._pending_max = max(1, options.pending_per_origin_max)
        self._everyone = (1 << size) - 1
        self._delivered = [0] * size
        self._graph: dict[int, Node] = {}
        self._phantoms: dict[int, tuple[int, dict[int, int]]] = {}
        """Per origin the announced seq and, by slot, the dots not used yet."""

    # From the client.

    def broadcast(self, tag: GraphTag, out: Effects) -> None:
        """11:9-17, 5:9-11."""
        slot = self._slot
        if tag.origin != slot or tag.seq != self._delivered[slot] + 1:
            raise LocalProtocolError(f"{tag} is not the next message of slot {slot}")
        out.send.append(Message(slot, tag.seq, tag.predecessors, tag.payload))
        self._delivered[slot] = tag.seq
        if not self._stability:
            return
        dot = pack(slot, tag.seq)
        pred = [p for p in tag.predecessors if not self._is_stable(p)]
        for p in pred:
            self._graph[p].succ.append(dot)
        self._graph[dot] = Node(DLV, self._everyone, pred, tag)
        self._update_stability(~(1 << slot), dot, out)

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """11:33-34."""
        out.send.append(phantom)
        self._use_phantom(phantom.origin, phantom.seq, phantom.context, out)

    def forget(self, tag: GraphTag) -> None:
        """11:35-36, 11:70-73."""
        dot = pack(tag.origin, tag.seq)
        node = self._graph.get(dot)
        if node is None or node.stage != STB:
            raise LocalProtocolError(f"{tag} is not stable here, or already forgotten")
        for s in node.succ:
            self._graph[s].pred.remove(dot)
        del self._graph[dot]

    # From peers.

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """11:18-32, and phantoms of peers."""
        if isinstance(message, Message):
            refused = self._refusal(peer, message)
            if refused is None:
                self._receive(message, out)
        elif isinstance(message, Phantom) and self._stability:
            refused = self._phantom_refusal(peer, message)
            if refused is None:
                self._use_phantom(message.origin, message.seq, message.context, out)
        else:
            refused = Reject(peer, WRONG_KIND, "this engine takes messages with contexts")
        if refused is not None:
            out.reject.append(refused)

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """One after the other."""
        for message in messages:
            self.receive(peer, message, out)

    def _receive(self, message: Message, out: Effects) -> None:
        graph = self._graph
        dot = pack(message.origin, message.seq)
        pred = [p for p in message.context if not self._is_stable(p)]
        bits = 0
        for p in pred:
            node = graph.get(p)
            if node is None:
                node = graph[p] = Node(SLT, 0, [], None)
            node.succ.append(dot)
            if node.stage != DLV:
                bits += 1 << slot_of(p)
        node = graph.get(dot)
        if node is None:
            node = graph[dot] = Node(RCV, bits, pred, None)
        else:
            node.stage = RCV
            node.bits = bits
            node.pred = pred
        node.tag = GraphTag(message.origin, message.seq, message.context, message.payload)
        if bits == 0:
            self._deliver(dot, out)

    def _deliver(self, first: int, out: Effects) -> None:
        """11:37-47.  Depth first, as the printed recursion: a stack of (bit, successors left)."""
        graph = self._graph
        stack: list[tuple[int, Iterator[int]]] = [(0, iter((first,)))]
        while stack:
            bit, successors = stack[-1]
            for dot in successors:
                node = graph[dot]
                node.bits &= ~bit
                if node.bits == 0 and self._follows(dot, node):
                    self._hand_over(dot, node, out)
                    stack.append((1 << slot_of(dot), iter(node.succ)))
                    break
            else:
                stack.pop()
        if self._phantoms:
            self._retry_phantoms(out)

    def _follows(self, dot: int, node: Node) -> bool:
        """Whether it is the next of its origin, as it is when its context is honest; else wait."""
        slot = slot_of(dot)
        if seq_of(dot) == self._delivered[slot] + 1:
            return True
        before = dot - 1
        node.bits = 1 << slot
        insort(node.pred, before)
        self._graph.setdefault(before, Node(SLT, 0, [], None)).succ.append(dot)
        return False

    def _hand_over(self, dot: int, node: Node, out: Effects) -> None:
        """11:38-43."""
        slot = slot_of(dot)
        out.deliver.append(node.tag)
        self._delivered[slot] = seq_of(dot)
        if not self._stability:
            del self._graph[dot]
            return
        node.stage = DLV
        node.bits = self._everyone & ~(1 << self._slot)
        self._update_stability(~(1 << slot), dot, out)

    # Stability.

    def _is_stable(self, dot: int) -> bool:
        """11:48-49; without stability, whether it is delivered."""
        if seq_of(dot) > self._delivered[slot_of(dot)]:
            return False
        node = self._graph.get(dot)
        return node is None or node.stage == STB

    def _check_stability(self, origin: int, seq: int, dots: Sequence[int], out: Effects) -> None:
        """11:50-53: what ``origin`` has consumed before its next message."""
        if seq == 1 + self._delivered[origin]:
            for dot in dots:
                self._update_stability(~(1 << origin), dot, out)

    def _update_stability(self, mask: int, first: int, out: Effects) -> None:
        """11:54-63: clear a bit on a delivered node and before it, first predecessor first."""
        graph = self._graph
        stack = [first]
        while stack:
            dot = stack.pop()
            node = graph.get(dot)
            if node is not None and node.stage == DLV:
                bits = node.bits & mask
                if bits != node.bits:
                    node.bits = bits
                    if bits == 0:
                        self._stabilise(dot, node, out)
                    else:
                        stack.extend(reversed(node.pred))

    def _stabilise(self, first: int, node: Node, out: Effects) -> None:
        """11:64-69: its predecessors, depth first, then itself."""
        graph = self._graph
        stack = [(node, iter(node.pred))]
        while stack:
            node, predecessors = stack[-1]
            for p in predecessors:
                before = graph[p]
                if before.stage != STB:
                    stack.append((before, iter(before.pred)))
                    break
            else:
                node.stage = STB
                out.stable.append(node.tag)
                stack.pop()

    # Phantoms.

    def _use_phantom(self, origin: int, seq: int, dots: Sequence[int], out: Effects) -> None:
        """Use what is usable of a phantom and keep the rest, merged with what is kept already."""
        here = self._delivered[origin]
        if seq <= here:
            return  # its next message was delivered, and said all this
        self._check_stability(origin, seq, dots, out)
        if seq == here + 1:
            dots = [dot for dot in dots if seq_of(dot) > self._delivered[slot_of(dot)]]
        kept_seq, kept = self._phantoms.get(origin, (0, {}))
        if seq < kept_seq or not dots:
            return
        if seq > kept_seq:
            kept = {}
        for dot in dots:
            kept[slot_of(dot)] = max(dot, kept.get(slot_of(dot), 0))
        self._phantoms[origin] = (seq, kept)

    def _retry_phantoms(self, out: Effects) -> None:
        """Something was delivered: use what became usable, drop what is used up."""
        for origin, (seq, kept) in list(self._phantoms.items()):
            if seq <= self._delivered[origin] + 1:
                del self._phantoms[origin]
                self._use_phantom(origin, seq, sorted(kept.values()), out)

    # What is refused.

    def _refusal(self, peer: int, message: Message) -> Reject | None:
        """Why a message cannot be taken; None if it can."""
        origin, seq = message.origin, message.seq
        flaw = self._flaw(peer, origin, seq)
        if flaw is not None:
            return flaw
        here = self._delivered[origin]
        if origin == self._slot:
            if seq <= here:
                return Reject(peer, DUPLICATE, f"message {seq} of this node came back")
            return Reject(peer, NOT_MY_MESSAGE, f"this node has not sent its message {seq}")
        node = self._graph.get(pack(origin, seq))
        if seq <= here or (node is not None and node.stage == RCV):
            return Reject(peer, DUPLICATE, f"message {seq} of slot {origin} is here")
        if seq > here + self._pending_max:
            detail = f"message {seq} of slot {origin} while {here} is delivered"
            bound = f"at most {self._pending_max} are held back"
            return Reject(peer, TOO_FAR_AHEAD, f"{detail}: {bound}", True)
        if message.aside is not None:
            return Reject(peer, BAD_STREAM, "this engine has no streams")
        if not isinstance(message.payload, bytes) or len(message.payload) > PAYLOAD_BYTES_MAX:
            return Reject(peer, TOO_LARGE, f"a payload has at most {PAYLOAD_BYTES_MAX} bytes")
        return self._context_flaw(peer, origin, seq, message.context)

    def _phantom_refusal(self, peer: int, phantom: Phantom) -> Reject | None:
        origin, seq = phantom.origin, phantom.seq
        flaw = self._flaw(peer, origin, seq)
        if flaw is not None:
            return flaw
        if origin == self._slot:
            return Reject(peer, NOT_MY_MESSAGE, "a phantom of this node came from a peer")
        if seq > self._delivered[origin] + self._pending_max + 1:
            detail = f"phantom of message {seq} of slot {origin}"
            return Reject(peer, TOO_FAR_AHEAD, f"{detail}, {self._delivered[origin]} here", True)
        return self._context_flaw(peer, origin, seq, phantom.context)

    def _flaw(self, peer: int, origin: int, seq: int) -> Reject | None:
        """Of what every message has; they come from peers, so they may be anything."""
        mask = self._members.mask
        for slot in (peer, origin):
            if not isinstance(slot, int) or slot < 0 or not mask >> slot & 1:
                return Reject(peer, NOT_A_MEMBER, f"slot {slot} is not a member")
        if not isinstance(seq, int) or not 1 <= seq <= SEQ_MAX:
            return Reject(peer, BAD_SEQ, f"sequence number {seq} is not in 1..{SEQ_MAX}")
        return None

    def _context_flaw(self, peer: int, origin: int, seq: int, context: object) -> Reject | None:
        if not isinstance(context, tuple):
            return Reject(peer, BAD_CONTEXT, "a context is a tuple of packed dots")
        last_slot = -1
        for dot in context:
            if not isinstance(dot, int):
                return Reject(peer, BAD_CONTEXT, f"{dot!r} is not a packed dot")
            slot = dot >> SEQ_BITS
            if slot <= last_slot:
                return Reject(peer, BAD_CONTEXT, "origins are not in order, or one is named twice")
            if slot >= len(self._delivered) or not dot & SEQ_MAX:
                return Reject(peer, BAD_CONTEXT, f"{slot}:{dot & SEQ_MAX} is no message")
            if slot == origin and dot & SEQ_MAX >= seq:
                return Reject(peer, BAD_CONTEXT, "it names itself or a later one of its origin")
            if slot == self._slot and dot & SEQ_MAX > self._delivered[slot]:
                detail = f"this node has not sent its message {dot & SEQ_MAX}"
                return Reject(peer, UNSENT_OWN_DOT, detail)
            last_slot = slot
        return None

    # For people.

    def flush(self, out: Effects) -> None:
        """Stability is up to date after every step."""

    def waiting(self) -> list[Waiting]:
        """Received nodes, each with the first predecessor that is not delivered."""
        return [
            Waiting(dot, next(p for p in node.pred if self._lacks(p)))
            for dot, node in sorted(self._graph.items())
            if node.stage == RCV
        ]

    def _lacks(self, dot: int) -> bool:
        return seq_of(dot) > self._delivered[slot_of(dot)]

    def words(self) -> int:
        """Per node its dot, predecessors, successors, stage and bit string (thesis 8.3.1.1); per
        kept phantom 1 and 2 for each dot."""
        string = -(-len(self._delivered) // 64)
        nodes = sum(
            2 + 2 * len(node.pred) + 2 * len(node.succ) + 1 + string
            for node in self._graph.values()
        )
        return nodes + sum(1 + 2 * len(kept) for _, kept in self._phantoms.values())


def make(members: Members, slot: int, options: EngineOptions) -> tuple[GraphClient, GraphEngine]:
    """Both processes of one node."""
    return GraphClient(slot, options.stability), GraphEngine(members, slot, options)


SPEC = EngineSpec(
    name="graph",
    summary="a graph of dots with bit strings, and phantoms (algorithms 10 and 11)",
    guarantee="causal",
    tags="exact",
    stability=True,
    phantoms=True,
    make=make,
)
