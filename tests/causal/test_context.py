from __future__ import annotations

from hypothesis import given

from tests.strategies import Sent, contexts, executions, packed_dots
from thence.causal.context import EMPTY, Context, Frontier, advance, is_wellformed, maximal
from thence.causal.dot import pack, slot_of
from thence.causal.history import CausalHistory

A1, A2, B1, C1 = pack(0, 1), pack(0, 2), pack(1, 1), pack(2, 1)


@given(contexts(4))
def test_a_sorted_context_with_one_dot_per_origin_is_well_formed(context: Context) -> None:
    assert is_wellformed(context)


def test_a_context_out_of_order_with_two_dots_of_an_origin_or_a_dot_of_zero_is_not() -> None:
    assert is_wellformed(EMPTY)
    assert not is_wellformed((B1, A1))
    assert not is_wellformed((A1, A2))
    assert not is_wellformed((A1, A1))
    assert not is_wellformed((pack(1, 0),))
    assert not is_wellformed((-1,))


@given(contexts(4), packed_dots(4), contexts(4))
def test_advancing_keeps_a_context_well_formed_and_puts_the_dot_in(
    context: Context, dot: int, its_context: Context
) -> None:
    advanced = advance(context, dot, its_context)
    assert is_wellformed(advanced)
    assert dot in advanced
    assert not set(advanced) - {dot} & set(its_context)


def test_advancing_drops_only_what_the_message_names() -> None:
    assert advance((A1, B1), C1, (A1,)) == (B1, C1)
    assert advance((A1, B1), A2, (A1, B1)) == (A2,)
    assert advance((A2, B1), C1, (A1,)) == (A2, B1, C1)


@given(executions())
def test_the_context_of_a_message_is_the_maximal_part_of_its_past(sent: list[Sent]) -> None:
    histories = {message.dot: message.history for message in sent}
    for message in sent:
        past = message.history.dots - {message.dot}
        assert message.context == maximal(past, histories)


@given(executions())
def test_vectors_and_contexts_give_the_same_frontier(sent: list[Sent]) -> None:
    for message in sent:
        assert message.context == message.context_by_vectors


@given(executions())
def test_the_maximal_dots_are_concurrent_and_at_most_one_per_origin(sent: list[Sent]) -> None:
    histories = {message.dot: message.history for message in sent}
    front = maximal([message.dot for message in sent], histories)
    assert is_wellformed(front)
    for a in front:
        assert all(a == b or histories[a].concurrent(histories[b]) for b in front)
    assert {slot_of(dot) for dot in front} <= {slot_of(message.dot) for message in sent}


def test_maximal_counts_a_dot_named_twice_once() -> None:
    histories = {A1: CausalHistory(frozenset({A1})), A2: CausalHistory(frozenset({A1, A2}))}
    assert maximal([A1, A2, A2], histories) == (A2,)


def test_an_own_message_replaces_the_frontier() -> None:
    frontier = Frontier((A1, B1))
    frontier.send(C1)
    assert frontier.context() == (C1,)
    assert len(frontier) == 1
