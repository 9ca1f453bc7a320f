"""A run in virtual time; what the engines' own work costs is measured in CPU time beside it.

The trace is a function of the plan, byte for byte; ``cpu.arrow`` is not.
"""

from __future__ import annotations

import gc
import shutil
from pathlib import Path
from typing import Final

import msgspec

from thence.engine.base import EngineOptions
from thence.errors import UnusableInputError
from thence.forms import is_compiled
from thence.lab.churn import run_churn
from thence.lab.plan import RunPlan
from thence.lab.processes import Progress
from thence.sim.meter import Meter
from thence.sim.network import NetworkOptions, Partition, SlowLink
from thence.sim.run import SimulationOptions, run_info, simulate
from thence.sim.workload import WorkloadOptions
from thence.trace.writer import RunWriter

GC_OBJECTS: Final = 200_000
"""A run keeps millions of objects and none in cycles: looking for some must not be measured."""


def run_simulated(plan: RunPlan, folder: Path, progress: Progress | None) -> None:
    """Carry a plan out in this process, which has to be of the variant's form."""
    check_form(plan)
    shutil.rmtree(folder, ignore_errors=True)  # what is left of an earlier try
    gc.set_threshold(GC_OBJECTS, 50, 50)
    if plan.churn is not None:
        run_churn(plan, folder)
        return
    options = options_of(plan)
    info = run_info(options)
    scenario = {**(info.scenario or {}), **plan.scenario("simulated")}
    info = msgspec.structs.replace(info, run=plan.name, scenario=scenario)
    meter = Meter()
    with RunWriter(folder, info) as writer:
        # Traces are checked on Spark: the oracle would only slow down what is measured.
        simulate(options, writer, check=False, meter=meter)
        meter.write(folder, plan.names)


def check_form(plan: RunPlan) -> None:
    """UnusableInputError if this process runs another form of the flagship."""
    form = plan.variant.form
    if form != "installed" and is_compiled() != (form == "compiled"):
        raise UnusableInputError(
            f"{plan.name}: the {form} form of the flagship is not what is installed here"
            + ("; it takes a C compiler, and then: make setup" if form == "compiled" else "")
        )


def options_of(plan: RunPlan) -> SimulationOptions:
    """The simulation that a plan means."""
    names = plan.names
    slow = plan.slow
    return SimulationOptions(
        seed=plan.seed,
        engine=plan.variant.engine,
        nodes=plan.nodes,
        workload=WorkloadOptions(
            messages=plan.messages,
            interval_ms=plan.interval_ms,
            pacing=plan.pacing,
            phantom_ms=plan.phantom_ms,
            passive=plan.passive,
            payload_bytes=plan.payload_bytes,
        ),
        network=NetworkOptions(
            latency_ms=plan.latency.mean_ms,
            distribution=plan.latency.spread,
            slow_links=()
            if slow is None
            else (SlowLink(names[slow.a], names[slow.b], slow.factor, fixed=True),),
            partitions=tuple(
                Partition(cut.start_ms, cut.end_ms, (tuple(names[at] for at in cut.side),))
                for cut in plan.cuts
            ),
            matrix_ms=plan.latency.matrix_ms,
        ),
        engine_options=EngineOptions(
            stability=plan.stability, stability_batch=plan.variant.stability_batch
        ),
        sample_ms=plan.sample_ms,
        experiment=plan.experiment,
    )
