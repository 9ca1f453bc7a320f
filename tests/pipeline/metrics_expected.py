"""The rows of every metric in plain Python, from the tables that explicit sets give."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.pipeline.metrics_brute import Row, brute_of, latency_rows, order_row, read_cpu
from tests.trace.brute import Brute
from thence.trace.record import Record, RunInfo

Group = tuple[Any, ...]
Observation = tuple[str, str | None, int | None, float]  # series, node, bucket, value
ABOUT = ("engine", "variant", "stability", "group_size", "interval_ms", "experiment")


class Measured(NamedTuple):
    """A run with its tables."""

    info: RunInfo
    brute: Brute
    latency: list[Row]

    @property
    def common(self) -> bool:
        scenario = self.info.scenario
        return scenario.get("clock") == "common" or scenario.get("simulated") is True

    @property
    def about(self) -> Row:
        return {
            "engine": self.info.engine,
            "variant": self.info.scenario.get("variant", self.info.engine),
            "stability": self.info.stability,
            "group_size": len(self.brute.members),
            "interval_ms": self.info.scenario.get("interval_ms"),
            "experiment": self.info.scenario.get("experiment"),
        }


def measured(records: list[Record], info: RunInfo, folder: Path) -> Measured:
    brute = brute_of(records, info)
    brute.cpu = read_cpu(folder, brute.logs)
    return Measured(info, brute, latency_rows(brute))


def minus(row: Row, after: str, before: str) -> float | None:
    return None if None in (row[after], row[before]) else row[after] - row[before]


def plus(latency: float | None, ns: int | None) -> float | None:
    """With CPU time, to the tenth of a microsecond."""
    return None if latency is None or ns is None else latency + (ns + 50) // 100 / 10


def per_row(run: Measured, name: str) -> Iterator[tuple[str, str, float | None]]:
    """(series, node, value) of the metrics over messages."""
    for row in run.latency:
        node = row["node"]
        if name == "metadata":
            yield "dots", node, row["context_dots"]
            if row["context_dots"] is not None:
                vectors = run.info.vectors * len(run.brute.members)
                yield "entries", node, vectors or row["context_dots"]
            yield "bytes", node, row["bytes"]
        elif name == "delivery_delay":
            yield "delay", node, minus(row, "t_deliver", "t_receive")
        elif name == "noncausal_delivery":
            latency = minus(row, "t_ready", "latest_receive")
            for ending, value in (("", latency), ("_work", plus(latency, row["ready_ns"]))):
                yield f"all{ending}", node, value
                if row["had_to_wait"]:
                    yield f"waited{ending}", node, value
                    if node in run.info.scenario.get("slow_nodes", ()):
                        yield f"slow_waited{ending}", node, value
        elif name == "noncausal_stability":
            yield "latency", node, minus(row, "t_stable", "completing_receive")
            told = minus(row, "t_told", "completing_receive")
            if told is not None and told >= 0:
                yield "told_work", node, plus(told, row["told_ns"])
        elif name == "stability_lag":
            yield "lag", node, minus(row, "t_stable", "t_deliver")
        elif name == "cross_node_delay" and run.common and not row["own"]:
            yield "receive", node, minus(row, "t_receive", "t_send")
            yield "deliver", node, minus(row, "t_deliver", "t_send")


def samples(run: Measured) -> Iterator[Observation]:
    logs = run.brute.logs
    begins = {node: min(record.t_us for record in log) for node, log in logs.items()}
    if run.common:
        begins = dict.fromkeys(logs, min(begins.values()))
    lasted = max(record.t_us - begins[node] for node, log in logs.items() for record in log)
    widths = [step * 10**power for power in range(18) for step in (1, 2, 5)]
    width = next(width for width in widths if width * 50 > lasted)
    for node, log in logs.items():
        for record in log:
            if record.kind == "sample" and record.words is not None:
                bucket = (record.t_us - begins[node]) // width * width
                yield "words", node, bucket, record.words


def throughput(run: Measured) -> Iterator[Observation]:
    total = {"sent": 0, "delivered": 0}
    spans = []
    for node, log in run.brute.logs.items():
        good = [(at, kind) for at, kind, *_ in run.brute.good[node] if kind in ("send", "deliver")]
        times = [log[at].t_us for at, _ in good]
        spans += [(min(times), max(times))] if times else []
        for series, wanted in (("sent", "send"), ("delivered", "deliver")):
            count = sum(kind == wanted for _, kind in good)
            total[series] += count
            if times and max(times) > min(times):
                yield f"{series}_by_node", node, None, count * 1e6 / (max(times) - min(times))
    if run.common and spans:
        span = max(last for _, last in spans) - min(first for first, _ in spans)
    else:
        span = max((last - first for first, last in spans), default=0)
    for series, count in total.items() if span else ():
        yield series, None, None, count * 1e6 / span


def concurrency(run: Measured) -> Iterator[Observation]:
    order = order_row(run.brute)
    if order["width"]:
        yield "width", None, None, order["width"]
    if order["pairs"] and order["concurrent_pairs"] is not None:
        yield "share", None, None, order["concurrent_pairs"] / order["pairs"]


def work(run: Measured) -> Iterator[Observation]:
    for node, cpu in run.brute.cpu.items():
        deliveries = sum(kind == "deliver" for _, kind, *_ in run.brute.good[node])
        if deliveries:
            yield "per_delivery", node, None, cpu.ns / deliveries / 1000


def observations(run: Measured, name: str) -> list[Observation]:
    special = {
        "memory": samples,
        "throughput": throughput,
        "concurrency": concurrency,
        "work": work,
    }
    if name in special:
        return list(special[name](run))
    return [(s, node, None, value) for s, node, value in per_row(run, name) if value is not None]


def percentile(values: list[float], share: float) -> float:
    """Between the two nearest ranks, in proportion."""
    position = (len(values) - 1) * share
    low = int(position)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (position - low)


def levels(run: Measured, observation: Observation) -> Iterator[Group]:
    """(level, run, node, bucket, about the run...) of the groups that it belongs to."""
    _, node, bucket, _ = observation
    about = tuple(run.about[name] for name in ABOUT)
    engine, variant, stability, size, interval, experiment = about
    yield ("engine", None, None, None, engine, variant, stability, None, None, None)
    yield ("size", None, None, None, engine, variant, stability, size, None, None)
    yield ("interval", None, None, None, engine, variant, stability, size, interval, None)
    if experiment is not None:
        yield ("experiment", None, None, None, *about)
    yield ("run", run.info.run, None, None, *about)
    if node is not None:
        yield ("node", run.info.run, node, None, *about)
    if bucket is not None:
        yield ("time", run.info.run, None, bucket, *about)


def summary(values: list[float]) -> Row:
    values = sorted(values)
    shares = {"p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "p999": 0.999}
    return {
        "count": len(values),
        "mean": sum(values) / len(values),
        **{name: percentile(values, share) for name, share in shares.items()},
        "max": values[-1],
    }


def expected_rows(runs: list[Measured], name: str) -> dict[Group, Row]:
    """By (series, level, ...): the figures of every group that has an observation."""
    groups: dict[Group, list[float]] = {}
    for run in runs:
        for observation in observations(run, name):
            for level in levels(run, observation):
                groups.setdefault((observation[0], *level), []).append(float(observation[3]))
    return {group: summary(values) for group, values in groups.items()}
