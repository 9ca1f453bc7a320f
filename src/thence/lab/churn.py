"""Runs in virtual time with members that come, go and crash (thesis, chapter 6).

Whole nodes, as on real networks: who joins gets the state from a member, who leaves is agreed on,
who is killed is suspected and evicted by the others.  Times are virtual; the engines' CPU time is
not measured, because it is a small part of what such nodes do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from thence.engine.registry import ENGINES
from thence.errors import ThenceError
from thence.lab.plan import Churn, RunPlan
from thence.link.spread import weibull_delays
from thence.sim.elastic import ElasticWorld
from thence.sim.elastic_node import ElasticNode
from thence.sim.elastic_options import MEMBERSHIP, ElasticOptions
from thence.sim.node_view import Broken
from thence.sim.workload import INTERVAL_CUT
from thence.trace.record import Record, RunInfo
from thence.trace.writer import RunWriter

BEGIN_S: Final = 0.1
"""Founders are connected by then."""
LOOK_S: Final = 0.002
"""Mean time between two looks of an application at its queue."""
SUSPECT: Final = 10.0
"""Times the longest way: who is silent for so long is suspected."""
EVICT: Final = 15.0
"""And for so long evicted."""


class ChurnWorld(ElasticWorld):
    """The group of one plan."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        super().__init__(options_of(plan))
        for name in self.founders[plan.active :]:
            self.nodes[name].talks = False
        self._mean_s = plan.latency.mean_ms / 1000
        self._weibull = weibull_delays(self._mean_s, self.chance.weibullvariate)

    def latency(self, a: str = "", b: str = "") -> float:
        """As the plan says; a slow link is always as slow."""
        slow = self.plan.slow
        if slow is not None and {a, b} == set(self.plan.slow_nodes):
            return self._mean_s * slow.factor
        return self._mean_s if self.plan.latency.spread == "fixed" else self._weibull()

    def run(self) -> ChurnWorld:
        """Everything, to the end."""
        for node in self.nodes.values():
            self.after(BEGIN_S, self._look, node)
        self.after(BEGIN_S, self._sample, None)
        super().run()
        return self

    # The application: it takes what there is, and sends what it was told to.

    def _step(self, node: Any) -> None:
        if self._has_more(node):
            node.turn(node.send)
        mean_s = self.plan.interval_ms / 1000
        wait_s = mean_s
        if self.plan.pacing == "exponential":
            wait_s = min(self.chance.expovariate(1.0), INTERVAL_CUT) * mean_s
        if not self.calm or self._has_more(node):
            self.after(wait_s, self._step, node)

    def _has_more(self, node: ElasticNode) -> bool:
        """A founder sends all of its messages, a newcomer those for which there is time."""
        if not node.is_up or node.driver is None or node.driver.is_out or not node.talks:
            return False
        life = node.now_life
        is_in_time = not self.calm or node.name in self.founders
        return is_in_time and not life.is_leaving and life.sent < self.plan.messages

    def _look(self, node: Any) -> None:
        while node.take():
            pass
        if not self.calm or node.is_up:
            self.after(self.chance.expovariate(1 / LOOK_S), self._look, node)

    def _sample(self, _: Any) -> None:
        for node in self.live:
            if node.driver is not None:
                node.driver.sample(self.now)
        if not self.calm:
            self.after(self.plan.sample_ms / 1000, self._sample, None)

    def lacks(self) -> list[str]:
        """What is not in order yet; also what is still to be sent."""
        late = [node.name for node in self.live if self._has_more(node)]
        return [*(f"{name} has more to send" for name in late), *super().lacks()]

    def judge(self) -> None:
        """The check on Spark judges: here logs get their ends."""
        for node in self.live:
            if node.driver is not None:
                node.driver.close(self.now, ended=True)

    def logs(self) -> dict[str, list[Record]]:
        """By the name of the member."""
        lives = [life for node in self.nodes.values() for life in node.lives if life.records]
        return {life.id: life.records for life in lives}


def options_of(plan: RunPlan) -> ElasticOptions:
    """What the world is told."""
    churn = plan.churn or Churn()
    factor = 1.0 if plan.slow is None else max(1.0, plan.slow.factor)
    longest_s = plan.latency.mean_ms * factor / 1000
    return ElasticOptions(
        nodes=plan.nodes,
        seed=plan.seed,
        messages=plan.messages,
        payload_bytes=plan.payload_bytes,
        busy_s=plan.sending_ms / 1000,
        joins=churn.joins,
        leaves=churn.leaves,
        crashes=churn.crashes,
        rejoins=0.0,
        stability_batch=plan.variant.stability_batch,
        membership=msgspec.structs.replace(
            MEMBERSHIP,
            suspect_s=max(MEMBERSHIP.suspect_s, SUSPECT * longest_s),
            evict_s=max(MEMBERSHIP.evict_s, EVICT * longest_s),
        ),
    )


def run_churn(plan: RunPlan, folder: Path) -> None:
    """Carry a plan out; ThenceError if not everything came about that it asks for."""
    assert plan.churn is not None
    try:
        world = ChurnWorld(plan).run()
    except Broken as error:
        raise ThenceError(f"{plan.name}: {error}") from error
    found = Churn(
        joins=sum(bool(world.nodes[name].lives) for name in world.nodes.keys() - world.founders),
        leaves=world.counts["left"],
        crashes=world.counts["killed"],
    )
    if found != plan.churn or world.counts["lost"]:
        raise ThenceError(f"{plan.name}: asked for {plan.churn}, and {found} came about")
    spec = ENGINES[plan.variant.engine]
    info = RunInfo(
        run=plan.name, engine=spec.name, members=tuple(plan.names), guarantee=spec.guarantee,
        tags=spec.tags, stability=True, vectors=spec.vectors,
        scenario={"simulated": True, **plan.scenario("simulated")},
    )  # fmt: skip
    with RunWriter(folder, info) as writer:
        for name, records in world.logs().items():
            log = writer.log(name)
            for each in records:
                log.append(
                    each.kind, each.t_us, each.dot, each.context, each.bytes, words=each.words,
                    peer=each.peer, to=each.to, stable=each.stable, extra=each.extra,
                )  # fmt: skip
