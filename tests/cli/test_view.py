"""``thence view``: what it opens, what it says of what it cannot open, how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import uvicorn

from tests.trace.faults import info, records
from tests.web.traces import write
from thence.cli.main import main

RUN = records(a="send a:1; end", b="deliver a:1; end")
BROWSER = """
import os, re, sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=10) as page:
    title = re.search("<title>.*</title>", page.read().decode())[0]
with open(sys.argv[2] + ".part", "w") as seen:
    seen.write(title)
os.rename(sys.argv[2] + ".part", sys.argv[2])
"""
TOO_LONG_S = 30.0


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TOO_LONG_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is said of arguments that cannot be used."""
    assert main(["view", *words, "--no-open"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("thence: ")
    assert "Traceback" not in said.err
    return said.err


def test_what_cannot_be_viewed_is_said_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert "name a run folder" in refused(capsys)
    assert "two side by side" in refused(capsys, "a", "b", "c")
    assert "does not exist" in refused(capsys, str(tmp_path / "nothing"))
    assert "holds no trace" in refused(capsys, str(tmp_path))
    text = tmp_path / "notes.txt"
    text.write_text("buy milk\n")
    assert "is not a trace" in refused(capsys, str(text))
    assert "--live follows a folder" in refused(capsys, str(text.with_suffix(".jsonl")), "--live")
    assert "--live follows a folder" in refused(capsys, str(text), "--live")
    assert "goes with --parser" in refused(capsys, str(text), "--delimiter", "x")


def test_an_empty_trace_is_said_to_be_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write(tmp_path / "run", [], info("a", complete=False))
    assert "no trace records" in refused(capsys, str(tmp_path / "run"))
    empty = tmp_path / "a.jsonl"
    empty.write_text("\n")
    assert "no trace records" in refused(capsys, str(empty))


def test_a_port_that_is_taken_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from thence.web.server import listen

    write(tmp_path, RUN, info("a", "b", stability=False))
    with listen(0) as taken:  # also by one that has just begun, and does not answer yet
        port = str(taken.getsockname()[1])
        assert "choose another with --port" in refused(capsys, str(tmp_path), "--port", port)
    assert "expected 0 to 65535" in refused(capsys, str(tmp_path), "--port", "70000")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_serves_and_ends_when_told(tmp_path: Path, number: signal.Signals):
    write(tmp_path, RUN, info("a", "b", stability=False))
    (tmp_path / "b-000001.jsonl").write_text("nonsense\n")
    words = [sys.executable, "-m", "thence", "view", str(tmp_path)]
    # A browser that ends once it has the page, which is a browser that is waited for.
    seen = tmp_path / "seen"
    (tmp_path / "browser.py").write_text(BROWSER)
    browser = f"{sys.executable} {tmp_path}/browser.py %s {seen}"
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "BROWSER": browser},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("view: http://127.0.0.1:")
        address = line.split()[1]
        until(seen.exists)
        assert seen.read_text() == "<title>thence view</title>"
        with urllib.request.urlopen(address) as page:
            assert b"<title>thence view</title>" in page.read()
        # A stream that is open does not keep it.
        with urllib.request.urlopen(f"{address}api/news") as news:
            news.readline()
            process.send_signal(number)
            process.send_signal(number)
            out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""
    assert err.startswith(f"thence: {tmp_path}/b-000001.jsonl:1: JSON is malformed")
    assert len(err.splitlines()) == 1


def test_a_signal_ends_it_whatever_lock_is_held(tmp_path: Path):
    """A handler runs in the middle of anything, also of what another signal has begun."""
    from thence.web.app import make_app
    from thence.web.runs import Viewer
    from thence.web.server import _Server

    write(tmp_path, RUN, info("a", "b", stability=False))
    with Viewer([str(tmp_path)]) as viewer:
        server = _Server(uvicorn.Config(make_app(viewer)), viewer)
        handled = threading.Thread(
            target=server.handle_exit, args=(signal.SIGINT, None), daemon=True
        )
        with viewer.closing._cond:  # what `set` holds
            handled.start()
            handled.join(5)
            assert not handled.is_alive()
        assert server.should_exit
