"""What is left in memory of a million keys that three nodes have worked on, once all is stable.

    python -m benchmarks.store_memory [--keys 1000000] [--kinds string,counter,hash,set] [--data]

Two stores of three processes each, one after the other, on loopback:

- once:     every key is written once, a third of them at each node;
- churned:  every key is set, overwritten by another node, deleted by a third one and added again by
            the first, so that the final state is the same.

Keys go round among the kinds (mixed: all of them).  Then nothing is done until everything is stable
at all nodes, garbage is collected, and the resident memory of each process is read.  Promise (exit
code 1 when it is broken): the churned store has at most 1.2 times the memory of the other, the mean
of three nodes compared, for every kind.

``--data`` gives the nodes journals.  No server is in the way: the nodes carry out commands of their
own (``Database``), 100 in a turn of the event loop, each turn one batch.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

MODULE: Final = "benchmarks.store_memory"
NODES: Final = "abc"
KINDS: Final = ("string", "counter", "hash", "set", "mixed")
TURN: Final = 100
RATIO_MAX: Final = 1.2
HASH_FIELDS: Final = 2
BEHIND_MAX: Final = 20_000
"""Batches that are not stable: with more, a node waits, so that no backlog makes the difference."""
PHASES: Final = {"once": ("write",), "churned": ("other", "write", "delete", "write")}


# ---- one node -----------------------------------------------------------------------------------


def operations(database: Any, kind: str) -> dict[str, Callable[[int], None]]:
    """What is done to the key of a number, by phase."""
    from thence.crdt.children import REGISTER
    from thence.crdt.map_uw import UPDATE, MapUw
    from thence.crdt.register_counter import INC, SET, RegisterCounter
    from thence.crdt.set_aw import ADD, SetAw

    update, delete = database.update, database.delete

    def key(number: int) -> bytes:
        return b"key:%07d" % number

    def put(number: int, text: bytes) -> None:
        which = KINDS[number % 4] if kind == "mixed" else kind
        if which == "string":
            update(key(number), RegisterCounter, (SET, text))
        elif which == "counter":
            update(key(number), RegisterCounter, (INC, 1))
        elif which == "hash":
            for field in range(HASH_FIELDS):
                update(key(number), MapUw, (UPDATE, b"field%d" % field, REGISTER, (SET, text)))
        else:
            update(key(number), SetAw, (ADD, text))

    return {
        "write": lambda number: put(number, b"value:%010d" % number),
        "other": lambda number: put(number, b"other:%010d" % number),
        "delete": lambda number: delete(key(number)),
    }


async def work(node: Any, do: Callable[[int], None], numbers: range) -> None:
    """A hundred in a turn, as long as there is room."""
    for first in range(numbers.start, numbers.stop, TURN):
        while not node.database.has_room() or node.replica.unstable > BEHIND_MAX:
            await asyncio.sleep(0.001)
        for number in range(first, min(first + TURN, numbers.stop)):
            do(number)
        await asyncio.sleep(0)


def resident_bytes() -> int:
    """Of this process, after what is garbage has gone."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def member(given: dict[str, Any]) -> None:
    """Carry out orders from stdin, a line each; answer each with a line."""
    from thence.client.node import Node
    from thence.client.replica import Replica
    from thence.store.database import Database

    class Member:
        replica = Replica()
        database = Database(replica)

    settings: dict[str, Any] = {"data": given["data"]} if given["data"] else {}
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with Node(
        given["name"], listen=given["urls"][given["name"]],
        peers={n: u for n, u in given["urls"].items() if n != given["name"]}, **settings,
    ) as node:  # fmt: skip
        replica = Member.replica
        hooks: dict[str, Any] = {"kept": replica} if given["data"] else {}
        group = await node.group(**hooks)
        Member.database.open(group)
        await group.until_connected()
        todo = operations(Member.database, given["kind"])
        answer("ready")
        while line := (await reader.readline()).decode().split():
            if line[0] == "do":
                await work(Member, todo[line[1]], range(int(line[2]), int(line[3])))
                answer("done")
            elif line[0] == "ask":
                answer(json.dumps({
                    "seen": replica.seen(), "unstable": replica.unstable,
                    "keys": len(replica.keyspace), "stamps": len(replica._stamps),
                }))  # fmt: skip
            elif line[0] == "measure":
                answer(json.dumps({
                    "resident": resident_bytes(), "stamps": len(replica.keyspace.stamps()),
                    "keys": len(replica.keyspace),
                }))  # fmt: skip
        Member.database.close()


