"""Made-up metric tables and a lab.json, with the columns that real ones have.

Numbers follow simple laws, so that tests know what a report must say of them; nothing here was
measured.  ``make_lab`` writes a folder as ``thence lab run`` leaves it, without runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thence.report.drawing import Picture
from thence.report.panels import Drawn

SIZES = (4, 8, 16, 32, 64, 128)
INTERVALS = (10.0, 100.0, 1000.0)
CONSTANT_WORK = dict(zip(SIZES, (31.0, 63.0, 125.0, 250.0, 500.0, 1000.0), strict=True))
VARIANTS = (
    {"name": "tagged-at-once", "engine": "tagged", "form": "interpreted", "role": "flagship"},
    {"name": "tagged", "engine": "tagged", "form": "interpreted", "role": "flagship-default"},
    {"name": "vector", "engine": "vector", "form": "interpreted", "role": "rival"},
    {"name": "graph", "engine": "graph", "form": "interpreted", "role": "rival"},
    {"name": "cbcast-e2e", "engine": "cbcast-e2e", "form": "interpreted", "role": "rival"},
    {"name": "tagged-compiled", "engine": "tagged", "form": "compiled", "role": "none"},
)
UNITS = {"entries": "entries", "words": "words"}
METRIC_SERIES = {
    "metadata": ("entries", "dots", "bytes"),
    "memory": ("words",),
    "noncausal_delivery": ("waited", "waited_work", "slow_waited", "slow_waited_work", "all"),
    "noncausal_stability": ("latency", "told_work"),
    "work": ("per_delivery",),
    "delivery_delay": ("delay",),
    "stability_lag": ("lag",),
}
ROW = pa.schema(
    [
        ("series", pa.string()), ("unit", pa.string()), ("level", pa.string()),
        ("run", pa.string()), ("node", pa.string()), ("engine", pa.string()),
        ("variant", pa.string()), ("stability", pa.bool_()), ("group_size", pa.int64()),
        ("interval_ms", pa.float64()), ("experiment", pa.string()), ("bucket_us", pa.int64()),
        ("count", pa.int64()), ("mean", pa.float64()), ("p25", pa.float64()),
        ("p50", pa.float64()), ("p75", pa.float64()), ("p90", pa.float64()),
        ("p99", pa.float64()), ("p999", pa.float64()), ("max", pa.float64()),
        ("lacks", pa.string()),
    ]
)  # fmt: skip
RUN = pa.schema(
    [
        ("run", pa.string()), ("engine", pa.string()), ("variant", pa.string()),
        ("role", pa.string()), ("form", pa.string()), ("stability", pa.bool_()),
        ("complete", pa.bool_()), ("group_size", pa.int64()), ("interval_ms", pa.float64()),
        ("experiment", pa.string()), ("scenario", pa.string()), ("events", pa.int64()),
        ("span_us", pa.int64()),
    ]
)  # fmt: skip
LOG = pa.schema(
    [
        ("run", pa.string()), ("node", pa.string()), ("events", pa.int64()),
        ("sends", pa.int64()), ("deliveries", pa.int64()), ("stables", pa.int64()),
    ]
)  # fmt: skip

Row = dict[str, Any]
Law = Callable[[Row], float | None]
"""The median of a series at a setting, or None: not observed."""


def usual(row: Row) -> float | None:
    """Laws under which every shape holds, the graph is costly and the flagship wins everywhere."""
    size, name, series = row["group_size"], row["variant"], row["series"]
    share = {10.0: 0.5, 100.0: 0.2}.get(row["interval_ms"], 0.05)
    dots = 1 + size * share
    if series in ("entries", "dots", "bytes"):
        return {"vector": size, "cbcast-e2e": 2 * size}.get(name, dots)
    if series == "words":
        waiting = 4 * size if row["stability"] else 0
        per = {"vector": size, "cbcast-e2e": 2 * size, "graph": size / 16}.get(name, size / 24)
        own = {"vector": 2 * size, "cbcast-e2e": 4 * size}.get(name, 0)
        return own + waiting * per
    if series.startswith("slow") and not row["experiment"].endswith("slow"):
        return None
    if series in ("latency", "told_work") and not row["stability"]:
        return None
    cost = {"vector": 5 + size / 3, "cbcast-e2e": 8 + size / 2, "graph": 10 + 3 * size}
    return cost.get(name, 1.2 if name == "tagged-compiled" else 4 + size / 20)


def rows(metric: str, runs: Sequence[Row], law: Law, count: int) -> Iterator[Row]:
    """The rows of level experiment and run of a metric."""
    for run in runs:
        for series in METRIC_SERIES[metric]:
            for level in ("experiment", "run"):
                keys = ("engine", "variant", "stability", "group_size", "interval_ms", "experiment")
                row = {"series": series, "unit": UNITS.get(series, "us"), "level": level}
                row |= {key: run[key] for key in keys}
                row["run"] = run["run"] if level == "run" else None
                row |= figures(law(row), count)
                yield row


def figures(value: float | None, count: int = 1000) -> Row:
    """Percentiles around a median."""
    if value is None:
        return {"count": 0, "lacks": "nothing to observe"}
    names = ("mean", "p25", "p50", "p75", "p90", "p99", "p999", "max")
    factors = (1.1, 0.8, 1.0, 1.3, 1.6, 2.0, 3.0, 4.0)
    spread = {name: value * factor for name, factor in zip(names, factors, strict=True)}
    return {"count": count, "lacks": None, **spread}


def settings(sizes: Sequence[int]) -> Iterator[Row]:
    """Every run of chapter 8: variants, sizes, intervals, with and without stability."""
    for variant in VARIANTS:
        name = variant["name"]
        experiments = (
            ["exp1"] if name == "cbcast-e2e" else ["exp2", "exp3", "exp2-slow", "exp3-slow"]
        )
        for experiment in experiments:
            for size in sizes:
                constant = experiment.startswith("exp3")
                for interval_ms in (CONSTANT_WORK[size],) if constant else INTERVALS:
                    for stability in (False, True):
                        run = f"{experiment}-{name}-{size}-{interval_ms:g}-{stability}"
                        yield {
                            "run": run, "engine": variant["engine"], "variant": name,
                            "role": variant["role"], "form": variant["form"],
                            "stability": stability, "complete": True, "group_size": size,
                            "interval_ms": interval_ms, "experiment": experiment,
                            "scenario": json.dumps({"simulated": True}), "events": 1000,
                            "span_us": 10**6,
                        }  # fmt: skip


def make_tables(
    folder: Path,
    runs: Sequence[Row],
    law: Law = usual,
    more: dict[str, list[Row]] | None = None,
    count: int = 1000,
) -> Path:
    """Write the tables of these runs; ``more``: further rows by metric."""
    write(folder / "runs", runs, RUN)
    logs = [
        {"run": run["run"], "node": node, "events": 10, "sends": 2, "deliveries": 4, "stables": 3}
        for run in runs
        for node in "ab"
    ]
    write(folder / "logs", logs, LOG)
    for metric in METRIC_SERIES:
        found = [*rows(metric, runs, law, count), *(more or {}).get(metric, [])]
        write(folder / "metrics" / metric, found, ROW)
    summary = {"complete": True, "runs": len(runs), "events": 1000 * len(runs), "notes": []}
    summary["metrics"] = list(METRIC_SERIES)
    (folder / "metrics.json").write_text(json.dumps(summary))
    return folder


def make_lab(
    folder: Path,
    *,
    sizes: Sequence[int] = SIZES,
    law: Law = usual,
    keep: Callable[[Row], bool] = lambda _: True,
    count: int = 1000,
    **changed: Any,
) -> Path:
    """A folder of the lab with tables of the runs that ``keep`` keeps.

    ``count``: observations of each.
    """
    runs = [run for run in settings(sizes) if keep(run)]
    make_tables(folder / "metrics", runs, law, count=count)
    lab = {
        "v": 1, "files": [{"name": "made.toml", "text": "# made up, for tests\n"}],
        "variants": VARIANTS, "experiments": [], "command": "thence lab run made.toml --out lab",
        "machine": {"cpu": "made up", "cores": 2, "memory": "8 GB", "os": "Linux",
                    "python": "3.11.7", "thence": "0.1.0"},
        "started": "2026-01-02T03:04:05Z", "seconds": 12.5, "runs": len(runs),
        "events": 1000 * len(runs), "check": {"ok": True}, "mode": "simulated",
    }  # fmt: skip
    (folder / "lab.json").write_text(json.dumps({**lab, **changed}))
    return folder


def draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pages of a lab made with empty pictures, which take no time."""

    def draw(drawn: Drawn, looks: object, stated: object, folder: Path) -> Picture:
        for suffix in ("svg", "png"):
            (folder / f"{drawn.panel.name}.{suffix}").write_text("")
        return Picture(drawn.panel.name, "<svg></svg>")

    monkeypatch.setattr("thence.report.lab_page.draw_panel", draw)


def write(folder: Path, found: Sequence[Row], schema: pa.Schema) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(found), schema=schema), folder / "part-0.parquet")
