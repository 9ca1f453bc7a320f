"""Every interleaving of a small world, once per state.

A world is a script per node: ``m`` broadcasts, ``p`` announces a phantom, ``f`` flushes.  Scripts,
queues and network advance in every possible order, but for steps of different nodes that cannot
matter to each other; the oracle watches each of them.  Orders that lead to the same state are
followed once: the state is everything that clients, engines, queues and
network hold, and what the oracle knows, read from the objects themselves.

Engines cannot be copied half way (a compiled one least of all), so going back means to do the
steps again from the start.  Without recursion: a path is a list of steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.errors import LimitError
from thence.sim.checkers import Oracle, OracleFailure
from thence.sim.cluster import DELIVER, FORGET, Choice, Cluster
from thence.sim.histories import bits
from thence.sim.names import node_names
from thence.sim.walk import close

STATES_MAX: Final = 5_000_000
Path = tuple[Choice, ...]


class World(msgspec.Struct, frozen=True):
    """What the applications do, and with which options."""

    scripts: tuple[str, ...]
    options: EngineOptions = EngineOptions(stability_batch=1)


class Exploration(msgspec.Struct, frozen=True):
    """How much there was."""

    states: int
    steps: int
    ends: int
    """States in which nothing is left to do; each was checked to the end."""


def explore(spec: EngineSpec, world: World, states_max: int = STATES_MAX) -> Exploration:
    """Visit every state; OracleFailure carries the path that fails, for ``follow``."""
    seen: set[int] = set()
    todo: list[Path] = [()]
    steps = ends = 0
    while todo:
        path = list(todo.pop())
        execution = follow(spec, world, path)
        while True:
            state = hash(execution.state())
            if state in seen:
                break
            seen.add(state)
            if len(seen) > states_max:
                raise LimitError(f"{world} has more than {states_max} states")
            choices = execution.choices()
            if not choices:
                ends += 1
                _attempt(spec, world, path, execution, None)
                break
            todo.extend((*path, choice) for choice in choices[1:])
            path.append(choices[0])
            _attempt(spec, world, path, execution, choices[0])
            steps += len(choices)
    return Exploration(len(seen), steps, ends)


def follow(spec: EngineSpec, world: World, path: Iterable[Choice]) -> Execution:
    """The execution that these steps lead to: how a failing path is looked at again."""
    execution = Execution(spec, world)
    done: list[Choice] = []
    for choice in path:
        done.append(choice)
        _attempt(spec, world, done, execution, choice)
    return execution


def _attempt(
    spec: EngineSpec, world: World, path: list[Choice], execution: Execution, choice: Choice | None
) -> None:
    """Do a step, or finish; whatever goes wrong names the path."""
    try:
        if choice is None:
            execution.finish()
        else:
            execution.perform(choice)
    except Exception as error:
        what = error.what if isinstance(error, OracleFailure) else f"{spec.name}: {error!r}"
        replay = f"follow(ENGINES[{spec.name!r}], {world}, {path})"
        raise OracleFailure(what, replay) from error


class Execution:
    """One order of events in a world, as far as it went."""

    def __init__(self, spec: EngineSpec, world: World) -> None:
        names = node_names(len(world.scripts))
        self.world = world
        self.oracle = Oracle(spec, names, world.options)
        self.cluster = Cluster(spec, names, world.options, [self.oracle])
        self.at = [0] * len(names)

    def choices(self) -> list[Choice]:
        """What has to be tried next.

        Steps of different nodes commute, and a node is touched by others only through what they
        send.  So when nobody but one node has something left to send, nothing that the others do
        matters to it, nor in which order with its steps: its steps alone are tried first.
        """
        by_node: list[list[Choice]] = [[] for _ in self.at]
        for node, script in enumerate(self.world.scripts):
            if self.at[node] < len(script):
                by_node[node].append(("script", node))
        for what, index in self.cluster.choices():
            node = self.cluster.in_flight[index][1] if what == "network" else index
            by_node[node].append((what, index))
        senders = [node for node in range(len(self.at)) if self._may_send(node)]
        if len(senders) == 1:
            return by_node[senders[0]]
        if not senders:
            return next((steps for steps in by_node if steps), [])
        return [step for steps in by_node for step in steps]

    def _may_send(self, node: int) -> bool:
        requests = self.cluster.to_middleware[node]
        left = self.world.scripts[node][self.at[node] :]
        return bool(left.strip("f")) or any(kind != FORGET for kind, _ in requests)

    def perform(self, choice: Choice) -> None:
        """Let it happen."""
        what, node = choice
        cluster = self.cluster
        if what == "script":
            action = self.world.scripts[node][self.at[node]]
            self.at[node] += 1
            if action == "m":
                cluster.client_broadcast(node)
            elif action == "p":
                cluster.client_phantom(node)
            else:
                cluster.flush(node)
        else:
            cluster.perform(choice)
        for i in range(cluster.size):
            self._take_stable(i)

    def _take_stable(self, node: int) -> None:
        """Stable events are taken as soon as they are first in the queue, and forgotten if no
        request is before that: told earlier, more of what follows must be after them."""
        cluster = self.cluster
        while cluster.to_client[node] and cluster.to_client[node][0][0] != DELIVER:
            cluster.client_take(node)
        while cluster.to_middleware[node] and cluster.to_middleware[node][0][0] == FORGET:
            cluster.middleware_step(node)

    def finish(self) -> None:
        """Nothing is left to do: flush, and check the end."""
        self.cluster.quiesce()
        self.oracle.check_end()
        if all(hasattr(tag, "precedes") for tags in self.oracle.tags for tag in tags.values()):
            self.oracle.compare_all()
        close(self.cluster, self.oracle)

    def state(self) -> tuple[Any, ...]:
        """Everything that the future depends on, in one order."""
        cluster = self.cluster
        reader = _Reader()
        flights = sorted((i, j, reader.read(message)) for i, j, message in cluster.in_flight)
        return (
            tuple(self.at),
            self._known(),
            tuple(flights),
            tuple(
                (reader.read(client), reader.read(engine), reader.read(inbox), reader.read(outbox))
                for client, engine, inbox, outbox in zip(
                    cluster.clients,
                    cluster.engines,
                    cluster.to_client,
                    cluster.to_middleware,
                    strict=True,
                )
            ),
        )

    def _known(self) -> tuple[Any, ...]:
        """What the oracle knows, by the names of messages: their numbers depend on the order."""
        oracle = self.oracle
        keys = oracle.histories.keys

        def named(masks: Sequence[int]) -> tuple[Any, ...]:
            return tuple(tuple(sorted(keys[number] for number in bits(mask))) for mask in masks)

        order = sorted(range(len(keys)), key=keys.__getitem__)
        return (
            tuple(keys[number] for number in order),
            named([oracle.histories.closure[number] for number in order]),
            named(oracle.past),
            named(oracle.told),
            named(oracle.k_told),
            tuple(named(known) for known in oracle.known),
        )


class _Reader:
    """Turns objects into plain values; one that was met before becomes a reference to it."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}

    def read(self, value: Any) -> Any:
        """Depth first with a worklist: a delivery log is a long chain of objects."""
        found: list[Any] = []
        work = [value]
        while work:
            item = work.pop()
            if item is None or isinstance(item, int | str | bytes):
                found.append(item)
            elif isinstance(item, list | tuple | deque):
                found.append(("list", len(item)))
                work.extend(reversed(item))
            elif isinstance(item, set | frozenset):
                found.append(("set", len(item)))
                work.extend(sorted(item))
            elif isinstance(item, dict):
                found.append(("dict", len(item)))
                for key in sorted(item):
                    work.append(item[key])
                    work.append(key)
            elif isinstance(item, Members):
                found.append("members")
            elif id(item) in self._met:
                found.append(("met", self._met[id(item)]))
            else:
                self._met[id(item)] = len(self._met)
                names = _attributes(item)
                found.append((type(item).__name__, len(names)))
                work.extend(getattr(item, name, None) for name in names)
        return tuple(found)


_ATTRIBUTES: dict[type, tuple[str, ...]] = {}


def _attributes(item: Any) -> tuple[str, ...]:
    """The attributes of an object: compiled, a struct, with slots, or plain."""
    kind = type(item)
    names = _ATTRIBUTES.get(kind)
    if names is None:
        for listed in ("__mypyc_attrs__", "__struct_fields__", "__slots__"):
            if hasattr(kind, listed):
                names = _ATTRIBUTES[kind] = tuple(sorted(getattr(kind, listed)))
                return names
        names = tuple(sorted(vars(item)))
    return names
