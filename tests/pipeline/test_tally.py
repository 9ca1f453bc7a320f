"""Counts of values, and the percentiles that follow from any number of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.pipeline.metrics_expected import summary
from tests.seeds import seeds
from thence.pipeline import tally
from thence.pipeline.tally import Tally, figures, merged, tally_of


def drawn(seed: int) -> tuple[list[Tally], list[float]]:
    """Some tallies, and what was observed."""
    rng = random.Random(seed)
    draw = rng.choice([
        lambda: float(rng.randint(-3, 3)),
        lambda: rng.uniform(-1e9, 1e9),
        lambda: rng.choice([0.0, -0.0, 0.1, 1e-300, -1e-300, 1e3, -1e3]),
    ])  # fmt: skip
    parts = [[draw() for _ in range(rng.choice((0, 1, 2, 30)))] for _ in range(rng.randint(1, 6))]
    return [tally_of([np.array(part)]) for part in parts], [
        value for part in parts for value in part
    ]


def agree(tallies: list[Tally], values: list[float], seed: int) -> None:
    found = figures(tallies)
    expected = pytest.approx(summary(values), rel=1e-9, abs=1e-9) if values else {"count": 0}
    assert found == expected, f"seed {seed}"


@pytest.mark.parametrize("halving_min", [0, 1 << 15])
def test_figures_of_many_tallies_are_those_of_all_observations(
    halving_min: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tally, "HALVING_MIN", halving_min)
    for seed in seeds(200):
        agree(*drawn(seed), seed)


@pytest.mark.parametrize("at_once_max", [0, 1 << 22])
def test_tallies_are_merged_without_loss(at_once_max: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tally, "AT_ONCE_MAX", at_once_max)
    for seed in seeds(200):
        tallies, values = drawn(seed)
        one = merged(tallies)
        assert len(set(one.values.tolist())) == len(one.values), "no value twice"
        agree([one], values, seed)
