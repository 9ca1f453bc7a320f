from __future__ import annotations

import pytest
from hypothesis import given

from tests.strategies import Sent, executions, packed_dots, version_vectors
from thence.causal.dot import pack
from thence.causal.vector import VersionVector
from thence.errors import LocalProtocolError


@given(version_vectors(3), version_vectors(3))
def test_two_vectors_are_equal_ordered_or_concurrent_and_only_one_of_these(
    a: VersionVector, b: VersionVector
) -> None:
    assert [a == b, a < b, b < a, a.concurrent(b)].count(True) == 1


@given(version_vectors(3), version_vectors(3), version_vectors(3))
def test_merging_gives_the_least_vector_that_dominates_both(
    a: VersionVector, b: VersionVector, c: VersionVector
) -> None:
    merged = a.merge(b)
    assert merged.dominates(a)
    assert merged.dominates(b)
    assert c.dominates(merged) == (c.dominates(a) and c.dominates(b))


@given(version_vectors(3), packed_dots(3))
def test_a_vector_covers_the_dots_up_to_its_counts(vector: VersionVector, dot: int) -> None:
    assert vector.covers(dot) == any(
        pack(slot, seq) == dot for slot in range(3) for seq in range(1, vector[slot] + 1)
    )


@given(version_vectors(3))
def test_incrementing_gives_the_next_dot_of_one_slot(vector: VersionVector) -> None:
    next_vector = vector.increment(1)
    assert vector < next_vector
    assert list(next_vector) == [vector[0], vector[1] + 1, vector[2]]


@given(executions())
def test_messages_are_ordered_as_their_vectors_are(sent: list[Sent]) -> None:
    for a in sent:
        for b in sent:
            assert a.history.precedes(b.history) == (a.vector < b.vector)
            assert a.history.concurrent(b.history) == a.vector.concurrent(b.vector)


@given(executions())
def test_a_message_s_vector_covers_exactly_its_history(sent: list[Sent]) -> None:
    for message in sent:
        covered = {other.dot for other in sent if message.vector.covers(other.dot)}
        assert covered == message.history.dots


def test_the_last_dots_are_one_per_slot_that_sent() -> None:
    assert VersionVector((2, 0, 1)).last_dots() == (pack(0, 2), pack(2, 1))
    assert VersionVector.zero(3).last_dots() == ()


def test_vectors_of_different_groups_do_not_compare() -> None:
    with pytest.raises(LocalProtocolError, match="2 and 3 slots"):
        VersionVector.zero(2).merge(VersionVector.zero(3))
    with pytest.raises(LocalProtocolError):
        VersionVector.zero(2).dominates(VersionVector.zero(3))
