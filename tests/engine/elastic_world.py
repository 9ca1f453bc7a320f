"""A small group that changes, in memory, and what must be true of it at every step.

The oracle keeps explicit causal histories: of each message, everything that its sender had sent
or taken before.  A change of members is one step of all nodes here (agreeing on it is no business
of an engine); a newcomer gets its state some time after it was admitted.
"""

from __future__ import annotations

import random
from collections import deque

from thence.causal.dot import SEQ_BITS, SEQ_MAX
from thence.causal.members import Members
from thence.engine import bursts
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.handover import begin, relay, state_for, taken
from thence.engine.reject import DUPLICATE
from thence.engine.tag import Tag
from thence.engine.tagged import Tagged, make
from thence.engine.tagger import Tagger
from thence.message import Chain, Message, Phantom

Item = Message | Chain | Phantom


class Node:
    """One member: what is on its way to it, what its application has yet to take, and has."""

    def __init__(self, client: Tagger, engine: Tagged, consumed: set[int]) -> None:
        self.client, self.engine, self.slot = client, engine, client.slot
        self.consumed = consumed
        self.out = Effects()
        self.inbox: list[tuple[int, Item]] = []
        self.queue: deque[Tag] = deque()
        self.arrived: list[tuple[int, Message | Chain]] = []

    def delivered(self, slot: int) -> int:
        return self.engine.delivered[slot] & SEQ_MAX

    def unconsumed(self) -> list[Tag]:
        return [tag for tag in self.queue if tag.index < 0]

    def undelivered(self, slot: int) -> dict[int, bytes]:
        """What has arrived of that slot and is held back, by number."""
        found: dict[int, bytes] = {}
        for _, item in self.arrived:
            for message in item.messages() if isinstance(item, Chain) else [item]:
                if message.origin == slot and message.seq > self.delivered(slot):
                    found[message.seq] = message.payload
        return found

    def discard(self, slot: int) -> None:
        """Throw away what is held back; it is on its way again."""
        held = self.undelivered(slot)
        assert self.engine.discard(slot) == (len(held), sum(map(len, held.values())))
        assert not any(message.origin == slot for message in self.engine.held())
        again = [entry for entry in self.arrived if entry[1].origin == slot]
        self.arrived = [entry for entry in self.arrived if entry[1].origin != slot]
        self.inbox += again


