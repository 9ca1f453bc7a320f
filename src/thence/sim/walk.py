"""Random interleavings: a walk over the primitive steps of a cluster, without time.

Every step that is possible has a chance at every moment, so that clients and middlewares overtake
each other and the network reorders and repeats at will.  Small executions, many of them: this is
what finds bugs.  The oracle watches; the same options walk the same way.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from thence.engine.base import EngineOptions, EngineSpec
from thence.sim.checkers import Oracle, OracleFailure
from thence.sim.cluster import Cluster
from thence.sim.names import node_names

STREAM_NAMES = ("s", "t")


class WalkOptions(msgspec.Struct, frozen=True):
    """One walk.  ``plan`` draws a varied one from a seed."""

    seed: int
    nodes: int = 3
    messages: int = 8
    senders: int = 0
    """How many nodes send messages, the first ones; 0 is all.  The others only announce."""
    phantoms: int = 3
    duplicate: float = 0.1
    streams: float = 0.0
    """Chance that a message goes on a stream of its own (engines that have them)."""
    eagerness: float = 0.5
    """Between draining queues at once (1) and letting them grow (0)."""
    batches: bool = False
    """Hand over several messages of one link in one step, sometimes."""
    through_codec: bool = False
    compare: bool = True
    """Ask tags about each other at random moments and, at the end, all of them."""
    engine: EngineOptions = EngineOptions()
    multicast: float = 0.0
    """Chance that a message is for some members only (engines that have that)."""


def plan(spec: EngineSpec, seed: int, stability: bool | None = None) -> WalkOptions:
    """A varied walk: size, load, batch, k, streams and network all follow from the seed."""
    rng = random.Random(seed)
    nodes = rng.choice((2, 2, 3, 3, 3, 4, 5))
    if stability is None:
        stability = rng.random() < 0.8
    return WalkOptions(
        seed=seed,
        nodes=nodes,
        # Few messages reach every corner of a small world; many are there for amortised passes.
        messages=rng.randint(1, 14) if rng.random() < 0.9 else rng.randint(20, 60),
        senders=rng.choice((0, 0, rng.randint(1, nodes))),
        phantoms=rng.choice((0, 2, 6, 20)),
        duplicate=rng.choice((0.0, 0.1, 0.5)),
        streams=rng.choice((0.0, 0.0, 0.2, 0.6)) if spec.streams else 0.0,
        eagerness=rng.choice((0.1, 0.5, 0.9)),
        batches=rng.random() < 0.3,
        through_codec=rng.random() < 0.3,
        engine=EngineOptions(
            stability=stability,
            stability_batch=rng.choice((0, 1, 1, 3)),
            k=rng.choice((0, 0, 1, 2, nodes)) if spec.k_stability else 0,
            pending_per_origin_max=rng.choice((1, 2, 65_536)),
        ),
        multicast=rng.choice((0.0, 0.3, 0.7)) if spec.multicast and stability else 0.0,
    )


def random_walk(spec: EngineSpec, options: WalkOptions | int, replay: str = "") -> Oracle:
    """Walk, check every step and the end; OracleFailure names the walk that failed.

    ``options`` may be just a seed: then ``plan`` draws the rest.
    """
    if isinstance(options, int):
        options = plan(spec, options)
    replay = replay or f"random_walk(ENGINES[{spec.name!r}], {options})"
    walk = Walk(spec, options, replay)
    try:
        walk.go()
    except OracleFailure:
        raise
    except Exception as error:
        raise OracleFailure(f"{spec.name}: {type(error).__name__}: {error}", replay) from error
    return walk.oracle


class Walk:
    """One walk, on its way.  Other walks are built on it (sim/restarts.py)."""

    def __init__(self, spec: EngineSpec, options: WalkOptions, replay: str) -> None:
        self.spec = spec
        self.options = options
        self.rng = random.Random(f"walk {options.seed}")
        names = node_names(options.nodes)
        self.oracle = Oracle(spec, names, options.engine, replay)
        self.cluster = Cluster(
            spec, names, options.engine, [self.oracle], through_codec=options.through_codec
        )
        self.messages = options.messages
        self.phantoms = options.phantoms if spec.phantoms else 0
        self.duplicates = int(options.duplicate * options.messages * options.nodes)

    def go(self) -> None:
        """All of it, and the end is judged."""
        self.wander()
        self.before_the_end()
        self.oracle.check_end()
        if self.options.compare and self._comparable():
            self.oracle.compare_all()
        close(self.cluster, self.oracle)

    def wander(self) -> None:
        """Until everything was sent, has arrived and was taken."""
        rng = self.rng
        while self.messages or self.phantoms or self.cluster.choices():
            node = rng.randrange(self.options.nodes)
            if rng.random() < self.options.eagerness:
                self._serve(node)
            self._step(node)
            if rng.random() < 0.1:
                self._ask(node)
        self.cluster.quiesce()

    def before_the_end(self) -> None:
        """Everything has arrived and was taken; the end will be judged after this."""

    def _step(self, node: int) -> None:
        rng, cluster = self.rng, self.cluster
        kind = rng.randrange(7)
        if kind == 0 and self.messages:
            self.messages -= 1
            self._broadcast(node % (self.options.senders or self.options.nodes))
        elif kind == 1 and self.phantoms:
            self.phantoms -= 1
            cluster.client_phantom(node)
        elif kind == 2:
            cluster.middleware_step(node)
        elif kind == 3:
            cluster.client_take(node)
        elif kind == 4 and rng.random() < 0.4:
            cluster.flush(node)
        elif cluster.in_flight:
            self._network(rng.randrange(len(cluster.in_flight)))

    def _serve(self, node: int) -> None:
        if self.rng.random() < 0.5:
            self.cluster.middleware_step(node)
        else:
            self.cluster.client_take(node)

    def _network(self, index: int) -> None:
        rng, cluster = self.rng, self.cluster
        i, j, _ = cluster.in_flight[index]
        if self.options.batches and rng.random() < 0.5:
            batch = [f for f in cluster.in_flight if f[0] == i and f[1] == j]
            rng.shuffle(batch)
            batch = batch[: rng.randint(1, len(batch))]
            if cluster.network_deliver_many(i, j, [message for _, _, message in batch]):
                for flight in batch:
                    cluster.in_flight.remove(flight)
        elif self.duplicates and rng.random() < self.options.duplicate:
            self.duplicates -= 1
            cluster.network_deliver(*cluster.in_flight[index])
        else:
            cluster.deliver_in_flight(index)

    def _broadcast(self, node: int) -> None:
        rng, cluster = self.rng, self.cluster
        payload = b"x" * rng.randrange(3)
        others = [slot for slot in range(self.options.nodes) if slot != node]
        if self.options.multicast and rng.random() < self.options.multicast:
            to = rng.sample(others, rng.randint(1, len(others)))
            cluster.client_broadcast(node, payload, to=to)
            return
        if rng.random() >= self.options.streams:
            cluster.client_broadcast(node, payload)
            return
        how = rng.randrange(3)
        if how == 0:
            cluster.client_broadcast(node, payload, ordered=False)
            return
        known = [
            tag
            for number, tag in self.oracle.tags[node].items()
            if self._may_be_named(node, number)
        ]
        after = rng.sample(known, rng.randint(0, min(3, len(known))))
        stream = rng.choice(STREAM_NAMES) if how == 1 else None
        cluster.client_broadcast(node, payload, stream=stream, after=after)

    def _may_be_named(self, node: int, number: int) -> bool:
        return not (self.oracle.told[node] >> number & 1 or self.oracle.truth.expected[number].to)

    def _comparable(self) -> bool:
        # Tags that compare are the flagship's; the thesis' engines hand over plain ones.
        return all(
            hasattr(next(iter(tags.values())), "precedes") for tags in self.oracle.tags if tags
        )

    def _ask(self, node: int) -> None:
        self.oracle.check_waiting(node, self.cluster.waiting(node))
        tags: dict[int, Any] = self.oracle.tags[node]
        if self.options.compare and len(tags) > 1 and self._comparable():
            a, b = self.rng.choices(sorted(tags), k=2)
            self.oracle.compare(node, a, b)


def close(cluster: Cluster, oracle: Oracle) -> None:
    """Let everything become stable, then check that its metadata is gone.

    With phantoms: all announce twice, then an engine must hold what a fresh one holds, and at most
    two words per stream.  Without: a round of broadcasts makes everything before it stable; the N
    messages of the last round may remain, at most 2 N + 8 words each (a vector, a matrix row, and
    a few more).
    """
    if not oracle.spec.stability or not oracle.options.stability:
        return
    size = cluster.size
    before = oracle.histories.ordered
    streams = {key[:2] for key in oracle.histories.keys if key[1]}
    if oracle.spec.phantoms:
        if streams or any(oracle.histories.not_for):
            # Messages of streams are forgotten with the first usual message after them, and
            # multicasts are stable only when something after them was for everyone.
            for node in range(size):
                cluster.client_broadcast(node)
            cluster.quiesce()
        for _ in range(2):
            for node in range(size):
                cluster.client_phantom(node)
            cluster.quiesce()
        allowance = 2 * len(streams)
    else:
        for node in range(size):
            cluster.client_broadcast(node)
        cluster.quiesce()
        allowance = size * (2 * size + 8)
    oracle.check_end()
    fresh = oracle.spec.make(cluster.members, 0, oracle.options)[1].words()
    for node in range(size):
        unstable = before & ~oracle.told[node] & ~oracle.histories.not_for[node]
        if unstable:
            oracle.fail(
                f"{oracle.name(node)} was not told that {oracle.histories.show_all(unstable)} are "
                f"stable, though everybody has announced it"
            )
        if cluster.engines[node].waiting():
            oracle.fail(f"{oracle.name(node)} still holds messages back at the end")
        oracle.check_collected(node, cluster.engines[node].words(), fresh + allowance)
