"""``thence node``: one member of a group, as a process."""

from __future__ import annotations

import asyncio
import random
from typing import Annotated, Any

from cyclopts import Parameter

from thence.cli.process import Stop, run, settings_of, with_settings
from thence.client.group import Group
from thence.client.node import Node
from thence.errors import UnusableInputError
from thence.message import PAYLOAD_BYTES_MAX

YIELD_MESSAGES = 16
"""A workload without pauses lets others have their turn after so many messages."""


@with_settings
def command(
    *,
    send: int = 0,
    interval_ms: float = 1.0,
    payload_bytes: int = 64,
    seed: int | None = None,
    stop_after: float | None = None,
    end: Annotated[bool | None, Parameter(negative="--no-end")] = None,
    **settings: Any,
) -> int:
    """Run one node until SIGTERM or SIGINT, which it obeys once its peers have what it sent.

    It takes what others send and, with --send, broadcasts messages once all members are connected.
    A second signal stops it at once. Exit code 0 in order, 1 the node could not go on, 2 unusable
    settings.

    Parameters
    ----------
    send
        How many messages to broadcast in each group, for tests and demonstrations.
    interval_ms
        The time between two of them; 0: as fast as they are taken.
    payload_bytes
        The size of each.
    seed
        Draw the intervals at random, from this seed; interval-ms is their mean.
    stop_after
        Seconds after which the node stops by itself.
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
        counts = [_Counts(group) for group in node.groups.values()]
        print(_greeting(node), flush=True)
        async with asyncio.TaskGroup() as tasks:
            working = [
                tasks.create_task(_work(group, send, interval_ms / 1000, payload_bytes, chance))
                for group in node.groups.values()
            ]
            working.append(tasks.create_task(_tell_connected(node)))
            try:
                async with asyncio.timeout(stop_after):
                    await stop.asked.wait()
            except TimeoutError:
                pass
            for task in working:
                task.cancel()
        for count in counts:
            print(count.summary(), flush=True)
        return 0

    return run(config, main, end)


class _Counts:
    """What the application of one group was told."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._delivered = self._stable = 0
        group.on_deliver(self._deliver)
        group.on_stable(self._tell)

    def _deliver(self, tag: object) -> None:
        self._delivered += 1

    def _tell(self, tag: object) -> None:
        self._stable += 1

    def summary(self) -> str:
        """One line at the end."""
        group = self._group
        return (
            f"node {group.node} in {group.name}: sent {group.sent}, delivered {self._delivered}, "
            f"stable {self._stable}"
        )


def _greeting(node: Node) -> str:
    where = ", ".join(node.addresses) or "nothing: it only dials"
    page = f"; status on http://{node.status_address}" if node.status_address else ""
    return f"node {node.name} listens on {where}{page}"


async def _tell_connected(node: Node) -> None:
    for group in node.groups.values():
        await group.until_connected()
    peers = sorted({name for group in node.groups.values() for name in group.members})
    peers.remove(node.name)
    print(f"node {node.name} is connected to {', '.join(peers) or 'nobody: alone'}", flush=True)


async def _work(
    group: Group, send: int, interval_s: float, payload_bytes: int, chance: random.Random | None
) -> None:
    """Broadcast so many messages at that pace; being late once does not make the rest late."""
    if not send:
        return
    await group.until_connected()
    loop = asyncio.get_running_loop()
    due = loop.time()
    for number in range(1, send + 1):
        if interval_s:
            due += interval_s if chance is None else chance.expovariate(1 / interval_s)
            wait_s = due - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
        elif not number % YIELD_MESSAGES:
            await asyncio.sleep(0)
        await group.broadcast(str(number).encode().ljust(payload_bytes, b".")[:payload_bytes])
