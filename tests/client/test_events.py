"""Events: what they hold, how they look, that they can be confirmed."""

from __future__ import annotations

from typing import Any

import pytest

import thence
from thence.client.events import (
    Confirms,
    Event,
    Evicted,
    Joined,
    Left,
    Majority,
    Minority,
    Suspected,
    Trusted,
)


class Confirmed:
    """Remembers what the application is done with."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def confirm(self, event: Event) -> None:
        self.events.append(event)


DRIVER: Confirms = Confirmed()
CASES: list[tuple[Event, dict[str, Any], str]] = [
    (Joined(DRIVER, 1, "d", 4), {"member": "d", "view": 4}, "Joined(d, view 4)"),
    (Left(DRIVER, 2, "d", 5), {"member": "d", "view": 5}, "Left(d, view 5)"),
    (
        Evicted(DRIVER, 3, "d", 6),
        {"member": "d", "view": 6, "is_self": False, "rejected": ()},
        "Evicted(d, view 6)",
    ),
    (
        Evicted(DRIVER, 4, "a", 7, True, ("a:3", "a:4")),
        {"member": "a", "view": 7, "is_self": True, "rejected": ("a:3", "a:4")},
        "Evicted(a, view 7, 2 rejected)",
    ),
    (
        Suspected(DRIVER, 5, "d", 5.26),
        {"member": "d", "silence_s": 5.26},
        "Suspected(d, silent for 5.3 s)",
    ),
    (Trusted(DRIVER, 6, "d"), {"member": "d"}, "Trusted(d)"),
    (
        Minority(DRIVER, 7, ("a",), ("a", "b", "c")),
        {"reachable": ("a",), "members": ("a", "b", "c")},
        "Minority(1 of 3)",
    ),
    (Majority(DRIVER, 8), {}, "Majority()"),
]


@pytest.mark.parametrize(("event", "fields", "shown"), CASES, ids=[shown for *_, shown in CASES])
def test_an_event_of_an_elastic_group_says_who_and_what(
    event: Event, fields: dict[str, Any], shown: str
):
    assert {name: getattr(event, name) for name in fields} == fields
    assert set(type(event).__slots__) == set(fields)
    assert repr(event) == shown
    assert not hasattr(event, "__dict__"), "an event is small"
    assert getattr(thence, type(event).__name__) is type(event)


def test_an_event_of_an_elastic_group_is_confirmed_like_any_other():
    driver = Confirmed()
    event = Joined(driver, 9, "d", 4)
    event.confirm()
    assert event.number == 9
    assert driver.events == [event]
