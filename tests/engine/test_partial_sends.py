"""Garg's problem 12.6: the sends of one process form a partial order.  Explicit dependencies of the
flagship keep exactly that one: nothing comes before what it depends on, nothing waits for more."""

from __future__ import annotations

import random

from tests.seeds import seeds
from thence.engine.effects import Effects
from thence.engine.registry import make_node


def test_12_6_what_arrives_is_delivered_as_soon_as_what_it_depends_on_is():
    for seed in seeds(100):
        rng = random.Random(seed)
        client, engine = make_node(["a", "b"], "a")
        out = Effects()
        tags, causes = [], []
        for number in range(rng.randint(2, 20)):
            some = rng.sample(range(number), rng.randint(0, min(3, number)))
            causes.append(set(some))
            after = [tags[each] for each in some]
            tags.append(client.broadcast(b"%d" % number, stream=f"s{number}", after=after))
            engine.broadcast(tags[-1], out)
        arriving = list(enumerate(out.send))
        rng.shuffle(arriving)
        reader, receiver = make_node(["a", "b"], "b")
        here: set[int] = set()
        delivered: set[int] = set()
        for number, message in arriving:
            out.clear()
            receiver.receive(0, message, out)
            for tag in out.deliver:
                reader.consume(tag)
                assert causes[int(tag.payload)] <= delivered, f"seed {seed}"
                delivered.add(int(tag.payload))
            here.add(number)
            waits = here - delivered
            assert all(causes[each] - delivered for each in waits), f"seed {seed}"
        assert len(delivered) == len(tags)


def test_12_6_sends_that_do_not_depend_on_each_other_are_concurrent():
    client, _ = make_node(["a", "b"], "a")
    one, other = client.broadcast(b"", stream="one"), client.broadcast(b"", stream="other")
    both = client.broadcast(b"", stream="both", after=[one, other])
    assert one.concurrent(other)
    assert one < both
    assert other < both
