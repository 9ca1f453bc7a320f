"""Bursts: what is done for many messages at once is what is done for one after the other."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest

from tests.seeds import seeds
from thence.causal.dot import SEQ_BITS, pack
from thence.causal.members import Members
from thence.engine import bursts
from thence.engine.base import EngineOptions
from thence.engine.bursts import Callbacks, Handed
from thence.engine.effects import Effects
from thence.engine.reject import DUPLICATE, TOO_FAR_AHEAD
from thence.engine.tagged import make
from thence.errors import LimitError
from thence.message import PAYLOAD_BYTES_MAX, Chain, Message, Phantom

NAMES = ("a", "b", "c")


class Twin:
    """One node twice: as bursts, and message by message.  Both must always look the same."""

    def __init__(self, slot: int, stability: bool = True, pending_max: int = 1000) -> None:
        options = EngineOptions(stability=stability, pending_per_origin_max=pending_max)
        self.slot = slot
        self.many, self.one = (make(Members(NAMES), slot, options) for _ in range(2))
        self.many_queue: deque[Any] = deque()
        self.one_queue: deque[Any] = deque()
        self.told: list[str] = []
        self._delivered: set[int] = set()

    def post(self, payloads: list[bytes]) -> list[Message | Chain]:
        """Broadcast these; what travels."""
        out, other = Effects(), Effects()
        tags = bursts.post(*self.many, payloads, out)
        client, engine = self.one
        each = [client.broadcast(payload) for payload in payloads]
        for tag in each:
            engine.broadcast(tag, other)
        assert [described(tag) for tag in tags] == [described(tag) for tag in each]
        self._delivered.update(tag.packed for tag in tags)
        sent: list[Message | Chain] = list(out.send)
        if len(sent) < len(tags):
            sent.append(Chain(self.slot, tags[len(sent)].seq, payloads[len(sent) :]))
        out.send.clear()
        assert expanded(sent) == other.send
        other.send.clear()
        self._collect(out, other)
        return sent

    def receive(self, peer: int, items: list[Message | Chain | Phantom]) -> None:
        """These arrive."""
        out, other = Effects(), Effects()
        for item in items:
            if isinstance(item, Chain):
                bursts.receive_chain(self.many[1], peer, item, out)
            else:
                self.many[1].receive(peer, item, out)
        for message in expanded(items):
            self.one[1].receive(peer, message, other)
        assert [(each.reason, each.retry) for each in out.reject] == [
            (each.reason, each.retry) for each in other.reject
        ]
        self._collect(out, other)

    def take(self, many: bool) -> None:
        """The application takes all there is."""
        seen: list[str] = []
        calls = Callbacks()

        def told(kind: str) -> Any:
            def call(what: Any) -> None:
                for tag in what if many else [what]:
                    seen.append(f"{kind} {described(tag)}")

            return call

        calls.deliver, calls.stable = told("deliver"), told("stable")
        calls.deliver_many = calls.stable_many = many
        handed = Handed(len(NAMES))
        bursts.hand(self.many[0], self.many_queue, calls, _must_not_fail, handed)
        client, engine = self.one
        expected: list[str] = []
        while self.one_queue:
            kind, tag = self.one_queue.popleft()
            expected.append(f"{kind} {described(tag)}")
            if kind == "deliver":
                client.consume(tag)
            else:
                client.stabilised(tag)
                engine.forget(tag)
        assert seen == expected
        assert handed.delivered == sum(line.startswith("deliver") for line in seen)
        assert handed.told == len(seen) - handed.delivered
        assert sum(handed.messages) == handed.delivered
        self.told += seen

    def flush(self) -> None:
        """Look for what is stable."""
        out, other = Effects(), Effects()
        self.many[1].flush(out)
        self.one[1].flush(other)
        self._collect(out, other)

    def _collect(self, out: Effects, other: Effects) -> None:
        # Concurrent messages may come in another order, after what each names.
        assert sorted(map(described, out.deliver)) == sorted(map(described, other.deliver))
        for tag in out.deliver:
            assert self._delivered.issuperset(tag.raw_context)
            self._delivered.add(tag.packed)
        by_dot = {tag.packed: tag for tag in other.deliver}
        self.many_queue.extend(out.deliver)
        self.one_queue.extend(("deliver", by_dot[tag.packed]) for tag in out.deliver)
        # A pass may come a few messages later; ``flush`` finds the rest of both.
        for node, found in ((self.many, out), (self.one, other)):
            node[1].flush(found)
        assert sorted(map(str, out.stable)) == sorted(map(str, other.stable))
        self.many_queue.extend(out.stable)
        self.one_queue.extend(("stable", tag) for tag in out_of(self.one, out.stable))
        self.compare()

    def compare(self) -> None:
        """What is remembered is the same."""
        (client, engine), (plain, other) = self.many, self.one
        assert engine.delivered == other.delivered
        assert sorted(engine.held(), key=_dot) == sorted(other.held(), key=_dot)
        assert engine.waiting() == other.waiting()
        assert engine.words() == other.words()
        assert client.frontier.context == plain.frontier.context
        assert client.past.window.keys() == plain.past.window.keys()
        assert client.past.kept == plain.past.kept == len(client.past.window)
        assert client.phantom() == plain.phantom()


def out_of(node: Any, tags: list[Any]) -> list[Any]:
    """The same messages as the other twin names them."""
    return [node[0].past.rows[tag.packed >> SEQ_BITS][tag.packed] for tag in tags]


def _dot(message: Message) -> tuple[int, int]:
    return message.origin, message.seq


def _must_not_fail(error: Exception) -> None:
    raise error


def described(tag: Any) -> str:
    return f"{tag} after {tag.raw_context} {bytes(tag.payload)!r}"


def expanded(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        found += item.messages() if isinstance(item, Chain) else [item]
    return found


def cut(rng: random.Random, items: list[Message | Chain]) -> list[Message | Chain]:
    """The same messages, in other chains."""
    found: list[Message | Chain] = []
    for item in items:
        if isinstance(item, Chain) and len(item) > 1 and rng.random() < 0.5:
            at = rng.randrange(1, len(item))
            found.append(Chain(item.origin, item.seq, item.payloads[:at]))
            rest = Chain(item.origin, item.seq + at, item.payloads[at:])
            found += [rest] if rng.random() < 0.5 else rest.messages()
        else:
            found.append(item)
    return found


@pytest.mark.parametrize("stability", [True, False])
def test_bursts_do_what_messages_do(stability: bool):
    for seed in seeds(30):
        rng = random.Random(seed)
        nodes = [Twin(slot, stability) for slot in range(len(NAMES))]
        links: dict[tuple[int, int], list[Any]] = {
            (i, j): [] for i in range(len(NAMES)) for j in range(len(NAMES)) if i != j
        }
        for _ in range(60):
            node = rng.choice(nodes)
            others = [i for i in range(len(NAMES)) if i != node.slot]
            action = rng.random()
            if action < 0.35:
                payloads = [b"%d" % rng.randrange(100) for _ in range(rng.randrange(1, 6))]
                sent = node.post(payloads)
                for other in others:
                    links[node.slot, other] += cut(rng, sent)
            elif action < 0.75:
                peer = rng.choice(others)
                link = links[peer, node.slot]
                if rng.random() < 0.15:
                    rng.shuffle(link)  # a network that does not keep the order
                count = rng.randrange(len(link) + 1)
                arriving, links[peer, node.slot] = link[:count], link[count:]
                if arriving and rng.random() < 0.2:
                    arriving.append(rng.choice(arriving))  # again
                node.receive(peer, arriving)
            elif action < 0.95:
                node.take(many=rng.random() < 0.5)
            elif stability:
                for other in others:
                    links[node.slot, other].append(node.one[0].phantom())
            node.compare()
        for _ in range(4):  # everything arrives, and everybody says what it has taken
            for (peer, slot), link in links.items():
                nodes[slot].receive(peer, link)
                link.clear()
            for node in nodes:
                node.take(many=bool(seed % 2))
            for (peer, _slot), link in links.items():
                if stability:
                    link.append(nodes[peer].one[0].phantom())
        for node in nodes:
            assert not node.many[1].waiting()
            if stability:
                assert not node.many[0].past.kept


def chain(slot: int, seq: int, count: int) -> Chain:
    return Chain(slot, seq, [b"x"] * count)


def first(slot: int) -> Message:
    return Message(slot, 1, (), b"x")


def test_a_chain_waits_for_what_is_before_it_and_comes_as_a_whole():
    node = Twin(0)
    node.receive(1, [chain(1, 2, 5)])
    assert len(node.many[1].held()) == 5
    assert not node.many[1].pending
    node.receive(1, [first(1)])
    assert [tag.seq for tag in node.many_queue] == [1, 2, 3, 4, 5, 6]
    assert not node.many[1].chains.count


def test_what_waits_for_the_middle_of_a_chain_is_woken_by_it():
    node = Twin(0)
    node.receive(2, [Message(2, 1, (pack(1, 3),), b"y"), chain(2, 2, 3)])
    node.receive(1, [chain(1, 2, 4)])
    assert not node.many_queue
    node.receive(1, [first(1)])
    assert len(node.many_queue) == 9


def test_a_message_of_a_held_chain_is_a_duplicate():
    node = Twin(0)
    node.receive(1, [chain(1, 2, 3)])
    out = Effects()
    node.many[1].receive(1, Message(1, 3, (pack(1, 2),), b"x"), out)
    bursts.receive_chain(node.many[1], 1, chain(1, 4, 2), out)
    assert [reject.reason for reject in out.reject] == [DUPLICATE, DUPLICATE]
    assert len(node.many[1].held()) == 4  # the last of the second chain is new


def test_chains_are_held_back_within_the_bound():
    node = Twin(0, pending_max=4)
    node.receive(1, [chain(1, 3, 10)])
    assert len(node.many[1].held()) == 2  # 3 and 4, one by one
    out = Effects()
    bursts.receive_chain(node.many[1], 1, chain(1, 5, 1), out)
    assert [(reject.reason, reject.retry) for reject in out.reject] == [(TOO_FAR_AHEAD, True)]


def test_a_chain_of_a_stranger_or_of_this_node_is_refused():
    node = Twin(0)
    for peer, slot in ((1, 7), (7, 1), (1, 0), (2, 1)):
        out = Effects()
        bursts.receive_chain(node.many[1], peer, chain(slot, 2, 2), out)
        assert not out.deliver
        assert len(out.reject) == (0 if (peer, slot) == (2, 1) else 2)


def test_a_burst_with_one_payload_too_large_is_not_sent_at_all():
    node = Twin(0)
    large = bytes(PAYLOAD_BYTES_MAX + 1)
    with pytest.raises(LimitError):
        bursts.post(*node.many, [b"x", large], Effects())
    assert node.many[0].sent & 1 == 0
    assert not node.many[0].past.window


def test_nothing_is_a_burst_too():
    assert bursts.post(*Twin(0).many, [], Effects()) == []


@pytest.mark.parametrize("many", [True, False])
def test_what_a_callback_was_told_when_it_was_broken_off_is_forgotten(many: bool):
    client, engine = make(Members(NAMES), 0, EngineOptions())
    out = Effects()
    bursts.post(client, engine, [b"x", b"y"], out)
    for slot in (1, 2):
        engine.receive(slot, Phantom(slot, 1, (pack(0, 2),)), out)
    engine.flush(out)
    assert len(out.stable) == 2
    calls, queue = Callbacks(), deque(out.stable)

    def interrupted(what: Any) -> None:
        raise KeyboardInterrupt

    calls.stable, calls.stable_many = interrupted, many
    with pytest.raises(KeyboardInterrupt):
        bursts.hand(client, queue, calls, _must_not_fail, Handed(len(NAMES)))
    assert client.past.kept == len(queue) == (0 if many else 1)
    assert not client.telling
