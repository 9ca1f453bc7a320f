from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import Sent, executions, packed_dots
from thence.causal.history import CausalHistory

histories = st.frozensets(packed_dots(3)).map(CausalHistory)


@given(histories, histories)
def test_two_histories_are_equal_ordered_or_concurrent_and_only_one_of_these(
    a: CausalHistory, b: CausalHistory
) -> None:
    assert [a == b, a.precedes(b), b.precedes(a), a.concurrent(b)].count(True) == 1


@given(histories, packed_dots(3))
def test_an_event_follows_everything_in_the_history_it_was_made_from(
    history: CausalHistory, dot: int
) -> None:
    event = history.event(dot)
    assert dot in event
    assert history.precedes(event) == (dot not in history)


@given(histories, histories)
def test_a_union_has_what_either_has(a: CausalHistory, b: CausalHistory) -> None:
    assert a.union(b).dots == a.dots | b.dots
    assert len(a.union(b)) >= max(len(a), len(b))


@given(executions())
def test_a_message_precedes_another_when_it_is_in_its_history(sent: list[Sent]) -> None:
    for a in sent:
        for b in sent:
            assert a.history.precedes(b.history) == (a is not b and a.dot in b.history)
