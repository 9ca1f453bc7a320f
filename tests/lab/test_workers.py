"""A coordinator and workers as processes on this machine, and workers that break the rules."""

from __future__ import annotations

import json
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.lab.crews import (
    SECRET,
    Stranger,
    WorkerProcess,
    hostile,
    own_experiment,
    running,
    secret_file,
    until,
)
from tests.lab.crews import workers as started
from thence.errors import ThenceError, UnusableInputError
from thence.lab import assignment, door, worker_link
from thence.lab.coordinator import Coordinator
from thence.lab.door import STRANGERS_MAX, WorkersOptions
from thence.lab.plan import Latency, RunPlan, Slow, Variant
from thence.lab.processes import NODES_FOLDER
from thence.lab.worker_messages import (
    FRAME_BYTES_MAX,
    Go,
    LogFile,
    Prepare,
    Prepared,
    Refused,
    Start,
    Stopped,
    Told,
    Welcome,
)
from thence.trace.check import check_paths
from thence.wire.frame import GREETING_BYTES_MAX

TAGGED = Variant(name="tagged", engine="tagged")
PLAN = RunPlan(
    experiment="far", variant=TAGGED, nodes=3, messages=10, interval_ms=2.0,
    latency=Latency(mean_ms=2.0), slow=Slow(), phantom_ms=20.0,
)  # fmt: skip
Said = list[str]


@pytest.fixture
def said() -> Said:
    """What the coordinator told a person."""
    return []


@pytest.fixture
def coordinator(said: Said) -> Iterator[Coordinator]:
    options = WorkersOptions(listen="127.0.0.1:0", workers=2, wait_s=20.0, secret=SECRET)
    with Coordinator(options, said.append) as made:
        yield made


@pytest.fixture
def plan() -> RunPlan:
    return msgspec.structs.replace(PLAN, experiment=own_experiment())


@pytest.fixture
def long(plan: RunPlan) -> RunPlan:
    """It does not end before it is ended."""
    return msgspec.structs.replace(plan, messages=100_000)


@pytest.fixture
def flags(tmp_path: Path) -> list[str]:
    return ["--secret-file", str(secret_file(tmp_path))]


def test_runs_on_two_workers_pass_the_check_and_the_workers_go_home(
    tmp_path: Path, plan: RunPlan, said: Said, flags: list[str]
):
    options = WorkersOptions(listen="127.0.0.1:0", workers=2, wait_s=20.0, secret=SECRET)
    second = msgspec.structs.replace(plan, seed=2, stability=False)
    told: list[tuple[str, int, int]] = []
    with (
        Coordinator(options, said.append) as coordinator,
        started(coordinator.door.address, ["w1", "w2"], *flags) as workers,
    ):
        for each in (plan, second):
            coordinator.run(each, tmp_path / each.name, lambda *news: told.append(news))
        coordinator.close(True)
        ends = [worker.end() for worker in workers.values()]
    folders = [tmp_path / each.name for each in (plan, second)]
    report = check_paths(folders)
    assert report.ok
    assert report.runs == 2
    assert [code for code, _ in ends] == [0, 0]
    assert all("all runs are done" in text for _, text in ends)
    info = json.loads((folders[0] / "run.json").read_text())
    assert info["complete"] is True
    assert info["scenario"]["mode"] == "workers"
    assert "clock" not in info["scenario"], "of several machines nobody knows"
    assert sorted(path.name for path in folders[0].iterdir()) == [
        "a-000000.parquet", "b-000000.parquet", "c-000000.parquet", "run.closed", "run.json",
    ]  # fmt: skip
    assert ("deliveries", plan.deliveries, plan.deliveries) in told
    assert not said
    assert not running(plan.name)


