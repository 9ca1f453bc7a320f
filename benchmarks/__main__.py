"""``make bench``: the table of costs, the ratios that are promised, and whether they hold.

    python -m benchmarks [--rounds 7] [--quick]

Exit code 1 when a promised ratio does not hold in this run.  Machines are noisy: look at ratios.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks import workload
from benchmarks.drive import Contender, median_ratio, race
from benchmarks.endurance import endurance
from thence import forms
from thence.engine import graph, tagged, vector
from thence.engine.effects import Effects

SIZES = (4, 16, 64, 128)
PENDING = 10_000


class Report:
    """Prints rows and remembers which promises were broken."""

    def __init__(self) -> None:
        self.broken: list[str] = []

    def promise(self, what: str, ratio: float, at_least: float = 0.0, at_most: float = 1e9) -> None:
        held = at_least <= ratio <= at_most
        verdict = "holds" if held else "BROKEN"
        bar = f">= {at_least}" if at_least else f"<= {at_most}"
        if not at_least and at_most >= 1e9:
            bar, verdict = "", ""
        print(f"{what:<62}{ratio:>8.2f}  {bar:<8} {verdict}".rstrip(), flush=True)
        if not held:
            self.broken.append(what)


def contenders() -> dict[str, Contender]:
    """The flagship in the forms there are, and the thesis' engines (interpreted)."""
    source = forms.interpreted_engine()
    found = {"tagged": Contender("tagged", source, source.SPEC, False)}
    if forms.is_compiled():
        found["tagged, compiled"] = Contender("tagged, compiled", tagged, tagged.SPEC, False)
    thesis = type("Module", (), {"Effects": Effects})
    found["vector"] = Contender("vector", thesis, vector.SPEC, True)
    found["graph"] = Contender("graph", thesis, graph.SPEC, False)
    return found


def compare_flagship(
    report: Report, engines: dict[str, Contender], quick: bool, rounds: int
) -> None:
    """In order, slow link and backlog, every size, both forms."""
    print("\nCPU us per delivered message, client and stability included (median)")
    print(
        f"{'N':>4} {'dots':>5}  {'engine':<18}{'in order':>10}{'slow link':>11}{'10k pending':>13}"
    )
    ratios: list[tuple[str, float, float, float]] = []
    messages = 6_000 if quick else 20_000
    for nodes in SIZES:
        plans = {
            "in order": workload.in_order(nodes, messages, 1),
            "slow link": workload.slow_link(nodes, messages, 1),
            "pending": workload.backlog(nodes, 2 * PENDING, 1, PENDING),
        }
        flagship = [name for name in engines if name.startswith("tagged")]
        runs = {f"{n}/{p}": (engines[n], nodes, s) for n in flagship for p, s in plans.items()}
        runs["vector/in order"] = (engines["vector"], nodes, plans["in order"])
        runs["vector/slow link"] = (engines["vector"], nodes, plans["slow link"])
        costs = race(runs, rounds)
        dots = workload.mean_context(plans["in order"])
        for name in [*flagship, "vector"]:
            shown = [_median(costs.get(f"{name}/{plan}")) for plan in plans]
            print(f"{nodes:>4} {dots:>5.1f}  {name:<18}{shown[0]:>10}{shown[1]:>11}{shown[2]:>13}")
        ratios.append(
            (
                f"N = {nodes}: vector / tagged, in order",
                4.0 if nodes == 128 else 0.0,
                1e9,
                median_ratio(costs, "vector/in order", "tagged/in order"),
            )
        )
        for name in flagship:
            bar = 2.2 if "compiled" in name else 1.5
            ratio = median_ratio(costs, f"{name}/pending", f"{name}/in order")
            ratios.append((f"N = {nodes}: {name}: 10,000 pending / in order", 0.0, bar, ratio))
        if len(flagship) == 2:
            ratio = median_ratio(costs, "tagged/in order", "tagged, compiled/in order")
            ratios.append((f"N = {nodes}: interpreted / compiled, in order", 2.2, 1e9, ratio))
    print()
    for what, at_least, at_most, ratio in ratios:
        report.promise(what, ratio, at_least, at_most)


def compare_graph(report: Report, engines: dict[str, Contender], rounds: int) -> None:
    """The graph engine is slow enough to need an execution of its own, shared with the flagship."""
    for nodes in SIZES:
        steps = workload.in_order(nodes, 4_000, 2)
        runs = {name: (engines[name], nodes, steps) for name in ("tagged", "graph")}
        costs = race(runs, max(3, rounds // 2))
        ratio = median_ratio(costs, "graph", "tagged")
        what = f"N = {nodes}: graph ({_median(costs['graph'])} us) / tagged, in order"
        report.promise(what, ratio, 30.0 if nodes == 128 else 0.0)


def _median(costs: list[float] | None) -> str:
    return "-" if costs is None else f"{statistics.median(costs):.2f}"


def main() -> int:
    """Run everything; exit code 1 when a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="small executions, rough figures")
    arguments = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}")
    report = Report()
    engines = contenders()
    if "tagged, compiled" not in engines:
        print("no compiled form here: its rows are missing")
    compare_flagship(report, engines, arguments.quick, arguments.rounds)
    compare_graph(report, engines, arguments.rounds)
    endurance(report.promise, engines["tagged"], 100_000 if arguments.quick else 1_000_000)
    print("\nThe local checker against algorithm 14", flush=True)
    script = Path(__file__).with_name("bench_check.py")
    events = ["--events", "1000000"] if arguments.quick else ["--bar", "4"]
    if subprocess.run([sys.executable, str(script), *events], check=False).returncode:
        report.broken.append("local checker / algorithm 14")
    if report.broken:
        print(f"\n{len(report.broken)} broken: " + "; ".join(report.broken))
    else:
        print("\nevery promise holds")
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
