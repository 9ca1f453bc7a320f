"""Real processes of one group, and what is done to them.

``Band`` starts the applications (app.py) and ends every one of them by its id, whatever happens.
``torment`` does to them what a seed says.  ``settle`` lets them finish and checks everything.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from tests.chaos.history import delivered, lines, lives, stable, whole
from thence.trace.record import info_from_json
from thence.trace.writer import mark_closed, write_info

APP = Path(__file__).with_name("app.py")
SETTLE_S = 60.0
EXIT_S = 30.0
PAUSE_S_MAX = 2.5
AWAY_S_MAX = 1.5
# Below the range from which systems take ports for outgoing connections: a port must still be free
# when its node comes back.
PORTS = range(20_000, 32_000)
TIMING = {"heartbeat_s": 0.5, "reconnect_ms_max": 500.0, "drain_s": 20.0}


class Band:
    """The members of one group, each a process, or for the moment none."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        seed: int,
        scheme: str = "tcp",
        interval_s: float = 0.01,
        settings: Callable[[str], dict[str, Any]] = lambda name: {},
        hosts: dict[str, str] | None = None,
        within: Callable[[str], list[str]] = lambda name: [],
    ) -> None:
        """``settings``: more of them by name; ``within``: what a command is put behind."""
        self.folder = folder
        self.names = list(names)
        self.chance = random.Random(seed)
        self._seed = seed
        self._scheme = scheme
        self._interval_s = interval_s
        self._settings = settings
        self._hosts = hosts or dict.fromkeys(names, "127.0.0.1")
        self._within = within
        self.urls: dict[str, str] = {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.paused: set[str] = set()
        self._lives = dict.fromkeys(names, 0)
        for name in names:
            self.move(name)

    def __enter__(self) -> Band:
        for name in self.names:
            self.start(name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in list(self.running):
            self.kill(name)

    def move(self, name: str) -> None:
        """From its next start on it is reached at another port; others know when they start."""
        kind = socket.SOCK_DGRAM if self._scheme == "udp" else socket.SOCK_STREAM
        while True:
            port = self.chance.choice(PORTS)
            with socket.socket(type=kind) as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            url = f"{self._scheme}://{self._hosts[name]}:{port}"
            if url not in self.urls.values():
                self.urls[name] = url
                return

    def start(self, name: str) -> None:
        self._lives[name] += 1
        life = self._lives[name]
        node = {
            "name": name,
            "listen": [self.urls[name]],
            "peers": {peer: url for peer, url in self.urls.items() if peer != name},
            "journal": {"folder": os.fspath(self.folder / "data"), "checkpoint_bytes": 1 << 16},
            "trace": {"folder": os.fspath(self.folder / "trace")},
            "timing": TIMING,
            **self._settings(name),
        }
        given = {
            "node": node,
            "folder": os.fspath(self.folder),
            "seed": self._seed,
            "life": life,
            "interval_s": self._interval_s,
        }
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(given), encoding="utf-8")
        command = [*self._within(name), sys.executable, os.fspath(APP), os.fspath(path)]
        with (self.folder / f"{name}-{life}.err").open("wb") as errors:
            self.running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
            )

    def _require(self, name: str) -> None:
        code = self.running[name].poll()
        if code is not None:
            raise AssertionError(f"{name} ended by itself ({code}): {self.said(name)}")

    def signal(self, name: str, number: signal.Signals) -> None:
        self._require(name)
        self.running[name].send_signal(number)

    def kill(self, name: str) -> None:
        child = self.running.pop(name)
        self.paused.discard(name)
        child.kill()
        child.wait(EXIT_S)

    def pause(self, name: str) -> None:
        self.signal(name, signal.SIGSTOP)
        self.paused.add(name)

    def resume(self, name: str) -> None:
        self.signal(name, signal.SIGCONT)
        self.paused.discard(name)

    def said(self, name: str) -> str:
        """The end of what it said on stderr, in its last life."""
        path = self.folder / f"{name}-{self._lives[name]}.err"
        return path.read_text(encoding="utf-8")[-2000:]

    def is_up(self, name: str) -> bool:
        """Whether its present life began to work."""
        return f"life {self._lives[name]}" in lines(self.folder / f"{name}.seen")

    def is_quiet(self, name: str) -> bool:
        """Whether it broadcasts no more."""
        return "q" in lines(self.folder / f"{name}.seen")

    def wait_until(self, what: str, done: Callable[[], bool], limit_s: float) -> None:
        end = time.monotonic() + limit_s
        while not done():
            for name in self.running:
                if name not in self.paused:
                    self._require(name)
            if time.monotonic() > end:
                raise AssertionError(f"not within {limit_s:g} s: {what}")
            time.sleep(0.1)

    def acked(self) -> dict[str, list[str]]:
        """By member, the messages whose broadcast returned."""
        return {name: lines(self.folder / f"{name}.acked") for name in self.names}


Deed = Callable[[Band, str], None]


