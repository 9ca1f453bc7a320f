"""``thence lab run --mode workers`` and ``thence lab worker``: on this machine, and on several that
are network namespaces."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.networks import Islands, why_not
from tests.lab.crews import WorkerProcess, own_experiment, running, secret_file, until
from tests.lab.crews import workers as started
from thence.cli.main import main
from thence.lab.processes import free_ports
from thence.trace.check import check_paths

FILE = """
[variants.v]
engine = "tagged"
form = "installed"
[experiments.{name}]
variants = ["v"]
settings = [{{ nodes = 3, interval_ms = 2 }}]
latency = {{ mean_ms = 2 }}
messages = {messages}
phantom_ms = 20
"""
PORT = 7070
END_S = 120.0
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def experiment() -> str:
    return own_experiment()


@pytest.fixture
def file(tmp_path: Path, experiment: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(FILE.format(name=experiment, messages=10))
    return path


@pytest.mark.usefixtures("spark")
def test_a_lab_on_two_workers_is_checked_measured_and_drawn(
    file: Path, tmp_path: Path, capsys: Capture
):
    out = tmp_path / "lab"
    (port,) = free_ports(1)
    secret = str(secret_file(tmp_path))
    words = ["lab", "run", str(file), "--out", str(out), "--mode", "workers"]
    words += ["--listen", f"127.0.0.1:{port}", "--workers", "2", "--secret-file", secret]
    with started(f"127.0.0.1:{port}", ["w1", "w2"], "--secret-file", secret) as workers:
        assert main(words) == 0
        ends = [worker.end() for worker in workers.values()]
    said = capsys.readouterr()
    assert [code for code, _ in ends] == [0, 0]
    assert f"workers find the coordinator at 127.0.0.1:{port}" in said.err
    assert "runs: 1 made, 0 kept from before" in said.out
    assert "ok: 1 run" in said.out
    lab = json.loads((out / "lab.json").read_text())
    assert lab["mode"] == "workers"
    assert shlex.split(lab["command"]) == ["thence", *words]
    assert lab["check"]["ok"] is True
    assert (out / "report" / "index.html").is_file()
    assert main([*words, "--no-report"]) == 0, "nothing is left to do, so no worker is waited for"
    assert "runs: 0 made, 1 kept from before" in capsys.readouterr().out


def test_a_lab_whose_worker_is_killed_fails_with_a_sentence_and_the_same_command_goes_on(
    file: Path, experiment: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        "thence.cli.lab.check.check_spark", lambda paths, *_: (check_paths(paths), 0)
    )
    file.write_text(FILE.format(name=experiment, messages=300))
    out = tmp_path / "lab"
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    words = ["lab", "run", str(file), "--out", str(out), "--mode", "workers", "--workers", "2"]
    words += ["--listen", address, "--no-report"]
    with started(address, ["w1", "w2"]) as workers:

        def strike() -> None:
            until(lambda: len(running(f"{experiment}-v-")) == 3)
            workers["w2"].kill()

        thread = threading.Thread(target=strike)
        thread.start()
        assert main([*words, "--wait-s", "3"]) == 2
        thread.join()
        said = capsys.readouterr().err.splitlines()
        assert f"worker w2 is gone in the middle of {experiment}-v-" in said[1]
        assert said[2].startswith(f"thence: run {experiment}-v-")
        assert "failed: 1 of 2 workers are there after 3 s" in said[2]
        assert said[2].endswith("; the same command goes on with it")
        workers["again"] = WorkerProcess(address, "w2")
        assert main(words) == 0
        code, text = workers["w1"].end()
    assert code == 0
    assert "it closed the connection; worker w1 tries again" in text
    assert text.count("is number") == 2, "the worker that was left waited for the next command"
    assert "ok: 1 run" in capsys.readouterr().out


class Machines:
    """A coordinator and workers, each in a network namespace; all joined by a bridge."""

    def __init__(self, islands: Islands, folder: Path, file: Path) -> None:
        self.out = folder / "lab"
        self.islands = islands
        self._flags = ["--secret-file", str(secret_file(folder))]
        self.address = f"{islands.hosts['lab']}:{PORT}"
        self.names = [name for name in islands.names if name != "lab"]
        self._words = ["lab", "run", str(file), "--out", str(self.out), "--mode", "workers"]
        self._words += ["--listen", self.address, "--workers", str(len(self.names))]
        self._words += ["--no-report", *self._flags]

    def start(self, name: str) -> WorkerProcess:
        return WorkerProcess(self.address, name, *self._flags, within=self.islands.within(name))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*self.islands.within("lab"), sys.executable, "-m", "thence", *self._words]
        return subprocess.run(
            [*command, *words], capture_output=True, text=True, check=False, timeout=END_S
        )


@pytest.fixture
def machines(file: Path, tmp_path: Path) -> Iterator[Machines]:
    if reason := why_not():
        pytest.skip(f"no network namespaces here: {reason}")
    with Islands(["lab", "w1", "w2", "w3"]) as islands:
        yield Machines(islands, tmp_path, file)


def test_coordinator_and_workers_on_machines_of_their_own(machines: Machines):
    crew = [machines.start(name) for name in machines.names]
    try:
        done = machines.run()
        ends = [worker.end() for worker in crew]
    finally:
        for worker in crew:
            worker.kill()
    assert done.returncode == 0, done.stderr
    assert [code for code, _ in ends] == [0, 0, 0]
    assert "ok: 1 run" in done.stdout
    (run,) = (machines.out / "runs").iterdir()
    assert check_paths([run]).ok
    assert {path.name[0] for path in run.glob("*.parquet")} == {"a", "b", "c"}


@pytest.mark.soak  # a worker that is cut off is missed after 20 s
def test_a_machine_that_is_cut_off_fails_the_run_and_the_lab_goes_on_when_it_is_back(
    machines: Machines, file: Path, experiment: str
):
    file.write_text(FILE.format(name=experiment, messages=1000))
    crew = [machines.start(name) for name in machines.names]

    def strike() -> None:
        until(lambda: len(running(f"{experiment}-v-")) == 3)
        machines.islands.partition("w2", cut=True)

    thread = threading.Thread(target=strike)
    try:
        thread.start()
        failed = machines.run("--wait-s", "10")
        thread.join()
        machines.islands.partition("w2", cut=False)
        done = machines.run()
        ends = [worker.end() for worker in crew]
    finally:
        for worker in crew:
            worker.kill()
    assert failed.returncode == 2
    assert f"worker w2 is gone in the middle of {experiment}-v-" in failed.stderr
    assert "2 of 3 workers are there" in failed.stderr
    assert done.returncode == 0, done.stderr
    assert [code for code, _ in ends] == [0, 0, 0]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--mode", "workers", "--workers", "2"], "--mode workers needs --listen HOST:PORT"),
        (["--mode", "workers", "--listen", "127.0.0.1:0"], "--mode workers needs --workers COUNT"),
        (["--mode", "workers", "--listen", "0.0.0.0:0", "--workers", "2"], "give a secret"),
        (["--mode", "workers", "--listen", "127.0.0.1:0", "--workers", "2", "--jobs", "2"],
         "one run is made at a time"),
        (["--mode", "workers", "--listen", "127.0.0.1:0", "--workers", "2", "--secret-file", "no"],
         "no: "),
        (["--listen", "127.0.0.1:0"], "--listen goes with --mode workers"),
        (["--mode", "processes", "--wait-s", "5"], "--wait-s goes with --mode workers"),
    ],
)  # fmt: skip
def test_flags_that_cannot_be_are_one_sentence(
    words: list[str], why: str, file: Path, tmp_path: Path, capsys: Capture
):
    out = tmp_path / "lab"
    assert main(["lab", "run", str(file), "--out", str(out), *words]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert len(said.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--coordinator", "nowhere"], "expected HOST:PORT"),
        (["--coordinator", "10.0.0.1:7070"], "give the secret of the lab"),
        (["--coordinator", "127.0.0.1:1", "--seats", "0"], "expected 1 to 64"),
        (["--coordinator", "127.0.0.1:1", "--advertise", "a b"], "expected the name or address"),
        (["--coordinator", "127.0.0.1:1", "--stop-after", "0"], "more than 0 s"),
        ([], "coordinator"),
    ],
)
def test_a_worker_says_what_cannot_be_in_one_sentence(words: list[str], why: str, capsys: Capture):
    assert main(["lab", "worker", *words]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert len(said.splitlines()) == 1
