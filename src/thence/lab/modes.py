"""The ways to carry a plan out on this machine, and one run as a process of its own.

Each run has a process, so that no run measures what another left in memory, and so that the
flagship is of the form that the variant asks for: a process has one.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from thence.errors import ThenceError
from thence.lab.orders import PURE_VARIABLE
from thence.lab.plan import LocalMode, RunPlan
from thence.lab.processes import Progress, ended_by_signals, run_processes
from thence.lab.simulated import run_simulated

EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130

MODES: Final[dict[LocalMode, Callable[[RunPlan, Path, Progress | None], None]]] = {
    "simulated": run_simulated,
    "processes": run_processes,
}


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of a run reads from its standard input."""

    mode: LocalMode
    plan: RunPlan
    folder: str


def environ_of(plan: RunPlan) -> dict[str, str]:
    """Of the process: it imports the flagship in the form that the variant asks for."""
    found = dict(os.environ)
    if plan.variant.form != "installed":
        found.pop(PURE_VARIABLE, None)
    return found | ({PURE_VARIABLE: "1"} if plan.variant.form == "interpreted" else {})


def main() -> int:
    """Carry out the errand; what is wrong is one sentence on stderr."""
    errand = msgspec.json.decode(sys.stdin.buffer.readline(), type=Errand)
    threading.Thread(target=_end_with_starter, daemon=True).start()
    try:
        with ended_by_signals():
            MODES[errand.mode](errand.plan, Path(errand.folder), None)
    except ThenceError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def _end_with_starter() -> None:
    """Whoever started this holds the other end of standard input; killed, it starts the run anew
    the next time, and two must not write to one folder."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
