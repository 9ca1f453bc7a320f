"""Clients that move between nodes with a token, and those that watch what they do.

What a session is promised (Terry et al., "Session Guarantees for Weakly Consistent Replicated
Data"): it reads what it wrote, and never less than it read before; what it writes comes after what
it wrote and read before, at every node.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tests.chaos.store_load import BACK_S, GONE
from tests.chaos.stores import Stores

WAIT_MS = 20_000


class Worker(threading.Thread):
    """Does something again and again; what it raises, but for lost connections, is a failure."""

    def __init__(self, stores: Stores, do: Callable[[Worker], None]) -> None:
        super().__init__(daemon=True)
        self.stores = stores
        self.halt = threading.Event()
        self.error: BaseException | None = None
        self.rounds = 0
        self._do = do
        self._clients: dict[str, Any] = {}

    def at(self, node: str) -> Any:
        """A client of this node."""
        if node not in self._clients:
            self._clients[node] = self.stores.client(node)
        return self._clients[node]

    def run(self) -> None:
        try:
            while not self.halt.is_set():
                try:
                    self._do(self)
                    self.rounds += 1
                except GONE:
                    time.sleep(BACK_S)
        except BaseException as error:
            self.error = error
        finally:
            for client in self._clients.values():
                client.close()


class Crew:
    """Some of them, from ``with`` to its end; then they must have got somewhere."""

    def __init__(self, stores: Stores, *deeds: Callable[[Worker], None]) -> None:
        self.workers = [Worker(stores, do) for do in deeds]

    def __enter__(self) -> Crew:
        for each in self.workers:
            each.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self.workers:
            each.halt.set()
        for each in self.workers:
            each.join(30)
        for each in self.workers:
            if kind is None:
                if each.error is not None:
                    raise each.error
                assert each.rounds, "nothing was done"


def number(text: str | None) -> int:
    return int(text or 0)


class Session:
    """A client that is now here, now there; ``prefix`` is that of its keys."""

    def __init__(self, prefix: str, nodes: list[str], seed: int) -> None:
        self._prefix = prefix
        self._nodes = nodes
        self._chance = random.Random(seed)
        self._token = b""
        self._wrote = self._tried = self._read = 0

    def step(self, worker: Worker) -> None:
        """Move, read, write."""
        client = worker.at(self._chance.choice(self._nodes))
        if self._token:
            assert client.execute_command("CAUSAL.WAIT", self._token, WAIT_MS) == 1
        own = number(client.get(f"{self._prefix}:first"))
        assert own >= self._wrote, f"it wrote {self._wrote} and reads {own}"
        read = number(client.get("tick"))
        assert read >= self._read, f"it had read {self._read} and reads {read}"
        self._read = read
        client.set(f"{self._prefix}:follow", read)
        self._tried += 1
        client.set(f"{self._prefix}:first", self._tried)
        self._wrote = self._tried
        self._token = client.execute_command("CAUSAL.TOKEN")
        client = worker.at(self._chance.choice(self._nodes))
        assert client.execute_command("CAUSAL.WAIT", self._token, WAIT_MS) == 1
        client.set(f"{self._prefix}:second", self._wrote)
        self._token = client.execute_command("CAUSAL.TOKEN")

    def watch(self, node: str) -> Callable[[Worker], None]:
        """What somebody at this node must see: causes before effects."""

        def look(worker: Worker) -> None:
            client = worker.at(node)
            for effect, cause in (
                (f"{self._prefix}:follow", "tick"),
                (f"{self._prefix}:second", f"{self._prefix}:first"),
            ):
                after = number(client.get(effect))
                before = number(client.get(cause))
                assert before >= after, f"{node} shows {effect} {after}, and {cause} {before}"
            time.sleep(0.001)

        return look


def ticking(node: str) -> Callable[[Worker], None]:
    """Somebody at this node counts."""

    def tick(worker: Worker) -> None:
        worker.at(node).incr("tick")
        time.sleep(0.003)

    return tick
