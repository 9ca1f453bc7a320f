"""Applications whose state is kept in the journal of their group: drivers without a network.

Random runs of them, with crashes at every moment, are in tests/sim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.client.companies import Company, elastic_of, founders
from tests.client.fakes import TIGHT, driver_of, taken
from tests.client.test_ledger import opened, receive, theirs
from thence.causal.dot import pack
from thence.client.driver import Driver
from thence.client.events import Stable
from thence.client.handing import hand_over
from thence.client.kept import Find
from thence.client.recovery import last_checkpoint
from thence.config.node import FlowConfig
from thence.engine.bursts import Callbacks
from thence.errors import Full, JournalError, LocalProtocolError
from thence.journal.base import Identity
from thence.journal.memory import Fault, MemoryDisk, MemoryJournal
from thence.wire import talk

SMALL = FlowConfig(unstable_bytes_max=1024)


class Notes:
    """Notes what it did as rows, by number."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.find: Find | None = None
        self.is_settled = True
        self.asked = 0
        self._given = 0

    def begin(self, find: Find, rows: Iterable[tuple[bytes, bytes]]) -> None:
        assert self.find is None
        self.find = find
        self.did += [value.decode() for _, value in rows]
        self._given = len(self.did)
        self.did.append("begin")

    def sent(self, tag: Any) -> None:
        self.did.append(f"sent {tag} {tag.payload.decode()}")

    def delivered(self, tag: Any) -> None:
        self.did.append(f"took {tag} {tag.payload.decode()}")

    def stable(self, tag: Any) -> None:
        self.did.append(f"stable {tag} {tag.payload.decode()}")

    def rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        given, self._given = self._given, len(self.did)
        for at in range(given, len(self.did)):
            yield b"%08d" % at, self.did[at].encode()


def begun(disk: MemoryDisk, kept: Any = None, checkpoint_bytes: int = 1 << 20) -> Driver:
    """A node of a, b whose application confirms by itself."""
    disk.crash()
    kept = Notes() if kept is None else kept
    driver = driver_of(disk=disk, names=("a", "b"), checkpoint_bytes=checkpoint_bytes, kept=kept)
    driver.auto_confirm = False
    return opened(driver, 1)


def live(driver: Driver) -> None:
    """Take b:1, send a:1, and learn that b:1 is stable."""
    receive(driver, 1, theirs(1))
    taken(driver)
    driver.broadcast(b"x", 0.0)
    receive(driver, 2, theirs(2, context=(pack(0, 1),)))
    taken(driver)
    driver.flush(0.0)
    taken(driver)
    driver.confirm_all()


TOLD = [
    "took b:1 y", "sent a:1 x", "took b:2 y", "stable b:1 y", "stable a:1 x", "stable b:2 y"
]  # fmt: skip


# ---- coming back


def test_what_happened_since_the_checkpoint_is_told_in_order_and_with_payloads():
    disk = MemoryDisk()
    driver = begun(disk)
    live(driver)
    driver.commit(0.0)
    assert disk.checkpoint is None
    again = Notes()
    driver = begun(disk, again)
    assert again.did == ["begin", *TOLD]
    assert [event for event in taken(driver) if hasattr(event, "tag")] == []


def test_rows_come_back_and_nothing_that_they_know_is_told():
    disk = MemoryDisk()
    kept = Notes()
    driver = begun(disk, kept, checkpoint_bytes=0)
    live(driver)
    kept.did.append("a note of its own")
    driver.commit(0.0)
    again = Notes()
    begun(disk, again)
    assert again.did == ["begin", "a note of its own", "begin"]


def test_what_was_not_confirmed_comes_as_an_event_and_is_not_told():
    disk = MemoryDisk()
    driver = begun(disk)
    receive(driver, 1, theirs(1), theirs(2))
    first, *_ = [event for event in taken(driver) if hasattr(event, "payload")]
    first.confirm()
    driver.commit(0.0)
    again = Notes()
    driver = begun(disk, again)
    assert again.did == ["begin", "took b:1 y"]
    assert [str(event.tag) for event in taken(driver) if hasattr(event, "payload")] == ["b:2"]


