"""Random interleavings of groups that bridges join, judged over all of them at once.

Each group is a ``Cluster`` with an engine of its own; bridges follow the rules of client/bridge.py.
The histories are those of the messages that applications sent, wherever they are taken.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from thence.client.bridge import Crossing, Forwarded, Side, unwrap
from thence.engine.base import EngineSpec
from thence.engine.plain import PlainTag
from thence.sim.cluster import Cluster, Watcher
from thence.sim.orders import Orders


class Joined(msgspec.Struct, frozen=True):
    """A group: its engine and its members."""

    name: str
    spec: EngineSpec
    members: tuple[str, ...]


class BridgeWalk:
    """One walk.  A name that is in two groups is a bridge between them."""

    def __init__(self, groups: Sequence[Joined], seed: int, messages: int = 20) -> None:
        self.rng = random.Random(f"bridges {seed}")
        self.groups = list(groups)
        self.messages = messages
        self.names = sorted({name for group in groups for name in group.members})
        self.homes = {
            name: [at for at, group in enumerate(groups) if name in group.members]
            for name in self.names
        }
        self.bridges = frozenset(name for name in self.names if len(self.homes[name]) > 1)
        self.orders = Orders(groups[0].spec, self.names)
        self.clusters = [
            Cluster(group.spec, group.members, watchers=[_Takes(self, at)])
            for at, group in enumerate(groups)
        ]
        self.crossings = {name: self._crossing(name) for name in sorted(self.bridges)}

    def _crossing(self, name: str) -> Crossing:
        one, other = (self._side(at, name) for at in self.homes[name])
        return Crossing(one, other)

    def _side(self, at: int, name: str) -> Side:
        group, cluster = self.groups[at], self.clusters[at]
        others = self.bridges - {name}
        return Side(group.name, group.spec, cluster.members, name, others)

    def go(self) -> Orders:
        """All of it: random at first, to the end of everything then."""
        rng = self.rng
        while self.messages or self._busy():
            at = rng.randrange(len(self.groups))
            cluster = self.clusters[at]
            kind = rng.randrange(6)
            if kind == 0 and self.messages:
                self.send(at)
            elif kind == 1:
                cluster.middleware_step(rng.randrange(cluster.size))
            elif kind < 4:
                cluster.client_take(rng.randrange(cluster.size))
            elif cluster.in_flight:
                self._network(cluster)
        return self.orders

    def _busy(self) -> bool:
        return any(
            cluster.in_flight or any(cluster.to_middleware) or any(cluster.to_client)
            for cluster in self.clusters
        )

    def send(self, at: int) -> None:
        """An application that is no bridge broadcasts."""
        group = self.groups[at]
        senders = [slot for slot, name in enumerate(group.members) if name not in self.bridges]
        if not senders:
            return
        self.messages -= 1
        slot = self.rng.choice(senders)
        tag = self.clusters[at].client_broadcast(slot, b"%d" % self.messages)
        self.orders.sent(self.names.index(group.members[slot]), self.shown(at, tag), None)

    def _network(self, cluster: Cluster) -> None:
        flights = cluster.in_flight
        index = self.rng.randrange(len(flights))
        if cluster.spec.fifo_links:
            link = flights[index][:2]
            index = next(place for place, each in enumerate(flights) if each[:2] == link)
        if cluster.network_deliver(*flights[index]):
            flights.pop(index)

    def shown(self, at: int, tag: Any) -> PlainTag:
        """A message as its sender named it, wherever it is taken."""
        sender = self.groups[at].members[tag.origin]
        seq = tag.seq
        if sender in self.bridges:
            forwarded = unwrap(tag.payload)
            sender, seq = forwarded.sender, forwarded.seq
        return PlainTag(self.names.index(sender), seq, b"")

    def took(self, at: int, slot: int, tag: Any) -> None:
        """An application took a message in this group; a bridge sends it on."""
        name = self.groups[at].members[slot]
        if tag.origin == slot:
            return  # its own, given back
        self.orders.consumed(self.names.index(name), self.shown(at, tag))
        if name in self.bridges:
            side = self.homes[name].index(at)
            message = self.crossings[name].read(side, tag)
            if message is not None:
                self.forward(name, self.homes[name][1 - side], message)

    def forward(self, name: str, at: int, message: Forwarded) -> None:
        """A bridge broadcasts in the other group."""
        slot = self.groups[at].members.index(name)
        self.clusters[at].client_broadcast(slot, Crossing.wrap(message))


class _Takes(Watcher):
    """What the applications of one group take."""

    def __init__(self, walk: BridgeWalk, at: int) -> None:
        self.walk, self.at = walk, at

    def consumed(self, node: int, tag: Any) -> None:
        self.walk.took(self.at, node, tag)
