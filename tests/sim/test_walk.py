"""Random interleavings are repeatable and varied."""

from __future__ import annotations

from tests.sim.naive import naive
from thence.engine.registry import ENGINES
from thence.sim.walk import plan, random_walk


def test_a_walk_depends_on_its_options_alone():
    spec = naive()
    for seed in range(20):
        first, second = random_walk(spec, seed), random_walk(spec, plan(spec, seed))
        assert first.histories.keys == second.histories.keys
        assert first.histories.closure == second.histories.closure
        assert first.told == second.told


def test_walks_reach_what_they_are_for():
    """Concurrency, chains, streams, stability and its absence all occur among few seeds."""
    spec = ENGINES["tagged"]
    walks = [random_walk(spec, seed) for seed in range(120)]
    assert {walk.size for walk in walks} == {2, 3, 4, 5}
    assert any(key[1] for walk in walks for key in walk.histories.keys)
    assert any(any(walk.told) for walk in walks)
    assert any(not walk.options.stability for walk in walks)
    assert any(any(walk.k_told) for walk in walks)
    contexts = [len(e.context) for walk in walks for e in walk.truth.expected]
    assert max(contexts) >= 3
    assert any(
        e.past.bit_count() > 6 and len(e.context) == 1 for w in walks for e in w.truth.expected
    )
