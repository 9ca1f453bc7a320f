"""Conversations for tests of engines that order: who says what, and when it arrives where."""

from __future__ import annotations

import random
from typing import Any

from thence.causal.dot import pack
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.message import Bundle, Control, Directed, Stamped
from thence.sim.cluster import Cluster, Watcher
from thence.sim.orders import Orders


class Taken(Watcher):
    """What each application took."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.tags: list[list[Any]] = [[] for _ in orders.names]
        self.moments: list[tuple[Any, int]] = []
        """A message, and what had been sent or taken there when it was taken, a bit for each."""

    def consumed(self, node: int, tag: Any) -> None:
        self.moments.append((tag, self.orders.past[node]))
        self.tags[node].append(tag)


class Talk:
    """A group whose messages are texts, each different; the test is the network."""

    def __init__(self, engine: str, names: str = "abc", **options: Any) -> None:
        spec = ENGINES[engine]
        self.names = names
        self.orders = Orders(spec, list(names))
        self.taken = Taken(self.orders)
        watchers = [self.taken, self.orders]
        self.cluster = Cluster(spec, list(names), EngineOptions(**options), watchers)

    def say(self, name: str, text: str, to: str = "") -> None:
        """An application sends, and its middleware lets it out."""
        node = self.names.index(name)
        slots = [self.names.index(each) for each in to] or None
        self.cluster.client_broadcast(node, text.encode(), to=slots)
        self.cluster.middleware_step(node)

    def bring(self, text: str, *names: str) -> None:
        """A message arrives there, by default everywhere, and applications take what they can."""
        for name in names or self.names:
            for flight in list(self.cluster.in_flight):
                if self.names[flight[1]] == name and self.text(flight[2]) == text:
                    self.cluster.in_flight.remove(flight)
                    assert self.cluster.network_deliver(*flight)
            while self.cluster.client_take(self.names.index(name)):
                pass

    def bring_all(self, rng: random.Random | None = None) -> None:
        """Everything that is on its way, in this order or in any."""
        flights = self.cluster.in_flight
        while flights:
            flight = flights.pop(0 if rng is None else rng.randrange(len(flights)))
            assert self.cluster.network_deliver(*flight)
            while self.cluster.client_take(flight[1]):
                pass

    def text(self, message: Any) -> str:
        """Of a message on its way; of a bundle, of its last one."""
        if isinstance(message, Control):
            return "(control)"
        last = message.messages[-1] if isinstance(message, Bundle) else message
        return str(last.payload.decode())

    def took(self, name: str) -> list[str]:
        """What an application took, each with its flag if it has one."""
        tags = self.taken.tags[self.names.index(name)]
        return [tag.payload.decode() + (f" ({tag.flag})" if tag.flag else "") for tag in tags]

    def branches(self, name: str) -> list[int]:
        """The numbers of the branches of what it took."""
        return [tag.branch for tag in self.taken.tags[self.names.index(name)]]


def messages(sent: list[Any]) -> list[Stamped]:
    """What an engine sent, whoever it is for."""
    plain = [each.message if isinstance(each, Directed) else each for each in sent]
    return [each for each in plain if isinstance(each, Stamped)]


def one_at_a_time(engine: str, seed: int, **options: Any) -> Talk:
    """A conversation without concurrent messages: whoever speaks has heard everything.  What one
    says comes to the next speaker first, to the others in any order, late and early."""
    rng = random.Random(seed)
    talk = Talk(engine, "abcd", **options)
    for number in range(12):
        speaker = rng.choice(talk.names)
        for earlier in range(number):  # in the order of sending, so that it has them all
            talk.bring(str(earlier), speaker)
        talk.say(speaker, str(number))
    talk.bring_all(rng)
    return talk


def at_random(engine: str, seed: int, **options: Any) -> Talk:
    """Everybody speaks at any time, and everything arrives in any order."""
    rng = random.Random(seed)
    talk = Talk(engine, "abcd", **options)
    for number in range(15):
        talk.say(rng.choice(talk.names), str(number))
        flights = talk.cluster.in_flight
        for _ in range(rng.randrange(6)):
            if flights:
                _, j, message = rng.choice(flights)
                talk.bring(talk.text(message), talk.names[j])
    talk.bring_all(rng)
    return talk


def flags(talk: Talk) -> list[tuple[bool, bool]]:
    """Of each message that was taken: whether it has a flag, and whether it really is concurrent
    with something that was sent or taken there before.  From the histories of the oracle."""
    before = talk.orders.before
    return [
        (bool(tag.flag), bool(here & ~before[talk.orders.number[pack(tag.origin, tag.seq)]]))
        for tag, here in talk.taken.moments
    ]
