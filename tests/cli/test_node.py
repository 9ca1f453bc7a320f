"""``thence node`` as a process: its settings, its lines, its signals, its end."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from thence.cli import main as cli
from thence.cli.main import main
from thence.lab.processes import free_ports
from thence.trace.check import check_paths

PATIENCE_S = 60.0
Capture = pytest.CaptureFixture[str]


class Process:
    """A node, and the lines it prints."""

    program = "node"

    def __init__(self, *words: str, **environ: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "thence", self.program, *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environ},
        )  # fmt: skip
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.lines)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.errors)),
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: Iterator[str], lines: list[str]) -> None:
        for line in stream:  # not extend, which would show them at the end
            lines.append(line.rstrip("\n"))

    def expect(self, pattern: str, errors: bool = False) -> re.Match[str]:
        """Wait for a line."""
        deadline = time.monotonic() + PATIENCE_S
        lines = self.errors if errors else self.lines
        while True:
            for line in list(lines):
                if found := re.search(pattern, line):
                    return found
            over = self.process.poll() is not None or time.monotonic() > deadline
            assert not over, f"no {pattern!r} in {self.lines} {self.errors}"
            time.sleep(0.02)

    def end(self) -> int:
        code = self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.end()


@pytest.fixture
def start() -> Iterator[type[Process]]:
    """Starts nodes; none outlives its test."""
    started: list[Process] = []

    class Started(Process):
        def __init__(self, *words: str, **environ: str) -> None:
            super().__init__(*words, **environ)
            started.append(self)

    yield Started
    for node in started:
        if node.process.poll() is None:
            node.process.kill()
            node.end()


def members(folder: Path, names: str, scheme: str = "tcp") -> str:
    path = folder / "members"
    ports = zip(names, free_ports(len(names)), strict=True)
    path.write_text("".join(f"{name} {scheme}://127.0.0.1:{port}\n" for name, port in ports))
    return str(path)


def test_it_runs_a_group_serves_status_drains_and_leaves_a_clean_trace(
    start: type[Process], tmp_path: Path, capsys: Capture
):
    group = members(tmp_path, "abc")
    words = ["--members", group, "--trace", str(tmp_path / "trace"), "--send", "50"]
    nodes = [
        start("--name", name, *words, "--interval-ms", "2", "--status", "127.0.0.1:0")
        for name in "abc"
    ]
    pages = [node.expect("listens on tcp://.*; status on http://(.*)")[1] for node in nodes]
    for node in nodes:
        node.expect("is connected to ., .")
    deadline = time.monotonic() + PATIENCE_S
    for name, page in zip("abc", pages, strict=True):
        while True:
            assert main(["status", page]) == 0
            shown = capsys.readouterr().out
            row = next(line.split() for line in shown.splitlines() if line.startswith("main"))
            if row[2:5] == ["50", "100", "150"]:
                break
            assert time.monotonic() < deadline, shown
            time.sleep(0.05)
        assert f"node {name}, thence" in shown
        assert "ready" in shown
    assert [node.stop(number) for node, number in zip(nodes, SIGNALS, strict=True)] == [0, 0, 0]
    for node, name in zip(nodes, "abc", strict=True):
        assert node.lines[-1] == f"node {name} in main: sent 50, delivered 100, stable 150"
    report = check_paths([tmp_path / "trace"])
    assert report.ok
    logs = list((tmp_path / "trace" / "main").glob("*.parquet"))
    assert len(logs) == 3
    assert not list((tmp_path / "trace" / "main").glob(".*.open"))


SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
def test_settings_come_from_flags_environment_and_a_file(
    scheme: str, start: type[Process], tmp_path: Path
):
    (port,) = free_ports(1)
    toml = tmp_path / "b.toml"
    toml.write_text(f'name = "x"\nlisten = ["{scheme}://127.0.0.1:0"]\n[peers]\na = "{scheme}://'
                    f'127.0.0.1:{port}"\n')  # fmt: skip
    other = f"b={scheme}://127.0.0.1:1"
    a = start("--name", "a", "--listen", f"{scheme}://127.0.0.1:{port}", "--peer", other)
    b = start("--config", str(toml), THENCE_NAME="b")
    chosen = int(b.expect(rf"node b listens on {scheme}://127.0.0.1:(\d+)$")[1])
    assert chosen > 0
    a.expect("node a is connected to b")
    b.expect("node b is connected to a")
    assert (a.stop(), b.stop()) == (0, 0)


def test_it_stops_by_itself_when_told_to(start: type[Process]):
    alone = start(
        "--name", "a", "--listen", "tcp://127.0.0.1:0", "--send", "3", "--stop-after", "1"
    )
    assert alone.end() == 0
    assert alone.lines[-2:] == [
        "node a is connected to nobody: alone",
        "node a in main: sent 3, delivered 0, stable 3",
    ]


def slow_pair(start: type[Process], folder: Path, *words: str) -> tuple[Process, Process]:
    """Two nodes; what z sends takes three seconds.  Of two connections they keep that of b."""
    group = members(folder, "bz")
    b = start("--name", "b", "--members", group)
    z = start("--name", "z", "--members", group, "--delay-to", "b=3000", "--send", "5", *words)
    z.expect("is connected to b")
    time.sleep(0.3)
    return z, b


def test_a_second_signal_stops_it_at_once(start: type[Process], tmp_path: Path):
    z, b = slow_pair(start, tmp_path, "--timing-drain-s", "50")
    z.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert z.process.poll() is None  # it waits for b
    since = time.monotonic()
    assert z.stop(signal.SIGINT) == 128 + signal.SIGINT
    assert time.monotonic() - since < 20.0  # it would wait for 50
    assert b.stop() == 0


def test_what_others_have_not_got_in_time_is_lost_and_said(start: type[Process], tmp_path: Path):
    z, b = slow_pair(start, tmp_path, "--timing-drain-s", "0.3")
    assert z.stop() == 1
    said = "thence: b has not acknowledged everything in 0.3 s, and without --data it is lost"
    assert said in z.errors
    assert b.stop() == 0


def test_with_a_journal_what_others_have_not_got_is_kept(start: type[Process], tmp_path: Path):
    data = str(tmp_path / "data")
    z, b = slow_pair(start, tmp_path, "--timing-drain-s", "0.3", "--data", data)
    assert z.stop() == 0
    said = "thence: b has not acknowledged everything in 0.3 s; the journal keeps it"
    assert said in z.errors
    again = start("--name", "z", "--members", str(tmp_path / "members"), "--data", data)
    again.expect("is connected to b")
    time.sleep(0.5)
    assert again.stop() == 0
    assert b.stop() == 0
    assert b.lines[-1].startswith("node b in main: sent 0, delivered 5,")


def test_it_goes_on_after_kill_9_with_its_journal(start: type[Process], tmp_path: Path):
    group = members(tmp_path, "ab")
    words = ["--members", group, "--trace", str(tmp_path / "trace"), "--data"]
    data = tmp_path / "data"
    b = start("--name", "b", *words, str(data), "--send", "300", "--interval-ms", "3")
    a = start("--name", "a", *words, str(data), "--send", "1000", "--interval-ms", "1")
    a.expect("is connected to b")
    time.sleep(0.5)
    a.process.kill()
    a.end()
    again = start("--name", "a", *words, str(data), "--end", "--send", "10")
    again.expect("is connected to b")
    time.sleep(2.0)
    assert again.stop() == 0
    assert b.stop() == 0
    report = check_paths([tmp_path / "trace"])
    assert report.ok, report.violations[:3]


# ---- what goes wrong ----------------------------------------------------------------------------


def test_an_address_that_is_taken_is_one_sentence(capsys: Capture):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["node", "--name", "a", "--listen", f"tcp://127.0.0.1:{port}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"thence: cannot listen on tcp://127.0.0.1:{port}")
    assert len(said.splitlines()) == 1


def test_a_journal_of_another_node_is_one_sentence(tmp_path: Path, capsys: Capture):
    words = ["node", "--listen", "tcp://127.0.0.1:0", "--data", str(tmp_path), "--stop-after", "0"]
    assert main([*words, "--name", "a"]) == 0
    (tmp_path / "main-a.journal").rename(tmp_path / "main-b.journal")
    capsys.readouterr()
    assert main([*words, "--name", "b"]) == 2
    said = capsys.readouterr().err
    assert "main-b.journal" in said
    assert len(said.splitlines()) == 1


def test_a_bad_certificate_is_one_sentence(tmp_path: Path, capsys: Capture):
    for name in ("ca", "cert", "key"):
        (tmp_path / f"{name}.pem").write_text("nonsense")
    files = [f"--tls-{name}={tmp_path / name}.pem" for name in ("ca", "cert", "key")]
    assert main(["node", "--name", "a", "--listen", "tls://127.0.0.1:0", *files]) == 2
    said = capsys.readouterr().err
    assert said.startswith("thence: ")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "this node has no name"),
        (["--name", "a", "--send", "-1"], "0 or more"),
        (["--name", "a", "--payload-bytes", "99999999"], "--payload-bytes is 0 to"),
        (["--name", "a", "--engine", "nope"], "no engine 'nope'"),
        (["--name", "a", "--listen", "tcp://192.0.2.1:7000"], "use tls:// between"),
        (["--name", "a", "--engine", "graph", "--data", "."], "only tagged has a journal"),
        (["--name", "a", "--nope"], "--nope"),
        (["--name", "a", "--retries", "many"], "--retries is 'many'"),
        (["--name", "a", "--debug", "nope"], "--debug"),
        (
            ["--name", "d", "--join", "mem://a", "--peer", "b=mem://b"],
            "membership.join and peers do not go together",
        ),
        (["--name", "d", "--elastic", "--engine", "vector"], "whose members cannot change"),
    ],
)
def test_settings_it_cannot_use_are_one_sentence(
    words: list[str], sentence: str, capsys: Capture, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["node", *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1


def test_a_full_disk_ends_it_with_a_clear_sentence_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    from thence.errors import JournalError
    from thence.journal.sqlite import SqliteJournal

    commits = 0
    commit = SqliteJournal.commit

    def full(self: SqliteJournal) -> None:
        nonlocal commits
        commits += 1
        if commits > 20:
            raise JournalError(f"{tmp_path}: {os.strerror(errno.ENOSPC)}")
        commit(self)

    words = ["node", "--name", "a", "--listen", "tcp://127.0.0.1:0", "--data", str(tmp_path)]
    with monkeypatch.context() as patch:
        patch.setattr(SqliteJournal, "commit", full)
        assert main([*words, "--send", "1000", "--stop-after", "20"]) == 1
    captured = capsys.readouterr()
    assert f"thence: {tmp_path}: No space left on device" in captured.err
    assert main([*words, "--send", "1", "--stop-after", "0.3"]) == 0
    assert "sent 1," in capsys.readouterr().out


# ---- switches -----------------------------------------------------------------------------------


def test_debug_switches_show_the_exchange_and_the_order(start: type[Process], tmp_path: Path):
    group = members(tmp_path, "ab")
    a = start("--name", "a", "--members", group, "--debug", "link", "--debug=order", "--send", "5")
    b = start("--name", "b", "--members", group, "--send", "5")
    for line in (
        r"debug thence.link acknowledged group=main peer=b up_to=\d",
        r"debug thence.link acknowledges group=main peer=b up_to=\d",
        r"debug thence.order sent group=main dot=a:1 after=",
        r"debug thence.order ready group=main dot=b:1 after=",
        r"debug thence.order delivered group=main dot=b:1",
        r"debug thence.order stable group=main dot=a:1",
    ):
        a.expect(line, errors=True)
    assert (a.stop(), b.stop()) == (0, 0)
    assert not [line for line in b.errors if " debug " in line]


def test_faults_on_purpose_lose_nothing(start: type[Process], tmp_path: Path):
    group = members(tmp_path, "ab", "udp")
    faults = ["--drop", "0.1", "--duplicate", "0.1", "--reorder", "0.1", "--alter-seq", "0.05",
              "--ack-delay", "3", "--retries", "50"]  # fmt: skip
    words = ["--members", group, "--send", "100", "--trace", str(tmp_path / "trace")]
    a = start("--name", "a", *words, *faults, "--status", "127.0.0.1:0")
    b = start("--name", "b", *words, *faults)
    for node in (a, b):
        node.expect("is connected to")
    page = a.expect("http://(.*)")[1]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        shown = subprocess.run(
            [sys.executable, "-m", "thence", "status", page], capture_output=True, text=True,
            check=False,
        ).stdout  # fmt: skip
        row = next(line.split() for line in shown.splitlines() if line.startswith("main"))
        if row[2:5] == ["100", "100", "200"]:
            break
        assert time.monotonic() < deadline, shown
        time.sleep(0.05)
    assert (a.stop(), b.stop()) == (0, 0)
    assert check_paths([tmp_path / "trace"]).ok


def test_debug_of_a_node_takes_a_topic_and_of_others_none():
    take = cli._take_debug
    assert take(["node", "--debug", "link"]) == (["node", "--debug", "link"], False)
    assert take(["node", "--debug=order"]) == (["node", "--debug=order"], False)
    assert take(["node", "--debug"]) == (["node"], True)
    assert take(["node", "--debug", "--debug", "link"]) == (["node", "--debug", "link"], True)
    assert take(["check", "--debug", "link"]) == (["check", "link"], True)
    assert take(["--debug", "check", "x"]) == (["check", "x"], True)
    assert take([]) == ([], False)
