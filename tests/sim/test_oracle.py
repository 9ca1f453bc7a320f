"""Each checker can fail: an engine with one bug is caught, the same engine without is not."""

from __future__ import annotations

import pytest

from tests.seeds import seeds
from tests.sim.naive import BUGS, naive
from thence.sim.checkers import OracleFailure
from thence.sim.walk import random_walk


def test_a_right_engine_passes_every_walk() -> None:
    spec = naive()
    for seed in seeds(300):
        random_walk(spec, seed)


FINDINGS = {
    "early": "before its predecessors",
    "twice": "twice",
    "own": "its own message",
    "lost": "never consumed",
    "under-tag": "its history says",
    "over-tag": "its history says",
    "receiver-tag": "tag (consumed)",
    "unsound": "stable, but nothing that",
    "unsound-phantom": "stable, but nothing that",
    "never-stable": "never told",
    "stable-twice": "told twice",
    "disorder": "stable before its predecessors",
    "leak": "words of metadata",
    "waiting": "does not say so",
    "foreign": "nobody sent",
    "k-early": "members are known to have it",
    "k-never": "never told",
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found_and_named(bug: str) -> None:
    spec = naive(bug)
    found = set()
    for seed in range(400):
        try:
            random_walk(spec, seed)
        except OracleFailure as failure:
            found.add(failure.what)
            assert f"{seed}" in failure.replay
            if any(FINDINGS[bug] in what for what in found):
                return
    raise AssertionError(f"no walk found {bug}; found {sorted(found)[:3]}")
