"""An application of a group that can be killed at any moment, and says afterwards what it knows.

    python app.py SETTINGS.json

Two files in its folder, each line written before anything else happens:

    NAME.acked      the number of each own message whose broadcast returned
    NAME.seen       life N     a start of the process
                    d TEXT     a message was delivered; not confirmed yet
                    s DOT      a message was told stable; not confirmed yet
                    c          everything above is confirmed, and the journal has it
                    q          it broadcasts no more

SIGUSR1: broadcast no more.  SIGUSR2: break all connections.  SIGTERM: drain, write the end of the
trace, and go.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from pathlib import Path
from typing import Any, TextIO

import msgspec

from thence.client.events import Delivered, Event, Stable
from thence.client.group import Group
from thence.client.node import Node
from thence.config import NodeConfig
from thence.telemetry.logs import start_logs

EVENTS_PER_CONFIRM = 32


class App:
    """One life of one application."""

    def __init__(self, node: Node, group: Group, settings: dict[str, Any]) -> None:
        self._node = node
        self._group = group
        self._life = settings["life"]
        self._interval_s = settings["interval_s"]
        self._chance = random.Random(f"{settings['seed']} {node.name} {self._life}")
        folder = Path(settings["folder"])
        # Closed by the end of the process, whatever kind of end that is.
        self._acked = (folder / f"{node.name}.acked").open("a", encoding="utf-8")
        self._seen = (folder / f"{node.name}.seen").open("a", encoding="utf-8")
        self._quiet = False
        self.stopping = asyncio.Event()

    def be_quiet(self) -> None:
        self._quiet = True

    def break_connections(self) -> None:
        for connection in list(self._node.runtime.hub.links):
            connection.refuse("chaos", "broken on purpose")  # type: ignore[attr-defined]

    async def run(self) -> None:
        say(self._seen, f"life {self._life}")
        self._group.auto_confirm = False
        async with asyncio.TaskGroup() as tasks:
            working = [tasks.create_task(self._send()), tasks.create_task(self._take())]
            await self.stopping.wait()
            for task in working:
                task.cancel()

    async def _send(self) -> None:
        number = 0
        while not self._quiet:
            await asyncio.sleep(self._chance.expovariate(1 / self._interval_s))
            number += 1
            text = f"{self._node.name}.{self._life}.{number}"
            size = self._chance.choice((0, 64, 64, 64, 1000, 5000))
            await self._group.broadcast(f"{text} ".encode().ljust(size, b"."))
            say(self._acked, text)
        say(self._seen, "q")

    async def _take(self) -> None:
        while True:
            event: Event | None = await self._group.next()
            lines = []
            while event is not None:
                last = event
                lines.append(line_of(event))
                event = self._group.take() if len(lines) < EVENTS_PER_CONFIRM else None
            say(self._seen, "".join(lines))
            last.confirm()
            await self._group.synced()
            say(self._seen, "c")


def line_of(event: Event) -> str:
    if isinstance(event, Delivered):
        return f"d {event.payload.split(b' ')[0].decode()}\n"
    return f"s {event.tag.dot}\n" if isinstance(event, Stable) else ""


def say(file: TextIO, text: str) -> None:
    """So that it survives the end of this process."""
    if text:
        file.write(text if text.endswith("\n") else f"{text}\n")
        file.flush()


async def main(settings: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    node = Node(config=msgspec.convert(settings["node"], NodeConfig))
    await node.start()
    app = App(node, await node.group(), settings)
    loop.add_signal_handler(signal.SIGUSR1, app.be_quiet)
    loop.add_signal_handler(signal.SIGUSR2, app.break_connections)
    loop.add_signal_handler(signal.SIGTERM, app.stopping.set)
    await app.run()
    await node.aclose(ended=True)


if __name__ == "__main__":
    start_logs("warning")
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ModuleNotFoundError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main(given))