def test_tags_that_are_not_forgotten_are_found_when_it_begins():
    disk = MemoryDisk()
    driver = begun(disk, checkpoint_bytes=0)
    live(driver)
    driver.broadcast(b"z", 0.0)
    receive(driver, 3, theirs(3))
    driver.commit(0.0)
    found: dict[str, Any] = {}

    class Finds(Notes):
        def begin(self, find: Find, rows: Iterable[tuple[bytes, bytes]]) -> None:
            super().begin(find, rows)
            for node, seq in (("a", 1), ("b", 2), ("a", 2)):
                found[f"{node}:{seq}"] = find(node, seq)
            for node, seq in (("b", 3), ("a", 3), ("a", 0), ("x", 1)):
                with pytest.raises(LocalProtocolError):
                    find(node, seq)

    begun(disk, Finds())
    assert (found["a:1"], found["b:2"]) == (None, None)
    assert (str(found["a:2"]), found["a:2"].payload) == ("a:2", b"z")


def test_without_a_journal_it_begins_with_nothing():
    kept = Notes()
    driver_of(kept=kept)
    assert kept.did == ["begin"]


def test_rows_that_it_leaves_over_are_looked_at_all_the_same():
    disk = MemoryDisk()
    begun(disk, checkpoint_bytes=0).commit(0.0)

    class Journal(MemoryJournal):
        def rows(self) -> Iterator[tuple[bytes, bytes]]:
            yield b"a", b"b"
            raise JournalError("a row is missing")

    class Lazy(Notes):
        def begin(self, find: Find, rows: Iterable[tuple[bytes, bytes]]) -> None:
            next(iter(rows))

    disk.crash()
    with pytest.raises(JournalError, match="a row is missing"):
        Driver("g", ["a", "b"], "a", driver_of().spec, 0.0, kept=Lazy(),
               journal=Journal(disk, Identity("g", "a")))  # fmt: skip


# ---- checkpoints


def test_a_checkpoint_waits_until_the_application_is_settled():
    disk = MemoryDisk()
    kept = Notes()
    driver = begun(disk, kept, checkpoint_bytes=0)
    kept.is_settled = False
    for _ in range(3):
        driver.broadcast(b"x", 0.0)
        driver.commit(0.0)
    assert disk.checkpoint is None
    kept.is_settled = True
    driver.commit(0.0)  # nothing is new: it is asked all the same
    assert disk.checkpoint is not None
    assert disk.records == []
    operations = disk.operations
    driver.commit(0.0)
    assert disk.operations == operations


def test_a_checkpoint_waits_until_everything_taken_is_confirmed():
    disk = MemoryDisk()
    driver = begun(disk, checkpoint_bytes=0)
    receive(driver, 1, theirs(1), theirs(2))
    first, second = [event for event in taken(driver) if hasattr(event, "payload")]
    first.confirm()
    driver.commit(0.0)
    assert disk.checkpoint is None
    second.confirm()
    driver.commit(0.0)
    assert disk.checkpoint is not None


def test_one_that_is_always_at_work_gets_its_checkpoints():
    """Otherwise the journal would grow for ever: there is always an event that is not confirmed."""
    disk = MemoryDisk()
    kept = Notes()
    driver = begun(disk, kept, checkpoint_bytes=2000)
    driver.auto_confirm = True
    largest = 0
    taken(driver)
    for seq in range(1, 400):
        receive(driver, seq, theirs(seq, text=bytes(50)))
        if seq > 1:
            event: Any = driver.take(0.0)
            assert event is not None
            (kept.stable if isinstance(event, Stable) else kept.delivered)(event.tag)
        driver.commit(0.0)
        largest = max(largest, driver.journal_bytes)
    assert disk.checkpoint is not None
    assert largest < 20_000
    again = Notes()
    begun(disk, again)
    told = [did for did in again.did if did != "begin"]
    assert told == kept.did[1:-1]  # but for the last event, which is not confirmed


