"""Random interleavings in which nodes crash and come back with what they had confirmed.

The cluster is the usual one (sim/cluster.py), with a little of what a driver does: the application
takes events and confirms them later, a broadcast confirms all before it, phantoms speak for what is
confirmed, and what was received stays at hand until it is confirmed.  A restart throws client,
engine and queues away, makes new ones of the exported state (through its bytes) and feeds what was
not confirmed again.  What was sent and not yet on the wire is still sent.

The oracle takes back, at that node, what was not confirmed, and judges on as before.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.frontier import Confirmed
from thence.engine.outgoing import message_of
from thence.engine.restore import State, export_state, restore
from thence.errors import LocalProtocolError
from thence.message import Message, Phantom, WireMessage
from thence.sim.checkers import Oracle, OracleFailure
from thence.sim.cluster import ANNOUNCE, BROADCAST, DELIVER, FORGET, STABLE, Cluster
from thence.sim.histories import Key, bits, key_of_message, key_of_tag
from thence.sim.names import node_names
from thence.sim.walk import Walk, WalkOptions, plan


class RestartOracle(Oracle):
    """Knows what is confirmed, and takes the rest back when a node restarts."""

    def __init__(
        self, spec: EngineSpec, names: Sequence[str], options: EngineOptions, replay: str
    ) -> None:
        super().__init__(spec, names, options, replay)
        self.confirmed = [0] * self.size
        self.told_confirmed = [0] * self.size
        self.k_confirmed = [0] * self.size
        self.let_by = [0] * self.size
        """What is not for a node, and went its way there before something confirmed."""
        self.former: list[dict[int, Any]] = [{} for _ in names]
        """Per node, tags that its application kept from a former life."""

    def sent(self, node: int, tag: Any, after: Sequence[Any] | None) -> None:
        super().sent(node, tag, after)
        self.confirmed[node] = self.past[node]

    def announced(self, node: int) -> int:
        return self.confirmed[node]

    def confirm(self, node: int, kind: int, tag: Any) -> None:
        """The application confirmed an event."""
        bit = 1 << self._number(node, key_of_tag(tag), "confirmed")
        if getattr(tag, "hollow", False):
            self.let_by[node] |= bit
        elif kind == DELIVER:
            self.confirmed[node] |= bit
        elif kind == STABLE:
            self.told_confirmed[node] |= bit
        else:
            self.k_confirmed[node] |= bit

    def restarted(self, node: int, tags: Sequence[Any]) -> None:
        """The node is another one that remembers these tags."""
        histories = self.histories
        confirmed = self.confirmed[node]
        self.former[node].update(self.tags[node])
        mine = [tag for tag in tags if not tag.hollow]
        self.tags[node] = {self._number(node, key_of_tag(tag), "restored"): tag for tag in mine}
        for number, tag in self.tags[node].items():
            self._check_tag(node, number, tag, "restored")
        if self.options.stability:
            due = confirmed & histories.ordered & ~self.told_confirmed[node]
            forgotten = [n for n in bits(due) if n not in self.tags[node]]
            if forgotten:
                self.fail(f"{self.name(node)} came back without {histories.show(forgotten[0])}")
        self.past[node] = confirmed
        self.told[node] = self.told_confirmed[node]
        # Stable says more than k-stable: once that is confirmed, the other need not come again.
        self.k_told[node] = self.k_confirmed[node] | self.told_confirmed[node]
        others = sum(1 << n for n in bits(confirmed) if histories.keys[n][0] != node)
        others |= self.let_by[node]
        self.ready_at[node] = self.arrived_at[node] = self.offered_to[node] = others
        self.seen[node] = 0
        for number in bits(confirmed):
            self.seen[node] |= histories.closure[number]
        self.phantoms[node] = [[] for _ in range(self.size)]
        self.known[node] = [0] * self.size
        for number in bits(confirmed & histories.ordered):
            slot = histories.keys[number][0]
            self.known[node][slot] |= histories.closure[number] & histories.ordered
        self.known[node][node] |= self.seen[node]

    def compare_former(self, node: int, a: int, b: int) -> None:
        """A tag of a former life and one of this life: right, or no answer."""
        old, new = self.former[node][a], self.tags[node][b]
        closure = self.histories.closure
        try:
            answers = (old < new, old > new, old == new)
        except LocalProtocolError:
            return
        truth = (a != b and closure[b] >> a & 1 == 1, a != b and closure[a] >> b & 1 == 1, a == b)
        if answers != truth:
            self.fail(
                f"{self.name(node)} says of the stored {self.histories.show(a)} and "
                f"{self.histories.show(b)} (<, >, ==) {answers}, their histories say {truth}"
            )


class RestartCluster(Cluster):
    """A cluster whose applications confirm, and whose nodes can be replaced."""

    def __init__(
        self, spec: EngineSpec, names: Sequence[str], options: EngineOptions, oracle: RestartOracle,
        *, through_codec: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(spec, names, options, [oracle], through_codec=through_codec)
        self.oracle = oracle
        self.names = list(names)
        self.confirmed = [Confirmed(slot) for slot in range(self.size)]
        self.taken: list[list[tuple[int, Any]]] = [[] for _ in names]
        """Per node, events that its application has taken and not confirmed, in order."""
        self.k_told: list[list[Any]] = [[] for _ in names]
        self.received: list[dict[Key, tuple[int, Message]]] = [{} for _ in names]
        """Per node, messages from others that are not confirmed."""
        self.at_once = False
        """Confirm every event when it is taken."""
        self.restarts = 0

    def client_broadcast(self, i: int, payload: bytes = b"", **how: Any) -> Any:
        self.confirm(i, len(self.taken[i]))
        tag = super().client_broadcast(i, payload, **how)
        self.confirmed[i].send(tag)
        return tag

    def client_phantom(self, i: int) -> Phantom | None:
        phantom = self.confirmed[i].phantom()
        self.oracle.phantom_made(i, phantom)
        self.to_middleware[i].append((ANNOUNCE, phantom))
        return phantom

    def client_take(self, i: int) -> bool:
        queue = self.to_client[i]
        if not queue:
            return False
        kind, tag = queue.popleft()
        if kind == DELIVER:
            self.clients[i].consume(tag)
        if tag.hollow:
            pass  # its turn has come, and the application hears nothing
        elif kind == DELIVER:
            self.oracle.consumed(i, tag)
        elif kind == STABLE:
            self.oracle.stabilised(i, tag)
        else:
            self.oracle.k_stabilised(i, tag)
        self.taken[i].append((kind, tag))
        if self.at_once:
            self.confirm(i, len(self.taken[i]))
        return True

    def confirm(self, i: int, count: int) -> None:
        """The application of ``i`` confirms the oldest events that it has taken."""
        for kind, tag in self.taken[i][:count]:
            if kind == DELIVER:
                self.confirmed[i].take(tag)
                self.received[i].pop(key_of_tag(tag), None)
            elif kind == STABLE:
                self.clients[i].stabilised(tag)
                self.to_middleware[i].append((FORGET, tag))
            else:
                self.k_told[i].append(tag)
            self.oracle.confirm(i, kind, tag)
        del self.taken[i][:count]

    def network_deliver(self, i: int, j: int, item: WireMessage) -> bool:
        self._at_hand(i, j, item)
        return super().network_deliver(i, j, item)

    def network_deliver_many(self, i: int, j: int, items: Sequence[WireMessage]) -> bool:
        for item in items:
            self._at_hand(i, j, item)
        return super().network_deliver_many(i, j, items)

    def _at_hand(self, i: int, j: int, item: WireMessage) -> None:
        if isinstance(item, Message):
            self.received[j].setdefault(key_of_message(item), (i, item))

    def restart(self, i: int, rng: random.Random) -> None:
        """Replace the node in slot ``i`` by one made of what it had confirmed."""
        client: Any = self.clients[i]
        engine: Any = self.engines[i]
        state = export_state(client, engine, self.confirmed[i], self.k_told[i])
        data = msgspec.msgpack.encode(state)
        outbox = [message_of(tag) for kind, tag in self.to_middleware[i] if kind == BROADCAST]
        made: Any = self.spec.make(Members(self.names), i, self.options)
        self.clients[i], self.engines[i] = made
        self.confirmed[i] = Confirmed(i)
        again = msgspec.msgpack.decode(data, type=State)
        tags = restore(made[0], made[1], self.confirmed[i], again)
        if export_state(made[0], made[1], self.confirmed[i], _named(tags, self.k_told[i])) != state:
            self.oracle.fail(f"{self.oracle.name(i)} came back with another state")
        self.k_told[i] = _named(tags, self.k_told[i])
        self.to_middleware[i].clear()
        self.to_client[i].clear()
        self.taken[i].clear()
        self.restarts += 1
        self.oracle.restarted(i, tags)
        for message in outbox:
            self._out.send.append(message)
        self._carry_out(i)
        received = list(self.received[i].values())
        rng.shuffle(received)
        for peer, message in received:
            if not self.network_deliver(peer, i, message):
                self.in_flight.append((peer, i, message))


def _named(tags: list[Any], former: list[Any]) -> list[Any]:
    """Those of the tags that name the same messages as the former ones."""
    names = {tag.packed for tag in former}
    return [tag for tag in tags if tag.packed in names]


class RestartWalk(Walk):
    """A walk that also confirms and restarts."""

    def __init__(self, spec: EngineSpec, options: WalkOptions, replay: str) -> None:
        super().__init__(spec, options, replay)
        names = node_names(options.nodes)
        self.restarting = RestartOracle(spec, names, options.engine, replay)
        self.nodes = RestartCluster(
            spec, names, options.engine, self.restarting, through_codec=options.through_codec
        )
        self.oracle, self.cluster = self.restarting, self.nodes
        self.restarts = 1 + self.rng.randrange(4)
        self.lazy = self.rng.choice((0.0, 0.2, 0.6))
        """How often an application confirms: rarely when it is near 0."""

    def go(self) -> None:
        super().go()
        self._compare_former_lives()

    def before_the_end(self) -> None:
        # The last restart may be of a node at rest, with nothing left to hear again.
        while self.restarts:
            self._restart(self.rng.randrange(self.options.nodes))
        self.nodes.at_once = True
        for node in range(self.options.nodes):
            self.nodes.confirm(node, len(self.nodes.taken[node]))
        self.cluster.quiesce()

    def _step(self, node: int) -> None:
        rng = self.rng
        taken = self.nodes.taken[node]
        if taken and rng.random() < self.lazy:
            self.nodes.confirm(node, rng.randint(1, len(taken)))
        if self.restarts and rng.random() < 0.06:
            self._restart(node)
        super()._step(node)

    def _restart(self, node: int) -> None:
        self.restarts -= 1
        self.nodes.restart(node, self.rng)
        if self.nodes.in_flight and self.rng.random() < 0.5:
            # Those who were not acknowledged send again.
            for flight in self.rng.sample(
                self.nodes.in_flight, self.rng.randint(1, min(5, len(self.nodes.in_flight)))
            ):
                self.nodes.in_flight.append(flight)

    def _compare_former_lives(self) -> None:
        for node in range(self.options.nodes):
            for a in sorted(self.restarting.former[node])[-6:]:
                for b in sorted(self.restarting.tags[node])[-6:]:
                    self.restarting.compare_former(node, a, b)


def restart_walk(spec: EngineSpec, seed: int, options: WalkOptions | None = None) -> RestartWalk:
    """Walk with restarts and check every step and the end; OracleFailure names the seed."""
    options = options or plan(spec, seed)
    replay = f"restart_walk(ENGINES[{spec.name!r}], {seed}, {options})"
    walk = RestartWalk(spec, options, replay)
    try:
        walk.go()
    except OracleFailure:
        raise
    except Exception as error:
        raise OracleFailure(f"{spec.name}: {type(error).__name__}: {error}", replay) from error
    return walk
