"""Futures of those who wait for something of a group."""

from __future__ import annotations

import asyncio

from thence.errors import ThenceError

Waiters = list[asyncio.Future[None]]


def wake(waiters: Waiters) -> None:
    """What they wait for is there; nobody waits any more.  One who gave up is passed over."""
    woken = waiters[:]
    waiters.clear()
    for waiter in woken:
        if not waiter.done():
            waiter.set_result(None)


def fail(waiters: Waiters, error: ThenceError) -> None:
    """It will never be there."""
    failed = waiters[:]
    waiters.clear()
    for waiter in failed:
        if not waiter.done():
            waiter.set_exception(error)
