"""``thence node``: one member of a group, as a process."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from cyclopts import Parameter

from thence.cli.members import enter, fate, log_change, say, tell_connected
from thence.cli.process import Stop, run, settings_of, with_settings
from thence.client.events import Event, Evicted
from thence.client.group import Group
from thence.client.node import Node
from thence.errors import Removed, UnusableInputError
from thence.message import PAYLOAD_BYTES_MAX
from thence.sim.workload import INTERVAL_CUT

YIELD_MESSAGES = 16
"""A workload without pauses lets others have their turn after so many messages."""

Work = Callable[[Group, int], Coroutine[Any, Any, None]]
"""Sends what is to be sent in a group, of which so much was sent before."""


@with_settings
def command(
    *,
    send: int = 0,
    interval_ms: float = 1.0,
    payload_bytes: int = 64,
    seed: int | None = None,
    stop_after: float | None = None,
    until_closed: Annotated[bool, Parameter(negative=())] = False,
    end: Annotated[bool | None, Parameter(negative="--no-end")] = None,
    **settings: Any,
) -> int:
    """Run one node until SIGTERM or SIGINT, which it obeys once its peers have what it sent.

    It takes what others send and, with --send, broadcasts messages once all members are connected.
    A second signal stops it at once. Exit code 0 in order, 1 the node could not go on, was not let
    in or was evicted, 2 unusable settings.

    With --elastic it founds a group that others may join; with --join URL it joins one, and leaves
    it when it stops.

    Parameters
    ----------
    send
        How many messages to broadcast in each group, for tests and demonstrations.
    interval_ms
        The time between two of them; 0: as fast as they are taken.
    payload_bytes
        The size of each.
    seed
        Draw the intervals at random, from this seed; interval-ms is their mean, four times that
        the longest.
    stop_after
        Seconds after which the node stops by itself.
    until_closed
        Stop at once when standard input ends: whoever started this node is gone.
    end
        Write at the end that the trace is complete: this node will not go on. The default without
        a journal.
    """
    config = settings_of(settings)
    if send < 0 or interval_ms < 0 or (stop_after is not None and stop_after < 0):
        raise UnusableInputError("--send, --interval-ms and --stop-after are 0 or more")
    if not 0 <= payload_bytes <= PAYLOAD_BYTES_MAX:
        raise UnusableInputError(f"--payload-bytes is 0 to {PAYLOAD_BYTES_MAX:,}")

    async def main(node: Node, stop: Stop) -> int:
        chance = None if seed is None else random.Random(f"{seed} {config.name}")
        if until_closed:
            _watch_input(stop)

        def work(group: Group, sent: int) -> Coroutine[Any, Any, None]:
            return _work(group, send - sent, interval_ms / 1000, payload_bytes, chance)

        parts = [_Part(node, name, work) for name in node.groups]
        print(_greeting(node), flush=True)
        tasks = [asyncio.ensure_future(part.take_part()) for part in parts]
        told = asyncio.ensure_future(tell_connected(node))
        stopping = asyncio.ensure_future(_until_told(stop, stop_after))
        try:
            done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task in done:
                    await task  # it raises why it cannot go on
        finally:
            for task in (told, stopping, *tasks):
                task.cancel()
            await asyncio.gather(told, stopping, *tasks, return_exceptions=True)
            for part in parts:
                print(part.summary(), flush=True)
        return 0

    return run(config, main, end)


def _watch_input(stop: Stop) -> None:
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()

    def look() -> None:
        if not os.read(number, 4096):
            loop.remove_reader(number)
            stop()
            stop()

    loop.add_reader(number, look)


async def _until_told(stop: Stop, stop_after: float | None) -> None:
    try:
        async with asyncio.timeout(stop_after):
            await stop.asked.wait()
    except TimeoutError:
        pass


class _Part:
    """The node's part in one group: what it sends, what it is told, and that it comes back."""

    def __init__(self, node: Node, name: str, work: Work) -> None:
        self._node = node
        self._name = name
        self._work = work
        self._before = 0  # sent in former lives
        self._delivered = self._stable = 0
        self._out = asyncio.Event()
        self._begin()

    def _begin(self) -> None:
        self._group = self._node.groups[self._name]
        self._out.clear()
        self._group.on_event(self._happen)
        self._group.on_stable(self._tell)
        self._group.on_deliver(self._deliver)

    async def take_part(self) -> None:
        """Until it is cancelled, or this node is evicted and is not to come back: ``Removed``."""
        while True:
            await self._live()
            sentence = fate(self._group)
            if not self._node.config.membership.rejoin:
                raise Removed(sentence)
            print(f"node {self._node.name}: {sentence}; it joins again", flush=True)
            self._before += self._group.sent
            group = await enter(self._node, self._name, say, is_again=True)
            self._begin()
            print(f"node {self._node.name} is in {group.name} again, as {group.node}", flush=True)

    async def _live(self) -> None:
        """Until this node is evicted."""
        working = asyncio.ensure_future(self._work(self._group, self._before))
        out = asyncio.ensure_future(self._out.wait())
        broken = asyncio.ensure_future(self._group.until_broken())
        watched = {working, out, broken}
        try:
            while not out.done():
                done, watched = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                for task in (working, broken):
                    if task in done:
                        await task
        except Removed:  # a broadcast was the first to learn of it
            await out
        finally:
            for each in (working, out, broken):
                each.cancel()
            await asyncio.gather(working, out, broken, return_exceptions=True)

    def _happen(self, event: Event) -> None:
        log_change(self._name, event)
        if isinstance(event, Evicted) and event.is_self:
            self._out.set()

    def _deliver(self, tag: object) -> None:
        self._delivered += 1

    def _tell(self, tag: object) -> None:
        self._stable += 1

    def summary(self) -> str:
        """One line at the end."""
        group = self._group
        return (
            f"node {group.node} in {group.name}: sent {self._before + group.sent}, "
            f"delivered {self._delivered}, stable {self._stable}"
        )


def _greeting(node: Node) -> str:
    where = ", ".join(node.addresses) or "nothing: it only dials"
    page = f"; status on http://{node.status_address}" if node.status_address else ""
    return f"node {node.name} listens on {where}{page}"


async def _work(
    group: Group, send: int, interval_s: float, payload_bytes: int, chance: random.Random | None
) -> None:
    """Broadcast so many messages at that pace; being late once does not make the rest late."""
    if send <= 0:
        return
    await group.until_connected()
    loop = asyncio.get_running_loop()
    due = loop.time()
    for number in range(1, send + 1):
        if interval_s:
            drawn = 1.0 if chance is None else min(chance.expovariate(1.0), INTERVAL_CUT)
            due += interval_s * drawn
            wait_s = due - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
        elif not number % YIELD_MESSAGES:
            await asyncio.sleep(0)
        await group.broadcast(str(number).encode().ljust(payload_bytes, b".")[:payload_bytes])
