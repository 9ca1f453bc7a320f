"""Data types beside pycrdt and loro, in the same run.

    python -m benchmarks.crdt [--calls 20000] [--edits 100000] [--rounds 5] [--keys 1000000]
                              [--only types,text,memory]

What is counted for each operation is told in ours.py and theirs.py, what is done in workload.py,
how contestants take turns in contest.py, and what memory is in memory.py.  ``thence`` are the data
types; ``thence, group`` are tags, causal order, stability and the message to bytes as well, which
pycrdt and loro have in some form, too.

Promises (exit code 1 when one is broken), each operation its own message: map, set and counter
at most pycrdt's time for a local operation and for a remote one, and at most 1.5x its bytes for
small maps and sets; text at most pycrdt's local time, and 1.5x its remote time; memory after a
hard life at most 1.2x that of the same keys written once.  They are for the compiled form, which
``make`` installs where there is a C compiler.  Batches of 50 operations are shown beside them.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from typing import Any

from benchmarks.crdt import memory
from benchmarks.crdt.contest import TEXT, Costs, contestants, median, race, ratio
from thence.crdt import map_uw

TYPES = {
    "map_uw": "map",
    "set_aw": "set",
    "counter_pn": "counter",
    "register_counter": "register_counter, counted up",
}
SIZED = ("map_uw", "set_aw")
BATCH = 50
PARTS = ("types", "text", "memory")


class Bars:
    """Promises: printed with what was measured, and remembered when broken."""

    def __init__(self) -> None:
        self.broken = False

    def at_most(self, what: str, value: float, bar: float | None) -> None:
        """Without a bar it is shown only."""
        line = f"{what:62}{value:8.2f}"
        if bar is not None:
            holds = value <= bar
            line += f"  <= {bar:<5} {'holds' if holds else 'BROKEN'}"
            self.broken |= not holds
        print(line, flush=True)


def table(title: str, kind: str, per_message: int, costs: Costs) -> None:
    """What each contestant took."""
    print(f"\n{title}\n  {'':16}{'local us':>10}{'remote us':>11}{'bytes':>9}")
    for name in contestants(kind, per_message):
        shown = [median(costs, what, name) for what in ("local", "remote", "bytes")]
        print(f"  {name:16}{shown[0]:>10.2f}{shown[1]:>11.2f}{shown[2]:>9.1f}", flush=True)


def types(options: argparse.Namespace, bars: Bars) -> None:
    """Maps, sets and counters."""
    for kind, said in TYPES.items():
        for size in (1, BATCH):
            how = "a message for each operation" if size == 1 else f"{size} operations a message"
            costs = race(kind, size, options.calls, options.rounds)
            table(f"{said}: {how}", kind, size, costs)
            for what in ("local", "remote"):
                bar = 1.0 if size == 1 else None
                bars.at_most(f"{said}, {how}: {what}", ratio(costs, what, "thence"), bar)
            bar = 1.5 if kind in SIZED else None
            bars.at_most(f"{said}, {how}: bytes", ratio(costs, "bytes", "thence"), bar)


def text(options: argparse.Namespace, bars: Bars) -> None:
    """A text that is typed."""
    for size in (1, BATCH):
        how = "a message for each keystroke" if size == 1 else f"{size} keystrokes a message"
        rounds = max(1, options.rounds // 2)
        costs = race(TEXT, size, options.edits, rounds)
        table(f"text, {options.edits:,} edits: {how}", TEXT, size, costs)
        bars.at_most(f"text, {how}: local", ratio(costs, "local", "thence"), 1.0)
        bars.at_most(f"text, {how}: remote", ratio(costs, "remote", "thence"), 1.5)
        bars.at_most(f"text, {how}: bytes", ratio(costs, "bytes", "thence"), None)


def resident(options: argparse.Namespace, bars: Bars) -> None:
    """Memory after a hard life."""
    found: dict[str, Any] = {kind: memory.measure(kind, options.keys) for kind in ("once", "often")}
    print()
    for kind, taken in found.items():
        each = taken / options.keys
        print(f"  {options.keys:,} keys, {kind:6}{taken / 2**20:8.1f} MiB, {each:.0f} bytes a key")
    bars.at_most("memory, after a hard life / written once", found["often"] / found["once"], 1.2)


def main() -> None:
    """Run all parts; exit code 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--edits", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--only", default=",".join(PARTS), help=", ".join(PARTS))
    options = parser.parse_args()
    parts = options.only.split(",")
    bars = Bars()
    start = time.monotonic()
    form = "interpreted" if (map_uw.__file__ or "").endswith(".py") else "compiled"
    print(f"Python {platform.python_version()}, {platform.machine()}; data types {form}")
    if "types" in parts:
        types(options, bars)
    if "text" in parts:
        text(options, bars)
    if "memory" in parts:
        resident(options, bars)
    print(f"{time.monotonic() - start:.0f} s")
    if bars.broken:
        sys.exit(1)


if __name__ == "__main__":
    main()
