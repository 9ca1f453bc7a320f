"""Leaving an elastic group, on real loops: how soon it is known, and what comes late."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from thence.client.group import Group
from thence.config.node import MembershipConfig
from thence.errors import UnreachableError
from thence.message import Phantom

RARE_BEATS = MembershipConfig(elastic=True, beat_ms=4000.0, suspect_s=10.0, joins_per_s=1000.0)


async def member(name: str, contact: str | None = None) -> Group:
    join = {} if contact is None else {"join": contact}
    group = Group(name, listen=f"mem://{name}", membership=RARE_BEATS, **join)
    await group.start()
    group.on_event(lambda event: None)  # who takes no events lets nobody in
    return group


async def _three_come_and_go() -> float:
    others = [await member("a"), await member("b", "mem://a"), await member("c", "mem://a")]
    took = 0.0
    for number in range(3):
        newcomer = await member(f"d{number}", "mem://a")
        start = time.monotonic()
        assert await newcomer.leave()
        took += time.monotonic() - start
        await newcomer.aclose()
    for each in others:
        await each.aclose(drain_s=0)
    return took


def test_a_leaver_is_told_by_the_members_that_it_is_gone_before_they_hang_up():
    """Not with the next sign of life, for which it would have to connect again."""
    assert asyncio.run(_three_come_and_go()) < RARE_BEATS.beat_ms / 1000 / 2


async def _phantom_of_a_former_member() -> None:
    a, b = await member("a"), await member("b", "mem://a")
    slot = a._driver.slot_of("b")
    assert slot is not None
    await b.aclose()
    assert a._driver.slot_of("b") is None
    a._driver.news(slot, Phantom(slot, 1, ()), a._runtime.now)
    await a.aclose(drain_s=0)


def test_a_phantom_of_a_former_member_is_no_nonsense():
    """It was on its way when the member went."""
    asyncio.run(_phantom_of_a_former_member())


async def _nobody_there() -> None:
    impatient = MembershipConfig(join_s=0.2, elastic=True)
    group = Group("b", listen="mem://b", membership=impatient, join="mem://nobody")
    with pytest.raises(UnreachableError, match="mem://nobody: nobody listens there"):
        await group.start()


def test_a_newcomer_that_is_not_let_in_leaves_nothing_open():
    """Warnings are errors here, and so is a file that nobody closed."""
    asyncio.run(_nobody_there())
    gc.collect()