def test_a_worker_that_is_killed_fails_the_run_by_name_and_its_return_lets_it_be_tried_again(
    tmp_path: Path, plan: RunPlan, coordinator: Coordinator, said: Said, flags: list[str]
):
    plan = msgspec.structs.replace(plan, messages=400)
    with started(coordinator.door.address, ["w1", "w2"], *flags) as workers:

        def strike() -> None:
            until(lambda: len(running(plan.name)) >= 3)
            workers["w2"].kill()
            workers["w3"] = WorkerProcess(coordinator.door.address, "w2", *flags)

        thread = threading.Thread(target=strike)
        thread.start()
        coordinator.run(plan, tmp_path / "run", None)
        thread.join()
    (sentence,) = said
    assert sentence.startswith(f"worker w2 is gone in the middle of {plan.name}: ")
    assert sentence.endswith("; the run is tried once more")
    assert check_paths([tmp_path / "run"]).ok


def test_nodes_of_a_worker_that_is_killed_end_too(
    tmp_path: Path, long: RunPlan, coordinator: Coordinator, said: Said, flags: list[str]
):
    with started(coordinator.door.address, ["w1", "w2"], *flags) as workers:

        def strike() -> None:
            until(lambda: len(running(long.name)) == long.nodes)
            for worker in workers.values():
                worker.kill()

        thread = threading.Thread(target=strike)
        thread.start()
        until(lambda: len(coordinator.door.workers) == 2)
        coordinator._options = msgspec.structs.replace(coordinator._options, wait_s=0.5)
        with pytest.raises(ThenceError, match=r"0 of 2 workers are there after 0\.5 s"):
            coordinator.run(long, tmp_path / "run", None)
        thread.join()
    assert len(said) == 1
    assert not (tmp_path / "run" / "run.closed").exists()
    until(lambda: not running(long.name))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_interrupted_ends_its_nodes_first(
    number: int, tmp_path: Path, long: RunPlan, said: Said, flags: list[str]
):
    options = WorkersOptions(listen="127.0.0.1:0", workers=1, wait_s=20.0, secret=SECRET)
    with (
        Coordinator(options, said.append) as coordinator,
        started(coordinator.door.address, ["w1"], *flags) as workers,
    ):
        left: list[str] = []
        ends: list[tuple[int, str]] = []

        def strike() -> None:
            until(lambda: len(running(long.name)) == long.nodes)
            workers["w1"].process.send_signal(number)
            ends.append(workers["w1"].end())
            left.extend(running(long.name))

        until(lambda: coordinator.door.workers)
        coordinator._options = msgspec.structs.replace(options, wait_s=0.5)
        thread = threading.Thread(target=strike)
        thread.start()
        with pytest.raises(ThenceError, match="0 of 1 workers are there"):
            coordinator.run(long, tmp_path / "run", None)
        thread.join()
    ((code, text),) = ends
    assert code == 130
    assert text.splitlines()[-1] == "thence: interrupted"
    assert not left


def test_a_worker_that_loses_the_coordinator_ends_its_nodes_and_comes_again(
    tmp_path: Path, long: RunPlan, flags: list[str], said: Said
):
    options = WorkersOptions(listen="127.0.0.1:0", workers=1, wait_s=20.0, secret=SECRET)
    with Coordinator(options, said.append) as first:
        address = first.door.address
        with started(address, ["w1"], *flags) as workers:

            def strike() -> None:
                until(lambda: len(running(long.name)) >= 1)
                # The coordinator's machine is gone: no goodbye.
                first._caller.call(lambda: [each.link._writer.transport.abort()
                                            for each in first.door.workers.values()])  # fmt: skip
                first._caller.call(first.door._server.close)  # type: ignore[union-attr]

            thread = threading.Thread(target=strike)
            thread.start()
            until(lambda: first.door.workers)
            first._options = msgspec.structs.replace(options, wait_s=0.5)
            with pytest.raises(ThenceError, match="0 of 1 workers"):
                first.run(long, tmp_path / "run", None)
            thread.join()
            until(lambda: not running(long.name))
            again = msgspec.structs.replace(options, listen=address)
            with Coordinator(again, said.append) as second:
                second.run(PLAN, tmp_path / "again", None)
            code, text = workers["w1"].end()
    assert code == 0
    assert text.count("is number") == 2
    assert "tries again" in text
    assert check_paths([tmp_path / "again"]).ok