def test_a_journal_that_fails_while_events_are_handed_over_is_said_in_the_next_turn():
    disk = MemoryDisk()
    kept = Notes()
    driver = begun(disk, kept, checkpoint_bytes=0)
    driver.auto_confirm = True
    kept.is_settled = False
    receive(driver, 1, theirs(1), theirs(2))
    driver.commit(0.0)
    kept.is_settled = True
    disk.fault = Fault(disk.operations + 1, "fail")
    calls = Callbacks()
    calls.deliver = kept.delivered
    assert hand_over(driver, 0.0, calls, lambda error: None)
    assert "fails" in driver.failed
    with pytest.raises(JournalError):
        driver.commit(0.0)


def test_a_group_without_such_an_application_has_its_checkpoints_at_once():
    disk = MemoryDisk()
    driver = opened(driver_of(disk=disk, checkpoint_bytes=0))
    driver.auto_confirm = False
    receive(driver, 1, theirs(1))
    taken(driver)
    driver.commit(0.0)
    assert disk.checkpoint is not None
    assert disk.rows == {}


# ---- what cannot be


def test_rows_that_nobody_takes_up_are_not_thrown_away():
    disk = MemoryDisk()
    driver = begun(disk, checkpoint_bytes=0)
    driver.broadcast(b"x", 0.0)
    driver.commit(0.0)
    disk.crash()
    with pytest.raises(LocalProtocolError, match="give it kept="):
        driver_of(disk=disk, names=("a", "b"))


def test_a_journal_without_its_state_is_refused():
    disk = MemoryDisk()
    driver = driver_of(disk=disk, names=("a", "b"), checkpoint_bytes=0)
    driver.broadcast(b"x", 0.0)
    driver.commit(0.0)
    with pytest.raises(LocalProtocolError, match="begun without kept="):
        begun(disk)


def test_a_journal_that_has_everything_from_the_beginning_is_taken_up():
    disk = MemoryDisk()
    driver = driver_of(disk=disk, names=("a", "b"))
    driver.broadcast(b"x", 0.0)
    driver.commit(0.0)
    kept = Notes()
    begun(disk, kept)
    assert kept.did == ["begin", "sent a:1 x"]


@pytest.mark.parametrize("what", ["begin", "sent", "delivered", "stable"])
def test_what_the_application_raises_is_why_the_node_does_not_start(what: str):
    disk = MemoryDisk()
    driver = begun(disk)
    live(driver)
    driver.commit(0.0)
    kept = Notes()

    def fail(*_: Any) -> None:
        raise KeyError("a bug")

    setattr(kept, what, fail)
    with pytest.raises(JournalError, match="cannot go on from its journal: KeyError: 'a bug'"):
        begun(disk, kept)


def test_only_the_flagship_has_tags_to_find():
    with pytest.raises(LocalProtocolError, match="kept= needs tagged"):
        driver_of(engine="vector", kept=Notes())


# ---- groups whose members change


def resumed(disk: MemoryDisk, kept: Notes) -> Any:
    disk.crash()
    journal = MemoryJournal(disk, Identity("g", "a"))
    made = last_checkpoint(journal)
    assert made is not None
    return elastic_of("a", "ab", journal=journal, checkpoint=made, kept=kept)


def test_the_first_checkpoint_of_a_founder_has_its_rows():
    disk = MemoryDisk()
    kept = Notes()
    elastic_of("a", "ab", journal=MemoryJournal(disk, Identity("g", "a")), kept=kept)
    assert list(disk.rows.values()) == [b"begin"]
    again = Notes()
    driver = resumed(disk, again)
    assert again.did == ["begin", "begin"]
    driver.broadcast(b"x", 0.0)
    driver.commit(0.0)
    third = Notes()
    resumed(disk, third)
    assert third.did == ["begin", "begin", "sent a:1 x"]


