"""What the processes of a group are told: one ``thence node`` each.

``GroupOrders`` is a value, so that it can travel to another machine; where the nodes listen is
added when that is known.  Times are in milliseconds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from thence.config import SETTINGS
from thence.config.node import MS_MAX
from thence.config.settings import CONFIG_VARIABLE
from thence.config.values import NAME_CHARS_MAX, is_loopback, is_name
from thence.engine.registry import ENGINES
from thence.errors import UnusableInputError
from thence.lab.plan import Form, RunPlan
from thence.transport.base import Url

NODES_MAX: Final = 64
"""Of one machine: each is a process."""
NODES_PER_CORE: Final = 8
"""With more, nodes wait for a processor and not for messages: times tell little then."""
SAMPLE_MS_MIN: Final = 10.0
"""A real node must not spend its time with counting what it holds."""
NEVER_MS: Final = float(MS_MAX)
PURE_VARIABLE: Final = "THENCE_PURE"


class NodeOrders(msgspec.Struct, frozen=True, kw_only=True):
    """What one node is told besides what all are told."""

    name: str
    send: int
    """How many messages."""
    delay_to: dict[str, float] = {}
    """Everything for a peer is held back for so long."""
    vary_to: dict[str, float] = {}
    """The same as a mean."""
    phantom_ms: float | None = None
    """Time between two phantoms; 0: never, None: as nodes do by themselves."""


class GroupOrders(msgspec.Struct, frozen=True, kw_only=True):
    """A group and what it is to do."""

    group: str
    nodes: tuple[NodeOrders, ...]
    engine: str
    interval_ms: float
    """Between two messages of a node."""
    is_drawn: bool = True
    """Whether the intervals are drawn from the seed; their mean is the one given."""
    seed: int
    payload_bytes: int = 64
    stability: bool = True
    stability_batch: int = 0
    sample_ms: float
    """Between two measurements of what a node holds."""
    form: Form = "installed"

    @property
    def names(self) -> list[str]:
        """Of the nodes."""
        return [node.name for node in self.nodes]

    @property
    def messages(self) -> int:
        """All that are sent."""
        return sum(node.send for node in self.nodes)

    @property
    def deliveries(self) -> int:
        """All that are made of them."""
        return sum(self.takes(name) for name in self.names)

    def takes(self, name: str) -> int:
        """How many messages one of them gets."""
        return self.messages - (0 if ENGINES[self.engine].own else self.node(name).send)

    @property
    def all_stable(self) -> bool:
        """Whether every message becomes stable at every node in the end."""
        is_told = all(node.phantom_ms is None or node.phantom_ms > 0 for node in self.nodes)
        return self.is_stability_on and ENGINES[self.engine].phantoms and is_told

    @property
    def is_stability_on(self) -> bool:
        """Whether nodes look for stable messages."""
        return self.stability and ENGINES[self.engine].stability

    def node(self, name: str) -> NodeOrders:
        """Of this name."""
        (found,) = [node for node in self.nodes if node.name == name]
        return found

    def flags(
        self, name: str, addresses: Mapping[str, str], status: str, trace: Path,
        listen: str | None = None,
    ) -> list[str]:  # fmt: skip
        """Of ``thence node`` for one of them.

        ``addresses`` has the URL of every node; ``listen`` is where this one listens, if that is
        not where others reach it.  ``trace`` is the folder that gets one for the group.
        """
        own = self.node(name)
        words = ["--name", name, "--group", self.group, "--engine", self.engine]
        words += ["--trace", f"{trace}", "--trace-sample-s", f"{self.sample_ms / 1000:g}"]
        words += ["--listen", listen or addresses[name], "--status", status]
        if any(not is_loopback(Url.parse(url).host) for url in addresses.values()):
            words += ["--allow-remote"]
        words += ["--log-level", "warning"]
        for peer, url in addresses.items():
            if peer != name:
                words += ["--peer", f"{peer}={url}"]
        for flag, delays in (("--delay-to", own.delay_to), ("--vary-to", own.vary_to)):
            for peer, ms in delays.items():
                words += [flag, f"{peer}={ms:g}"]
        if own.vary_to:
            words += ["--delay-seed", f"{self.seed}"]
        if own.phantom_ms is not None:
            phantom_ms = own.phantom_ms or NEVER_MS
            for flag in ("--timing-phantom-ms-min", "--timing-phantom-ms-max"):
                words += [flag, f"{phantom_ms:g}"]
        if not self.stability:
            words += ["--no-stability"]
        words += ["--stability-batch", f"{self.stability_batch}"]
        words += ["--send", f"{own.send}", "--interval-ms", f"{self.interval_ms:g}"]
        words += ["--payload-bytes", f"{self.payload_bytes}"]
        return [*words, "--seed", f"{self.seed}"] if self.is_drawn else words

    def environ(self) -> dict[str, str]:
        """Of the processes: without settings for nodes, because the flags say everything."""
        ours = {setting.variable for setting in SETTINGS.values()} | {CONFIG_VARIABLE}
        if self.form != "installed":
            ours.add(PURE_VARIABLE)
        found = {name: value for name, value in os.environ.items() if name not in ours}
        return found | ({PURE_VARIABLE: "1"} if self.form == "interpreted" else {})


def orders_of(plan: RunPlan) -> GroupOrders:
    """What the processes of a run are told; UnusableInputError if processes cannot do that."""
    if plan.churn is not None:
        raise UnusableInputError(
            f"{plan.name}: members come and go, which only --mode simulated can do"
        )
    if plan.cuts:
        raise UnusableInputError(
            f"{plan.name}: the network is cut, which only --mode simulated can do"
        )
    if not is_name(plan.name):
        raise UnusableInputError(
            f"{plan.name}: processes take names of up to {NAME_CHARS_MAX} characters: give the "
            "experiment or the variant a shorter one"
        )
    names = plan.names
    return GroupOrders(
        group=plan.name,
        nodes=tuple(_node(plan, at, names) for at in range(plan.nodes)),
        engine=plan.variant.engine,
        interval_ms=plan.interval_ms,
        is_drawn=plan.pacing == "exponential",
        seed=plan.seed,
        payload_bytes=plan.payload_bytes,
        stability=plan.stability,
        stability_batch=plan.variant.stability_batch,
        sample_ms=max(plan.sample_ms, SAMPLE_MS_MIN),
        form=plan.variant.form,
    )


def _node(plan: RunPlan, at: int, names: list[str]) -> NodeOrders:
    delay_to: dict[str, float] = {}
    vary_to: dict[str, float] = {}
    slow = plan.slow
    for peer, name in enumerate(names):
        ms = plan.latency.of(at, peer)
        if slow is not None and {at, peer} == {slow.a, slow.b}:
            delay_to[name] = ms * slow.factor
        elif at != peer and ms:
            (vary_to if plan.latency.spread == "weibull" else delay_to)[name] = ms
    return NodeOrders(
        name=names[at],
        send=plan.messages if at < plan.active else 0,
        delay_to=delay_to,
        vary_to=vary_to,
        phantom_ms=plan.phantom_ms if at in plan.announcers else 0.0,
    )


def check_size(plan: RunPlan) -> None:
    """UnusableInputError if one machine cannot run so many processes."""
    if plan.nodes > NODES_MAX:
        raise UnusableInputError(
            f"{plan.name} has {plan.nodes} nodes, and --mode processes runs up to {NODES_MAX} on "
            "one machine: use --mode workers on several, or --mode simulated"
        )


def crowd_warning(nodes: int, cores: int) -> str:
    """What to say of a group that is too large for a machine's processors; empty if it is not."""
    if nodes <= NODES_PER_CORE * cores:
        return ""
    return (
        f"{nodes} processes share {cores} processors: what a node waits for is then often a "
        "processor, and its latencies say little of its engine"
    )