def test_a_worker_with_another_secret_goes_with_a_sentence(
    tmp_path: Path, coordinator: Coordinator
):
    wrong = secret_file(tmp_path, b"guessed")
    with started(coordinator.door.address, ["w1"], "--secret-file", str(wrong)) as workers:
        code, text = workers["w1"].end()
    assert code == 2
    assert "refuses this worker: it does not know the secret of this lab" in text
    assert len(text.splitlines()) == 1
    coordinator._options = msgspec.structs.replace(coordinator._options, wait_s=0.2)
    with pytest.raises(ThenceError, match=r"refused last: 'w1' at .*secret"):
        coordinator.run(PLAN, tmp_path / "run", None)
    assert not (tmp_path / "run").exists()


def test_a_worker_does_not_work_for_a_coordinator_that_does_not_know_the_secret(tmp_path: Path):
    options = WorkersOptions(listen="127.0.0.1:0", workers=1, secret=b"")
    with Coordinator(options, print) as coordinator:
        flags = ["--secret-file", str(secret_file(tmp_path))]
        with started(coordinator.door.address, ["w1"], *flags) as workers:
            code, text = workers["w1"].end()
    assert code == 2
    assert "secret" in text


def test_a_worker_goes_when_its_time_is_over_and_waits_for_the_coordinator_till_then():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    worker = WorkerProcess(f"127.0.0.1:{port}", "w1", "--stop-after", "1.5")
    code, text = worker.end()
    assert code == 0
    assert "tries again" in text.splitlines()[0]
    assert "its time is over" in text.splitlines()[-1]
    assert len(text.splitlines()) == 2, "the same again and again is said once"


# ---- strangers and workers that break the rules --------------------------------------------------


def climb(stranger: Stranger) -> None:
    """Offer a file elsewhere, long before anybody asks."""
    order = stranger.expect(Prepare)
    stranger.say(Prepared(order.run, dict.fromkeys(order.names, 1)))
    stranger.expect(Start)
    stranger.say(Stopped(order.run, (LogFile("../../evil-000000.parquet", 5, b""),)))


def lie(stranger: Stranger) -> None:
    stranger.say(Told(stranger.expect(Prepare).run, {}))


def flood(stranger: Stranger) -> None:
    stranger.expect(Prepare)
    stranger.socket.sendall(struct.pack(">IB", FRAME_BYTES_MAX + 1, 1))


def babble(stranger: Stranger) -> None:
    stranger.expect(Prepare)
    stranger.socket.sendall(struct.pack(">IB", 9, 1) + b"\xc1garbage")


