"""``thence chat`` as people use it: two processes, a terminal, a pipe."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from thence.cli.chat import printable
from thence.cli.main import main
from thence.lab.processes import free_ports

PATIENCE_S = 60.0


class Terminal:
    """A chat in a terminal of its own."""

    def __init__(self, *words: str) -> None:
        self._screen, inner = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "thence", "chat", *words],
            stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
        )  # fmt: skip
        os.close(inner)
        self.seen = ""

    def type(self, line: str) -> None:
        os.write(self._screen, f"{line}\n".encode())

    def expect(self, pattern: str) -> str:
        """Wait until the screen shows this after what was expected before; the line."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = re.search(pattern, self.seen)
            if found:
                self.seen = self.seen[found.end() :]
                return found.group()
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.seen!r}"
            if select.select([self._screen], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self._screen, 65536).decode()
                except OSError:  # the process is gone
                    assert re.search(pattern, self.seen), f"no {pattern!r} in {self.seen!r}"

    def end(self) -> int:
        code = self.process.wait(PATIENCE_S)
        os.close(self._screen)
        return code

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def members(tmp_path: Path) -> str:
    names = dict(zip("abc", free_ports(3), strict=True))
    path = tmp_path / "members"
    path.write_text("".join(f"{name} tcp://127.0.0.1:{port}\n" for name, port in names.items()))
    return str(path)


@pytest.fixture
def terminals(members: str) -> Iterator[list[Terminal]]:
    started: list[Terminal] = []
    try:
        for name in "abc":
            started.append(Terminal("--name", name, "--members", members))
        for terminal, others in zip(started, ("bc", "ac", "ab"), strict=True):
            terminal.expect("you are .; with you: ")
            for _ in others:
                terminal.expect(rf"\* [{others}] is here")
        yield started
    finally:
        for terminal in started:
            terminal.kill()


def test_people_talk_in_terminals(terminals: list[Terminal]):
    a, b, c = terminals
    a.type("lunch?")
    a.expect(r"\[a:1\] a: lunch\?")
    b.expect(r"\[a:1\] a: lunch\?\r\n")
    b.type("yes!")
    for terminal in (a, c):
        terminal.expect(r"\[b:1\] b: yes!\r\n")  # it is after the question, so nothing beside it
    a.type("@b only for you")
    a.expect(r"\[a:2\] a to b: only for you")
    b.expect(r"\[a:2\] a to b: only for you")
    a.type("for all")
    for terminal in (b, c):
        terminal.expect(r"\[a:3\] a: for all")
    assert "only for you" not in c.seen

    a.type("@z hello")
    a.expect(r"\* z is no member; there are a, b, c")
    a.type("/nope")
    a.expect(r"\* there is no /nope")
    a.type("/who")
    a.expect(r"\* a  you\r\n\* b  connected\r\n\* c  connected")
    time.sleep(0.5)
    a.type("/waiting")
    a.expect(r"\* nothing is held back")

    c.type("/quit")
    assert c.end() == 0
    a.expect(r"\* c is away: c said goodbye: it stops")
    b.type("/who")
    b.expect(r"\* c  away")
    b.process.send_signal(signal.SIGTERM)
    assert b.end() == 0
    a.process.send_signal(signal.SIGINT)
    assert a.end() == 0


def test_lines_that_were_written_without_reading_each_other_are_shown_as_concurrent(members: str):
    """What a says waits for half a second before it reaches b, and b speaks meanwhile."""
    delays = {"a": ["--delay-to", "b=500"], "b": ["--delay-to", "a=500"]}
    lines = Path(members).read_text().splitlines()[:2]
    Path(members).write_text("\n".join(lines) + "\n")
    both = [Terminal("--name", name, "--members", members, *delays[name]) for name in "ab"]
    try:
        for terminal in both:
            terminal.expect("is here")
        both[0].type("mine")
        both[1].type("mine too")
        both[0].expect(r"\[b:1\] b: mine too   \(concurrent with a:1\)")
        both[1].expect(r"\[a:1\] a: mine   \(concurrent with b:1\)")
    finally:
        for terminal in both:
            terminal.kill()


def test_it_works_in_a_pipe_and_leaves_when_its_input_ends(members: str):
    lines = Path(members).read_text().splitlines()[:2]
    Path(members).write_text("\n".join(lines) + "\n")
    listener = Terminal("--name", "b", "--members", members)
    try:
        speaker = subprocess.run(
            [sys.executable, "-m", "thence", "chat", "--name", "a", "--members", members],
            input="one\n\ntwo\nwithout an end of line", capture_output=True, text=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert (speaker.returncode, speaker.stderr) == (0, "")
        said = [line for line in speaker.stdout.splitlines() if line.startswith("[")]
        assert said == ["[a:1] a: one", "[a:2] a: two", "[a:3] a: without an end of line"]
        for line in said:
            listener.expect(re.escape(line))
    finally:
        listener.kill()


def test_no_line_of_another_moves_the_terminal():
    assert printable("a\x1b[2Jb\rc\x00d\u202ee") == r"a\x1b[2Jb\rc\x00d\u202ee"
    assert printable("für alle: ✓") == "für alle: ✓"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "this node has no name"),
        (["--name", "a", "--group", "x", "--group", "y"], "give --group once"),
        (["--name", "a", "--engine", "graph"], "only the engine tagged"),
    ],
)
def test_settings_it_cannot_use_are_one_clear_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["chat", *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1
