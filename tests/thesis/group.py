"""A small group that a test leads by hand, by name: who sends, what arrives where, who takes it."""

from __future__ import annotations

from typing import Any

from thence.causal.dot import Dot
from thence.engine.base import EngineOptions, EngineSpec
from thence.message import Message, Phantom, VectorMessage, WireMessage
from thence.sim.cluster import Cluster, Watcher


class Group(Watcher):
    """Nodes a, b, c... of one engine."""

    def __init__(self, spec: EngineSpec, names: str, **options: Any) -> None:
        self.names = names
        self.cluster = Cluster(spec, list(names), EngineOptions(**options), [self])
        self.took: dict[str, list[str]] = {name: [] for name in names}
        """What each application took, in order, as ``a:1``."""
        self.stable: dict[str, list[str]] = {name: [] for name in names}
        """What each application was told is stable, in order."""
        self.tags: dict[str, Any] = {}
        """The tag each message had at its sender."""
        self.seen: dict[str, dict[str, Any]] = {name: {} for name in names}
        """Per node the tags of the messages it took."""
        self.wire: dict[str, WireMessage] = {}
        """What was sent, by ``a:1``; the last phantom of a is ``phantom a``."""

    # Steps.

    def call(self, name: str, payload: bytes = b"") -> str:
        """The application broadcasts; its middleware has not seen it yet."""
        tag = self.cluster.client_broadcast(self.slot(name), payload)
        shown = f"{name}:{tag.seq}"
        self.tags[shown] = tag
        return shown

    def dequeue(self, name: str) -> None:
        """The middleware takes everything its client has asked for."""
        while self.cluster.middleware_step(self.slot(name)):
            pass

    def send(self, name: str, payload: bytes = b"") -> str:
        """Both."""
        shown = self.call(name, payload)
        self.dequeue(name)
        return shown

    def announce(self, name: str) -> str:
        """The client makes a phantom and the middleware sends it."""
        self.cluster.client_phantom(self.slot(name))
        self.dequeue(name)
        return f"phantom {name}"

    def arrive(self, what: str, *nodes: str) -> None:
        """A message reaches the middleware of some nodes (all others by default)."""
        message = self.wire[what]
        origin = message.origin
        for name in nodes or [other for other in self.names if other != self.names[origin]]:
            self.cluster.network_deliver(origin, self.slot(name), message)

    def take(self, *nodes: str) -> None:
        """Applications take all that is ready for them (everybody by default)."""
        for name in nodes or self.names:
            while self.cluster.client_take(self.slot(name)):
                pass
            self.dequeue(name)

    def broadcast(self, name: str, payload: bytes = b"") -> str:
        """Send, arrive everywhere, be taken everywhere."""
        shown = self.send(name, payload)
        self.arrive(shown)
        self.take()
        return shown

    # Questions.

    def slot(self, name: str) -> int:
        return self.names.index(name)

    def engine(self, name: str) -> Any:
        return self.cluster.engines[self.slot(name)]

    def pack(self, shown: str) -> int:
        return self.cluster.members.pack(Dot.parse(shown))

    def show(self, packed: int) -> str:
        return str(self.cluster.members.dot(packed))

    def predecessors(self, shown: str) -> list[str]:
        """Of a message that was tagged with dots."""
        return [self.show(dot) for dot in self.tags[shown].predecessors]

    def vector(self, shown: str) -> list[int]:
        """Of a message that was tagged with a vector."""
        return list(self.tags[shown].vector)

    def waiting(self, name: str) -> dict[str, str]:
        """What a middleware holds back, and what each waits for."""
        return {self.show(w.dot): self.show(w.missing) for w in self.engine(name).waiting()}

    # What is watched.

    def wired(self, node: int, message: WireMessage) -> None:
        name = self.names[node]
        if isinstance(message, Phantom):
            self.wire[f"phantom {name}"] = message
        elif isinstance(message, Message):
            self.wire[f"{name}:{message.seq}"] = message
        elif isinstance(message, VectorMessage):
            self.wire[f"{name}:{message.vector[node]}"] = message

    def taken(self, tag: Any) -> str:
        return f"{self.names[tag.origin]}:{tag.seq}"

    def consumed(self, node: int, tag: Any) -> None:
        self.took[self.names[node]].append(self.taken(tag))
        self.seen[self.names[node]][self.taken(tag)] = tag

    def stabilised(self, node: int, tag: Any) -> None:
        self.stable[self.names[node]].append(self.taken(tag))
