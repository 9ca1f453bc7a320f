"""``thence engines compare``: what each engine costs, on one simulated workload."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
from cyclopts import Parameter

from thence.engine.registry import ENGINES
from thence.errors import UnusableInputError
from thence.sim.compare import CompareOptions, Cost, costs

HEADS = ("engine", "guarantee", "nodes", "messages", "bytes", "delay ms")


def command(
    *,
    nodes: str = "4,16,64",
    messages: int = 20,
    interval_ms: float = 1000.0,
    latency_ms: float = 10.0,
    seed: int = 1,
    only: str = "",
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Compare all engines on one workload: every node of a simulated group broadcasts.

    messages: how many go to one member each for a message of the application; bytes: metadata in
    all of them, for each member that gets it; delay: from sending to where it may be taken, beyond
    the mean delay of the network.

    Parameters
    ----------
    nodes
        Sizes of the groups, with commas between them.
    messages
        That each node broadcasts.
    interval_ms
        Mean time between two messages of a node.
    latency_ms
        Mean delay of the network; it varies as in the thesis (8.1.2).
    seed
        Of everything that is random.
    only
        Engines, with commas between them; by default all.
    as_json
        Print one JSON array instead of the table.
    """
    sizes = _sizes(nodes)
    names = [name.strip() for name in only.split(",") if name.strip()] or list(ENGINES)
    for name in names:
        if name not in ENGINES:
            raise UnusableInputError(f"no engine {name!r}; there are {', '.join(ENGINES)}")
    if messages < 1:
        raise UnusableInputError(f"messages {messages}: expected 1 or more")
    options = CompareOptions(messages, interval_ms, latency_ms, seed)
    found: list[Cost] = []
    for cost in costs(sizes, options, names):
        found.append(cost)
        if sys.stderr.isatty():
            total = len(sizes) * len(names)
            print(f"\r{len(found)} of {total} runs", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        print(table(found), end="")
    return 0


def _sizes(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and 2 <= int(word) <= 1024 for word in words):
        raise UnusableInputError(f"nodes {text!r}: expected sizes from 2 to 1024, as in 4,16,64")
    return list(dict.fromkeys(int(word) for word in words))


def table(found: list[Cost]) -> str:
    """A plain table, a line for each."""
    rows = [HEADS] + [
        (
            cost.engine, cost.guarantee, str(cost.nodes), f"{cost.messages:.1f}",
            f"{cost.bytes:.1f}", f"{cost.delay_ms:z.1f}",
        )
        for cost in found
    ]  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    lines = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(lines) + "\n"
