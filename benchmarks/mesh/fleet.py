"""The processes of one mesh: started, told what to do, ended."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from typing import Any

ANSWER_S_MAX = 60.0
GREETINGS_MAX = 20


class MeshError(Exception):
    """A process did not do what it was told."""


class Member:
    """One process."""

    def __init__(self, kind: str, index: int, nodes: int, seconds_max: int) -> None:
        self.name = f"{kind} {index}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.mesh.member", kind, str(index), str(nodes),
             str(seconds_max)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout
        self._held = b""

    def tell(self, what: dict[str, Any]) -> None:
        self._orders.write(json.dumps(what).encode() + b"\n")
        self._orders.flush()

    def answer(self, deadline: float) -> dict[str, Any]:
        """Its next answer."""
        while b"\n" not in self._held:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                raise MeshError(f"{self.name} does not answer")
            data = os.read(self._answers.fileno(), 1 << 20)
            if not data:
                raise MeshError(f"{self.name} has ended")
            self._held += data
        line, _, self._held = self._held.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """End this process."""
        try:
            self._orders.close()
            self._process.wait(timeout=3)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()


class Fleet:
    """One node of a contestant in each process, all connected."""

    def __init__(self, kind: str, nodes: int, seconds_max: int) -> None:
        self.nodes = nodes
        self.members: list[Member] = []
        try:
            for index in range(nodes):
                self.members.append(Member(kind, index, nodes, seconds_max))
            ports = [answer["port"] for answer in self._answers()]
            self.ask({"do": "connect", "ports": ports})
            for _ in range(GREETINGS_MAX):
                if all(answer["heard"] == nodes - 1 for answer in self.ask({"do": "greet"})):
                    break
            else:
                raise MeshError(f"{kind} nodes do not hear each other")
        except BaseException:
            self.end()
            raise

    def ask(self, what: dict[str, Any], **of_each: list[Any]) -> list[dict[str, Any]]:
        """Tell all the same, except for ``of_each``; what they answer."""
        for index, member in enumerate(self.members):
            member.tell({**what, **{key: values[index] for key, values in of_each.items()}})
        return self._answers(what.get("seconds", 0))

    def _answers(self, seconds: float = 0) -> list[dict[str, Any]]:
        deadline = time.monotonic() + seconds + ANSWER_S_MAX
        return [member.answer(deadline) for member in self.members]

    def prepare(self, messages: int = 0, how: str = "callbacks") -> None:
        """Count from zero, all of them, before the first sends."""
        self.ask({"do": "prepare", "messages": messages, "how": how})

    def run(
        self, messages: int, per_tick: int, window: int, how: str = "callbacks", **more: Any
    ) -> dict[str, Any]:
        """Each node sends so many.  CPU us for a delivery, deliveries a second, answers."""
        self.prepare(messages, how)
        order = {"do": "run", "messages": messages, "per_tick": per_tick, "window": window}
        answers = self.ask({**order, **more})
        reports = self.ask({"do": "report"})
        deliveries = messages * self.nodes * (self.nodes - 1)
        if sum(answer["got"] for answer in answers) != deliveries:
            raise MeshError(f"{deliveries} deliveries, and there were {answers}")
        cpu = sum(report["cpu"] for report in reports)
        return {
            "us": cpu / deliveries * 1e6,
            "rate": deliveries / max(answer["seconds"] for answer in answers),
            "answers": answers,
        }

    def end(self) -> None:
        """End all processes."""
        for member in self.members:
            member.end()
        self.members = []
