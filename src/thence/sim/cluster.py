"""N nodes and their primitive steps.

A node is a client, an engine, and the two FIFO queues between them; between nodes there is a
network that may reorder and repeat but not lose.  Nothing here has time or chance: whoever drives
the cluster decides which step comes next, so that timed simulation, random interleavings and
exhaustive exploration are all built on the same steps.

    client_broadcast(i)      the application of i sends: tag now, request into the queue
    client_phantom(i)        the client of i puts what it has consumed into the queue
    middleware_step(i)       the middleware of i takes one request from its client
    network_deliver(i, j, m) the network hands j a message that i sent
    client_take(i)           the application of i takes one event: a delivery or a stable message
    flush(i)                 the idle timer of i's middleware

Every step tells the watchers what happened, in the order in which it happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from thence.causal.dot import seq_of, slot_of
from thence.causal.members import Members
from thence.engine.base import Client, Engine, EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.reject import Reject
from thence.message import Directed, Message, Phantom, WireMessage, hollow_form
from thence.sim.histories import Key

# Requests from client to middleware.
BROADCAST: Final = 0
ANNOUNCE: Final = 1
FORGET: Final = 2

# Events from middleware to client.
DELIVER: Final = 0
STABLE: Final = 1
K_STABLE: Final = 2

Choice = tuple[str, int]
"""A step that is possible now: ("middleware", i), ("take", i) or ("network", index in flight)."""


class Watcher:
    """What can be seen of a cluster.  Override what you need; the rest costs nothing."""

    def sent(self, node: int, tag: Any, after: Sequence[Any] | None) -> None:
        """The application broadcast; ``after`` is its explicit dependencies, None for the usual."""

    def phantom_made(self, node: int, phantom: Phantom) -> None:
        """The client made a phantom."""

    def wired(self, node: int, message: WireMessage) -> None:
        """The middleware put a message or phantom on the wire, for every other member."""

    def arriving(self, node: int, peer: int, message: WireMessage) -> None:
        """The network hands over a message; the middleware has not looked at it yet."""

    def arrived(self, node: int, peer: int, message: WireMessage) -> None:
        """The middleware took it.  What came of it has been told before this."""

    def rejected(self, node: int, reject: Reject) -> None:
        """The middleware refused an input."""

    def ready(self, node: int, tag: Any) -> None:
        """The middleware put a delivery into the client's queue, perhaps a hollow one."""

    def stable_ready(self, node: int, tag: Any) -> None:
        """The middleware put a stable event into the client's queue, perhaps a hollow one."""

    def k_stable_ready(self, node: int, tag: Any) -> None:
        """The middleware put a k-stable event into the client's queue."""

    def consumed(self, node: int, tag: Any) -> None:
        """The application took a delivery."""

    def stabilised(self, node: int, tag: Any) -> None:
        """The application took a stable event."""

    def k_stabilised(self, node: int, tag: Any) -> None:
        """The application took a k-stable event."""

    def forgotten(self, node: int, tag: Any) -> None:
        """The middleware dropped what it knew of a stable message."""


