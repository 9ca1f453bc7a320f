"""``thence status`` against a real server, and against everything else that may be there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import msgspec
import pytest

from tests.telemetry.numbers import example_snapshot
from thence.cli.main import main
from thence.cli.status import _ms, text
from thence.telemetry.asking import STATUS_BYTES_MAX
from thence.telemetry.http import StatusServer
from thence.telemetry.snapshot import Readiness, Snapshot, Status

Capture = pytest.CaptureFixture[str]


@contextlib.contextmanager
def node(readiness: Readiness, snapshot: Snapshot) -> Iterator[str]:
    """HOST:PORT of a server in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = StatusServer(lambda: snapshot, lambda: readiness)
    try:
        started = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop)
        host, port = started.result(10)
        yield f"{host}:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(server.aclose(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextlib.contextmanager
def stranger(answer: bytes | None) -> Iterator[str]:
    """HOST:PORT of something that sends these bytes to whoever comes; None: sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                taken, _ = listener.accept()
                with taken:
                    if answer is not None:
                        taken.recv(65536)
                        taken.sendall(answer)
                    else:
                        taken.settimeout(10)
                        while taken.recv(65536):
                            pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


def http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_a_ready_node_is_exit_0(capsys: Capture):
    with node(Readiness(True), example_snapshot()) as where:
        assert main(["status", where]) == 0
    assert capsys.readouterr().out.startswith("node a, thence 1.2.3, up 1 h 2 min: ready\n")


def test_a_node_that_is_not_ready_is_exit_1(capsys: Capture):
    with node(Readiness(False, "c is missing"), example_snapshot()) as where:
        assert main(["status", where]) == 1
    assert "NOT READY: c is missing\n" in capsys.readouterr().out


def test_json_is_what_the_node_says(capsys: Capture):
    with node(Readiness(True), example_snapshot()) as where:
        assert main(["status", where, "--json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out, type=Status)
    assert found == Status(True, "", example_snapshot())


def test_the_address_may_come_from_the_environment(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
):
    with node(Readiness(True), example_snapshot()) as where:
        monkeypatch.setenv("THENCE_STATUS", where)
        assert main(["status"]) == 0


def cells(block: str) -> list[str]:
    return [" ".join(line.split()) for line in block.split("\n")]


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.00025, "0.25"), (0.5, "500"), (5.0, "5,000"), (10.0, "10,000")]
)
def test_long_times_are_written_out(seconds: float, shown: str):
    assert _ms(seconds) == shown


def test_the_tables_show_every_number():
    shown = text(Status(True, "", example_snapshot()))
    blocks = shown.split("\n\n")
    assert [len(block.strip("\n").split("\n")) for block in blocks] == [1, 3, 1, 2, 5, 3, 1]
    header, *rows = cells(blocks[1])
    assert header == (
        "group engine sent delivered stable held back waiting for unstable lag ms p50 p99 "
        "outbox outbox bytes events journal bytes"
    )
    assert rows == [
        "main tagged 101 102 103 104 c 105 5 >10,000 106/65,536 10,700 108/200 10,900",
        "side vector 201 0 0 0 - 0 - - 0 0 0 0",
    ]
    assert blocks[2] == ("joining other: the members agree on it; 1,234,567 bytes received")
    assert cells(blocks[3]) == [
        "elastic view members suspected state changes handed over newcomers kept bytes in journal",
        "main 501 4 2 minority 502 503 504 505 506",
    ]
    assert cells(blocks[4]) == [
        "member group state silent s address",
        "a main this node - tcp://127.0.0.1:7000",
        "b main up 0.2 -",
        "c#2 main suspected 6.5 -",
        "d main to be evicted 31.5 -",
    ]
    assert cells(blocks[5])[1:] == [
        "b yes 301,000 302,000 303 306 304 305 12.5 tcp://127.0.0.1:7001",
        "c no 0 0 0 0 0 0 - tcp://127.0.0.1:7002",
    ]
    assert blocks[6] == "refused: bad-seq 402, duplicate 401\n"
    assert len({len(line) for line in blocks[1].split("\n")}) == 1  # aligned


@pytest.mark.parametrize(
    ("uptime_s", "shown"), [(5.9, "5 s"), (61, "1 min 1 s"), (90_000, "25 h 0 min")]
)
def test_a_small_node(uptime_s: float, shown: str):
    found = text(Status(False, "", Snapshot(node="a", uptime_s=uptime_s)))
    assert found == f"node a, thence ?, up {shown}: NOT READY: it does not say why\n"


def test_what_a_stranger_says_does_not_move_the_terminal():
    found = text(Status(False, "\x1b[2J\nx", Snapshot(node="a")))
    assert found.removesuffix("\n").isprintable()


def failure(capsys: Capture, *words: str) -> str:
    assert main(["status", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_nobody_there_is_exit_2(capsys: Capture):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
    assert failure(capsys, where) == (
        f"thence: {where}: Connection refused; was the node started with --status {where}?\n"
    )


def test_nobody_who_answers_is_exit_2(capsys: Capture):
    with stranger(None) as where:
        assert (
            failure(capsys, where, "--timeout-s", "0.2") == f"thence: {where}: no answer in 0.2 s\n"
        )


STATUS = msgspec.json.encode(Status(True, "", Snapshot(node="a")))


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        http(b"<html>"),
        http(b"\xff\xfe"),
        http(json.dumps({"ready": "yes"}).encode()),
        http(b"[" * 100_000),
        http(STATUS + b" " * 100)[:-100],  # ends halfway
        b"",
    ],
)
def test_another_program_is_exit_2(capsys: Capture, answer: bytes):
    with stranger(answer) as where:
        sentence = failure(capsys, where)
    assert "no thence node" in sentence or "reset" in sentence or "without response" in sentence


def test_another_status_is_exit_2(capsys: Capture):
    with stranger(http(b"no", "404 Not Found")) as where:
        assert failure(capsys, where) == f"thence: {where}: /status answers 404, expected 200\n"


def test_an_endless_answer_is_exit_2(capsys: Capture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("thence.telemetry.asking.STATUS_BYTES_MAX", 1000)
    assert STATUS_BYTES_MAX > 1000
    with stranger(http(STATUS + b" " * 100_000)) as where:
        assert "no thence node" in failure(capsys, where)


@pytest.mark.parametrize("where", ["nowhere", "host:99999", "tcp://h:1"])
def test_what_is_no_address_is_exit_2(capsys: Capture, where: str):
    assert failure(capsys, where) == f"thence: {where!r} is no address; expected HOST:PORT\n"


@pytest.mark.parametrize("timeout_s", ["0", "-1", "nan", "inf"])
def test_a_timeout_is_a_positive_number(capsys: Capture, timeout_s: str):
    assert "timeout" in failure(capsys, "127.0.0.1:1", f"--timeout-s={timeout_s}")