def test_one_that_has_something_to_send_before_it_begins_is_refused():
    kept = Notes()
    kept.is_settled = False
    with pytest.raises(LocalProtocolError, match="settled"):
        elastic_of("a", "ab", journal=MemoryJournal(MemoryDisk(), Identity("g", "a")), kept=kept)


def test_what_is_stable_is_told_with_a_payload_that_is_on_the_shelf():
    disk = MemoryDisk()
    more: dict[str, Any] = {"shelf_bytes_max": 1 << 20, "flow": SMALL}
    driver = elastic_of(
        "a", "ab", journal=MemoryJournal(disk, Identity("g", "a")), kept=Notes(),
        checkpoint_bytes=0, **more,
    )  # fmt: skip
    opened_with(driver)
    driver.closed(1, "away")
    driver.broadcast(b"long" * 500, 0.0)
    driver.commit(0.0)
    driver.tick(0.1)
    assert disk.shelf
    driver.broadcast(b"more", 0.1)
    driver.commit(0.1)
    assert b"longlong" not in disk.checkpoint
    opened_with(driver)
    # From here on there are records, and no checkpoint any more.
    ledger: Any = driver._ledger
    ledger._due_bytes = ledger._checkpoint_bytes = 1 << 30
    receive(driver, 1, theirs(1, context=(pack(0, 1),)))
    taken(driver)
    driver.flush(0.2)
    taken(driver)
    driver.confirm_all()
    driver.commit(0.2)
    again = Notes()
    resumed(disk, again)
    assert f"stable a:1 {'long' * 500}" in again.did


def opened_with(driver: Any) -> None:
    said = talk.Open(
        0, "g", "tagged", (), driver.exchange.flows[0].have, 1000, 1 << 30, member="b", peer="a"
    )
    driver.open(1, 0)
    assert driver.opened(1, said, 0.0) is None
    driver.exchange.installed(1, founders("ab").num)


# ---- what newcomers are given


def test_what_an_application_sends_as_it_gives_its_state_is_in_the_state():
    """Otherwise the newcomer would be told again what its application has already."""
    company = Company("ab")
    a = company.drivers["a"]

    def snapshot() -> bytes:
        return str(a.broadcast(b"what was not sent yet", company.now)).encode()

    a.reception.snapshot = snapshot
    newcomer = company.knock("j", "a")
    company.go(1.0)
    assert newcomer.is_done
    assert newcomer.head is not None
    assert [b"".join(newcomer.spool.chunks())] == [str(dot).encode() for dot in newcomer.head.taken]


# ---- sending more than there is room for


@pytest.mark.parametrize("engine", ["tagged", "vector"])
def test_one_who_asked_for_room_before_may_overdraw(engine: str):
    driver = driver_of(engine=engine, flow=TIGHT)
    while driver.has_room:
        driver.broadcast(b"x", 0.0)
    with pytest.raises(Full):
        driver.broadcast_many([b"x"], 0.0)
    tags = driver.broadcast_many([b"y"] * 10, 0.0, overdraw=True)
    assert [tag.seq for tag in tags] == list(range(4, 14))
    assert driver.exchange.outbox.last == 13


def test_a_shelf_that_is_full_is_overdrawn_too():
    driver = elastic_of("a", "ab", flow=SMALL)
    opened_with(driver)
    driver.closed(1, "away")
    driver.broadcast(bytes(2000), 0.0)
    driver.tick(0.1)
    assert not driver.has_room
    with pytest.raises(Full):
        driver.broadcast(b"x", 0.1)
    assert len(driver.broadcast_many([b"y"] * 3, 0.1, overdraw=True)) == 3
