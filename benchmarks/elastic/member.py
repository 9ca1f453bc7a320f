"""One process of a group that hands over a large state while it works at full speed.

    python -m benchmarks.elastic.member NAME SECONDS_MAX

Orders come on stdin, answers go to stdout, one JSON object a line.  ``found`` and ``join`` make it
a member, ``work`` lets it broadcast until ``rest``; ``report`` says what it counted meanwhile, with
times of the clock that all processes share.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import signal
import sys
import time
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from benchmarks.mesh.load import resident_kib
from thence.client.group import Group
from thence.config.node import MembershipConfig
from thence.telemetry.logs import start_logs

GC_OBJECTS = 50_000
BURST = 64
WINDOW = 1024
PAYLOAD = bytes(64)
SAMPLE_S = 0.02
CHUNK_BYTES = 256 << 10
MEMBERSHIP = MembershipConfig(elastic=True, joins_per_s=1000.0)


def chunk(number: int) -> bytes:
    """Of the state: made when it is asked for."""
    return number.to_bytes(4, "big") * (CHUNK_BYTES // 4)


def digest_of(chunks: int) -> str:
    found = sha256()
    for number in range(chunks):
        found.update(chunk(number))
    return found.hexdigest()


class Worker:
    """One member."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._group: Group | None = None
        self._chunks = 0
        self._digest = ""
        self._got = 0
        self._sent = 0
        self._senders = 1
        self._per_second = 0
        self._is_working = False
        self._samples: list[tuple[float, int, float]] = []
        """When, the deliveries so far, and the CPU time."""
        self._pauses: list[tuple[float, float]] = []
        self._peak_kib = 0
        self._room = asyncio.Event()
        self._working: asyncio.Task[None] | None = None

    async def found(self, chunks: int) -> dict[str, Any]:
        self._chunks = chunks
        return await self._start(membership=MEMBERSHIP)

    async def join(self, url: str) -> dict[str, Any]:
        before, start, cpu = resident_kib(), time.monotonic(), time.process_time()
        answer = await self._start(membership=MEMBERSHIP, join=url)
        return {
            **answer, "start": start, "end": time.monotonic(), "chunks": self._chunks,
            "digest": self._digest, "grown_kib": self._own_peak_kib() - before,
            "cpu": time.process_time() - cpu,
        }  # fmt: skip

    @staticmethod
    def _own_peak_kib() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async def _start(self, **settings: Any) -> dict[str, Any]:
        group = Group(
            self._name, listen="tcp://127.0.0.1:0", snapshot=self._snapshot,
            restore=self._restore, **settings,
        )  # fmt: skip
        await group.start()
        group.on_deliver(self._delivered, many=True)
        self._group = group
        return {"url": group.addresses[0]}

    def _snapshot(self) -> Iterator[bytes]:
        return map(chunk, range(self._chunks))

    def _restore(self, chunks: Iterator[bytes]) -> None:
        found = sha256()
        for each in chunks:
            self._chunks += 1
            found.update(each)
        self._digest = found.hexdigest()

    def _delivered(self, tags: list[Any]) -> None:
        self._got += len(tags)
        self._room.set()

    async def work(self, senders: int, per_second: int = 0) -> dict[str, Any]:
        """``per_second``: messages of this member; 0: as many as can be."""
        self._senders, self._per_second = senders, per_second
        self._is_working = True
        self._working = asyncio.create_task(self._work())
        return {}

    async def _work(self) -> None:
        group = self._group
        assert group is not None
        watching = asyncio.create_task(self._watch())
        burst, others = [PAYLOAD] * BURST, max(1, self._senders - 1)
        self._sent = self._got // others  # nobody is behind when it begins
        due = time.monotonic()
        while self._is_working:
            while (self._sent - WINDOW) * others > self._got and self._is_working:
                self._room.clear()
                await self._room.wait()
            await group.broadcast_many(burst)
            self._sent += BURST
            if self._per_second:
                due += BURST / self._per_second
            await asyncio.sleep(max(0.0, due - time.monotonic()) if self._per_second else 0)
        watching.cancel()

    async def _watch(self) -> None:
        """How far it is, its memory, and for how long the loop came to nothing else."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(SAMPLE_S)
            now = time.monotonic()
            self._samples.append((now, self._got, time.process_time()))
            self._pauses.append((now, now - last - SAMPLE_S))
            self._peak_kib = max(self._peak_kib, resident_kib())
            last = now

    async def rest(self) -> dict[str, Any]:
        self._is_working = False
        self._room.set()
        if self._working is not None:
            await self._working
        return {}

    async def report(self) -> dict[str, Any]:
        found = {"samples": self._samples, "pauses": self._pauses, "peak_kib": self._peak_kib}
        self._samples, self._pauses, self._peak_kib = [], [], 0
        return found

    async def memory(self) -> dict[str, Any]:
        gc.collect()
        self._peak_kib = resident_kib()
        return {"kib": self._peak_kib}

    async def leave(self) -> dict[str, Any]:
        assert self._group is not None
        start = time.monotonic()
        await self._group.aclose()
        return {"seconds": time.monotonic() - start}


async def run(name: str) -> None:
    worker = Worker(name)
    stdin = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    while line := await stdin.readline():
        order = json.loads(line)
        answer = await getattr(worker, order.pop("do"))(**order)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    signal.alarm(int(sys.argv[2]))  # whatever happens, it does not stay
    gc.set_threshold(GC_OBJECTS)
    start_logs("warning")
    import uvloop

    uvloop.run(run(sys.argv[1]))
