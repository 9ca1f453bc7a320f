"""Bounds and deadlines: who is looked at when, and what limits may be."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.transport.peers import Reports, run
from thence.errors import UnusableInputError
from thence.transport.watch import CROWDED, DEFAULT_LIMITS, Limits, Watch

QUICK = Limits(greeting_s=0.04, stall_s=0.04, close_s=0.04)


class Looked:
    """A connection that counts how often it is looked at."""

    def __init__(self, *, dialled: bool = False) -> None:
        self.dialled = dialled
        self.looks: list[float] = []
        self.refusals: list[str] = []

    def look(self, now: float, limits: Limits) -> None:
        assert limits is QUICK
        self.looks.append(now)

    def refuse(self, what: str, reason: str) -> None:
        self.refusals.append(what)


def test_open_connections_are_looked_at_within_every_deadline():
    async def main() -> None:
        watch = Watch(QUICK, None)
        accepted, dialled = Looked(), Looked(dialled=True)
        watch.opened(accepted)
        watch.opened(dialled)
        while min(len(accepted.looks), len(dialled.looks)) < 3:
            await asyncio.sleep(0.001)
        watch.gone(accepted)
        looks = len(accepted.looks)
        more = len(dialled.looks) + 2
        while len(dialled.looks) < more:
            await asyncio.sleep(0.001)
        assert len(accepted.looks) == looks
        watch.gone(dialled)

    run("asyncio", main())


def test_nothing_is_left_in_the_loop_when_all_are_gone():
    async def main() -> None:
        watch = Watch(QUICK, None)
        connection = Looked()
        for _ in range(3):
            watch.opened(connection)
            watch.gone(connection)
            watch.gone(connection)
        await asyncio.sleep(0.06)
        assert connection.looks == []
        assert watch._timer is None

    run("asyncio", main())


def test_after_this_process_was_held_up_nobody_is_judged_before_reading():
    async def main() -> None:
        loop = asyncio.get_running_loop()
        watch = Watch(QUICK, None)
        connection = Looked()
        watch.opened(connection)
        time.sleep(0.1)
        woken = loop.time()
        while not connection.looks:
            await asyncio.sleep(0)
        assert connection.looks[0] - woken >= 0.005
        # But a loop that is late again and again looks all the same.
        for _ in range(4):
            time.sleep(0.05)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert len(connection.looks) >= 3
        watch.gone(connection)

    run("asyncio", main())


def test_the_oldest_stranger_makes_room():
    async def main() -> None:
        reports = Reports()
        watch = Watch(Limits(waiting=2), reports)
        first, second, third = Looked(), Looked(), Looked()
        watch.opened(Looked(dialled=True))
        watch.opened(first)
        watch.opened(second)
        assert watch.waiting == 2
        watch.trusted(first)
        watch.opened(third)
        assert (first.refusals, second.refusals) == ([], [])
        watch.opened(Looked())
        assert second.refusals == [CROWDED]
        assert watch.waiting == 2

    run("asyncio", main())


def test_limits_are_above_zero():
    for name in ("waiting", "greeting_s", "stall_s", "dial_s", "close_s"):
        with pytest.raises(UnusableInputError, match="above 0"):
            Limits(**{name: 0})
    assert DEFAULT_LIMITS.waiting == 64
    assert DEFAULT_LIMITS.greeting_s == 5.0
