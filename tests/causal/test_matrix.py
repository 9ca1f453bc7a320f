from __future__ import annotations

import pytest
from hypothesis import given

from tests.strategies import matrix_clocks, version_vectors
from thence.causal.matrix import MatrixClock
from thence.causal.vector import VersionVector
from thence.errors import LocalProtocolError


def copy_of(matrix: MatrixClock) -> MatrixClock:
    copied = MatrixClock(len(matrix))
    copied.merge(matrix)
    return copied


@given(matrix_clocks(3), matrix_clocks(3))
def test_merging_is_the_same_in_either_order(a: MatrixClock, b: MatrixClock) -> None:
    one, other = copy_of(a), copy_of(b)
    one.merge(b)
    other.merge(a)
    assert one == other


@given(matrix_clocks(3))
def test_merging_what_is_known_changes_nothing(matrix: MatrixClock) -> None:
    before = copy_of(matrix)
    matrix.merge(before)
    assert matrix == before


@given(matrix_clocks(3))
def test_the_minimum_of_a_column_is_what_every_row_covers(matrix: MatrixClock) -> None:
    minimum = matrix.minimum()
    for slot in range(3):
        assert matrix.column_min(slot) == minimum[slot]
        assert all(row[slot] >= minimum[slot] for row in matrix.rows)
        assert any(row[slot] == minimum[slot] for row in matrix.rows)


@given(matrix_clocks(3))
def test_the_minimum_among_some_ignores_the_others(matrix: MatrixClock) -> None:
    assert matrix.column_min(0, among=[1]) == matrix.rows[1][0]


@given(matrix_clocks(2), version_vectors(2))
def test_an_old_row_changes_nothing(matrix: MatrixClock, row: VersionVector) -> None:
    matrix.merge_row(0, row)
    after = copy_of(matrix)
    matrix.merge_row(0, row)
    assert matrix == after


def test_rows_are_not_shared() -> None:
    matrix = MatrixClock(2)
    matrix.merge_row(0, (1, 0))
    assert matrix.rows == [[1, 0], [0, 0]]


def test_matrices_of_different_groups_do_not_merge() -> None:
    with pytest.raises(LocalProtocolError, match="2 and 3 slots"):
        MatrixClock(2).merge(MatrixClock(3))
