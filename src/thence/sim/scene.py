"""A script played on a cluster: real engines, and a network that does what the script says.

Two judges watch.  The expectations of the script, line by line; and the oracle, which knows what
happened before what from explicit histories: sim/checkers.py for engines that tag, at every step,
and sim/orders.py for what applications took.  When the lines are over, all that is still on its way
arrives and is taken; then everything must be there, in the order that the engine states.  Where
an engine needs FIFO links and the script let messages overtake each other, that is not judged.

Engines that can tell stability at once do (``stability_batch=1``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast

from thence.causal.dot import pack, seq_of, slot_of
from thence.engine.base import EngineOptions, Guarantee
from thence.engine.reject import DUPLICATE, Reject
from thence.errors import LocalProtocolError
from thence.message import Bundle, Message, Phantom, Stamped, VectorMessage, WireMessage
from thence.sim.checkers import Oracle, OracleFailure
from thence.sim.cluster import BROADCAST, DELIVER, Cluster, Watcher
from thence.sim.histories import key_of_message
from thence.sim.orders import Orders
from thence.sim.script import SCRIPT_ENGINES, Line, Script


class SceneFailure(AssertionError):
    """Something did not go as the script or the definition says: file, line, engine, what."""


def play(script: Script, engine: str) -> Scene:
    """All of it under one engine.  SceneFailure at the first line that does not hold."""
    scene = Scene(script, engine)
    for line in script.lines:
        if not line.only or engine in line.only:
            scene.step(line)
    scene.end()
    return scene


class Scene(Watcher):
    """One script under one engine, on its way."""

    def __init__(self, script: Script, engine: str) -> None:
        self.script = script
        self.spec = spec = SCRIPT_ENGINES[engine]
        self.line = script.lines[-1]
        names = list(script.nodes)
        options = EngineOptions(stability_batch=1)
        self.orders = Orders(spec, names)
        self.oracle = None if spec.stamped else Oracle(spec, names, options)
        watchers = [self, self.orders, *([self.oracle] if self.oracle else [])]
        self.cluster = Cluster(spec, names, options, watchers)
        self.dots: dict[str, int] = {}
        """By name of the message its packed dot."""
        self.names: dict[int, str] = {}
        self.tags: list[dict[int, Any]] = [{} for _ in names]
        """By node, the tags of what its application sent or took."""
        self.took: list[list[str]] = [[] for _ in names]
        self.told: list[list[str]] = [[] for _ in names]
        """By node, what its application was told is stable, in order."""
        self.here: list[set[int]] = [set() for _ in names]
        """By node, what arrived and its middleware has not handed over."""
        self.handed: list[set[int]] = [set() for _ in names]
        """By node, what it has handed over; some engines bring it once more, through another."""
        self.overtaken = False
        """A message overtook another on the same link."""

    # Steps.

    def step(self, line: Line) -> None:
        """One line."""
        self.line = line
        try:
            getattr(self, f"_{line.kind}")(line)
        except (OracleFailure, LocalProtocolError) as error:
            self.fail(str(error))

    def end(self) -> None:
        """Everything arrives and is taken; then the engine's own guarantee is judged."""
        try:
            self.cluster.quiesce()
            if self.oracle is not None:
                self.oracle.check_end()
        except OracleFailure as error:
            self.fail(f"at the end: {error}")
        found = self.orders.missing()
        if not (self.spec.fifo_links and self.overtaken):
            found += self.orders.violations(self.spec.guarantee)
        if found:
            self.fail(f"at the end: {self._named(found[0])}")

    def fail(self, what: str) -> NoReturn:
        """Raise, with file, line and engine."""
        where = f"{self.script.name}:{self.line.number}"
        raise SceneFailure(f"{where}: under {self.spec.name}: {self.line.text}: {what}")

    def _slot(self, node: str) -> int:
        return self.script.nodes.index(node)

    def _send(self, line: Line) -> None:
        self._call(line)
        self._pass_on(line)

    def _call(self, line: Line) -> None:
        slot = self._slot(line.node)
        to = sorted(self._slot(node) for node in line.nodes) or None
        if to is not None and not self.spec.multicast:
            self.fail("this engine sends to everyone only")
        tag = self.cluster.client_broadcast(slot, line.said.encode(), to=to)
        packed = pack(tag.origin, tag.seq)
        self.dots[line.message] = packed
        self.names[packed] = line.message
        self.tags[slot][packed] = tag

    def _pass_on(self, line: Line) -> None:
        """The middleware takes requests up to the one for this message."""
        slot, packed = self._slot(line.node), self.dots[line.message]
        queue = self.cluster.to_middleware[slot]
        asked = [value for kind, value in queue if kind == BROADCAST]
        if not any(pack(tag.origin, tag.seq) == packed for tag in asked):
            self.fail("its middleware has no such request to take")
        while queue:
            kind, value = queue[0]
            self.cluster.middleware_step(slot)
            if kind == BROADCAST and pack(value.origin, value.seq) == packed:
                return

    def _announce(self, line: Line) -> None:
        slot = self._slot(line.node)
        if self.cluster.client_phantom(slot) is None:
            self.fail("this engine has no phantoms")
        while self.cluster.middleware_step(slot):
            pass

    def _idle(self, line: Line) -> None:
        self.cluster.flush(self._slot(line.node))

    def _bring_phantom(self, line: Line) -> None:
        for node in line.nodes:
            self._hand_over((self._slot(line.node), -1), node)

    def _bring(self, line: Line) -> None:
        packed = self.dots[line.message]
        for node in line.nodes:
            self._hand_over((slot_of(packed), seq_of(packed)), node)

    def _hand_over(self, what: tuple[int, int], node: str) -> None:
        slot = self._slot(node)
        links = []
        for at, (i, j, message) in enumerate(self.cluster.in_flight):
            if j == slot and _dot(message) == what:
                self.overtaken |= i in links
                if self.cluster.network_deliver(i, j, message):
                    # What came of it is behind it.
                    self.cluster.in_flight.pop(at)
                return
            if j == slot:
                links.append(i)
        self.fail(f"it is not on its way to {node}")

    def _bring_rest(self, line: Line) -> None:
        self.cluster.quiesce()

    def _take_all(self, line: Line) -> None:
        while self.cluster.client_take(self._slot(line.node)):
            pass

    def _take(self, line: Line) -> None:
        """These, in this order; stable events before them are taken as well."""
        slot = self._slot(line.node)
        queue = self.cluster.to_client[slot]
        for name in line.names:
            found = ""
            while queue and not found:
                kind, tag = queue[0]
                if kind == DELIVER and not getattr(tag, "hollow", False):
                    found = self.names[pack(tag.origin, tag.seq)]
                    if found != name:
                        self.fail(f"{found} is next for {line.node}")
                self.cluster.client_take(slot)
            if not found:
                self.fail(f"nothing is ready for {line.node}: {self._state(slot)}")

    # What is seen.

    def consumed(self, node: int, tag: Any) -> None:
        packed = pack(tag.origin, tag.seq)
        self.tags[node][packed] = tag
        self.took[node].append(self.names[packed])

    def stabilised(self, node: int, tag: Any) -> None:
        self.told[node].append(self.names[pack(tag.origin, tag.seq)])

    def arriving(self, node: int, peer: int, message: WireMessage) -> None:
        origin, seq = _dot(message)
        if seq > 0 and pack(origin, seq) not in self.handed[node]:
            self.here[node].add(pack(origin, seq))

    def ready(self, node: int, tag: Any) -> None:
        self.here[node].discard(pack(tag.origin, tag.seq))
        self.handed[node].add(pack(tag.origin, tag.seq))

    def rejected(self, node: int, reject: Reject) -> None:
        if reject.reason == DUPLICATE:
            return
        self.fail(f"{self.script.nodes[node]} refused it: {reject.reason}, {reject.detail}")

    # Expectations.

    def _expect_held(self, line: Line) -> None:
        slot, packed = self._slot(line.node), self.dots[line.message]
        if packed not in self.here[slot]:
            self.fail(f"it does not: {self._state(slot)}")
        missing = {pack(key[0], key[2]): lacks for key, lacks in self.cluster.waiting(slot)}
        if packed not in missing:
            self.fail("it does, and does not say so")
        lacks = self._name(pack(missing[packed][0], missing[packed][2]))
        if line.other and lacks != line.other:
            self.fail(f"it waits for {lacks}")

    def _expect_order(self, line: Line) -> None:
        self._same(self.took[self._slot(line.node)], line.names)

    def _expect_stable(self, line: Line) -> None:
        self._same(self.told[self._slot(line.node)], line.names)

    def _same(self, got: Sequence[Any], expected: Sequence[Any]) -> None:
        if list(got) != list(expected):
            self.fail(f"it is {' '.join(map(str, got)) or 'nothing'}")

    def _expect_before(self, line: Line) -> None:
        self._relation(line, "before", self._happened_before)

    def _expect_concurrent(self, line: Line) -> None:
        self._relation(line, "concurrent", self._happened_before)

    def _expect_sees_before(self, line: Line) -> None:
        self._relation(line, "before", self._seen_before)

    def _expect_sees_concurrent(self, line: Line) -> None:
        self._relation(line, "concurrent", self._seen_before)

    def _relation(self, line: Line, expected: str, precedes: Any) -> None:
        one, other = self.dots[line.message], self.dots[line.other]
        found = "concurrent"
        if precedes(one, other):
            found = "before"
        elif precedes(other, one):
            found = "after"
        if found != expected:
            self.fail(f"{line.message} is {found} {line.other}")

    def _happened_before(self, one: int, other: int) -> bool:
        """By the histories."""
        number = self.orders.number
        return bool(self.orders.before[number[other]] >> number[one] & 1)

    def _seen_before(self, one: int, other: int) -> bool:
        """By the tags that the application of the line's node was given."""
        if self.spec.tags == "none":
            self.fail("this engine gives applications no tags")
        tags = self.tags[self._slot(self.line.node)]
        for packed in (one, other):
            if packed not in tags:
                self.fail(f"{self.line.node} has no {self._name(packed)}")
        first, second = tags[one], tags[other]
        if second.vector is not None:
            return one != other and bool(second.vector[slot_of(one)] >= seq_of(one))
        if hasattr(first, "precedes"):
            return bool(first.precedes(second))
        past, work = set(), list(second.predecessors)
        for packed in work:  # grows while it is walked
            if packed not in past:
                past.add(packed)
                work += tags[packed].predecessors if packed in tags else ()
        return one in past

    def _expect_context(self, line: Line) -> None:
        dots = self._own_tag(line).predecessors
        if dots is None:
            self.fail("this engine tags with vectors, or not at all")
        self._same(sorted(self._name(packed) for packed in dots), sorted(line.names))

    def _expect_vector(self, line: Line) -> None:
        vector = self._own_tag(line).vector
        if vector is None:
            self.fail("this engine tags with dots, or not at all")
        self._same(vector, line.numbers)

    def _own_tag(self, line: Line) -> Any:
        packed = self.dots[line.message]
        return self.tags[slot_of(packed)][packed]

    def _expect_violation(self, line: Line) -> None:
        if not self.orders.violations(cast(Guarantee, line.order)):
            self.fail("there is none")

    def _expect_no_violation(self, line: Line) -> None:
        found = self.orders.violations(cast(Guarantee, line.order))
        if found:
            self.fail(self._named(found[0]))

    # For people.

    def _name(self, packed: int) -> str:
        return self.names.get(packed, f"message {seq_of(packed)} of slot {slot_of(packed)}")

    def _named(self, what: str) -> str:
        """What the oracle says, with the names of the script for its dots."""
        dots = {f"{self.script.nodes[slot_of(p)]}:{seq_of(p)}": n for p, n in self.names.items()}
        return " ".join(dots.get(word.rstrip(","), word) for word in what.split(" "))

    def _state(self, slot: int) -> str:
        held = sorted(self._name(packed) for packed in self.here[slot])
        return f"it took {self.took[slot]} and holds back {held}"


def _dot(message: WireMessage) -> tuple[int, int]:
    """(origin, seq) of a message; (origin, -1) of a phantom, and (-1, -1) of anything else."""
    if isinstance(message, Message | VectorMessage):
        origin, _, seq = key_of_message(message)
        return origin, seq
    if isinstance(message, Bundle):
        message = message.messages[-1]
    if isinstance(message, Stamped):
        return message.origin, message.seq
    return (message.origin, -1) if isinstance(message, Phantom) else (-1, -1)