def torment(
    band: Band,
    seconds: float,
    partition: Callable[[str, bool], None] | None = None,
) -> dict[str, int]:
    """Kill, pause, move and cut off members for so long; how often each was done.

    At most all but one are hit at the same time.  ``partition(name, cut)`` cuts a member off, or
    joins it again.
    """
    chance = band.chance
    counts = {"kill": 0, "move": 0, "pause": 0, "break": 0}
    if partition is not None:
        counts["partition"] = 0
    end = time.monotonic() + seconds
    later: list[tuple[float, Callable[[], None]]] = []
    busy: dict[str, float] = {}
    while True:
        now = time.monotonic()
        for due, action in [each for each in later if each[0] <= now or now >= end]:
            later.remove((due, action))
            action()
        if now >= end and not later:
            return counts
        busy = {name: until for name, until in busy.items() if until > now}
        free = [name for name in band.names if name not in busy]
        if now < end and len(free) > 1:
            name, deed = chance.choice(free), chance.choice(sorted(counts))
            counts[deed] += 1
            back = now + chance.uniform(0.05, PAUSE_S_MAX if deed == "pause" else AWAY_S_MAX)
            busy[name] = back + 0.05
            if deed in ("kill", "move"):
                band.kill(name)
                if deed == "move":
                    band.move(name)
                later.append((back, lambda name=name: band.start(name)))  # type: ignore[misc]
            elif deed == "pause":
                band.pause(name)
                later.append((back, lambda name=name: band.resume(name)))  # type: ignore[misc]
            elif deed == "break":
                # The handler is there once the life began; before, the signal would end it.
                if band.is_up(name):
                    band.signal(name, signal.SIGUSR2)
            else:
                assert partition is not None
                partition(name, True)
                later.append((back, lambda name=name: partition(name, False)))  # type: ignore[misc]
        time.sleep(chance.uniform(0.05, 0.6))


def settle(band: Band) -> dict[str, int]:
    """Let everybody finish, and check that nothing is lost, twice or out of order; some counts."""
    band.wait_until("all are up", lambda: all(map(band.is_up, band.names)), SETTLE_S)
    for name in band.names:
        band.signal(name, signal.SIGUSR1)
    band.wait_until("all are quiet", lambda: all(map(band.is_quiet, band.names)), SETTLE_S)
    told = _wait_for_all(band)
    for name in band.names:
        band.signal(name, signal.SIGTERM)
    for name in band.names:
        child = band.running.pop(name)
        try:
            code = child.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise AssertionError(f"{name} does not end: {band.said(name)}") from None
        assert code == 0, f"{name} ended with {code}: {band.said(name)}"
    _check_errors(band)
    _check_trace(band.folder / "trace")
    return {
        "acked": sum(map(len, band.acked().values())),
        "delivered": sum(len(delivered(each)) for each in told.values()),
        "stable": sum(len(stable(each)) for each in told.values()),
        "lives": sum(band._lives.values()),
    }


def _wait_for_all(band: Band) -> dict[str, list[str]]:
    """Until everybody has everything and knows it stable; what each was told."""
    acked = band.acked()
    found: dict[str, list[str]] = {}

    def done() -> bool:
        for name in band.names:
            seen = lives(band.folder / f"{name}.seen")
            found[name] = [each for life in seen for each in life.seen]
        for name in band.names:
            wanted = {text for other in band.names if other != name for text in acked[other]}
            if not wanted <= set(delivered(found[name])):
                return False
        known = [set(stable(found[name])) for name in band.names]
        total = sum(map(len, acked.values()))
        return all(each == known[0] and len(each) >= total for each in known)

    try:
        band.wait_until("everything is everywhere and stable", done, SETTLE_S)
    except AssertionError as error:
        known = {name: (len(delivered(t)), len(set(stable(t)))) for name, t in found.items()}
        count = {name: len(each) for name, each in acked.items()}
        raise AssertionError(f"{error}: acked {count}, (delivered, stable) {known}") from None
    told = {name: whole(lives(band.folder / f"{name}.seen")) for name in band.names}
    for name, each in told.items():
        assert len(set(each)) == len(each), f"{name} was told something twice"
    sets = {name: set(delivered(each)) for name, each in told.items()}
    everything = set().union(*sets.values())
    for name in band.names:
        others = {text for text in everything if not text.startswith(f"{name}.")}
        assert sets[name] == others, f"{name} lacks {sorted(others - sets[name])[:3]}"
    return told


def _check_errors(band: Band) -> None:
    for path in sorted(band.folder.glob("*.err")):
        text = path.read_text(encoding="utf-8")
        assert "Traceback" not in text, f"{path.name}: {text[-2000:]}"
        assert "exception" not in text.lower(), f"{path.name}: {text[-2000:]}"


def _check_trace(folder: Path) -> None:
    run = folder / "main"
    info = info_from_json((run / "run.json").read_bytes())
    write_info(run, msgspec.structs.replace(info, complete=True))
    mark_closed(run)
    check = subprocess.run(
        [sys.executable, "-m", "thence", "check", os.fspath(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert check.returncode == 0, check.stdout[-3000:] + check.stderr[-3000:]
