"""``thence demo``: a simulated group with one slow link, its trace, the check on Spark."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from thence.cli import check
from thence.cli.progress import progress_bar
from thence.cli.simulate import run_to
from thence.engine.registry import ENGINES
from thence.errors import UnusableInputError
from thence.sim.checkers import OracleFailure
from thence.sim.network import NetworkOptions, SlowLink
from thence.sim.run import SimulationOptions, SimulationResult
from thence.sim.tally import Tally, percentile
from thence.sim.workload import WorkloadOptions
from thence.trace.check import check_paths
from thence.trace.verdict import Report

FOLDER = Path("thence-demo")
SLOW_FACTOR = 20.0
PHANTOM_MS = 100.0


def command(
    *,
    nodes: int = 5,
    messages: int = 2000,
    engine: str = "tagged",
    seed: int = 1,
    out: Path = FOLDER,
    overwrite: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Run a simulated group with a slow link, check its logs, show what happened.

    Parameters
    ----------
    nodes
        How many nodes, at least 2.
    messages
        How many messages each node sends.
    engine
        One of `thence engines`.
    seed
        The same seed gives the same run.
    out
        Folder for the trace. The default one is replaced, any other must be empty.
    overwrite
        Replace the trace that is in the folder.
    """
    options = plan(nodes, messages, engine, seed)
    tally = Tally(nodes)
    try:
        result = run_to(
            out, options, overwrite=overwrite or out == FOLDER, oracle=None, watchers=(tally,)
        )
    except OracleFailure as failure:
        print(f"thence: {failure.what}\nreplay: {failure.replay}", file=sys.stderr)
        return 1
    _show(options, result, tally)
    report, where = _check(out)
    print(f"check {where}: {check.text(report)}", end="")
    print(f"trace: {out}  (thence check {out} checks it again)")
    print(f"again: {options.command()}")
    return 0 if report.ok else 1


def _check(out: Path) -> tuple[Report, str]:
    """The verdict on the trace, and where it was made: on Spark if that is installed."""
    with progress_bar() as progress:
        if find_spec("pyspark") is None:
            return check_paths([out], progress=progress), "in this process"
        return check.check_spark([str(out)], None, None, None, progress)[0], "on Spark"


def plan(nodes: int, messages: int, engine: str, seed: int) -> SimulationOptions:
    """A group in which the first and the last node are far from each other."""
    if nodes < 2:
        raise UnusableInputError(f"nodes {nodes}: a group to show has at least 2")
    options = SimulationOptions(seed=seed, engine=engine, nodes=nodes)
    spec = ENGINES.get(engine)
    phantom_ms = PHANTOM_MS if spec is not None and spec.phantoms else 0.0
    names = options.names
    return SimulationOptions(
        seed=seed,
        engine=engine,
        nodes=nodes,
        workload=WorkloadOptions(messages=messages, phantom_ms=phantom_ms),
        network=NetworkOptions(slow_links=(SlowLink(names[0], names[-1], SLOW_FACTOR),)),
    )


def _show(options: SimulationOptions, result: SimulationResult, tally: Tally) -> None:
    link = options.network.slow_links[0]
    print(
        f"{options.nodes} nodes, {options.workload.messages:,} messages each, engine "
        f"{options.engine}, seed {options.seed}: {result.virtual_us / 1e6:.1f} s of virtual time"
    )
    print(
        f"delays are about {options.network.latency_ms:g} ms; between {link.a} and {link.b} they "
        f"are {link.factor:g} times as long"
    )
    print(f"\n{table(options.names, tally)}")
    if tally.wired_messages:
        mean = tally.metadata_bytes / tally.wired_messages
        print(f"metadata on the wire: {mean:.1f} bytes a message (dot and context)")


COLUMNS = (
    "node", "sent", "delivered", "held back", "longest ms", "waiting for", "stable",
    "lag ms p50", "p99", "words max", "at end",
)  # fmt: skip


def table(names: list[str], tally: Tally) -> str:
    """One row per node.

    held back: arrived before something that precedes it; waiting for: whose messages released most
    of these; lag: from taking a message to knowing it is stable; words: metadata held.
    """
    rows = [list(COLUMNS)]
    for name, node in zip(names, tally.nodes, strict=True):
        waits_for = node.waits_for()
        told = bool(node.stable)
        rows.append(
            [
                name,
                f"{node.sent:,}",
                f"{node.delivered:,}",
                f"{node.held:,}",
                _ms(node.held_us_max),
                "-" if waits_for is None else names[waits_for],
                f"{node.stable:,}",
                _ms(percentile(node.stable_us, 50)) if told else "-",
                _ms(percentile(node.stable_us, 99)) if told else "-",
                f"{node.words_max:,}",
                f"{node.words_end:,}",
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + "\n"
        for row in rows
    )


def _ms(us: int) -> str:
    return f"{us / 1000:,.1f}"
