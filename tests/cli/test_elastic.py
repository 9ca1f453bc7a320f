"""Processes that found, join and leave groups, are killed, are evicted, and come back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_chat import Terminal
from tests.cli.test_node import Process
from thence.cli.main import main
from thence.lab.processes import free_ports

QUICK = ("--membership-beat-ms", "100", "--membership-suspect-s", "0.7")
QUICK += ("--membership-suspect-phi", "0", "--membership-evict-s", "1.5")
ANY = "tcp://127.0.0.1:0"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def started() -> Iterator[list[Process]]:
    """None outlives its test."""
    processes: list[Process] = []
    yield processes
    for process in processes:
        if process.process.poll() is None:
            process.process.kill()
            process.end()


def found(started: list[Process], *words: str) -> tuple[Process, str]:
    node = Process("--name", "a", "--listen", ANY, "--elastic", *QUICK, *words)
    started.append(node)
    return node, node.expect("node a listens on (tcp://[^;]*)")[1]


def join(started: list[Process], name: str, url: str, *words: str) -> Process:
    node = Process("--name", name, "--listen", ANY, "--join", url, *QUICK, *words)
    started.append(node)
    node.expect(f"node {name} listens on")
    return node


def test_nodes_join_leave_in_order_and_are_missed_when_killed(
    started: list[Process], capsys: Capture
):
    a, url = found(started, "--status", "127.0.0.1:0")
    page = a.expect("status on http://(.*)")[1]
    a.expect("is connected to nobody: alone")
    assert main(["status", page]) == 0  # alone, and ready
    b, c = join(started, "b", url), join(started, "c", url)
    for node in (a, b):
        node.expect("joined group=main member=c view=2", errors=True)
    assert b.stop(signal.SIGINT) == 0
    for node in (a, c):
        node.expect("left group=main member=b view=3", errors=True)
    c.process.kill()
    c.end()
    a.expect(r"suspected group=main member=c silence_s=\d", errors=True)
    a.expect("evicted group=main member=c view=4", errors=True)
    again = join(started, "c", url)
    again.expect("node c is connected to a")
    capsys.readouterr()
    assert main(["status", page]) == 0
    assert "c#2" in capsys.readouterr().out
    assert [again.stop(), a.stop()] == [0, 0]
    assert not [line for line in a.errors if "evicted" in line and "member=b" in line]


def test_a_node_that_is_evicted_says_so_and_ends_or_comes_back(
    started: list[Process], capsys: Capture
):
    a, url = found(started, "--status", "127.0.0.1:0")
    page = a.expect("status on http://(.*)")[1]
    work = ("--send", "100000", "--interval-ms", "5")
    b, c = join(started, "b", url, *work), join(started, "c", url, "--rejoin", *work)
    for node in (b, c):
        node.expect("is connected to")
    assert main(["evict", "b", "--status", page]) == 0
    assert b.end() == 1
    assert "thence: b was evicted from main: " in b.errors[-1]
    assert main(["evict", "c", "--status", page]) == 0
    c.expect("c was evicted from main: .*; it joins again")
    c.expect("node c is in main again, as c#2")
    a.expect("joined group=main member=c#2", errors=True)
    assert [c.stop(), a.stop()] == [0, 0]


def test_who_is_not_let_in_says_why_without_a_traceback(started: list[Process], tmp_path: Path):
    secrets = {name: tmp_path / name for name in ("right", "wrong")}
    for name, path in secrets.items():
        path.write_text(name)
        path.chmod(0o600)
    a, url = found(started, "--membership-secret-file", str(secrets["right"]))
    short = ("--membership-join-s", "1.5")
    for words, sentence in (
        (["--join", "tcp://127.0.0.1:1", *short], "nobody listens there"),
        (["--join", url], "a asks for the secret of the group: set membership.secret_file"),
        (["--join", url, "--membership-secret-file", str(secrets["wrong"])],
         "a has another secret: compare membership.secret_file"),
    ):  # fmt: skip
        node = Process("--name", "b", "--listen", ANY, *words)
        started.append(node)
        assert node.end() == 1
        assert sentence in node.errors[-1]
        assert node.errors[-1].startswith("thence: b ")
        assert "Traceback" not in "".join(node.errors)
    let_in = join(started, "b", url, "--membership-secret-file", str(secrets["right"]))
    assert [let_in.stop(), a.stop()] == [0, 0]


def test_a_signal_ends_the_wait_to_be_let_in(started: list[Process]):
    node = Process("--name", "b", "--listen", ANY, "--join", "tcp://127.0.0.1:1", "--status",
                   "127.0.0.1:0")  # fmt: skip
    started.append(node)
    node.expect("joining main: tcp://127.0.0.1:1: nobody listens there")
    assert node.stop() == 128 + signal.SIGTERM
    assert node.errors[-1] == "thence: stopped before it was let in"


def test_people_come_and_go_in_a_chat():
    talkers: list[Terminal] = []
    url = f"tcp://127.0.0.1:{free_ports(1)[0]}"
    try:
        ann = Terminal("--name", "ann", "--listen", url, "--elastic", *QUICK)
        talkers.append(ann)
        ann.expect("you are ann; with you: nobody")
        for name in ("bob", "cat"):
            words = ("--listen", ANY, "--join", url, *QUICK)
            talkers.append(Terminal("--name", name, *words))
            talkers[-1].expect(f"you are {name}; with you: ann")
            ann.expect(rf"\* {name} joined \(view \d\)")
        _, bob, cat = talkers
        bob.type("hello")
        cat.expect(r"\[bob:1\] bob: hello")
        bob.type("/quit")
        assert bob.end() == 0
        cat.expect(r"\* bob left \(view 3\)")
        cat.type("still here")  # the slots of former members are kept
        ann.expect(r"\[cat:1\] cat: still here")
        ann.kill()
        cat.expect(r"\* ann is suspected: not heard for")
        cat.expect(r"\* only a minority is reachable: cat; not ann: nobody can join")
        cat.type("@ann psst")
        cat.expect("every message is for everyone")
    finally:
        for talker in talkers:
            talker.kill()
