"""A member of an elastic group that comes back from its journal, and one whose journal fails."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.companies import MEMBERSHIP, council, elastic_of, founders, heard
from tests.client.fakes import TIMING, FakeConnection, Wire, hub_of, taken, turn
from tests.client.greetings import greeted
from thence.client.elastic import Elastic
from thence.client.events import Delivered, Joined, Stable
from thence.client.hub import Hub
from thence.client.recovery import last_checkpoint
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.errors import Removed
from thence.journal.base import Identity
from thence.journal.memory import Fault, MemoryDisk, MemoryJournal
from thence.wire import membership as said
from thence.wire.membership import Request

NEVER = 1 << 40
LATER = founders().next({2: (0, True)})


def begin(disk: MemoryDisk, checkpoint_bytes: int, batch: int = 0) -> tuple[Elastic, Hub]:
    """The founder b of a, b, c; or what has become of it."""
    journal = MemoryJournal(disk, Identity("g", "b"))
    made = last_checkpoint(journal)
    view = founders() if made is None or made.view is None else made.view
    driver = Elastic(
        "g", ENGINES["tagged"], view, 1, 0.0, MEMBERSHIP, journal=journal, checkpoint=made,
        checkpoint_bytes=checkpoint_bytes, timing=TIMING,
        options=EngineOptions(stability_batch=batch),
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
    told = say(
        hub, greeted(hub, "a"), said.Prepare(0, (5, 0), (2,), ((2, 0),)),
        said.Accept(0, (5, 0), LATER),
    )  # fmt: skip
    assert [type(each) for each in told if not isinstance(each, said.Beat)][-2:] == [
        said.Promise,
        said.Accepted,
    ]
    disk.crash()
    driver, hub = begin(disk, checkpoint_bytes)
    state = driver.council.state()
    assert (state.promised, state.accepted_in, state.accepted) == ((5, 0), (5, 0), LATER)
    assert (state.frozen, state.limit) == ((2,), ((2, 0),))
    told = say(hub, greeted(hub, "c"), said.Prepare(0, (4, 2), ()))
    assert said.Refused(0, (5, 0)) in told


@pytest.mark.parametrize("operation", [1, 2, 3, 4], ids=["froze", "promised", "mark", "commit"])
def test_what_could_not_be_written_down_is_not_said(operation: int):
    """Otherwise the next life, which knows nothing of it, would promise the same to another."""
    disk = MemoryDisk()
    driver, hub = begin(disk, NEVER)
    a = greeted(hub, "a")
    say(hub, a)
    disk.fault = Fault(disk.operations + operation, "fail")
    assert say(hub, a, said.Prepare(0, (5, 0), (2,)), now=0.5) == []
    assert "fails" in driver.failed
    # It takes no part in anything any more: nobody may count on it.
    assert say(hub, a, said.Prepare(0, (6, 0), (2,)), said.Accept(0, (6, 0), LATER), now=9.0) == []
    assert a.closed is None, "the other side is not to blame"
    due = driver.deadline()
    assert due is None or due > 9.0, "there is nothing to wake up for"


def test_a_coordinator_that_cannot_write_down_a_freeze_asks_nobody_for_it():
    disk = MemoryDisk()
    driver, hub = begin(disk, NEVER)
    driver.council.suspects = frozenset([0])
    c = greeted(hub, "c")
    say(hub, c, said.Beat(0))
    disk.fault = Fault(disk.operations + 1, "fail")
    driver.evict("a", False, 0.0)
    assert say(hub, c, now=0.5) == []
    assert "fails" in driver.failed


@pytest.mark.parametrize("checkpoint_bytes", [NEVER, 0], ids=["records", "a checkpoint"])
def test_who_said_that_it_leaves_sends_nothing_in_its_next_life(checkpoint_bytes: int):
    """The others let it go with the number that it told them, whenever they agree on it: some
    would have what it sent since, and some would not."""
    disk = MemoryDisk()
    driver, hub = begin(disk, checkpoint_bytes)
    driver.leave(0.0)
    assert said.Beat(0, True, (), ((1, 0),)) in say(hub, greeted(hub, "a"))
    disk.crash()
    driver, hub = begin(disk, checkpoint_bytes)
    assert driver.is_leaving
    with pytest.raises(Removed, match="b is leaving g"):
        driver.broadcast(b"x", 0.0)
    assert said.Beat(0, True, (), ((1, 0),)) in say(hub, greeted(hub, "a"))


@pytest.mark.parametrize("is_told", [True, False], ids=["the view was told", "it was not"])
@pytest.mark.parametrize("checkpoint_bytes", [NEVER, 0], ids=["records", "a checkpoint"])
def test_what_members_of_an_earlier_view_know_is_not_stable_after_a_crash(
    checkpoint_bytes: int, is_told: bool
):
    """Nobody looked before d joined, so nothing was told: later d has to know it too."""
    disk = MemoryDisk()
    b, hub = begin(disk, checkpoint_bytes)
    a, c = elastic_of("a"), elastic_of("c")
    wire = Wire(hub_of("a", a), hub, hub_of("c", c))
    for one, other in ("ab", "bc", "ac"):
        wire.connect(one, other)
    wire.run()
    events = []
    for sender in (a, c, a):
        sender.broadcast(b"after all before", 0.0)
        wire.run()
        taken(c)
        events += taken(b)
    b.council.install(founders().next({}, [Request("d", 7)]))
    if is_told:
        events += taken(b)
    turn(hub)
    told = [type(each) for each in events]
    assert (told.count(Delivered), told.count(Joined), told.count(Stable)) == (3, is_told, 0)
    disk.crash()
    b, _ = begin(disk, checkpoint_bytes, batch=1)
    told = [type(each) for each in taken(b)]
    assert (told.count(Joined), told.count(Stable)) == (not is_told, 0)
    assert b.unstable == 3
