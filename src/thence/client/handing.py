"""Handing everything that waits to an application's callbacks, without an event for each.

What ``Driver.take`` does one event at a time, for the common case in one loop: engine ``tagged``,
no journal, no trace, everything confirmed as it is taken.  The rest goes through ``take``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thence.client.driver import Driver
from thence.client.events import Delivered, Stable
from thence.client.ledger import STABLE_EVENT
from thence.wire.talk import MESSAGE_BYTES_EXTRA

Callback = Callable[[Any], None]
Failed = Callable[[Exception], None]


def hand_over(
    driver: Driver, now: float, deliver: Callback | None, stable: Callback | None, failed: Failed
) -> bool:
    """Take every event, and call these with the tags of deliveries and of stable messages.

    ``failed`` is told what a callback raised, and the next event is taken.  Whether there was any.
    """
    took = False
    while driver.has_events:
        took = True
        if driver.is_plain:
            _many(driver, now, deliver, stable, failed)
        else:
            _one(driver, now, deliver, stable, failed)
    if took and driver.auto_confirm:
        driver.take(now)  # nothing is there: it confirms the last
    return took


def _one(
    driver: Driver, now: float, deliver: Callback | None, stable: Callback | None, failed: Failed
) -> None:
    event = driver.take(now)
    try:
        if type(event) is Delivered:
            if deliver is not None:
                deliver(event.tag)
        elif type(event) is Stable and stable is not None:
            stable(event.tag)
    except Exception as error:
        failed(error)


def _many(
    driver: Driver, now: float, deliver: Callback | None, stable: Callback | None, failed: Failed
) -> None:
    """Deliveries and stable messages, up to the first event of another kind; then that one."""
    client, queue, flows = driver.client, driver.queue, driver.exchange.flows
    consume, stabilised, popleft = client.consume, client.stabilised, queue.popleft
    speaks = driver.speaks
    delivered = told = 0
    is_telling = False
    driver.confirm_all()
    try:
        while queue:
            entry = popleft()
            if type(entry) is tuple:
                kind, tag = entry
                if kind != STABLE_EVENT or tag.aside is not None:
                    queue.appendleft(entry)
                    break
                told += 1
                if stable is not None:
                    is_telling = True
                    driver.telling = tag  # a broadcast of the callback confirms it
                    try:
                        stable(tag)
                    except Exception as error:
                        failed(error)
                    if driver.telling is None:
                        continue
                stabilised(tag)
            elif entry.aside is None:
                if is_telling:
                    is_telling = False
                    driver.telling = None
                delivered += 1
                consume(entry)
                flow = flows[entry.origin]
                flow.held -= 1
                flow.held_bytes -= len(entry.payload) + MESSAGE_BYTES_EXTRA
                driver.unsaid = speaks
                if deliver is not None:
                    try:
                        deliver(entry)
                    except Exception as error:
                        failed(error)
            else:
                queue.appendleft(entry)
                break
    finally:
        driver.telling = None
        driver.handed(delivered, told, now)
    if queue:
        _one(driver, now, deliver, stable, failed)
