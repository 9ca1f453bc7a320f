"""What clients of a store do while its nodes are killed, and what must be true afterwards.

Each client writes down what was acknowledged and what is in doubt (asked for, and the connection
broke before the reply), and goes on with its node when that is back.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from redis.exceptions import ConnectionError, TimeoutError

from tests.chaos.stores import Stores


class Wrong(AssertionError):
    """The store did something that it must not do."""


GONE = (ConnectionError, TimeoutError)
PAUSE_S = 0.002
BACK_S = 0.05


class Client(threading.Thread):
    """One client of one node: a mixture of commands, one after the other."""

    def __init__(self, stores: Stores, node: str, number: int) -> None:
        super().__init__(daemon=True)
        self.node = node
        self.me = f"{node}{number}"
        self._stores = stores
        self._chance = random.Random(f"{self.me} {stores.folder}")
        self._halt = threading.Event()
        self.error: BaseException | None = None
        self.acked = 0
        self.added = [0, 0]
        """To the counter that all share: acknowledged, in doubt."""
        self.mine = [0, 0]
        """The same for the counter of this client."""
        self.members: dict[str, bool] = {}
        """Elements of the set and the list that all share; whether it is certain."""
        self.alive: dict[str, str] = {}
        """Keys of this client that were set for certain, with their values."""
        self.dead: set[str] = set()
        """Keys of this client that were deleted for certain."""
        self.unsure: set[str] = set()

    def halt(self) -> None:
        """Do no more."""
        self._halt.set()

    def run(self) -> None:
        try:
            while not self._halt.is_set():
                try:
                    with self._stores.client(self.node) as client:
                        self._work(client)
                except GONE:
                    time.sleep(BACK_S)
        except BaseException as error:
            self.error = error

    def _work(self, client: Any) -> None:
        deeds = (self._add, self._count, self._put, self._collect, self._transact)
        number = self.acked
        client.ping()  # what is not connected asks for nothing
        while not self._halt.is_set():
            number += 1
            self._chance.choice(deeds)(client, f"{self.me}:{number}:{self._chance.random():.6f}")
            self.acked += 1
            time.sleep(PAUSE_S)

    def _doubt(self, call: Callable[[], Any], count: list[int], amount: int) -> Any:
        count[1] += amount
        reply = call()
        count[1] -= amount
        count[0] += amount
        return reply

    def _add(self, client: Any, text: str) -> None:
        amount = self._chance.randint(1, 5)
        self._doubt(lambda: client.incrby("shared", amount), self.added, amount)

    def _count(self, client: Any, text: str) -> None:
        low, doubt = self.mine
        value = self._doubt(lambda: client.incr(f"n:{self.me}"), self.mine, 1)
        if not low + 1 <= value <= low + doubt + 1:
            raise Wrong(f"{self.me} counted {low} (+{doubt}) and then {value}")

    def _put(self, client: Any, text: str) -> None:
        if self.alive and self._chance.random() < 0.4:
            key = self._chance.choice(list(self.alive))
            del self.alive[key]
            self.unsure.add(key)
            client.delete(key)
            self.unsure.discard(key)
            self.dead.add(key)
        else:
            self.unsure.add(text)
            client.set(text, f"value of {text}")
            self.unsure.discard(text)
            self.alive[text] = f"value of {text}"

    def _collect(self, client: Any, text: str) -> None:
        self.members[text] = False
        with client.pipeline(transaction=True) as pipe:
            pipe.sadd("members", text).rpush("log", text).zadd("ranks", {text: 1.5})
            pipe.hset("fields", text, "1").execute()
        self.members[text] = True

    def _transact(self, client: Any, text: str) -> None:
        with client.pipeline(transaction=True) as pipe:
            pipe.incr("left").incr("right").execute()


class Reader(threading.Thread):
    """Reads at one node, and sees both halves of a transaction or none, causes before effects."""

    def __init__(self, stores: Stores, node: str) -> None:
        super().__init__(daemon=True)
        self._stores = stores
        self._node = node
        self._halt = threading.Event()
        self.reads = 0
        self.error: BaseException | None = None

    def halt(self) -> None:
        self._halt.set()

    def run(self) -> None:
        try:
            while not self._halt.is_set():
                try:
                    with self._stores.client(self._node) as client:
                        self._read(client)
                except GONE:
                    time.sleep(BACK_S)
        except BaseException as error:
            self.error = error

    def _read(self, client: Any) -> None:
        while not self._halt.is_set():
            left, right = client.mget("left", "right")
            if left != right:
                raise Wrong(f"half of a transaction at {self._node}: {left}, {right}")
            self.reads += 1
            time.sleep(PAUSE_S)


class Load:
    """Clients and readers at all nodes."""

    def __init__(self, stores: Stores, clients: int = 1) -> None:
        self._stores = stores
        self.clients = [Client(stores, n, k) for n in stores.names for k in range(clients)]
        self.readers = [Reader(stores, name) for name in stores.names]

    def __enter__(self) -> Load:
        for each in (*self.clients, *self.readers):
            each.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in (*self.clients, *self.readers):
            each.halt()
        for each in (*self.clients, *self.readers):
            each.join(30)
            if kind is None and each.error is not None:
                raise each.error

    def verify(self) -> dict[str, int]:
        """Nothing that was acknowledged is lost, nothing was done twice, nothing is back; the same
        at every node.  Some counts."""
        self._stores.settle()
        states = []
        for name in self._stores.names:
            with self._stores.client(name) as client:
                states.append(self._verify_at(name, client))
        if any(each != states[0] for each in states):
            raise Wrong("the nodes differ")
        return {
            "acked": sum(each.acked for each in self.clients),
            "in doubt": sum(each.added[1] + len(each.unsure) for each in self.clients),
            "reads": sum(each.reads for each in self.readers),
        }

    def _verify_at(self, name: str, client: Any) -> Any:
        shared = int(client.get("shared") or 0)
        low = sum(each.added[0] for each in self.clients)
        high = low + sum(each.added[1] for each in self.clients)
        if not low <= shared <= high:
            raise Wrong(f"{name} counted {shared}, not {low} to {high}")
        counted = {}
        for each in self.clients:
            value = int(client.get(f"n:{each.me}") or 0)
            if not each.mine[0] <= value <= sum(each.mine):
                raise Wrong(f"{each.me} counted {each.mine}, {name} {value}")
            counted[each.me] = value
            self._verify_keys(name, client, each)
        return shared, counted, self._verify_members(name, client)

    @staticmethod
    def _verify_keys(name: str, client: Any, each: Client) -> None:
        if each.alive:
            keys = list(each.alive)
            lost = [k for k, v in zip(keys, client.mget(keys), strict=True) if v != each.alive[k]]
            if lost:
                raise Wrong(f"{name} lost {lost[:3]}")
        if each.dead:
            keys = list(each.dead)
            back = [k for k, v in zip(keys, client.mget(keys), strict=True) if v is not None]
            if back:
                raise Wrong(f"deleted keys are back at {name}: {back[:3]}")

    def _verify_members(self, name: str, client: Any) -> Any:
        certain = {text for c in self.clients for text, is_sure in c.members.items() if is_sure}
        asked = {text for each in self.clients for text in each.members}
        found = client.smembers("members")
        if not certain <= found <= asked:
            raise Wrong(f"{name} lost {sorted(certain - found)[:3]}")
        log = client.lrange("log", 0, -1)
        if sorted(log) != sorted(found):
            raise Wrong(f"the list at {name} is another one than the set")
        if client.zrange("ranks", 0, -1) != sorted(found):
            raise Wrong(f"the sorted set at {name} is another one than the set")
        if client.hgetall("fields") != dict.fromkeys(found, "1"):
            raise Wrong(f"the hash at {name} is another one than the set")
        return found, log
