"""Algorithm 14 (chapter 7), as the benchmark runs it, with its errata put back."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import bench_check
from tests.thesis.mutant import Change, mutate
from thence.trace.columns import KIND_CODE

SEND, DELIVER, STABLE = KIND_CODE["send"], KIND_CODE["deliver"], KIND_CODE["stable"]

# a sends 1; b delivers it and sends 1; a delivers that, and both see both as stable in the end.
VALID = [
    [(SEND, 0, 1), (DELIVER, 1, 1), (STABLE, 0, 1), (SEND, 0, 2), (STABLE, 1, 1)],
    [(DELIVER, 0, 1), (SEND, 1, 1), (STABLE, 0, 1), (DELIVER, 0, 2), (STABLE, 1, 1)],
]
REVERSED_35: Change = ("if row[origin] < at:", "if at <= row[origin]:")
REVERSED_68: Change = ("dot[origin] != vector[origin] + 1", "vector[origin] != dot[origin] + 1")


def logs(*nodes: list[tuple[int, int, int]]) -> Any:
    return [tuple(map(list, zip(*node, strict=True))) for node in nodes]


def test_chapter_7_a_valid_log_is_accepted() -> None:
    assert bench_check.algorithm_14(logs(*VALID))


def test_chapter_7_a_delivery_before_its_predecessor_is_rejected() -> None:
    early = [(DELIVER, 1, 1), (DELIVER, 0, 1)]
    sender, follower = [(SEND, 0, 1)], [(DELIVER, 0, 1), (SEND, 1, 1)]
    assert not bench_check.algorithm_14(logs(sender, follower, early))


def test_chapter_7_stable_too_early_is_rejected() -> None:
    assert not bench_check.algorithm_14(logs([(SEND, 0, 1), (STABLE, 0, 1)], [(DELIVER, 0, 1)]))


@pytest.mark.parametrize("change", [REVERSED_35, REVERSED_68], ids=["14:35", "14:68"])
def test_algorithm_14_as_printed_rejects_a_valid_log(change: Change) -> None:
    assert not mutate("benchmarks.bench_check", change).algorithm_14(logs(*VALID))
