"""Clones between two cuts, undo and redo, against the specification over the operations chosen."""

from __future__ import annotations

import random
import weakref

import pytest

from tests.crdt.specification import EMPTY, NOTHING, SHOWN, Did
from tests.crdt.world import Batch, Execution, VectorStamp, same
from tests.seeds import seeds
from thence.client.retaining import Retaining
from thence.crdt.registry import CRDTS
from thence.crdt.retained import Cut, Retained, retained
from thence.crdt.sequence import Sequence
from thence.crdt.set_aw import SetAw
from thence.errors import LocalProtocolError

EXECUTIONS = 3
UNDOABLE = [name for name in CRDTS if name != "sequence"]


def stamp(node: str, seq: int, **past: int) -> VectorStamp:
    return VectorStamp(node, seq, 0, past)


class Told:
    """A finished execution, and a retained object that was told all of it."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        execution = Execution(name, seed, batches=4)
        execution.run()
        world = execution.world
        self.draw = random.Random(seed)
        self.batches = [world.batches[dot] for dot in world.replicas[0].stamps]
        self.stamps = [batch.stamp(CRDTS[name]) for batch in self.batches]
        self.object = Retained(CRDTS[name])
        self.tell(self.object, self.batches, self.stamps)

    @staticmethod
    def tell(told: Retained, batches: list[Batch], stamps: list[VectorStamp]) -> None:
        for batch, by in zip(batches, stamps, strict=True):
            for op in batch.ops:
                told.effect(op, by)

    def cut(self) -> Cut:
        """What some batch, or two, and all before them are."""
        counts: dict[str, int] = {}
        for by in self.draw.sample(self.stamps, min(2, len(self.stamps))):
            for node, seq in by.past.items():
                counts[node] = max(seq, counts.get(node, 0))
        return Cut(counts)

    def shows(self, told: Retained, batches: list[Batch]) -> None:
        history: list[Did] = [did for batch in batches for did in batch.done]
        shown = SHOWN[self.name](history)
        assert same(told.value(), EMPTY[self.name] if shown is NOTHING else shown)

    def seen(self, cut: Cut) -> list[Batch]:
        return [b for b, by in zip(self.batches, self.stamps, strict=True) if cut.sees(by)]


@pytest.mark.parametrize("name", CRDTS)
def test_a_clone_shows_what_its_cut_has_seen(name: str):
    for seed in seeds(EXECUTIONS):
        told = Told(name, seed)
        told.object.stabilise(dict.fromkeys(told.stamps))
        cut = told.cut()
        told.shows(told.object.clone(None, cut), told.seen(cut))


@pytest.mark.parametrize("name", CRDTS)
def test_a_clone_goes_on_from_an_earlier_one(name: str):
    for seed in seeds(EXECUTIONS):
        told = Told(name, seed)
        first, second = told.cut(), told.cut()
        safe = told.object.clone(None, first)
        assert told.object.clone(first, second, safe) is safe
        either = [b for b in told.batches if b in told.seen(first) or b in told.seen(second)]
        told.shows(safe, either)


@pytest.mark.parametrize("name", UNDOABLE)
def test_what_is_undone_was_never_done_and_redo_takes_that_back(name: str):
    undone_count = 0
    for seed in seeds(EXECUTIONS):
        told = Told(name, seed)
        if name in ("map_rw", "map_uw") and told.object._has_sequence:
            continue
        told.object.stabilise(dict.fromkeys(told.stamps[: len(told.stamps) // 2]))
        undone: list[VectorStamp] = []
        for by in told.draw.sample(told.stamps, min(4, len(told.stamps))):
            told.object.undo(by)
            told.object.undo(by)
            undone.append(by)
            left = [b for b, at in zip(told.batches, told.stamps, strict=True) if at not in undone]
            told.shows(told.object, left)
            assert told.object.undone == undone
            undone_count += 1
        told.object.redo(undone.pop())
        left = [b for b, at in zip(told.batches, told.stamps, strict=True) if at not in undone]
        told.shows(told.object, left)
        for by in undone:
            told.object.redo(by)
        told.shows(told.object, told.batches)
    assert undone_count or name in ("map_rw", "map_uw")


@pytest.mark.parametrize("name", UNDOABLE)
def test_replicas_that_undo_at_different_times_agree(name: str):
    for seed in seeds(EXECUTIONS):
        told = Told(name, seed)
        if told.object._has_sequence:
            continue
        early = Retained(CRDTS[name])
        at = told.draw.randrange(len(told.stamps))
        told.tell(early, told.batches[: at + 1], told.stamps[: at + 1])
        early.undo(told.stamps[at])
        told.tell(early, told.batches[at + 1 :], told.stamps[at + 1 :])
        told.object.undo(told.stamps[at])
        assert early.value() == told.object.value()


def test_thesis_9_1_1_2_the_printed_bounds_lose_what_is_concurrent_with_the_first():
    """clone(t, t', s, s') is printed as s' and what is of s with t <= t'' <= t'."""
    t = stamp("a", 1)
    concurrent = stamp("b", 1)
    later = stamp("a", 2, b=1)  # t'
    told = Retained(SetAw)
    for by, element in ((t, "first"), (concurrent, "lost"), (later, "last")):
        told.effect(told.object.prepare("add", element), by)
    safe = told.clone(None, t)
    assert safe.value() == {"first"}
    printed = {e for by, e in ((t, "first"), (concurrent, "lost"), (later, "last"))
               if by.sees(t) and later.sees(by)}  # fmt: skip
    assert safe.value() | printed == {"first", "last"}
    assert told.clone(t, later, safe).value() == {"first", "lost", "last"} == told.value()


def test_an_add_that_a_remove_covered_comes_back_when_the_remove_is_undone():
    told = Retained(SetAw)
    add, remove = stamp("a", 1), stamp("b", 1, a=1)
    told.effect(told.object.prepare("add", "milk"), add)
    told.effect(told.object.prepare("remove", "milk"), remove)
    told.stabilise({add: None, remove: None})
    assert told.object.is_initial
    told.undo(remove)
    assert told.value() == {"milk"}
    assert told.object.stamps() == []


def test_what_is_undone_stays_undone_when_its_batch_goes_on():
    first, second = stamp("a", 1), stamp("a", 2, a=1)
    told = Retained(SetAw)
    told.effect(told.object.prepare("add", 0), first)
    told.effect(told.object.prepare("add", 1), second)
    told.undo(second)
    told.effect(told.object.prepare("add", 2), second)
    told.reset(second)
    told.effect(told.object.prepare("add", 3), second)
    assert told.value() == {0}
    told.redo(second)
    assert told.value() == {3}


def test_an_object_that_does_not_retain_says_so():
    with pytest.raises(LocalProtocolError, match=r"this set_aw keeps no operations.*Retained"):
        retained(SetAw())
    told = Retained(SetAw)
    assert retained(told) is told


def test_what_was_not_done_here_cannot_be_undone():
    told = Retained(SetAw)
    with pytest.raises(LocalProtocolError, match="nothing was done here by batch 1 of a"):
        told.undo(stamp("a", 1))
    with pytest.raises(LocalProtocolError, match="nothing was done here"):
        told.redo(stamp("a", 1))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("sequence", ("insert", 0, "ab")),
        ("map_uw", ("update", "f", "map_rw", ("update", "g", "sequence", ("insert", 0, "ab")))),
    ],
)
def test_a_sequence_is_not_undone_and_goes_on_from_where_it_was(name: str, call: tuple):
    told = Retained(CRDTS[name])
    by = stamp("a", 1)
    told.effect(told.object.prepare(*call), by)
    with pytest.raises(LocalProtocolError, match="nothing of that can be undone"):
        told.undo(by)
    with pytest.raises(LocalProtocolError, match="give clone the object"):
        told.clone(Cut({}), by)
    assert told.clone(Cut({}), by, Retained(CRDTS[name])).value() == told.value()


def test_types_are_not_mixed():
    with pytest.raises(LocalProtocolError, match="a set_aw cannot go on as a sequence"):
        Retained(SetAw).clone(None, Cut({}), Retained(Sequence))


def test_too_many_operations_are_not_retained():
    told = Retained(SetAw, ops_max=2)
    for seq in (1, 2, 3):
        told.effect(told.object.prepare("add", seq), stamp("a", seq))
    assert told.value() == {1, 2, 3}
    with pytest.raises(LocalProtocolError, match="more than 2 operations"):
        told.clone(None, Cut({"a": 9}))
    with pytest.raises(LocalProtocolError, match="more than 2 operations"):
        told.undo(stamp("a", 1))


def test_members_that_got_operations_in_different_orders_agree_on_what_an_undo_leaves():
    add, remove, again = stamp("a", 1), stamp("a", 2, a=1), stamp("b", 1, a=1)
    left = []
    for order in ((add, remove, again), (add, again, remove)):
        told = Retaining(SetAw)
        for by in order:
            told.effect(told.retained.object.prepare("remove" if by is remove else "add", 1), by)
        told.retained.undo(told.stamp("a", 1))
        left.append(told.retained.value())
        told.stabilise({add, remove, again})
        told.retained.redo(told.stamp("a", 1))
        left.append(told.retained.value())
    assert left == [{1}] * 4  # the other add is concurrent with the remove


def test_messages_are_not_kept_for_what_is_retained():
    told = Retaining(SetAw)
    messages = []
    for seq in (1, 2):
        by = stamp("a", seq)
        messages.append(weakref.ref(by))
        told.effect(told.retained.object.prepare("add", seq), by)
        told.stabilise({by})
        del by
    assert [message() for message in messages] == [None, None]
    told.retained.undo(told.stamp("a", 1))
    assert told.retained.value() == {2}


def test_what_is_not_retained_any_more_takes_no_room():
    told = Retaining(SetAw)
    told.retained = Retained(SetAw, ops_max=2)
    for seq in (1, 2, 3, 4):
        by = stamp("a", seq)
        told.effect(told.retained.object.prepare("add", seq), by)
        told.stabilise({by})
    assert told.latest is None
    with pytest.raises(LocalProtocolError, match="nothing was done to this object by a:4"):
        told.stamp("a", 4)
    assert told.retained.value() == {1, 2, 3, 4}
