"""Every engine of the table through the same random executions: each keeps exactly the order that
its line in the table states, and is seen not to keep the next stronger one."""

from __future__ import annotations

import msgspec
import pytest

from tests.seeds import seeds
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.sim.order_walk import order_plan, order_walk
from thence.sim.orders import STRONGER

each_engine = pytest.mark.parametrize("name", ENGINES)
SEEDS_MAX = 3000


@each_engine
def test_applications_see_the_order_that_is_stated(name: str):
    spec = ENGINES[name]
    for seed in seeds(300):
        orders = order_walk(spec, order_plan(spec, seed))
        assert orders.violations(spec.guarantee) == [], f"seed {seed}"
        assert orders.missing() == [], f"seed {seed}"


@pytest.mark.parametrize(
    ("name", "stronger"),
    [(name, each) for name, spec in ENGINES.items() for each in STRONGER[spec.guarantee]],
)
def test_an_execution_shows_that_it_gives_no_more(name: str, stronger: str):
    spec = ENGINES[name]
    for seed in range(SEEDS_MAX):
        orders = order_walk(spec, order_plan(spec, seed))
        assert orders.violations(spec.guarantee) == [], f"seed {seed}"
        if orders.violations(stronger):  # type: ignore[arg-type]
            return
    pytest.fail("every execution has the stronger order, too")


SURVIVING = [name for name, spec in ENGINES.items() if spec.survives]


@pytest.mark.parametrize("crashes", [1, 2])
@pytest.mark.parametrize("name", SURVIVING)
def test_survivors_of_crashes_agree_on_the_order_and_lack_nothing(name: str, crashes: int):
    spec = ENGINES[name]
    for seed in seeds(300):
        orders = order_walk(spec, order_plan(spec, seed, crashes))
        assert orders.violations(spec.guarantee) == [], f"seed {seed}"
        assert orders.missing() == [], f"seed {seed}"
        assert orders.disagreements() == [], f"seed {seed}"


@pytest.mark.parametrize("name", SURVIVING)
def test_survivors_of_crashes_agree_where_little_may_wait(name: str):
    spec = ENGINES[name]
    for seed in seeds(100):
        options = msgspec.structs.replace(
            order_plan(spec, seed, crashes=seed % 4),
            nodes=3 + seed % 3,
            messages=10 + seed % 40,
            engine=EngineOptions(stability=False, pending_per_origin_max=1 + seed % 3),
        )
        orders = order_walk(spec, options)
        assert orders.violations(spec.guarantee) == [], f"seed {seed}"
        assert orders.missing() + orders.disagreements() == [], f"seed {seed}"