def answer(line: str) -> None:
    print(line, flush=True)


# ---- three of them ------------------------------------------------------------------------------


class Fleet:
    """The processes of one store."""

    def __init__(self, kind: str, folder: str) -> None:
        from thence.lab.processes import free_ports

        ports = free_ports(len(NODES))
        urls = {n: f"tcp://127.0.0.1:{port}" for n, port in zip(NODES, ports, strict=True)}
        self.processes = []
        for name in NODES:
            given = {"name": name, "urls": urls, "kind": kind, "data": folder}
            self.processes.append(
                subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "benchmarks.store_memory",
                        "--member",
                        json.dumps(given),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    bufsize=1,
                )
            )
        for process in self.processes:
            assert self._answer(process) == "ready"

    @staticmethod
    def _answer(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line, "a node ended"
        return line

    def each(self, orders: list[str]) -> list[str]:
        """Give each node its order; the answers."""
        for process, order in zip(self.processes, orders, strict=True):
            assert process.stdin is not None
            process.stdin.write(f"{order}\n")
            process.stdin.flush()
        return [self._answer(process) for process in self.processes]

    def settle(self) -> None:
        """Until all have everything, and all is stable."""
        while True:
            found = [json.loads(line) for line in self.each(["ask"] * len(NODES))]
            if all(each["seen"] == found[0]["seen"] and not each["unstable"] for each in found):
                return
            time.sleep(0.05)

    def end(self) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self.processes:
            process.wait(60)
            assert process.stdout is not None
            process.stdout.close()


@contextmanager
def fleet(kind: str, is_journaled: bool) -> Iterator[Fleet]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        made = Fleet(kind, folder if is_journaled else "")
        try:
            yield made
        finally:
            made.end()


def measure(kind: str, way: str, keys: int, is_journaled: bool) -> tuple[float, float]:
    """(mean resident bytes, seconds) once all is stable."""
    third = keys // len(NODES)
    with fleet(kind, is_journaled) as made:
        start = time.monotonic()
        for shift, phase in enumerate(PHASES[way]):
            orders = []
            for place in range(len(NODES)):
                part = (place + shift) % len(NODES)
                orders.append(f"do {phase} {part * third} {(part + 1) * third}")
            made.each(orders)
            made.settle()
        seconds = time.monotonic() - start
        time.sleep(1.0)
        found = [json.loads(line) for line in made.each(["measure"] * len(NODES))]
    assert [each["stamps"] for each in found] == [0, 0, 0], found
    assert [each["keys"] for each in found] == [third * 3] * 3, found
    return statistics.mean(each["resident"] for each in found), seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--data", action="store_true", help="with journals")
    parser.add_argument("--member", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.member:
        import uvloop

        from thence.telemetry.logs import start_logs

        start_logs("warning")

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(member(json.loads(given.member)))
        return 0
    print(f"{given.keys:,} keys, 3 nodes, {'with' if given.data else 'without'} journals")
    print(f"{'kind':10}{'once MiB':>10}{'churned MiB':>13}{'ratio':>8}  at most {RATIO_MAX}")
    broken = False
    for kind in given.kinds.split(","):
        once, _ = measure(kind, "once", given.keys, given.data)
        churned, _ = measure(kind, "churned", given.keys, given.data)
        ratio = churned / once
        broken |= ratio > RATIO_MAX
        said = "holds" if ratio <= RATIO_MAX else "BROKEN"
        print(
            f"{kind:10}{once / 2**20:10.0f}{churned / 2**20:13.0f}{ratio:8.2f}  {said}", flush=True
        )
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
