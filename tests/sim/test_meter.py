"""The file of a metered simulation is the one that the trace reference documents."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from thence.sim.meter import Meter
from thence.sim.run import SimulationOptions, simulate
from thence.sim.workload import WorkloadOptions
from thence.trace.work import CLOCK_KEY, CPU_FILE, CPU_SCHEMA, TOTALS_KEY, read_cpu


def test_a_meter_writes_the_documented_file(tmp_path: Path):
    meter = Meter()
    options = SimulationOptions(nodes=3, workload=WorkloadOptions(messages=5))
    simulate(options, check=False, meter=meter)
    meter.write(tmp_path, ["a", "b", "c"])
    with pa.ipc.open_file(tmp_path / CPU_FILE) as file:
        assert file.schema.remove_metadata() == CPU_SCHEMA
        assert file.schema.metadata.keys() == {TOTALS_KEY, CLOCK_KEY}
        assert int(file.schema.metadata[CLOCK_KEY]) >= 0
    cpu = read_cpu(tmp_path)
    assert cpu is not None
    assert list(cpu) == ["a", "b", "c"]
    for calls, engine in zip(cpu.values(), meter.engines, strict=True):
        assert calls.ready.sum() == 10
        assert (calls.total.calls, calls.total.ns) == (engine.calls, engine.ns)
        assert (calls.t_us.tolist(), calls.ns.tolist()) == (
            list(engine.rows[0::4]),
            list(engine.rows[1::4]),
        )