def listen_only(stranger: Stranger) -> None:
    while not isinstance(stranger.hear(), Go | None):
        pass


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (climb, "worker evil broke the rules: it was not asked to stop"),
        (lie, "worker evil broke the rules: it told of nodes that were not started"),
        (flood, "worker evil is gone in the middle of .*a frame of 8388609 bytes"),
        (babble, "worker evil is gone in the middle of .*not a message"),
        (listen_only, "worker evil did not answer within 0.5 s"),
    ],
)
def test_a_hostile_worker_fails_the_run_by_name_and_writes_nothing(
    act: Callable[[Stranger], None], why: str, tmp_path: Path, said: Said,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.setattr(door, "GOODBYE_S", 0.1)  # they do not go when they are told to
    if act is listen_only:
        monkeypatch.setattr(assignment, "ANSWER_S", 0.5)
    options = WorkersOptions(listen="127.0.0.1:0", workers=1, wait_s=10.0, secret=SECRET)
    with (
        Coordinator(options, said.append) as coordinator,
        hostile(coordinator.door.address, "evil", act),
    ):
        with pytest.raises(ThenceError, match=why):
            coordinator.run(PLAN, tmp_path / "runs" / "run", None)
        coordinator.close(False)
    assert len(said) == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["run", "run.json", "runs"]
    assert not (tmp_path / "runs" / "run" / NODES_FOLDER).exists()


def test_a_worker_that_is_silent_is_gone(
    tmp_path: Path, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
):
    silence = worker_link.Link.receive.__defaults__
    monkeypatch.setattr(worker_link.Link.receive, "__defaults__", (0.3,))
    with Stranger(coordinator.door.address) as stranger:
        assert isinstance(stranger.enter("mute"), Welcome)
        until(lambda: coordinator.door.workers)
        until(lambda: not coordinator.door.workers, 5.0)
    assert silence == (20.0,)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">IB", GREETING_BYTES_MAX + 1, 1),
        struct.pack(">IB", 3, 1) + b"\xc1\xc1",
        struct.pack(">IB", 3, 9) + b"\xc1\xc1",
        b"",
    ],
)
def test_garbage_before_a_hello_is_refused(
    data: bytes, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(door, "GREETING_S", 0.5)
    with Stranger(coordinator.door.address) as stranger:
        stranger.hear()
        stranger.socket.sendall(data)
        assert stranger.hear() is None
    until(lambda: coordinator.door.refused)
    assert not coordinator.door.workers


def test_more_strangers_than_there_is_room_for_are_not_served(coordinator: Coordinator):
    address = coordinator.door.address
    waiting = [Stranger(address) for _ in range(STRANGERS_MAX)]
    try:
        for stranger in waiting:
            assert stranger.hear() is not None
        with Stranger(address) as late:
            assert late.hear() is None
        waiting.pop().socket.close()
        time.sleep(0.2)
        with Stranger(address) as later:
            assert isinstance(later.enter("w1"), Welcome)
    finally:
        for stranger in waiting:
            stranger.socket.close()


def test_names_are_taken_once_and_no_more_workers_are_let_in_than_are_wanted(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
):
    address = coordinator.door.address
    with Stranger(address) as one, Stranger(address) as two, Stranger(address) as three:
        assert isinstance(one.enter("w1"), Welcome)
        no = two.enter("w1")
        assert isinstance(no, Refused)
        assert no == Refused("a worker w1 is here already")
        with Stranger(address) as other:
            assert isinstance(other.enter("w2"), Welcome)
            assert three.enter("w3") == Refused("all 2 workers are here")
            monkeypatch.setattr(door, "GOODBYE_S", 0.1)  # of one that does not go
            coordinator.close(True)
            assert isinstance(other.hear(), Go)


def test_a_run_with_more_nodes_than_seats_is_refused(tmp_path: Path, flags: list[str], said: Said):
    options = WorkersOptions(listen="127.0.0.1:0", workers=1, wait_s=20.0, secret=SECRET)
    with (
        Coordinator(options, said.append) as coordinator,
        started(coordinator.door.address, ["w1"], "--seats", "2", *flags),
        pytest.raises(UnusableInputError, match="3 nodes need seats"),
    ):
        coordinator.run(PLAN, tmp_path / "run", None)


# ---- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"listen": "nowhere", "workers": 1}, "expected HOST:PORT"),
        ({"listen": "127.0.0.1:0", "workers": 0}, "expected 1 to 1,024"),
        ({"listen": "127.0.0.1:0", "workers": 1, "wait_s": 0.0}, "more than 0"),
        ({"listen": "0.0.0.0:0", "workers": 1}, "give a secret"),
    ],
)
def test_a_coordinator_says_what_cannot_be(options: dict[str, object], why: str):
    with pytest.raises(UnusableInputError, match=why):
        Coordinator(WorkersOptions(**options), print)  # type: ignore[arg-type]


def test_a_port_that_is_taken_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UnusableInputError, match=f"--listen {where}: "):
            Coordinator(WorkersOptions(listen=where, workers=1), print).__enter__()
