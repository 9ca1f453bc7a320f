"""One process of a mesh; orders come on stdin, answers go to stdout, one JSON object a line.

python -m benchmarks.mesh.member KIND INDEX NODES SECONDS_MAX
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
import time
from typing import Any

from benchmarks.mesh.load import Load, Ticker, resident_kib

GC_OBJECTS = 50_000
"""New objects after which the young ones are searched for cycles, for all contestants alike; what
docs/reference/costs.md advises.  There are no cycles to find."""


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


class Orders:
    """What all contestants answer alike."""

    def __init__(self) -> None:
        self._cpu = 0.0

    def begin(self) -> None:
        self._cpu = time.process_time()

    def report(self) -> dict[str, Any]:
        """CPU since ``begin``, all threads, of this process."""
        return {"cpu": time.process_time() - self._cpu, "kib": resident_kib()}


async def on_loop(kind: str, index: int, nodes: int) -> None:
    """A contestant with an event loop."""
    load, orders = Load(nodes), Orders()
    mesh: Any
    if kind == "thence":
        from benchmarks.mesh.ours import OurMesh

        mesh = OurMesh(index, load)
    else:
        from benchmarks.mesh.raw import RawMesh

        mesh = RawMesh(index, load)
    say(port=await mesh.listen())
    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    ticker = Ticker(mesh, load)
    while line := await stdin.readline():
        order = json.loads(line)
        what = order.pop("do")
        if what == "connect":
            await mesh.connect(**order)
            say()
        elif what == "greet":
            say(heard=nodes - 1)
        elif what == "prepare":
            load.start()
            mesh.deliver_with(order["how"], None)
            if kind == "thence":
                mesh.expect(order["messages"])
            orders.begin()
            say()
        elif what == "run":
            say(**await ticker.run(**order))
        elif what == "pace":
            say(**await ticker.pace(**order))
        elif what == "soak":
            say(**await ticker.soak(**order))
        elif what == "report":
            say(**orders.report())
    await mesh.close()


def without_loop(index: int, nodes: int) -> None:
    """ZeroMQ."""
    from benchmarks.mesh.zeromq import ZeroMesh

    load, orders = Load(nodes), Orders()
    mesh = ZeroMesh(index, load)
    say(port=mesh.listen())
    for line in sys.stdin:
        order = json.loads(line)
        what = order.pop("do")
        if what == "connect":
            mesh.connect(**order)
            say()
        elif what == "greet":
            say(heard=mesh.greet())
        elif what == "prepare":
            load.start()
            orders.begin()
            say()
        elif what == "run":
            say(**mesh.run(**order))
        elif what == "report":
            say(**orders.report())
    mesh.close()


def main() -> None:
    kind, index, nodes, seconds_max = sys.argv[1], *map(int, sys.argv[2:5])
    signal.alarm(seconds_max)  # whatever happens, it does not stay
    gc.set_threshold(GC_OBJECTS)
    if kind == "zeromq":
        without_loop(index, nodes)
        return
    import uvloop

    uvloop.run(on_loop(kind, index, nodes))


if __name__ == "__main__":
    main()
