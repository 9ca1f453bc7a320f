"""The page of single runs: what happened in each, in a table and five pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from thence.report.data import Log, Run, Tables
from thence.report.drawing import Picture
from thence.report.pages import render
from thence.report.run_figures import RUN_FIGURES
from thence.report.units import shown

Progress = Callable[[str, int, int], None]
DRAWN_MAX: Final = 12
"""Runs that have pictures; of more the page has the table, and says so."""
TICK_US: Final = 1000.0
"""Of the clock by which a real node's log tells the time."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What a check of the runs said."""

    ok: bool
    text: str
    where: str = ""


class RunNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """One run in numbers; times are microseconds, None what was not observed."""

    run: str
    engine: str
    nodes: int
    seconds: float | None
    messages: int
    deliveries: int
    stables: int
    held_back: int
    delay_us_p50: float | None
    delay_us_p99: float | None
    lag_us_p50: float | None
    lag_us_p99: float | None
    metadata_bytes_mean: float | None
    words_max: float | None


class RunsPage:
    """Makes the page of some runs."""

    def __init__(
        self, tables: Tables, folder: Path, checked: Checked | None, about: str,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        self.tables = tables
        self._folder = folder
        self._checked = checked
        self._about = about
        self._progress = progress
        self.runs = sorted(tables.runs, key=lambda run: run.run)
        logs: dict[str, list[Log]] = {}
        for log in tables.logs():
            logs.setdefault(log.run, []).append(log)
        self._logs = logs
        self.numbers = [self._numbers(run) for run in self.runs]
        self.pictures: list[str] = []

    @property
    def summary(self) -> list[str]:
        """Sentences."""
        messages = sum(each.messages for each in self.numbers)
        deliveries = sum(each.deliveries for each in self.numbers)
        held = sum(each.held_back for each in self.numbers)
        share = f" ({held / deliveries:.1%})" if deliveries else ""
        told = [
            f"{messages:,} messages were sent and {deliveries:,} deliveries made; {held:,} of "
            f"them{share} had to wait for a message that precedes them.",
            *self._times(),
        ]
        if self._checked is not None:
            where = f" {self._checked.where}" if self._checked.where else ""
            told.append(f"The check of causality{where}: {self._checked.text}.")
        return told

    def _times(self) -> list[str]:
        """How long things took, of a single run."""
        if len(self.numbers) > 1 or self.numbers[0].delay_us_p50 is None:
            return []
        run = self.numbers[0]
        least_us = 0.0 if self.tables.are_simulated else TICK_US

        def within(us: float | None) -> str:
            return shown(None if us is None else max(us, least_us), "us")

        text = (
            f"Half of the deliveries came within {within(run.delay_us_p50)} of the arrival, "
            f"99 of 100 within {within(run.delay_us_p99)}"
        )
        if run.lag_us_p50 is None:
            return [f"{text}."]
        return [f"{text}; half of all messages were stable within {within(run.lag_us_p50)}."]

    def render(self) -> str:
        """Draw everything and put it together."""
        runs = []
        for place, (run, numbers) in enumerate(zip(self.runs, self.numbers, strict=True)):
            figures = self._figures(run, place) if place < DRAWN_MAX else []
            runs.append(
                {
                    "run": run,
                    "facts": _facts(run),
                    "told": _told(numbers, run.is_simulated),
                    "logs": self._logs.get(run.run, []),
                    "figures": figures,
                }
            )
        title = f"Run {self.runs[0].run}" if len(self.runs) == 1 else f"{len(self.runs)} runs"
        return render(
            "runs.html",
            title=title,
            about=self._about,
            summary=self.summary,
            checked=self._checked,
            runs=runs,
            left_out=max(0, len(self.runs) - DRAWN_MAX),
            is_simulated=self.tables.are_simulated,
        )

    def _figures(self, run: Run, place: int) -> list[dict[str, Any]]:
        found = []
        total = len(RUN_FIGURES) * min(len(self.runs), DRAWN_MAX)
        for name, figure in RUN_FIGURES.items():
            # Names of runs are others' data: files are numbered.
            drawn = figure.draw(self.tables, run, self._folder, f"run-{place + 1}-{name}")
            if isinstance(drawn, Picture):
                self.pictures.append(drawn.name)
                found.append({"figure": figure, "svg": drawn.svg, "why": ""})
            else:
                found.append({"figure": figure, "svg": None, "why": drawn})
            if self._progress is not None:
                self._progress("drawing figures", place * len(RUN_FIGURES) + len(found), total)
        return found

    def _numbers(self, run: Run) -> RunNumbers:
        logs = self._logs.get(run.run, [])
        delay = self._row(run, "delivery_delay", "delay")
        lag = self._row(run, "stability_lag", "lag")
        waited = self._row(run, "noncausal_delivery", "waited")
        wire = self._row(run, "metadata", "bytes")
        words = self._row(run, "memory", "words")
        return RunNumbers(
            run=run.run,
            engine=run.variant or run.engine or "",
            nodes=len(logs),
            seconds=None if run.span_us is None else run.span_us / 1e6,
            messages=sum(log.sends for log in logs),
            deliveries=sum(log.deliveries for log in logs),
            stables=sum(log.stables for log in logs),
            held_back=waited.get("count") or 0,
            delay_us_p50=delay.get("p50"),
            delay_us_p99=delay.get("p99"),
            lag_us_p50=lag.get("p50"),
            lag_us_p99=lag.get("p99"),
            metadata_bytes_mean=wire.get("mean"),
            words_max=words.get("max"),
        )

    def _row(self, run: Run, metric: str, series: str) -> dict[str, Any]:
        for row in self.tables.rows(metric, "run"):
            if row.run == run.run and row.series == series:
                return msgspec.structs.asdict(row)
        return {}


def _facts(run: Run) -> list[tuple[str, str]]:
    """What is known of it."""
    facts = run.facts()
    told = [("engine", run.variant or run.engine or "not said")]
    told.append(("stability", "computed" if run.stability else "not computed"))
    told.append(
        ("time", "virtual (simulated)" if run.is_simulated else "real, by the nodes' clocks")
    )
    if run.interval_ms is not None:
        told.append(("mean time between sends of a node", f"{run.interval_ms:g} ms"))
    if isinstance(facts.get("command"), str):
        told.append(("made with", facts["command"]))
    return told


def _time(us: float | None, is_simulated: bool) -> str:
    """Not finer than the clock that measured it."""
    is_finer = us is not None and us < TICK_US and not is_simulated
    return f"below {shown(TICK_US, 'us')}" if is_finer else shown(us, "us")


def _told(numbers: RunNumbers, is_simulated: bool) -> list[tuple[str, str]]:
    """The numbers of a run for people."""
    words = None if numbers.words_max is None else numbers.words_max * 8
    return [
        ("nodes", f"{numbers.nodes:,}"),
        ("time", "–" if numbers.seconds is None else f"{numbers.seconds:,.2f} s"),
        ("messages", f"{numbers.messages:,}"),
        ("deliveries", f"{numbers.deliveries:,}"),
        ("held back", f"{numbers.held_back:,}"),
        ("told stable", f"{numbers.stables:,}"),
        ("arrival to delivery, median", _time(numbers.delay_us_p50, is_simulated)),
        ("arrival to delivery, 99 of 100", _time(numbers.delay_us_p99, is_simulated)),
        ("delivery to stable, median", _time(numbers.lag_us_p50, is_simulated)),
        ("delivery to stable, 99 of 100", _time(numbers.lag_us_p99, is_simulated)),
        ("metadata on the wire, mean", shown(numbers.metadata_bytes_mean, "bytes")),
        ("metadata held, most", shown(words, "bytes")),
    ]
