"""The processes of an elastic group: they come, go and are killed, and everybody is asked after.

``Crowd`` starts the applications (resident.py), gives them orders and ends every one of them by its
id, whatever happens.  All are started before anything is measured, so that what it costs to start
Python is not taken for what a join costs.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from tests.chaos.processes import PORTS
from thence.trace.record import info_from_json
from thence.trace.resumable import ResumableLog
from thence.trace.writer import mark_closed, write_info

RESIDENT = Path(__file__).with_name("resident.py")
EXIT_S = 40.0
WAIT_S = 60.0
TIMING = {"heartbeat_s": 0.5, "reconnect_ms_max": 500.0}


class Crowd:
    """Members of one group, former ones, and those to come; each a process."""

    def __init__(
        self,
        folder: Path,
        founders: Sequence[str],
        newcomers: Sequence[str],
        evict_s: float,
        interval_s: float,
        ballast: int,
    ) -> None:
        self.folder = folder
        self.evict_s = evict_s
        self.founders = list(founders)
        self.names = [*founders, *newcomers]
        self.members: list[str] = []
        """In order of seniority."""
        self.killed: dict[str, float] = {}
        """And when (monotonic, seconds)."""
        self.phases: list[tuple[str, int, int]] = []
        """What was done from when to when, in microseconds of the clock that all share."""
        # Other tests choose ports too, at the same time, and must not choose the same ones.
        self._chance = random.Random(f"{os.getpid()} {folder}")
        self._interval_s = interval_s
        self._ballast = ballast
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._urls = {name: self._free_url() for name in founders}

    def _free_url(self) -> str:
        while True:
            port = self._chance.choice(PORTS)
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            return f"tcp://127.0.0.1:{port}"

    def __enter__(self) -> Crowd:
        try:
            for name in self.names:
                self._start(name)
            self.wait("all are ready", lambda: all(self.has(each, "ready") for each in self.names))
        except BaseException:
            self._end_all()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end_all()

    def _end_all(self) -> None:
        for child in self._processes.values():
            if child.poll() is None:
                child.kill()
            child.wait(EXIT_S)
            assert child.stdin is not None
            child.stdin.close()

    def _start(self, name: str) -> None:
        is_founder = name in self.founders
        node = {
            "name": name,
            "listen": [self._urls.get(name, "tcp://127.0.0.1:0")],
            "peers": {each: url for each, url in self._urls.items() if is_founder and each != name},
            # Making a segment of Parquet is a pause of the node that a busy machine makes long.
            "trace": {"folder": os.fspath(self.folder / "trace"), "form": "jsonl"},
            "timing": TIMING,
            "membership": {
                "elastic": True, "beat_ms": 200.0, "suspect_s": self.evict_s / 2,
                "evict_s": self.evict_s, "join_s": 30.0,
            },
        }  # fmt: skip
        given = {
            "node": node,
            "folder": os.fspath(self.folder),
            "interval_s": self._interval_s,
            "ballast": self._ballast if is_founder else 0,
        }
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(given), encoding="utf-8")
        with (self.folder / f"{name}.err").open("wb") as errors:
            self._processes[name] = subprocess.Popen(
                [sys.executable, os.fspath(RESIDENT), os.fspath(path)],
                stdin=subprocess.PIPE, stdout=errors, stderr=errors,
            )  # fmt: skip

    # ---- what is asked and told ------------------------------------------------------------------

    def order(self, name: str, what: str) -> None:
        pipe = self._processes[name].stdin
        assert pipe is not None
        pipe.write(f"{what}\n".encode())
        pipe.flush()

    def told(self, name: str) -> list[list[str]]:
        """What a process said: when, what, about whom."""
        path = self.folder / f"{name}.told"
        if not path.exists():
            return []
        return [line.split() for line in path.read_text(encoding="utf-8").split("\n")[:-1]]

    def has(self, name: str, what: str, about: str = "") -> bool:
        found = [line[2:] for line in self.told(name) if line[1] == what]
        return bool(found) and (not about or [about] in found)

    def address(self, name: str) -> str:
        return next(line[2] for line in self.told(name) if line[1] == "up")

    def wait(self, what: str, done: Callable[[], bool], limit_s: float = WAIT_S) -> float:
        """Until it is done; how many seconds that took."""
        start = time.monotonic()
        while not done():
            for name in self.members:
                code = self._processes[name].poll()
                assert code is None, f"{name} ended by itself ({code}): {self.errors(name)}"
            if time.monotonic() > start + limit_s:
                said = {name: self.told(name)[-4:] for name in self.members}
                raise AssertionError(f"not within {limit_s:g} s: {what}; {said}")
            time.sleep(0.02)
        return time.monotonic() - start

    def errors(self, name: str) -> str:
        return (self.folder / f"{name}.err").read_text(encoding="utf-8")[-3000:]

    def phase(self, what: str, work: Callable[[], None]) -> None:
        """Do it, and remember when that was."""
        start = time.monotonic_ns() // 1000
        work()
        self.phases.append((what, start, time.monotonic_ns() // 1000))

    # ---- coming and going ------------------------------------------------------------------------

    def found(self) -> None:
        self.members = list(self.founders)
        for name in self.founders:
            self.order(name, "enter")
        self.wait("the founders are up", lambda: all(self.has(n, "up") for n in self.founders))

    def join(self, name: str, contact: str) -> float:
        """Have it join by way of a member; seconds until it can broadcast."""
        self.order(name, f"enter {self.address(contact)}")
        taken = self.wait(f"{name} joins", lambda: self.has(name, "up"))
        self.members.append(name)
        self._wait_known("joined", name)
        return taken

    def leave(self, name: str) -> float:
        self.members.remove(name)
        self.order(name, "leave")
        taken = self.wait(f"{name} leaves", lambda: self.has(name, "ended"))
        assert self.has(name, "left"), f"{name} did not leave: {self.told(name)[-3:]}"
        assert self._processes[name].wait(EXIT_S) == 0, self.errors(name)
        self._wait_known("left", name)
        return taken

    def kill(self, *names: str) -> None:
        for name in names:
            self._processes[name].kill()
            self._processes[name].wait(EXIT_S)
            self.members.remove(name)
            self.killed[name] = time.monotonic()

    def doom(self, contact: str, newcomer: str) -> float:
        """Kill a contact while it hands the state to a newcomer, which joins all the same."""
        self.order(contact, "doom")
        self.order(newcomer, f"enter {self.address(contact)}")
        self.members.remove(contact)
        self.wait(f"{contact} dies", lambda: self._processes[contact].poll() == -9)
        self.killed[contact] = time.monotonic()
        taken = self.wait(f"{newcomer} joins by another", lambda: self.has(newcomer, "up"))
        self.members.append(newcomer)
        return taken

    def wait_evicted(self, *names: str) -> float:
        """Seconds from the kill until all who were there then were told."""
        self.wait(
            f"{names} are evicted",
            lambda: all(self.has(m, "evicted", name) for m in self._oldest() for name in names),
            self.evict_s + WAIT_S,
        )
        return time.monotonic() - max(self.killed[name] for name in names)

    def _oldest(self) -> list[str]:
        """Members that were there from the beginning: those are told of everything."""
        return [each for each in self.members if each in self.founders] or self.members

    def _wait_known(self, what: str, name: str) -> None:
        others = [each for each in self._oldest() if each != name]
        self.wait(f"{name} {what}", lambda: all(self.has(each, what, name) for each in others))

    # ---- the end ---------------------------------------------------------------------------------

    def settle(self) -> str:
        """Let the members finish; the state they all have then."""
        for name in self.members:
            self.order(name, "quiet")
        found: dict[str, list[str]] = {}

        def agree() -> bool:
            for name in self.members:
                last = self.told(name)[-1]
                if last[1] != "state":
                    return False
                found[name] = last[2:]
            states = {tuple(each) for each in found.values()}
            return len(states) == 1 and next(iter(states))[1] == "0"

        self.wait("all have the same state, and all is stable", agree)
        for name in self.members:
            self.order(name, "end")
        for name in list(self.members):
            assert self._processes[name].wait(EXIT_S) == 0, self.errors(name)
        for path in sorted(self.folder.glob("*.err")):
            text = path.read_text(encoding="utf-8")
            assert "Traceback" not in text, f"{path.name}: {text[-3000:]}"
            assert "exception" not in text.lower(), f"{path.name}: {text[-3000:]}"
        return found[self.members[0]][0]

    def check(self, *options: str) -> str:
        """``thence check`` over the logs of all that ever took part; what it says."""
        run = self.folder / "trace" / "main"
        for name in self.killed:
            log = ResumableLog(run, "main", name, at=None, form="jsonl")
            log.seal(len(log))
            log.close()
        info = info_from_json((run / "run.json").read_bytes())
        write_info(run, msgspec.structs.replace(info, complete=True))
        mark_closed(run)
        command = [sys.executable, "-m", "thence", "check", os.fspath(run.parent), *options]
        check = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert check.returncode == 0, check.stdout[-3000:] + check.stderr[-3000:]
        return check.stdout
