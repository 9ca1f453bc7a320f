"""``RunPlan``: one run of an experiment, whatever carries it out.

A plan is a value: two that are equal ask for the same run.  Nodes are counted from 0, as peers are
in the thesis; ``names`` has what they are called.  Times are in milliseconds.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

import msgspec

from thence import __version__
from thence.sim.names import node_names

Form = Literal["interpreted", "compiled", "installed"]
"""Of the flagship's source: as Python, by mypyc, or what an import finds.  Other engines have one
form, and take the first and the last for it."""
Role = Literal["flagship", "flagship-default", "rival", "none"]
"""What a report compares: the flagship with the better of its rivals."""
LocalMode = Literal["simulated", "processes"]
Mode = Literal["simulated", "processes", "workers"]
Pacing = Literal["exponential", "fixed"]
Spread = Literal["fixed", "weibull"]

SAMPLES: Final = 100
"""Of the memory of each node, over the time for which nodes send."""
SAMPLE_MS_MIN: Final = 1.0


class Variant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engine with its options, under the name that figures show."""

    name: str
    engine: str
    form: Form = "interpreted"
    role: Role = "none"
    stability_batch: int = 0
    """Messages taken between stability passes; 1 is a pass at each delivery, 0 amortised."""


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """How long messages travel (thesis 8.1.2)."""

    mean_ms: float = 10.0
    """Of every link, unless there is a matrix."""
    spread: Spread = "weibull"
    """``weibull``: base x (1 + W(0.15, 2)), cut at base x (1 + 3 x 0.15), with the base for which
    the mean is as asked; ``fixed``: always the mean."""
    matrix_ms: tuple[tuple[float, ...], ...] = ()
    """[sender][receiver]: the mean of each link."""
    matrix: str = ""
    """The name of the file that the matrix is from."""

    def of(self, sender: int, receiver: int) -> float:
        """The mean of one link."""
        return self.matrix_ms[sender][receiver] if self.matrix_ms else self.mean_ms


class Slow(msgspec.Struct, frozen=True, kw_only=True):
    """A slow link, both ways (thesis 8.1.3): its delay is the mean times the factor, always."""

    a: int = 0
    b: int = 1
    factor: float = 10.0


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A partition: from start to end the nodes of one side cannot reach the others; it heals."""

    start_ms: float
    end_ms: float
    side: tuple[int, ...]


class Churn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Members that come and go while nodes send (thesis, chapter 6)."""

    joins: int = 0
    leaves: int = 0
    crashes: int = 0
    """Nodes that are killed; the others evict them."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    experiment: str
    variant: Variant
    nodes: int
    """Of the group; with churn, its founders."""
    stability: bool = True
    messages: int = 100
    """That each active node sends."""
    interval_ms: float = 10.0
    """Mean time between two sends of a node."""
    pacing: Pacing = "exponential"
    """``exponential``: -ln(U) x mean, cut at 4 x mean (thesis 8.1.1); ``fixed``: the mean."""
    latency: Latency = Latency()
    slow: Slow | None = None
    passive: int = 0
    """The last nodes of the group send nothing (thesis 5.4)."""
    phantom_ms: float = 0.0
    """So often passive nodes announce what they consumed, or all nodes where none is passive;
    0 is never."""
    cuts: tuple[Cut, ...] = ()
    churn: Churn | None = None
    payload_bytes: int = 16
    seed: int = 1
    """Drives everything that is drawn."""
    repetition: int = 1
    """From 1; each has a seed of its own."""
    lab: str = ""
    """The name of the scenario file."""

    @property
    def name(self) -> str:
        """Of the run and of its folder: no two plans of one list have the same."""
        parts = [self.experiment, self.variant.name, f"n{self.nodes}", f"i{self.interval_ms:g}"]
        parts.append("stable" if self.stability else "plain")
        parts.append(f"s{self.seed}")
        return "-".join(parts)

    @property
    def names(self) -> list[str]:
        """Of the nodes."""
        return node_names(self.nodes)

    @property
    def active(self) -> int:
        """How many nodes send: the first ones."""
        return self.nodes - self.passive

    @property
    def announcers(self) -> range:
        """The nodes that announce phantoms."""
        if not self.phantom_ms:
            return range(0)
        return range(self.active if self.passive else 0, self.nodes)

    @property
    def slow_nodes(self) -> list[str]:
        """The ends of the slow link."""
        return [] if self.slow is None else [self.names[self.slow.a], self.names[self.slow.b]]

    @property
    def sending_ms(self) -> float:
        """About how long nodes send."""
        return self.messages * self.interval_ms

    @property
    def sample_ms(self) -> float:
        """How often the memory of nodes is measured."""
        return round(max(self.sending_ms / SAMPLES, SAMPLE_MS_MIN), 3)

    @property
    def deliveries(self) -> int:
        """Messages times receivers."""
        return self.messages * self.active * (self.nodes - 1)

    @property
    def events(self) -> int:
        """About how many records its trace has."""
        sent = self.messages * self.active
        told = sent * self.nodes if self.stability else 0
        return sent + 3 * self.deliveries + told + self.nodes * (SAMPLES + 2)

    @property
    def digest(self) -> str:
        """Of all that is asked for, and of the version that does it: who has a run with the same
        digest has this run."""
        text = msgspec.json.encode([__version__, self])
        return hashlib.sha256(text).hexdigest()[:32]

    def scenario(self, mode: Mode) -> dict[str, Any]:
        """For ``run.json``: what the run was made of."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        variant: dict[str, Any] = found.pop("variant")
        latency: dict[str, Any] = found.pop("latency")
        # A matrix is as long as the run's members squared; its file and its digest say which.
        latency.pop("matrix_ms")
        return {
            **found,
            "variant": variant.pop("name"),
            **variant,
            "latency_ms": latency.pop("mean_ms"),
            "distribution": latency.pop("spread"),
            **latency,
            "slow_nodes": self.slow_nodes,
            "mode": mode,
            "plan": self.digest,
        }


def plan_of_scenario(scenario: dict[str, Any]) -> str:
    """The digest of the plan that a run folder was made for; empty for what is no run of a lab."""
    found = scenario.get("plan", "")
    return found if isinstance(found, str) else ""
