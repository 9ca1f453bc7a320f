"""Goes through a list of plans on workers, one run at a time; what is there already is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from thence.errors import ThenceError, UnusableInputError
from thence.lab.coordinator import Coordinator, Say
from thence.lab.door import WorkersOptions
from thence.lab.plan import RunPlan
from thence.lab.processes import Progress
from thence.lab.runs import RUNS_FOLDER, Made, TimeLeft, check_lab, runs_left


def make_runs_on_workers(
    plans: Sequence[RunPlan],
    out: Path,
    *,
    options: WorkersOptions,
    say: Say,
    progress: Progress | None = None,
) -> Made:
    """Make every run that is not there yet; ThenceError with the first that fails.

    The workers go when all runs are made; should it end before, they wait for the next
    coordinator.
    """
    check_lab(plans, out, "workers")
    runs = out / RUNS_FOLDER
    left = runs_left(plans, runs, "workers")
    made, kept = len(left), len(plans) - len(left)
    if not left:
        return Made(made=0, kept=kept)
    clock = TimeLeft(left)
    with Coordinator(options, say) as coordinator:
        say(f"workers find the coordinator at {coordinator.door.address}")
        while left:
            plan = left.pop()
            number = len(plans) - len(left)

            def tell(what: str, done: int, total: int, number: int = number) -> None:
                if progress is not None:
                    progress(f"run {number} of {len(plans)}{clock.text()}: {what}", done, total)

            try:
                coordinator.run(plan, runs / plan.name, tell)
            except UnusableInputError:
                raise
            except ThenceError as error:
                raise ThenceError(
                    f"run {plan.name} failed: {error}; the same command goes on with it"
                ) from None
            clock.done(plan.events)
    return Made(made=made, kept=kept)