class Cluster:
    """The nodes of a static group.  Nodes are named by slot; ``members`` has the names."""

    def __init__(
        self,
        spec: EngineSpec,
        names: Sequence[str],
        options: EngineOptions | None = None,
        watchers: Iterable[Watcher] = (),
        *,
        transmit: Callable[[int, WireMessage, Sequence[int] | None], None] | None = None,
        through_codec: bool = False,
        around: Callable[[int, Engine], Engine] | None = None,
    ) -> None:
        """``transmit`` takes what a node sends, and to whom if not to all, for a network of one's
        own; without it messages collect in ``in_flight``.  ``through_codec`` turns each into bytes
        and back.  ``around`` puts something around the engine of each slot, such as a meter."""
        self.spec = spec
        self.options = options or EngineOptions()
        self._steps = 0
        if spec.timed and self.options.clock is None:
            self.options = replace(self.options, clock=self._count)
        self.members = Members(names)
        self.size = len(names)
        self.clients: list[Client] = []
        self.engines: list[Engine] = []
        for slot in range(self.size):
            # Each node has its own idea of the membership, as it would on its own machine.
            client, engine = spec.make(Members(names), slot, self.options)
            self.clients.append(client)
            self.engines.append(engine if around is None else around(slot, engine))
        self.to_middleware: list[deque[tuple[int, Any]]] = [deque() for _ in names]
        self.to_client: list[deque[tuple[int, Any]]] = [deque() for _ in names]
        self.in_flight: list[tuple[int, int, WireMessage]] = []
        self._transmit = transmit or self._transmit_in_flight
        self._wire: Callable[[WireMessage], WireMessage] | None = None
        if through_codec:
            self._wire = _round_trip()
        self._multicast = spec.multicast
        self._out = Effects()
        self._hook(list(watchers))

    def _count(self, slot: int) -> int:
        """A clock for engines that read one, where there is no time: it goes on when it is read."""
        self._steps += 1
        return self._steps

    def _hook(self, watchers: list[Watcher]) -> None:
        def hooks(name: str) -> list[Callable[..., None]]:
            plain = getattr(Watcher, name)
            return [getattr(w, name) for w in watchers if getattr(type(w), name) is not plain]

        self._on_sent = hooks("sent")
        self._on_phantom_made = hooks("phantom_made")
        self._on_wired = hooks("wired")
        self._on_arriving = hooks("arriving")
        self._on_arrived = hooks("arrived")
        self._on_rejected = hooks("rejected")
        self._on_ready = hooks("ready")
        self._on_stable_ready = hooks("stable_ready")
        self._on_k_stable_ready = hooks("k_stable_ready")
        self._on_consumed = hooks("consumed")
        self._on_stabilised = hooks("stabilised")
        self._on_k_stabilised = hooks("k_stabilised")
        self._on_forgotten = hooks("forgotten")

    # The client's side.

    def client_broadcast(
        self,
        i: int,
        payload: bytes = b"",
        *,
        stream: str | None = None,
        after: Sequence[Any] | None = None,
        ordered: bool = True,
        to: Sequence[int] | None = None,
    ) -> Any:
        """The application of ``i`` broadcasts.  The tag it gets back.

        ``stream``, ``after``, ``ordered`` and ``to`` are handed on only when given: they exist
        for engines with streams of their own, and with multicasts.
        """
        client: Any = self.clients[i]
        extra: dict[str, Any] = {}
        if stream is not None:
            extra["stream"] = stream
        if after is not None:
            extra["after"] = list(after)
        if not ordered:
            extra["ordered"] = False
        explicit = after if after is not None else () if extra else None
        if to is not None:
            extra["to"] = to
        tag = client.broadcast(payload, **extra)
        for hook in self._on_sent:
            hook(i, tag, explicit)
        self.to_middleware[i].append((BROADCAST, tag))
        return tag

    def client_phantom(self, i: int) -> Phantom | None:
        """The client of ``i`` announces what it has consumed; None where there are no phantoms."""
        phantom = self.clients[i].phantom()
        if phantom is not None:
            for hook in self._on_phantom_made:
                hook(i, phantom)
            self.to_middleware[i].append((ANNOUNCE, phantom))
        return phantom

    def client_take(self, i: int) -> bool:
        """The application of ``i`` takes the next event of its queue; False if there is none."""
        queue = self.to_client[i]
        if not queue:
            return False
        kind, tag = queue.popleft()
        # What is not for this node goes its way, and the application hears nothing of it.
        silent = self._multicast and getattr(tag, "hollow", False)
        if kind == DELIVER:
            self.clients[i].consume(tag)
            for hook in () if silent else self._on_consumed:
                hook(i, tag)
        elif kind == STABLE:
            self.clients[i].stabilised(tag)
            self.to_middleware[i].append((FORGET, tag))
            for hook in () if silent else self._on_stabilised:
                hook(i, tag)
        else:
            for hook in self._on_k_stabilised:
                hook(i, tag)
        return True

    # The middleware's side.

    def middleware_step(self, i: int) -> bool:
        """The middleware of ``i`` takes the next request of its client; False if there is none."""
        queue = self.to_middleware[i]
        if not queue:
            return False
        kind, value = queue.popleft()
        if kind == FORGET:
            self.engines[i].forget(value)
            for hook in self._on_forgotten:
                hook(i, value)
            return True
        if kind == BROADCAST:
            self.engines[i].broadcast(value, self._out)
        else:
            self.engines[i].announce(value, self._out)
        self._carry_out(i)
        return True

    def network_deliver(self, i: int, j: int, item: WireMessage) -> bool:
        """The network hands ``j`` what ``i`` sent.  False if ``j`` asks to be offered it again."""
        for hook in self._on_arriving:
            hook(j, i, item)
        out = self._out
        self.engines[j].receive(i, item, out)
        accepted = not out.reject or not any(reject.retry for reject in out.reject)
        self._carry_out(j)
        if accepted:
            for hook in self._on_arrived:
                hook(j, i, item)
        return accepted

    def network_deliver_many(self, i: int, j: int, items: Sequence[WireMessage]) -> bool:
        """A batch from ``i`` to ``j`` in one step.  False if all of it is to be offered again."""
        for hook in self._on_arriving:
            for item in items:
                hook(j, i, item)
        self.engines[j].receive_many(i, items, self._out)
        accepted = not any(reject.retry for reject in self._out.reject)
        self._carry_out(j)
        if accepted:
            for hook in self._on_arrived:
                for item in items:
                    hook(j, i, item)
        return accepted

    def flush(self, i: int) -> bool:
        """The idle timer of ``i``.  True if something came of it."""
        self.engines[i].flush(self._out)
        out = self._out
        busy = bool(out.send or out.deliver or out.stable or out.k_stable)
        self._carry_out(i)
        return busy

    def crashed(self, i: int, crashed: int) -> None:
        """The middleware of ``i`` learns that another node is gone for good."""
        engine: Any = self.engines[i]
        engine.crashed(crashed, self._out)
        self._carry_out(i)

    def _carry_out(self, i: int) -> None:
        """Do what the engine asked for, in the order that engine/effects.py promises."""
        # Most steps have one effect or none: lists that are empty cost a test each.
        out = self._out
        queue = self.to_client[i]
        if out.send:
            for message in out.send:
                to = None
                if type(message) is Directed:
                    to, message = message.to, message.message
                for hook in self._on_wired:
                    hook(i, message)
                self._transmit(i, message if self._wire is None else self._wire(message), to)
            out.send.clear()
        if out.deliver:
            for tag in out.deliver:
                for hook in self._on_ready:
                    hook(i, tag)
                queue.append((DELIVER, tag))
            out.deliver.clear()
        if out.stable:
            for tag in out.stable:
                for hook in self._on_stable_ready:
                    hook(i, tag)
                queue.append((STABLE, tag))
            out.stable.clear()
        if out.k_stable:
            for tag in out.k_stable:
                for hook in self._on_k_stable_ready:
                    hook(i, tag)
                queue.append((K_STABLE, tag))
            out.k_stable.clear()
        if out.reject:
            for reject in out.reject:
                for hook in self._on_rejected:
                    hook(i, reject)
            out.reject.clear()

    def _transmit_in_flight(self, i: int, message: WireMessage, to: Sequence[int] | None) -> None:
        whole: tuple[int, ...] = ()
        emptied = message
        if isinstance(message, Message) and message.to:
            whole, emptied = message.to, hollow_form(message)
        for j in range(self.size) if to is None else to:
            if j != i:
                self.in_flight.append((i, j, message if not whole or j in whole else emptied))

    # For whoever drives the cluster.

    def choices(self) -> list[Choice]:
        """The steps that are possible now, beside broadcasts, phantoms and flushes (always are)."""
        found: list[Choice] = [("middleware", i) for i in range(self.size) if self.to_middleware[i]]
        found.extend(("take", i) for i in range(self.size) if self.to_client[i])
        found.extend(("network", index) for index in range(len(self.in_flight)))
        return found

    def perform(self, choice: Choice) -> None:
        """Do one of ``choices()``."""
        what, index = choice
        if what == "middleware":
            self.middleware_step(index)
        elif what == "take":
            self.client_take(index)
        else:
            self.deliver_in_flight(index)

    def deliver_in_flight(self, index: int) -> None:
        """Hand over the message at ``index`` of ``in_flight``; refused for now, it stays there."""
        i, j, message = self.in_flight[index]
        if self.network_deliver(i, j, message):
            last = self.in_flight.pop()
            if index < len(self.in_flight):
                self.in_flight[index] = last

    def waiting(self, i: int) -> list[tuple[Key, Key]]:
        """What the engine of ``i`` holds back, each with one message that it waits for."""
        engine: Any = self.engines[i]

        def key(packed: int) -> Key:
            slot = slot_of(packed)
            if slot < self.size:
                return (slot, "", seq_of(packed))
            dot = engine.past.stream_dot(packed)  # a number that the node gave to a stream
            return (dot.slot, dot.stream, dot.seq)

        return [(key(entry.dot), key(entry.missing)) for entry in engine.waiting()]

    def quiesce(self) -> None:
        """Run until every queue is empty, nothing is in flight and no flush finds anything."""
        refused = 0
        while True:
            self._drain_queues()
            if self.in_flight:
                flight, self.in_flight = self.in_flight, []
                again = [f for f in flight if not self.network_deliver(*f)]
                self.in_flight.extend(again)
                refused = refused + 1 if len(again) == len(flight) else 0
                if refused > 2:
                    raise RuntimeError(f"{len(again)} messages are refused for ever")
            elif not any([self.flush(i) for i in range(self.size)]):
                return

    def _drain_queues(self) -> None:
        busy = True
        while busy:
            busy = False
            for i in range(self.size):
                while self.middleware_step(i):
                    busy = True
                while self.client_take(i):
                    busy = True


def _round_trip() -> Callable[[WireMessage], WireMessage]:
    """A message as it comes out of the codec, for runs that go through the bytes."""
    from thence.wire import codec

    def through(message: WireMessage) -> WireMessage:
        return codec.decode(codec.encode(message))

    return through
