"""What a node writes down, and that it goes on from there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.client.fakes import driver_of, taken
from thence.causal.dot import pack
from thence.client import entries
from thence.client.driver import Driver
from thence.client.events import Delivered, Stable
from thence.engine.base import EngineOptions
from thence.errors import JournalError, LimitError, LocalProtocolError, WireError
from thence.journal.memory import Fault, MemoryDisk, MemoryJournal
from thence.message import Chain, Message
from thence.wire import codec, talk

OPEN = talk.Open(0, "g", "tagged", ("a", "b", "c"), 0, 1000, 1 << 30)


def written(disk: MemoryDisk) -> list[Any]:
    return [entries.decode_entry(record) for record in disk.records]


def opened(driver: Driver, *slots: int) -> Driver:
    said = msgspec.structs.replace(OPEN, members=tuple(driver.members.names))
    for slot in slots or (1, 2):
        driver.open(slot, 0)
        assert driver.opened(slot, said, 0.0) is None
    return driver


def receive(driver: Driver, number: int, *messages: Message | Chain) -> None:
    batch = b"".join(codec.join_batch([codec.encode(message) for message in messages]))
    driver.data(messages[0].origin, number, memoryview(batch), 0.0)


def theirs(
    seq: int, slot: int = 1, context: tuple[int, ...] | None = None, text: bytes = b"y"
) -> Message:
    """A message of a peer, by default after its last one."""
    if context is None:
        context = (pack(slot, seq - 1),) if seq > 1 else ()
    return Message(slot, seq, context, text)


def again(disk: MemoryDisk, **more: Any) -> Driver:
    """The node after a crash."""
    disk.crash()
    return opened(driver_of(disk=disk, **more))


def deliveries(driver: Driver) -> list[str]:
    return [str(event.tag) for event in taken(driver) if isinstance(event, Delivered)]


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


# ---- what is written


def test_a_turn_is_written_in_order_with_the_length_of_the_trace(disk: MemoryDisk):
    driver = opened(driver_of(disk=disk))
    receive(driver, 1, theirs(1))
    taken(driver)
    driver.broadcast(b"x", 0.0)
    driver.commit(0.0)
    received, confirmed, sent, mark = written(disk)
    assert received == entries.Received(1, 1, received.batch)
    assert codec.decode_batch(received.batch) == [theirs(1)]
    assert confirmed == entries.Confirmed([pack(1, 1) << 2 | entries.DELIVERY])
    assert codec.decode(sent.message) == Message(0, 1, (pack(1, 1),), b"x")
    assert mark == entries.Mark(0)


def test_nothing_is_written_when_nothing_happened(disk: MemoryDisk):
    driver = opened(driver_of(disk=disk))
    driver.commit(0.0)
    taken(driver)
    driver.commit(0.0)
    assert disk.operations == 0


def test_a_checkpoint_replaces_the_records_when_they_have_grown(disk: MemoryDisk):
    driver = opened(driver_of(disk=disk, checkpoint_bytes=100))
    driver.broadcast(bytes(50), 0.0)
    driver.commit(0.0)
    assert disk.checkpoint is None
    driver.broadcast(bytes(50), 0.0)
    driver.commit(0.0)
    assert disk.checkpoint is not None
    assert disk.records == []
    size = len(disk.checkpoint)
    due = 0
    while disk.checkpoint is not None and len(disk.checkpoint) == size:
        due += 1
        driver.broadcast(bytes(50), 0.0)
        driver.commit(0.0)
    assert due > 2, "not before they are twice as large as it"


def test_a_checkpoint_at_every_commit_can_be_asked_for(disk: MemoryDisk):
    driver = opened(driver_of(disk=disk, checkpoint_bytes=0))
    for _ in range(5):
        driver.broadcast(b"x", 0.0)
        driver.commit(0.0)
        assert disk.records == []


# ---- coming back

both = pytest.mark.parametrize("checkpoint_bytes", [0, 1 << 20])


@both
def test_own_messages_are_remembered_and_their_dots_not_used_again(
    disk: MemoryDisk, checkpoint_bytes: int
):
    driver = opened(driver_of(disk=disk, checkpoint_bytes=checkpoint_bytes))
    for text in (b"one", b"two"):
        driver.broadcast(text, 0.0)
        driver.commit(0.0)
    driver = again(disk)
    outbox = driver.exchange.outbox
    assert (outbox.first, outbox.last) == (1, 2)
    assert str(driver.broadcast(b"three", 0.0)) == "a:3"


@both
def test_what_was_not_committed_did_not_happen(disk: MemoryDisk, checkpoint_bytes: int):
    driver = opened(driver_of(disk=disk, checkpoint_bytes=checkpoint_bytes))
    driver.broadcast(b"one", 0.0)
    driver.commit(0.0)
    driver.broadcast(b"two", 0.0)
    receive(driver, 1, theirs(1))
    driver = again(disk)
    assert driver.exchange.outbox.last == 1
    assert driver.exchange.flows[1].have == 0
    assert str(driver.broadcast(b"another two", 0.0)) == "a:2"


@both
def test_what_was_not_confirmed_comes_again_in_order(disk: MemoryDisk, checkpoint_bytes: int):
    driver = opened(driver_of(disk=disk, checkpoint_bytes=checkpoint_bytes))
    driver.auto_confirm = False
    receive(driver, 1, theirs(1), theirs(2))
    receive(driver, 1, theirs(1, slot=2), theirs(2, slot=2))
    first, *_ = [event for event in taken(driver) if isinstance(event, Delivered)]
    first.confirm()
    driver.commit(0.0)
    driver = again(disk)
    assert [driver.exchange.flows[slot].have for slot in (1, 2)] == [2, 2]
    assert [driver.exchange.flows[slot].held for slot in (1, 2)] == [1, 2]
    assert deliveries(driver) == ["b:2", "c:1", "c:2"]
    # Its next message comes after what it took in both lives.
    tag = driver.broadcast(b"x", 0.0)
    assert sorted(map(str, tag.context)) == ["b:2", "c:2"]


@both
def test_what_waits_for_its_past_waits_again(disk: MemoryDisk, checkpoint_bytes: int):
    driver = opened(driver_of(disk=disk, checkpoint_bytes=checkpoint_bytes))
    receive(driver, 1, theirs(1, slot=2, context=(pack(1, 1),)))
    driver.commit(0.0)
    driver = again(disk)
    assert driver.exchange.flows[2].held == 1
    assert deliveries(driver) == []
    receive(driver, 1, theirs(1))
    assert deliveries(driver) == ["b:1", "c:1"]


@both
def test_what_was_confirmed_is_in_the_context_and_does_not_come(
    disk: MemoryDisk, checkpoint_bytes: int
):
    driver = opened(driver_of(disk=disk, checkpoint_bytes=checkpoint_bytes))
    receive(driver, 1, theirs(1))
    assert deliveries(driver) == ["b:1"]
    driver.take(0.0)
    driver.commit(0.0)
    driver = again(disk)
    assert deliveries(driver) == []
    assert [str(dot) for dot in driver.broadcast(b"x", 0.0).context] == ["b:1"]


@both
def test_a_stable_event_that_was_not_confirmed_is_told_again(
    disk: MemoryDisk, checkpoint_bytes: int
):
    driver = opened(driver_of(disk=disk, names=("a", "b"), checkpoint_bytes=checkpoint_bytes), 1)
    driver.auto_confirm = False
    driver.broadcast(b"x", 0.0)
    receive(driver, 1, theirs(1, context=(pack(0, 1),)))
    events = taken(driver)
    driver.flush(0.0)
    events += taken(driver)
    assert [str(event.tag) for event in events if isinstance(event, Stable)] == ["a:1", "b:1"]
    delivered = next(event for event in events if isinstance(event, Delivered))
    delivered.confirm()
    driver.commit(0.0)
    disk.crash()
    driver = driver_of(disk=disk, names=("a", "b"), checkpoint_bytes=checkpoint_bytes)
    told = [event for event in taken(driver) if isinstance(event, Stable)]
    assert [str(event.tag) for event in told] == ["a:1", "b:1"]
    driver.take(0.0)
    driver.commit(0.0)
    disk.crash()
    driver = driver_of(disk=disk, names=("a", "b"))
    assert not [event for event in taken(driver) if isinstance(event, Stable)]
    assert driver.unstable == 0


@both
def test_streams_come_back(disk: MemoryDisk, checkpoint_bytes: int):
    driver = opened(driver_of(disk=disk, checkpoint_bytes=checkpoint_bytes))
    assert str(driver.broadcast(b"x", 0.0, stream="s")) == "a/s:1"
    driver.commit(0.0)
    driver = again(disk)
    assert str(driver.broadcast(b"x", 0.0, stream="s")) == "a/s:2"


def test_a_message_that_was_refused_does_not_spoil_the_journal(disk: MemoryDisk):
    driver = opened(driver_of(disk=disk))
    with pytest.raises(Exception, match="context"):
        receive(driver, 1, theirs(1), theirs(2, context=(pack(0, 7),)))
    driver.commit(0.0)
    driver = again(disk)
    assert deliveries(driver) == ["b:1"]


# ---- what cannot be


def test_a_record_that_is_none_is_refused(disk: MemoryDisk):
    driver = driver_of(disk=disk)
    driver.broadcast(b"x", 0.0)
    driver.commit(0.0)
    disk.records[0] = b"\xc1"
    with pytest.raises(JournalError, match="cannot be carried out again"):
        again(disk)


@pytest.mark.parametrize(
    "entry",
    [
        entries.Confirmed([pack(1, 1) << 2]),
        entries.Confirmed([pack(1, 1) << 2 | entries.STABLE_EVENT]),
        entries.Received(9, 1, b"".join(codec.join_batch([codec.encode(theirs(1))]))),
        entries.Sent(codec.encode(Message(0, 5, (), b""))),
        entries.Sent(b"nonsense"),
    ],
    ids=str,
)
def test_records_that_cannot_be_carried_out_are_refused(disk: MemoryDisk, entry: Any):
    driver_of(disk=disk)
    disk.records.append(msgspec.msgpack.encode(entry))
    with pytest.raises(JournalError, match="restore it from a copy"):
        again(disk)


def test_a_checkpoint_of_another_format_is_refused(disk: MemoryDisk):
    driver = driver_of(disk=disk, checkpoint_bytes=0)
    driver.broadcast(b"x", 0.0)
    driver.commit(0.0)
    assert disk.checkpoint is not None
    made = msgspec.msgpack.decode(disk.checkpoint)
    disk.checkpoint = msgspec.msgpack.encode({**made, "v": 2})
    with pytest.raises(JournalError, match="use the version of thence that wrote it"):
        again(disk)


def test_a_journal_of_other_members_is_refused(disk: MemoryDisk):
    driver = driver_of(disk=disk, checkpoint_bytes=0)
    driver.broadcast(b"x", 0.0)
    driver.commit(0.0)
    disk.crash()
    with pytest.raises(LocalProtocolError, match="not of member 0 of a, b"):
        driver_of(disk=disk, names=("a", "b"))


def test_only_the_flagship_has_a_journal(disk: MemoryDisk):
    with pytest.raises(LocalProtocolError, match="only tagged has a journal"):
        driver_of(disk=disk, engine="graph")


# ---- failures


@pytest.mark.parametrize("operation", [1, 2, 3])
def test_after_a_failure_nothing_leaves_and_everything_says_so(disk: MemoryDisk, operation: int):
    driver = opened(driver_of(disk=disk))
    disk.fault = Fault(operation, "fail")
    try:
        driver.broadcast(b"x", 0.0)
        driver.commit(0.0)
    except JournalError:
        pass
    with pytest.raises(JournalError):
        driver.commit(0.0)
    assert driver.frames(1, 0, False, 99.0) == []
    with pytest.raises(JournalError):
        driver.broadcast(b"x", 0.0)
    receive(driver, 1, theirs(1))
    with pytest.raises(JournalError):
        taken(driver)


def test_a_failure_while_something_arrives_is_not_the_peers(disk: MemoryDisk):
    driver = opened(driver_of(disk=disk))
    disk.fault = Fault(1, "fail")
    receive(driver, 1, theirs(1))
    with pytest.raises(JournalError):
        driver.commit(0.0)
    assert driver.frames(1, 0, False, 99.0) == []


def test_stability_is_off_in_a_journal_too(disk: MemoryDisk):
    options = EngineOptions(stability=False)
    driver = driver_of(disk=disk, options=options, checkpoint_bytes=0)
    driver.broadcast(b"x", 0.0)
    driver.commit(0.0)
    disk.crash()
    driver = driver_of(disk=disk, options=options)
    assert str(driver.broadcast(b"y", 0.0)) == "a:2"


def test_what_is_refused_is_not_taken_later_in_the_same_batch(disk: MemoryDisk):
    options = EngineOptions(pending_per_origin_max=4)
    driver = opened(driver_of(disk=disk, options=options))
    with pytest.raises(WireError, match="too-far-ahead"):
        receive(driver, 1, theirs(5), theirs(1))  # after the second one the first would do
    flow = driver.exchange.flows[1]
    assert (flow.have, flow.held) == (0, 1)
    assert deliveries(driver) == ["b:1"]
    driver.closed(1, "too-far-ahead")
    opened(driver, 1)
    receive(driver, 1, theirs(5), theirs(1), theirs(2))
    assert deliveries(driver) == ["b:2"]
    flow.ack()
    receive(driver, 4, Chain(1, 3, [b"3", b"4"]))
    assert deliveries(driver) == ["b:3", "b:4", "b:5"]
    assert (flow.have, flow.held, flow.held_bytes) == (5, 0, 0)
    driver.confirm_all()
    driver.commit(0.0)
    driver = again(disk, options=options)
    assert deliveries(driver) == []
    assert driver.exchange.flows[1].have == 5


def test_a_duplicate_costs_the_same_however_much_waits(monkeypatch: pytest.MonkeyPatch):
    driver = opened(driver_of())
    receive(driver, 1, theirs(1), Chain(1, 3, [b"3", b"4"]))
    monkeypatch.setattr(driver, "queue", None)
    monkeypatch.setattr(type(driver), "is_delivery", None)
    flow = driver.exchange.flows[1]
    held = (flow.held, flow.held_bytes)
    receive(driver, 4, theirs(1), Chain(1, 3, [b"three", b"four"]))
    assert (flow.have, flow.held, flow.held_bytes) == (6, *held)


def test_without_a_record_that_did_not_fit_nothing_is_committed(
    disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
):
    driver = opened(driver_of(disk=disk))
    driver.broadcast(b"before", 0.0)
    driver.commit(0.0)
    count = len(disk.records)
    append = MemoryJournal.append

    def small(self: MemoryJournal, record: bytes) -> None:
        if len(record) > 1000:
            raise LimitError("a commit holds at most 1000 bytes")
        append(self, record)

    monkeypatch.setattr(MemoryJournal, "append", small)
    driver.broadcast(b"fits", 0.0)
    with pytest.raises(JournalError, match="at most 1000 bytes"):
        driver.broadcast(bytes(2000), 0.0)
    with pytest.raises(JournalError, match="at most 1000 bytes"):
        driver.commit(0.0)
    assert driver.frames(1, 0, False, 0.0) == []
    assert len(disk.records) == count
