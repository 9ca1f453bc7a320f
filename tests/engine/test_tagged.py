"""The flagship's middleware: delivery and stability.  Bounds and nonsense are in test_checks.py."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import Sent, executions
from thence.causal.dot import SEQ_BITS, SEQ_MAX, pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.reject import DUPLICATE, NOT_A_MEMBER, Waiting
from thence.engine.tag import Tag
from thence.engine.tagged import SPEC, Tagged, make
from thence.engine.tagger import Tagger
from thence.errors import LocalProtocolError
from thence.message import Message, Phantom, WireMessage
from thence.sim.cluster import Cluster

A1, B1, B2, B3 = pack(0, 1), pack(1, 1), pack(1, 2), pack(1, 3)
C1, C2, D1, E1 = pack(2, 1), pack(2, 2), pack(3, 1), pack(4, 1)


def node(size: int = 3, slot: int = 0, **options: Any) -> tuple[Tagger, Tagged, Effects]:
    return *make(Members("abcdefgh"[:size]), slot, EngineOptions(**options)), Effects()


def said(dot: int, *context: int, payload: bytes = b"") -> Message:
    return Message(dot >> SEQ_BITS, dot & SEQ_MAX, context, payload)


def dots(tags: list[Tag]) -> list[int]:
    return [tag.packed for tag in tags]


def names(tags: list[Tag]) -> list[str]:
    return [str(tag) for tag in tags]


def receive(engine: Tagged, out: Effects, *messages: WireMessage) -> None:
    for message in messages:
        engine.receive(message.origin, message, out)


def take(client: Tagger, out: Effects) -> None:
    """The application takes every delivery."""
    for tag in out.deliver:
        client.consume(tag)


# ---- delivery ------------------------------------------------------------------------------------


def test_messages_in_order_are_delivered_as_they_come_with_payload_and_whole_context():
    _, engine, out = node()
    receive(engine, out, said(B1, payload=b"one"), said(C1, B1, payload=b"two"), said(B2, B1, C1))
    assert dots(out.deliver) == [B1, C1, B2]
    assert [tag.payload for tag in out.deliver] == [b"one", b"two", b""]
    assert [tag.predecessors for tag in out.deliver] == [(), (B1,), (B1, C1)]
    assert [(tag.origin, tag.seq) for tag in out.deliver] == [(1, 1), (2, 1), (1, 2)]
    assert not engine.waiting()


def test_every_order_of_arrival_gives_a_causal_order_of_delivery():
    messages = [said(B1), said(C1, B1), said(B2, C1), said(D1, B1), said(C2, B2, D1)]
    for order in itertools.permutations(messages):
        _, engine, out = node(4)
        receive(engine, out, *order)
        assert sorted(dots(out.deliver)) == sorted([B1, C1, B2, D1, C2])
        seen: set[int] = set()
        for tag in out.deliver:
            assert seen.issuperset(tag.predecessors), order
            seen.add(tag.packed)
        assert not engine.waiting()
        assert not engine.pending
        assert not engine.watchers


def test_a_gap_in_the_sequence_of_an_origin_holds_back_what_does_not_name_it():
    _, engine, out = node()
    receive(engine, out, said(B3), said(B2))
    assert not out.deliver
    assert engine.waiting() == [Waiting(B2, B1), Waiting(B3, B2)]
    receive(engine, out, said(B1))
    assert dots(out.deliver) == [B1, B2, B3]
    assert not engine.waiting()


def test_a_message_waits_for_one_missing_dot_of_its_context_after_the_other():
    _, engine, out = node(5)
    receive(engine, out, said(E1, B1, C1, D1))
    assert engine.waiting() == [Waiting(E1, B1)]
    receive(engine, out, said(D1))
    assert engine.waiting() == [Waiting(E1, B1)], "d:1 was not what it waited for"
    receive(engine, out, said(B1))
    assert engine.waiting() == [Waiting(E1, C1)]
    receive(engine, out, said(C1))
    assert dots(out.deliver) == [D1, B1, C1, E1]
    assert out.deliver[-1].predecessors == (B1, C1, D1), "not only what it waited for"


def test_a_message_held_back_by_its_origin_waits_for_its_context_afterwards():
    _, engine, out = node()
    receive(engine, out, said(B2, B1, C2), said(B1))
    assert dots(out.deliver) == [B1]
    assert engine.waiting() == [Waiting(B2, C2)]
    receive(engine, out, said(C2))
    assert engine.waiting() == [Waiting(B2, C2), Waiting(C2, C1)]
    receive(engine, out, said(C1))
    assert dots(out.deliver) == [B1, C1, C2, B2]


def test_those_who_wait_for_one_dot_are_delivered_in_order_of_arrival():
    for order in itertools.permutations(range(2, 6)):
        _, engine, out = node(6)
        receive(engine, out, *[said(pack(slot, 1), B1) for slot in order])
        assert engine.waiting() == [Waiting(pack(slot, 1), B1) for slot in range(2, 6)]
        receive(engine, out, said(B1))
        assert dots(out.deliver) == [B1, *[pack(slot, 1) for slot in order]]


@pytest.mark.parametrize("backlog", [[B2, C2], [C2, B2]])
def test_backlogs_that_become_ready_at_once_are_delivered_in_order_of_arrival(backlog: list[int]):
    _, engine, out = node(4)
    receive(engine, out, *map(said, backlog), said(B1, D1), said(C1, D1), said(D1))
    assert dots(out.deliver) == [D1, B1, C1, *backlog]


LONG = 12_000


def test_a_chain_of_one_origin_far_longer_than_the_stack():
    client, engine, out = node(2)
    chain = [said(pack(1, seq), *([pack(1, seq - 1)] if seq > 1 else [])) for seq in range(1, LONG)]
    receive(engine, out, *reversed(chain))
    assert [tag.seq for tag in out.deliver] == list(range(1, LONG))
    take(client, out)
    engine.flush(out)
    assert [tag.seq for tag in out.stable] == list(range(1, LONG))


def test_a_chain_that_zigzags_between_origins_far_longer_than_the_stack():
    client, engine, out = node(3)
    path = [pack(1 + n % 2, 1 + n // 2) for n in range(LONG)]
    chain = [said(dot, *([path[n - 1]] if n else [])) for n, dot in enumerate(path)]
    receive(engine, out, *reversed(chain))
    assert dots(out.deliver) == path
    take(client, out)
    assert out.deliver[0] < out.deliver[-1], "a comparison walks it without recursion"
    engine.flush(out)
    assert dots(out.stable) == path[:-1], "nobody but its sender and us has the last"


def test_a_duplicate_is_refused_after_delivery_and_while_it_waits():
    _, engine, out = node()
    receive(engine, out, said(B1), said(B1))
    assert [reject.reason for reject in out.reject] == [DUPLICATE]
    receive(engine, out, said(C2, C1), said(C2, C1), said(B2, C1), said(B2, C1))
    assert [reject.reason for reject in out.reject] == [DUPLICATE] * 3
    assert not any(reject.retry for reject in out.reject)
    receive(engine, out, said(C1), said(C2, C1), said(B2, C1))
    assert sorted(dots(out.deliver)) == [B1, B2, C1, C2], "each once"
    assert len(out.reject) == 5


def test_own_messages_are_not_delivered_and_come_back_as_duplicates():
    client, engine, out = node()
    engine.broadcast(client.broadcast(b"x"), out)
    assert out.send == [said(A1, payload=b"x")]
    receive(engine, out, out.send[0])
    assert [reject.reason for reject in out.reject] == [DUPLICATE]
    assert not out.deliver


def summary(out: Effects) -> list[list[str]]:
    return [
        names(out.deliver),
        names(out.stable),
        names(out.k_stable),
        [str(r) for r in out.reject],
    ]


def observer(sent: list[Sent], **options: Any) -> tuple[Tagger, Tagged, Effects]:
    """A node that watches an execution of the others and sends nothing."""
    size = max((message.dot >> SEQ_BITS for message in sent), default=0) + 2
    return node(size, size - 1, **options)


@given(executions(), st.randoms(use_true_random=False), st.sampled_from((0, 1, 3)))
def test_a_batch_has_the_effects_of_single_calls(sent: list[Sent], rng: random.Random, batch: int):
    messages = [said(message.dot, *message.context) for message in sent]
    messages += rng.choices(messages, k=3) if messages else []
    rng.shuffle(messages)
    _, single, out = observer(sent, stability_batch=batch, k=2, pending_per_origin_max=3)
    for message in messages:
        single.receive(9, message, out)
    _, batched, out_batched = observer(sent, stability_batch=batch, k=2, pending_per_origin_max=3)
    batched.receive_many(9, messages, out_batched)
    assert summary(out) == summary(out_batched)
    assert single.waiting() == batched.waiting()
    assert single.words() == batched.words()


# ---- stability -----------------------------------------------------------------------------------


def test_stable_is_what_the_sender_this_application_and_everybody_else_has():
    client, engine, out = node(3, stability_batch=1)
    receive(engine, out, said(B1), said(C1, B1))
    assert not out.stable, "this application has not taken b:1"
    take(client, out)
    assert not out.stable
    engine.flush(out)
    assert dots(out.stable) == [B1], "of c:1 nobody but c and us is known to have it"
    engine.flush(out)
    assert dots(out.stable) == [B1], "once"


def test_what_another_member_has_not_answered_is_not_stable():
    client, engine, out = node(4, stability_batch=1)
    receive(engine, out, said(B1), said(C1, B1))
    take(client, out)
    engine.flush(out)
    assert not out.stable
    assert engine.known_by(out.deliver[0]) == 3
    assert engine.known_by(out.deliver[1]) == 2


def test_own_messages_become_stable_too_in_causal_order():
    client, engine, out = node(3, stability_batch=1)
    first = client.broadcast(b"")
    engine.broadcast(first, out)
    receive(engine, out, said(B1, A1), said(C1, B1))
    take(client, out)
    engine.flush(out)
    assert dots(out.stable) == [A1, B1]
    assert out.stable[0] is first


def test_an_own_message_after_another_counts_once_it_was_taken_by_the_middleware():
    client, engine, out = node(2, stability_batch=1)
    receive(engine, out, said(B1))
    take(client, out)
    engine.broadcast(client.broadcast(b""), out)
    assert dots(out.stable) == [B1]


def test_a_phantom_lets_a_silent_member_give_stability():
    client, engine, out = node(3)
    receive(engine, out, said(B1))
    take(client, out)
    receive(engine, out, Phantom(2, 1, (B1,)))
    engine.flush(out)
    assert dots(out.stable) == [B1]
    assert not engine.knowledge.phantoms


def test_a_phantom_speaks_for_what_is_behind_its_context():
    client, engine, out = node(3)
    receive(engine, out, said(B1), said(B2, B1), Phantom(2, 1, (B2,)))
    take(client, out)
    engine.flush(out)
    assert dots(out.stable) == [B1, B2]


def test_a_phantom_is_kept_until_what_it_names_is_here():
    client, engine, out = node(3)
    receive(engine, out, Phantom(2, 1, (B1,)))
    engine.flush(out)
    assert engine.knowledge.phantoms == {2: (1, {1: B1})}
    receive(engine, out, said(B1))
    take(client, out)
    engine.flush(out)
    assert dots(out.stable) == [B1]
    assert not engine.knowledge.phantoms


def test_a_phantom_is_not_usable_while_messages_of_its_origin_are_missing():
    client, engine, out = node(3)
    receive(engine, out, said(B1), Phantom(2, 3, (B1,)))
    take(client, out)
    for message in (said(C2), said(C1)):
        engine.flush(out)
        assert not out.stable, "c:1 may be concurrent with b:1"
        receive(engine, out, message)
    engine.flush(out)
    assert dots(out.stable) == [B1]
    receive(engine, out, Phantom(2, 2, (B1,)))
    assert not engine.knowledge.phantoms, "its next message is here already and says more"


def test_phantoms_of_one_origin_are_merged():
    client, engine, out = node(4)
    receive(engine, out, Phantom(2, 1, (B1,)), Phantom(2, 1, (B2, D1)), Phantom(2, 1, (B1,)))
    assert engine.knowledge.phantoms == {2: (1, {1: B2, 3: D1})}
    receive(engine, out, Phantom(2, 3, (C2,)), Phantom(2, 2, (C1,)))
    assert engine.knowledge.phantoms == {2: (3, {1: B2, 2: C2, 3: D1})}
    receive(engine, out, said(B1), said(B2, B1), said(D1))
    receive(engine, out, said(C1), said(C2, C1), Phantom(3, 2, (B2, C2)))
    take(client, out)
    engine.flush(out)
    assert dots(out.stable) == [B1, B2]
    assert not engine.knowledge.phantoms


@given(executions(4, 24), st.randoms(use_true_random=False))
def test_batches_and_amortised_passes_find_the_same_in_the_end(
    sent: list[Sent], rng: random.Random
):
    messages = [said(message.dot, *message.context) for message in sent]
    rng.shuffle(messages)
    found = []
    for batch in (1, 0, 3):
        client, engine, out = observer(sent, stability_batch=batch)
        taken = 0
        for message in messages:
            receive(engine, out, message)
            for tag in out.deliver[taken:]:
                client.consume(tag)
            taken = len(out.deliver)
        engine.flush(out)
        place = {dot: n for n, dot in enumerate(dots(out.deliver))}
        assert len(set(dots(out.stable))) == len(out.stable), "each once"
        for tag in out.stable:
            before = [place[d] for d in tag.predecessors]
            assert all(n < place[tag.packed] for n in before)
        found.append(sorted(dots(out.stable)))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("size", [59, 60, 61, 62, 119, 120, 121, 122, 181, 200])
def test_every_member_of_a_large_group_counts(size: int):
    """Bits of knowledge are kept in lanes of LANE_BITS: none may be lost at their borders."""
    members = [f"n{slot}" for slot in range(size)]
    borders = (0, 1, 58, 59, 60, 61, 118, 119, 120, 121, 179, 180, size - 1)
    pairs = [(slot, last) for slot in (0, size - 1) for last in borders if last < size]
    for slot, last in pairs:
        if slot == last:
            continue
        client, engine = make(Members(members), slot, EngineOptions(stability_batch=1, k=size - 1))
        out = Effects()
        origin = 2
        first = pack(origin, 1)
        receive(engine, out, said(first))
        take(client, out)
        others = [n for n in range(size) if n not in (slot, last, origin)]
        receive(engine, out, *[Phantom(n, 1, (first,)) for n in others])
        engine.flush(out)
        assert not out.stable, f"{last} is missing"
        assert engine.known_by(out.deliver[0]) == size - 1
        assert dots(out.k_stable) == [first]
        receive(engine, out, said(pack(last, 1), first))
        assert dots(out.stable) == [first]
        assert engine.known_by(out.deliver[0]) == size


def test_knowledge_spreads_to_predecessors_in_large_groups():
    size = 130
    members = [f"n{slot}" for slot in range(size)]
    for late in (1, 61, 125):
        client, engine = make(Members(members), 0, EngineOptions(stability_batch=1))
        out = Effects()
        receive(engine, out, said(C1), said(C2, C1))
        take(client, out)
        speakers = [n for n in range(1, size) if n not in (2, late)]
        receive(engine, out, *[Phantom(n, 1, (C2,)) for n in speakers])
        engine.flush(out)
        assert not out.stable
        receive(engine, out, Phantom(late, 1, (C2,)))
        engine.flush(out)
        assert dots(out.stable) == [C1, C2]


def test_k_stability_tells_once_when_k_members_have_it_and_before_all_do():
    client, engine, out = node(4, stability_batch=1, k=3)
    receive(engine, out, said(B1), said(C1, B1))
    assert not out.k_stable, "two members besides us, who have not taken it"
    take(client, out)
    engine.flush(out)
    assert dots(out.k_stable) == [B1]
    assert not out.stable
    assert [engine.known_by(tag) for tag in out.deliver] == [3, 2]
    receive(engine, out, said(D1, C1))
    client.consume(out.deliver[-1])
    engine.flush(out)
    assert dots(out.stable) == [B1]
    assert dots(out.k_stable) == [B1, C1]


def test_a_flush_without_news_does_nothing():
    client, engine, out = node(3)
    receive(engine, out, said(B1), said(C1, B1))
    take(client, out)
    engine.flush(out)
    before = summary(out), engine.words(), engine.knowledge.due_clock
    engine.flush(out)
    engine.flush(out)
    assert (summary(out), engine.words(), engine.knowledge.due_clock) == before


def test_without_stability_nothing_is_kept_and_nothing_told():
    client, engine, out = node(2, stability=False)
    fresh = engine.words()
    receive(engine, out, said(B1), Phantom(1, 2, (B1,)))
    take(client, out)
    engine.broadcast(client.broadcast(b""), out)
    engine.flush(out)
    assert not out.stable
    assert engine.words() == fresh
    assert not client.past.window
    assert not client.past.unsent


def test_state_stays_flat_over_twenty_thousand_messages():
    cluster = Cluster(SPEC, ["a", "b", "c"], EngineOptions(k=2))
    largest = 0
    for n in range(20_000):
        cluster.client_broadcast(n % 3, b"payload")
        if n % 4 == 3:
            for i in range(3):
                while cluster.middleware_step(i):
                    pass
            flights, cluster.in_flight = cluster.in_flight, []
            for flight in flights:
                cluster.network_deliver(*flight)
            for i in range(3):
                while cluster.client_take(i):
                    pass
        if n % 500 == 499:
            for client, engine in zip(cluster.clients, cluster.engines, strict=True):
                assert isinstance(client, Tagger)
                assert isinstance(engine, Tagged)
                held = (client.past.window, client.past.unsent, client.frontier.context)
                more = (engine.pending, engine.watchers, engine.knowledge.phantoms)
                most = (engine.knowledge.log, engine.knowledge.k_told)
                largest = max(largest, *[len(each) for each in (*held, *more, *most)])
    assert 3 <= largest < 200


# ---- who takes part, and misuse ------------------------------------------------------------------


def test_a_member_that_left_is_no_longer_heard_nor_waited_for():
    client, engine, out = node(3)
    receive(engine, out, said(B1), said(C1))
    take(client, out)
    engine.members.remove(2)
    engine.admit()
    receive(engine, out, said(C2), Phantom(2, 2, (B1,)))
    assert [reject.reason for reject in out.reject] == [NOT_A_MEMBER] * 2
    receive(engine, out, said(B2, C1))
    client.consume(out.deliver[-1])
    engine.flush(out)
    assert B1 in dots(out.stable)


def test_a_member_that_came_is_heard_and_waited_for():
    client, engine, out = node(2)
    engine.members.add("c")
    engine.admit()
    receive(engine, out, said(B1), said(C1, B1))
    take(client, out)
    receive(engine, out, said(B2, C1))
    engine.flush(out)
    assert dots(out.stable) == [B1, C1]


def test_a_tag_out_of_order_or_sent_twice_is_an_error_that_changes_nothing():
    client, engine, out = node()
    first, second = client.broadcast(b"1"), client.broadcast(b"2")
    with pytest.raises(LocalProtocolError, match="a:2 is not the next"):
        engine.broadcast(second, out)
    engine.broadcast(first, out)
    with pytest.raises(LocalProtocolError, match="a:1 is not the next"):
        engine.broadcast(first, out)
    engine.broadcast(second, out)
    assert [message.payload for message in out.send] == [b"1", b"2"]


def test_to_forget_what_the_client_has_not_is_an_error():
    client, engine, out = node(2, stability_batch=1)
    receive(engine, out, said(B1))
    take(client, out)
    engine.flush(out)
    with pytest.raises(LocalProtocolError, match="stabilised first"):
        engine.forget(out.stable[0])
    client.stabilised(out.stable[0])
    engine.forget(out.stable[0])
    assert engine.words() == 0
