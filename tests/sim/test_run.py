"""Timed simulation: same seed, same bytes; what it writes checks clean."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.seeds import seeds
from tests.sim.naive import naive
from thence.cli.main import main
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.errors import UnusableInputError
from thence.sim.checkers import OracleFailure
from thence.sim.network import Distribution, NetworkOptions, Partition, SlowLink
from thence.sim.run import SimulationOptions, run_info, simulate
from thence.sim.workload import WorkloadOptions
from thence.trace.check import check_paths
from thence.trace.writer import RunWriter

DISTRIBUTIONS: list[Distribution] = ["weibull", "uniform", "exponential", "fixed"]


def nasty(engine: str, seed: int) -> SimulationOptions:
    """Everything that can go wrong on a network, in proportions that depend on the seed."""
    spec = ENGINES[engine]
    return SimulationOptions(
        seed=seed,
        engine=engine,
        nodes=2 + seed % 4,
        workload=WorkloadOptions(
            messages=10 + seed % 7,
            interval_ms=(2.0, 30.0)[seed % 2],
            client_ms=(0.2, 5.0, 20.0)[seed % 3],
            phantom_ms=20.0 if spec.phantoms and seed % 2 else 0.0,
            passive=1 if seed % 4 == 3 else 0,
            streams=0.3 if spec.streams and seed % 3 == 0 else 0.0,
        ),
        network=NetworkOptions(
            distribution=DISTRIBUTIONS[seed % 4],
            loss=(0.2, 0.0)[seed % 2],
            duplicate=0.2,
            fifo=seed % 6 == 0 or spec.fifo_links,
            slow_links=(SlowLink("a", "b", 30.0, seed % 4 == 1),) if seed % 2 else (),
            matrix_ms=_rows(2 + seed % 4) if seed % 5 == 3 else (),
            partitions=(Partition(20.0, 90.0, (("a",),)),) if seed % 5 == 0 else (),
        ),
        engine_options=EngineOptions(
            stability=seed % 7 != 0,
            stability_batch=seed % 3,
            k=seed % 3 if spec.k_stability else 0,
            pending_per_origin_max=(3, 65_536)[seed % 2],
        ),
        through_codec=seed % 2 == 0,
        experiment="it's a 'try'" if seed % 2 else None,
    )


def _rows(size: int) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(1.0 + 4 * i + j for j in range(size)) for i in range(size))


def on_its_links(engine: str, **options: Any) -> SimulationOptions:
    """FIFO ones if it needs them."""
    network = NetworkOptions(fifo=ENGINES[engine].fifo_links)
    return SimulationOptions(engine=engine, network=network, **options)


def write(options: SimulationOptions, folder: Path, form: Any = "parquet") -> None:
    with RunWriter(folder, run_info(options), form) as writer:
        simulate(options, writer, check=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_nasty_networks_break_no_rule_of_oracle_or_trace(engine: str, tmp_path: Path):
    for seed in seeds(12):
        folder = tmp_path / str(seed)
        write(nasty(engine, seed), folder, ("parquet", "jsonl")[seed % 2])
        report = check_paths([folder])
        assert report.ok, f"{nasty(engine, seed).command()}\n{report.violations[:3]}"


def digests(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
    }


PROGRAM = """
import json, sys
from thence.cli.main import main
sys.exit(any([main(words) for words in json.loads(sys.argv[1])]))
"""


def command_of(engine: str) -> list[str]:
    """A simulation in which everything happens that the engine has."""
    words = f"simulate --engine {engine} --nodes 6 --messages 20 --seed 5 --loss 0.1".split()
    words += ["--duplicate", "0.1", "--slow-link", "a:b:9", "--interval-ms", "3"]
    if ENGINES[engine].phantoms:
        words += ["--phantom-ms", "20"]
    if ENGINES[engine].streams:
        words += ["--streams", "0.2"]
    if ENGINES[engine].fifo_links:
        words += ["--fifo"]
    return words


def test_the_same_seed_gives_the_same_bytes_under_any_hash_seed(tmp_path: Path):
    """Two processes, each with all engines: starting one takes longer than what it simulates."""
    for hash_seed in ("1", "2"):
        commands = [
            [*command_of(engine), "--out", str(tmp_path / hash_seed / engine)] for engine in ENGINES
        ]
        subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(commands)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            timeout=300,
        )
    for engine in ENGINES:
        first, second = (digests(tmp_path / hash_seed / engine) for hash_seed in ("1", "2"))
        assert first == second, engine
        assert len(first) == 8  # four logs, run.json, run.closed, and the side files


def test_another_seed_gives_other_bytes(tmp_path: Path):
    for seed in (1, 2):
        write(SimulationOptions(seed=seed, nodes=3), tmp_path / str(seed))
    assert digests(tmp_path / "1") != digests(tmp_path / "2")


def test_watching_changes_nothing(tmp_path: Path):
    options = SimulationOptions(nodes=3, workload=WorkloadOptions(messages=20))
    for name, check in (("with", True), ("without", False)):
        with RunWriter(tmp_path / name, run_info(options)) as writer:
            simulate(options, writer, check=check)
    assert digests(tmp_path / "with") == digests(tmp_path / "without")


def test_phantoms_make_everything_stable_and_collected():
    options = SimulationOptions(nodes=4, workload=WorkloadOptions(messages=30, phantom_ms=50.0))
    result = simulate(options, check=True)
    assert result.messages == 120
    assert result.deliveries == 120 * 3
    assert result.stable == 120 * 4


def test_one_node_alone_needs_nobody():
    result = simulate(SimulationOptions(nodes=1, workload=WorkloadOptions(messages=5)), check=True)
    assert (result.messages, result.deliveries) == (5, 0)


def test_no_messages_is_a_run_too():
    result = simulate(SimulationOptions(workload=WorkloadOptions(messages=0, phantom_ms=1.0)))
    assert (result.messages, result.stable) == (0, 0)


def test_a_failure_names_the_command_that_replays_it(monkeypatch: pytest.MonkeyPatch, capsys: Any):
    monkeypatch.setitem(ENGINES, "naive-early", naive("early"))
    options = SimulationOptions(
        engine="naive-early",
        nodes=3,
        workload=WorkloadOptions(messages=30, interval_ms=1.0, streams=0.0),
        network=NetworkOptions(
            distribution="uniform",
            slow_links=(SlowLink("a", "b", 9.0),),
            partitions=(Partition(5.0, 20.0, (("a", "b"), ("c",))),),
        ),
    )
    with pytest.raises(OracleFailure) as caught:
        simulate(options, check=True)
    words = caught.value.replay.replace("'", "").split()
    assert words[0] == "thence"
    assert main(words[1:]) == 1
    assert caught.value.what in capsys.readouterr().err


def test_every_option_is_in_the_command(monkeypatch: pytest.MonkeyPatch):
    """The command line gives back the very options that it prints."""
    for engine in ENGINES:
        for seed in range(8):
            options = nasty(engine, seed)
            seen: list[SimulationOptions] = []

            def remember(given: SimulationOptions, *_: Any, seen: Any = seen, **__: Any) -> Any:
                seen.append(given)
                raise OracleFailure("enough", "")

            monkeypatch.setattr("thence.cli.simulate.simulate", remember)
            assert main(shlex.split(options.command())[1:]) == 1
            assert seen == [options]


def test_the_scenario_has_every_option_so_that_runs_can_be_compared(tmp_path: Path):
    write(nasty("tagged", 15), tmp_path)
    scenario = json.loads((tmp_path / "run.json").read_text())["scenario"]
    options = json.loads(msgspec.json.encode(nasty("tagged", 15)))
    for part in ("workload", "network", "engine_options"):
        options |= options.pop(part)
    assert {name: scenario[name] for name in options} == options
    assert set(scenario) - set(options) == {"simulated", "command"}
    assert scenario["slow_links"] == [{"a": "a", "b": "b", "factor": 30.0}]


def test_run_json_says_how_many_vectors_travel_with_a_message():
    told = {name: run_info(on_its_links(name)).vectors for name in ENGINES}
    assert {name: count for name, count in told.items() if count} == {
        "vector": 1, "cbcast": 1, "cbcast-e2e": 2
    }  # fmt: skip


def test_a_run_of_no_experiment_names_none():
    assert "experiment" not in run_info(SimulationOptions()).scenario


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (SimulationOptions(experiment=""), "experiment ''"),
        (SimulationOptions(engine="nope"), "no engine 'nope'"),
        (SimulationOptions(nodes=0), "nodes 0"),
        (SimulationOptions(nodes=5000), "nodes 5000"),
        (SimulationOptions(workload=WorkloadOptions(messages=-1)), "messages -1"),
        (SimulationOptions(workload=WorkloadOptions(interval_ms=-1.0)), "interval -1.0"),
        (SimulationOptions(engine="vector", workload=WorkloadOptions(streams=0.1)), "no streams"),
        (SimulationOptions(engine="vector", workload=WorkloadOptions(phantom_ms=1.0)), "phantoms"),
        (SimulationOptions(engine="graph", engine_options=EngineOptions(k=2)), "no k-stability"),
        (SimulationOptions(sample_ms=-1.0), "sample -1.0"),
        (SimulationOptions(engine="compressed"), "keep the order of sending"),
    ],
)
def test_options_that_cannot_be_are_refused(options: SimulationOptions, reason: str):
    with pytest.raises(UnusableInputError, match=reason):
        simulate(options)


@pytest.mark.soak
def test_64_nodes_with_100_messages_each_check_clean(tmp_path: Path):
    options = SimulationOptions(nodes=64)
    with RunWriter(tmp_path, run_info(options)) as writer:
        result = simulate(options, writer)
    assert result.deliveries == 64 * 63 * 100
    assert not result.checked
    assert check_paths([tmp_path]).ok


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
def test_the_oracle_watches_a_large_run(engine: str):
    simulate(on_its_links(engine, nodes=24), check=True)
