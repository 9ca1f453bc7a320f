"""A member of an elastic group that comes back from its journal, and one whose journal fails."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.companies import MEMBERSHIP, council, founders, heard
from tests.client.fakes import TIMING, FakeConnection, hub_of, turn
from tests.client.greetings import greeted
from thence.client.elastic import Elastic
from thence.client.hub import Hub
from thence.client.recovery import last_checkpoint
from thence.engine.registry import ENGINES
from thence.journal.base import Identity
from thence.journal.memory import MemoryDisk, MemoryJournal
from thence.wire import membership as said

NEVER = 1 << 40


def begin(disk: MemoryDisk, checkpoint_bytes: int) -> tuple[Elastic, Hub]:
    """The founder b of a, b, c; or what has become of it."""
    journal = MemoryJournal(disk, Identity("g", "b"))
    made = last_checkpoint(journal)
    view = founders() if made is None or made.view is None else made.view
    driver = Elastic(
        "g", ENGINES["tagged"], view, 1, 0.0, MEMBERSHIP, journal=journal, checkpoint=made,
        checkpoint_bytes=checkpoint_bytes, timing=TIMING,
    )  # fmt: skip
    return driver, hub_of("b", driver)


def say(hub: Hub, connection: FakeConnection, *messages: Any, now: float = 0.0) -> list[Any]:
    hub.received(connection, [council(each) for each in messages], now)
    turn(hub, now)
    return heard(connection)


@pytest.mark.parametrize("checkpoint_bytes", [NEVER, 0], ids=["records", "a checkpoint"])
def test_what_was_promised_binds_the_next_life_too(checkpoint_bytes: int):
    """MEMBERSHIP: promised, accepted, frozen and limit are in the journal before they are said."""
    disk = MemoryDisk()
    _, hub = begin(disk, checkpoint_bytes)
    value = founders().next({2: (0, True)})
    told = say(
        hub, greeted(hub, "a"), said.Prepare(0, (5, 0), (2,), ((2, 0),)),
        said.Accept(0, (5, 0), value),
    )  # fmt: skip
    assert [type(each) for each in told if not isinstance(each, said.Beat)][-2:] == [
        said.Promise,
        said.Accepted,
    ]
    disk.crash()
    driver, hub = begin(disk, checkpoint_bytes)
    state = driver.council.state()
    assert (state.promised, state.accepted_in, state.accepted) == ((5, 0), (5, 0), value)
    assert (state.frozen, state.limit) == ((2,), ((2, 0),))
    told = say(hub, greeted(hub, "c"), said.Prepare(0, (4, 2), ()))
    assert said.Refused(0, (5, 0)) in told
