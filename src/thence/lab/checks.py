"""What no run can be, one rule after the other."""

from __future__ import annotations

from typing import Final

from thence.engine.registry import ENGINES
from thence.errors import UnusableInputError
from thence.lab.plan import RunPlan
from thence.sim.clock import TIME_MS_MAX
from thence.sim.network import FACTOR_MAX
from thence.sim.run import NODES_MAX

MESSAGES_MAX: Final = 1_000_000
PAYLOAD_BYTES_MAX: Final = 1 << 20
SEED_MAX: Final = (1 << 63) - 1
"""What files of runs can hold."""
FLAGSHIP: Final = "tagged"
"""The engine that has two forms."""


def check_plan(plan: RunPlan, place: str) -> None:
    """UnusableInputError, which begins with ``place``, says what cannot be."""
    wrong = (
        _of_variant(plan)
        or _of_group(plan)
        or _of_times(plan)
        or _of_faults(plan)
        or _of_churn(plan)
    )
    if wrong is not None:
        raise UnusableInputError(f"{place}: {wrong}")


def _of_variant(plan: RunPlan) -> str | None:
    variant = plan.variant
    spec = ENGINES.get(variant.engine)
    if spec is None:
        return (
            f"variant {variant.name}: there is no engine {variant.engine!r}; expected one of "
            f"{', '.join(ENGINES)}"
        )
    if not 0 <= variant.stability_batch <= MESSAGES_MAX:
        return f"variant {variant.name}: stability_batch: expected 0 to {MESSAGES_MAX}"
    if variant.form == "compiled" and variant.engine != FLAGSHIP:
        return f"variant {variant.name}: only engine {FLAGSHIP!r} has a compiled form"
    if plan.stability and not spec.stability:
        return f"stability: engine {variant.engine!r} computes none; expected [false] with it"
    if plan.phantom_ms and not spec.phantoms:
        return f"phantom_ms: engine {variant.engine!r} has no phantoms; expected 0 with it"
    return None


def _of_group(plan: RunPlan) -> str | None:
    if not 2 <= plan.nodes <= NODES_MAX:
        return f"sizes: expected 2 to {NODES_MAX} nodes, got {plan.nodes}"
    if not 1 <= plan.messages <= MESSAGES_MAX:
        return f"messages: expected 1 to {MESSAGES_MAX} per node, got {plan.messages}"
    if not 0 <= plan.payload_bytes <= PAYLOAD_BYTES_MAX:
        return f"payload_bytes: expected 0 to {PAYLOAD_BYTES_MAX}, got {plan.payload_bytes}"
    if not 0 <= plan.seed <= SEED_MAX:
        return f"seeds: expected 0 to {SEED_MAX}, got {plan.seed}"
    return None


def _of_times(plan: RunPlan) -> str | None:
    for name, value in (
        ("intervals_ms", plan.interval_ms),
        ("latency: mean_ms", plan.latency.mean_ms),
        ("phantom_ms", plan.phantom_ms),
    ):
        if not 0 <= value <= TIME_MS_MAX:
            return f"{name}: expected 0 to {TIME_MS_MAX:g} ms, got {value:g}"
    return None


def _of_faults(plan: RunPlan) -> str | None:
    slow = plan.slow
    if slow is not None:
        if slow.a == slow.b or not (0 <= slow.a < plan.nodes and 0 <= slow.b < plan.nodes):
            return (
                f"slow_link: expected two nodes of 0 to {plan.nodes - 1}, got {slow.a} and {slow.b}"
            )
        if not 0 < slow.factor <= FACTOR_MAX:
            return (
                f"slow_link: factor: expected above 0, at most {FACTOR_MAX:g}, got {slow.factor:g}"
            )
    for cut in plan.cuts:
        if not 0 <= cut.start_ms < cut.end_ms <= TIME_MS_MAX:
            return (
                "partitions: expected a start_ms from 0 and an end_ms after it, got "
                f"{cut.start_ms:g} and {cut.end_ms:g}"
            )
        if not all(0 <= node < plan.nodes for node in cut.side):
            return f"partitions: nodes: expected numbers from 0 to {plan.nodes - 1}"
        if len(set(cut.side)) in (0, plan.nodes):
            return "partitions: nodes: expected some of the group, and not all"
    return None


def _of_churn(plan: RunPlan) -> str | None:
    churn = plan.churn
    if churn is None:
        return None
    if min(churn.joins, churn.leaves, churn.crashes) < 0:
        return "churn: expected numbers of joins, leaves and crashes, 0 or more"
    if not churn.joins + churn.leaves + churn.crashes:
        return "churn: expected a join, a leave or a crash at least"
    if plan.nodes + churn.joins > NODES_MAX:
        return f"churn: joins: expected at most {NODES_MAX} nodes in all"
    most = (plan.nodes - 1) // 2
    if churn.leaves + churn.crashes > most:
        return (
            f"churn: expected at most {most} leaves and crashes in a group of {plan.nodes}, so "
            "that most of it stays"
        )
    for is_so, key, why in (
        (plan.variant.engine != FLAGSHIP, "variants", f"only engine {FLAGSHIP!r}"),
        (not plan.stability, "stability", "[true], because views rest on it"),
        (bool(plan.latency.matrix_ms), "latency", "mean_ms, because newcomers are in no matrix"),
        (bool(plan.cuts), "partitions", "none"),
        (plan.phantom_ms > 0, "phantom_ms", "0: such nodes announce by themselves"),
    ):  # fmt: skip
        if is_so:
            return f"{key}: expected {why}, with churn"
    return None
