"""Handing everything that waits to an application's callbacks.

In one loop for the common case (engine/bursts.py): engine ``tagged``, no journal, no trace,
everything confirmed as it is taken.  The rest goes through ``Driver.take``, event by event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thence.client.driver import Driver
from thence.client.events import Delivered, Stable
from thence.engine.bursts import Callbacks, Handed, hand
from thence.errors import JournalError
from thence.wire.talk import MESSAGE_BYTES_EXTRA

Callback = Callable[[Any], None]
Failed = Callable[[Exception], None]


def hand_over(driver: Driver, now: float, calls: Callbacks, failed: Failed) -> bool:
    """Take every event, and call the callbacks with the tags of deliveries and stable messages.

    ``failed`` is told what a callback raised, and the next event is taken.  Whether there was any.
    """
    took = False
    try:
        while driver.has_events:
            took = True
            if driver.is_plain:
                _many(driver, now, calls, failed)
            else:
                _one(driver, now, calls, failed)
        if took and driver.auto_confirm:
            driver.take(now)  # nothing is there: it confirms the last
    except JournalError:
        if not driver.failed:  # otherwise the next turn says it
            raise
    return took


def _one(driver: Driver, now: float, calls: Callbacks, failed: Failed) -> None:
    event = driver.take(now)
    try:
        if type(event) is Delivered:
            if calls.deliver is not None:
                calls.deliver([event.tag] if calls.deliver_many else event.tag)
        elif type(event) is Stable:
            if calls.stable is not None:
                # Who asked for many at a time may need time that grows with what is not stable
                # yet, however few they are told.
                many = calls.stable_many and driver.auto_confirm
                tags = [event.tag, *driver.take_stable(now)] if many else [event.tag]
                calls.stable(tags if calls.stable_many else event.tag)
        elif event is not None and calls.other is not None:
            calls.other(event)
    except Exception as error:
        failed(error)


def _many(driver: Driver, now: float, calls: Callbacks, failed: Failed) -> None:
    """Deliveries and stable messages, up to the first event of another kind; then that one."""
    slots = len(driver.exchange.flows)
    handed = Handed(slots)
    driver.confirm_all()
    try:
        hand(driver.client, driver.queue, calls, failed, handed)
    finally:
        if handed.delivered:
            for flow in driver.exchange.peers:  # of former members nothing is counted any more
                if flow.slot < slots:
                    count = handed.messages[flow.slot]
                    flow.held -= count
                    flow.held_bytes -= handed.bytes[flow.slot] + MESSAGE_BYTES_EXTRA * count
        if handed.is_unsaid:
            driver.unsaid = driver.speaks
        driver.handed(handed.delivered, handed.told, now)
    if driver.queue:
        _one(driver, now, calls, failed)