class World:
    """The group."""

    def __init__(self, rng: random.Random, size: int, most: int = 6) -> None:
        self.rng, self.most = rng, most
        names = [f"n{slot}" for slot in range(size)]
        self.options = EngineOptions(stability_batch=rng.choice([0, 0, 1, 3]))
        self.nodes = {
            slot: Node(*make(Members(names), slot, self.options), set()) for slot in range(size)
        }
        self.history: dict[int, frozenset[int]] = {}
        self.slots = size
        self.joining = -1

    # ---- steps -----------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        actions = {
            self.broadcast: 20, self.arrive: 45, self.take: 25, self.announce: 4, self.flush: 4,
            self.discard: 6, self.compare: 6, self.admit: 2, self.start: 4, self.evict: 2,
        }  # fmt: skip
        for _ in range(steps):
            (action,) = self.rng.choices(list(actions), list(actions.values()))
            action(self.any_node())

    def any_node(self) -> Node:
        return self.rng.choice(list(self.nodes.values()))

    def send(self, node: Node, item: Item) -> None:
        for other in self.nodes.values():
            if other is not node:
                copies = self.rng.choice([1, 1, 1, 2])
                other.inbox += [(node.slot, item)] * copies

    def broadcast(self, node: Node) -> None:
        rng = self.rng
        payloads = [rng.randbytes(rng.randrange(3)) for _ in range(rng.choice([1, 1, 2, 5]))]
        tags = bursts.post(node.client, node.engine, payloads, node.out)
        sent: list[Item] = list(node.out.send)
        node.out.send.clear()
        if len(sent) < len(tags):
            sent.append(Chain(node.slot, tags[len(sent)].seq, payloads[len(sent) :]))
        for tag in tags:
            self.history[tag.packed] = frozenset(node.consumed)
            node.consumed.add(tag.packed)
        for item in sent:
            self.send(node, item)
        self.collect(node)

    def arrive(self, node: Node) -> None:
        if not node.inbox:
            return
        at = self.rng.randrange(len(node.inbox))
        peer, item = node.inbox.pop(at)
        if isinstance(item, Chain):
            bursts.receive_chain(node.engine, peer, item, node.out)
        else:
            node.engine.receive(peer, item, node.out)
        if not isinstance(item, Phantom):
            node.arrived.append((peer, item))
        self.collect(node)

    def collect(self, node: Node) -> None:
        """What a step of the engine did: stable is what every member has consumed."""
        out = node.out
        assert {reject.reason for reject in out.reject} <= {DUPLICATE}, out.reject
        node.queue.extend(out.deliver)
        for tag in out.stable:
            assert self.joining < 0, f"{tag} is stable at {node.slot} before a newcomer has it"
            for other in self.nodes.values():
                assert tag.packed in other.consumed, f"{tag}: stable at {node.slot}"
        node.queue.extend(out.stable)
        out.clear()

    def take(self, node: Node, most: int = 4) -> None:
        for _ in range(min(most, len(node.queue))):
            tag = node.queue.popleft()
            if tag.index < 0:
                missing = self.history[tag.packed] - node.consumed
                assert not missing, f"{tag} at {node.slot} too early"
                assert tag.packed not in node.consumed, f"{tag} twice at {node.slot}"
                node.client.consume(tag)
                node.consumed.add(tag.packed)
            else:
                node.client.stabilised(tag)
                node.engine.forget(tag)

    def announce(self, node: Node) -> None:
        self.send(node, node.client.phantom())

    def flush(self, node: Node) -> None:
        node.engine.flush(node.out)
        self.collect(node)

    def discard(self, node: Node) -> None:
        node.discard(self.rng.choice([slot for slot in self.nodes if slot != node.slot] or [0]))

    def compare(self, node: Node) -> None:
        """Tags of what is not forgotten tell the order exactly."""
        tags = [tag for tag in node.client.past.window.values() if tag.index >= 0]
        for _ in range(min(5, len(tags))):
            a, b = self.rng.choice(tags), self.rng.choice(tags)
            assert a.precedes(b) == (a.packed in self.history[b.packed]), f"{a}, {b}: {node.slot}"

    # ---- members come and go ---------------------------------------------------------------------

    def admit(self, _: Node) -> None:
        if self.joining >= 0 or len(self.nodes) >= self.most:
            return
        for node in self.nodes.values():
            self.joining = node.engine.members.add(f"n{self.slots}")
            node.engine.admit()
        self.slots += 1

    def start(self, provider: Node) -> None:
        """The newcomer gets its state, and what it lacks from those who sent it."""
        if self.joining < 0:
            return
        client, engine = provider.client, provider.engine
        while any(tag.origin not in self.nodes for tag in provider.unconsumed()):
            self.take(provider, 1)  # what a former member sent comes before the view without it
        confirmed = taken(client, engine, provider.unconsumed())
        state = state_for(client, engine, confirmed, self.joining)
        mask = engine.members.mask
        made = begin(state, mask, self.options)
        new = Node(made[0], made[1], set(provider.consumed))
        assert made[0].past.window.keys() == {
            tag.packed for tag in client.past.window.values() if tag.index >= 0
        }
        for tag in made[0].past.window.values():
            assert tag.knows(self.joining)
        for slot, node in self.nodes.items():
            first, last = state.confirmed[slot] + 1, node.delivered(slot)
            lacking = relay(node.engine, slot, first, last, 1 << 40)
            assert len(lacking) == max(0, last - first + 1), f"{slot} has forgotten too much"
            new.inbox += [(slot, message) for message in lacking]
        self.nodes[self.joining] = new
        self.joining = -1
        for _ in range(5):
            self.compare(new)

    def evict(self, gone: Node) -> None:
        """It ends, with whatever it sent reaching some and not others; the rest agree."""
        if self.joining >= 0 or len(self.nodes) < 2:
            return
        slot = gone.slot
        del self.nodes[slot]
        nodes = list(self.nodes.values())
        holder = max(nodes, key=lambda node: node.delivered(slot))
        target = holder.delivered(slot)
        for node in nodes:
            node.discard(slot)
            node.inbox = [entry for entry in node.inbox if entry[0] != slot]
            first = node.delivered(slot) + 1
            lacking = relay(holder.engine, slot, first, target, 1 << 40)
            assert len(lacking) == target - first + 1
            node.inbox += [(holder.slot, message) for message in lacking]
        for node in nodes:
            while node.delivered(slot) < target:
                assert node.inbox, f"{node.slot} cannot reach message {target} of {slot}"
                self.arrive(node)
            late = Message(slot, target + 2, (slot << SEQ_BITS | target + 1,), b"late")
            if self.rng.random() < 0.5:
                node.engine.receive(slot, late, node.out)
            held = [message for message in node.engine.held() if message.origin == slot]
            node.engine.members.remove(slot)
            assert node.engine.dismiss(slot) == (len(held), 4 * len(held))
            node.inbox = [
                (peer, item) for peer, item in node.inbox if item.origin != slot and peer != slot
            ]
            node.arrived = [
                entry for entry in node.arrived if slot not in (entry[0], entry[1].origin)
            ]
        cut = slot << SEQ_BITS | target
        for packed in [d for d in self.history if d >> SEQ_BITS == slot and d > cut]:
            del self.history[packed]

    # ---- the end ---------------------------------------------------------------------------------

    def settle(self) -> None:
        for node in self.nodes.values():
            while node.inbox:
                self.arrive(node)
            self.flush(node)
            self.take(node, len(node.queue))

    def finish(self) -> None:
        """Everything arrives and is taken, everybody says so: nothing is left anywhere."""
        self.start(self.any_node())
        self.settle()
        for node in self.nodes.values():
            assert node.consumed == set(self.history), f"{node.slot} lacks something"
            self.compare(node)
            self.announce(node)
        self.settle()
        for node in self.nodes.values():
            self.flush(node)
            self.take(node, len(node.queue))
            engine, past = node.engine, node.client.past
            left = [*past.window, *engine.pending, *engine.watchers, *engine.knowledge.log]
            assert not left, f"{node.slot} keeps {left}"
            assert not engine.chains.count
            assert not engine.chains.by_first
            assert not past.kept
            assert not engine.knowledge.phantoms
