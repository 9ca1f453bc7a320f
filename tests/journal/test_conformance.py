"""What every journal does (thence.journal.base), in memory and in SQLite alike."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journal.places import PLACES, InSqlite, Place
from tests.seeds import seeds
from thence.errors import JournalError, LocalProtocolError
from thence.journal.base import Identity, Saved


@pytest.fixture(params=PLACES, ids=lambda kind: kind.__name__)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made: Place = request.param(tmp_path)
    yield made
    for journal in made.left if isinstance(made, InSqlite) else ():
        journal.close()


def test_a_new_journal_is_empty(place: Place):
    journal = place.open()
    assert journal.load() == Saved(None, [])
    assert journal.log_bytes == 0


def test_what_was_committed_is_there_after_a_crash_and_what_was_only_staged_is_not(place: Place):
    journal = place.open()
    journal.append(b"one")
    journal.append(b"")
    journal.commit()
    journal.append(b"three")
    place.crash()
    assert place.open().load() == Saved(None, [b"one", b""])


def test_a_commit_of_nothing_is_nothing(place: Place):
    journal = place.open()
    journal.commit()
    journal.commit()
    assert journal.load() == Saved(None, [])


def test_a_checkpoint_replaces_what_was_committed_and_what_was_staged(place: Place):
    journal = place.open()
    journal.append(b"one")
    journal.commit()
    journal.append(b"two")
    journal.checkpoint(b"state")
    assert journal.log_bytes == 0
    journal.append(b"three")
    journal.commit()
    place.crash()
    assert place.open().load() == Saved(b"state", [b"three"])


def test_an_empty_checkpoint_is_not_no_checkpoint(place: Place):
    journal = place.open()
    journal.checkpoint(b"")
    assert journal.load() == Saved(b"", [])
    place.crash()
    assert place.open().load() == Saved(b"", [])


def test_the_size_of_the_log_counts_staged_records_and_those_of_an_earlier_life(place: Place):
    journal = place.open()
    journal.append(b"12345")
    assert journal.log_bytes == 5
    journal.commit()
    place.crash()
    journal = place.open()
    assert journal.log_bytes == 5
    journal.append(b"678")
    assert journal.log_bytes == 8


def test_closing_commits_and_may_be_done_again(place: Place):
    journal = place.open()
    journal.append(b"one")
    journal.close()
    journal.close()
    assert place.open().load() == Saved(None, [b"one"])


def test_a_closed_journal_is_not_used(place: Place):
    journal = place.open()
    journal.close()
    for use in (
        journal.load,
        journal.commit,
        lambda: list(journal.rows()),
        lambda: journal.append(b""),
        lambda: journal.checkpoint(b""),
    ):
        with pytest.raises(LocalProtocolError, match="closed"):
            use()


def test_a_journal_is_open_once(place: Place):
    journal = place.open()
    with pytest.raises(JournalError, match="in use"):
        place.open()
    journal.append(b"one")
    journal.commit()  # the first is none the worse for it
    journal.close()
    assert place.open().load() == Saved(None, [b"one"])


def test_what_is_on_the_shelf_is_there_after_a_crash(place: Place):
    journal = place.open()
    journal.shelve([(7, b"seven"), (1 << 62, b""), (3, b"three")])
    journal.shelve([(3, b"other")])
    place.crash()
    journal = place.open()
    assert journal.shelved() == [(3, 5), (7, 5), (1 << 62, 0)]
    assert [journal.fetch(number) for number in (3, 7, 1 << 62)] == [b"other", b"seven", b""]
    assert journal.load() == Saved(None, [])


def test_a_checkpoint_says_what_stays_on_the_shelf(place: Place):
    journal = place.open()
    journal.shelve([(number, b"x") for number in range(10)])
    journal.checkpoint(b"state", [(7, 8), (2, 4)])
    assert [number for number, _ in journal.shelved()] == [2, 3, 4, 7, 8]
    place.crash()
    journal = place.open()
    assert [number for number, _ in journal.shelved()] == [2, 3, 4, 7, 8]
    journal.checkpoint(b"state")
    assert journal.shelved() == []


def test_a_checkpoint_replaces_and_deletes_rows_and_leaves_the_others(place: Place):
    journal = place.open()
    assert list(journal.rows()) == []
    journal.checkpoint(b"one", rows=[(b"b", b"2"), (b"", b""), (b"a", b"1"), (b"c", bytes(9000))])
    journal.checkpoint(b"two", rows=iter([(b"a", b"one"), (b"b", None), (b"never there", None)]))
    journal.append(b"record")
    journal.commit()
    place.crash()
    journal = place.open()
    assert journal.load() == Saved(b"two", [b"record"])
    assert list(journal.rows()) == [(b"", b""), (b"a", b"one"), (b"c", bytes(9000))]
    journal.checkpoint(b"three")
    assert [key for key, _ in journal.rows()] == [b"", b"a", b"c"]


def test_of_several_rows_with_one_key_the_last_one_counts(place: Place):
    journal = place.open()
    journal.checkpoint(b"", rows=[(b"a", b"1"), (b"b", b"1"), (b"a", None), (b"b", b"2")])
    place.crash()
    assert list(place.open().rows()) == [(b"b", b"2")]


def test_many_rows_are_kept(place: Place):
    journal = place.open()
    rows = {b"%d" % n: b"%d" % n * (n % 5) for n in range(3000)}
    journal.checkpoint(b"", rows=rows.items())
    changed: dict[bytes, bytes | None] = {b"%d" % n: b"x" for n in range(0, 3000, 2)}
    changed.update({b"%d" % n: None for n in range(0, 3000, 3)})
    journal.checkpoint(b"", rows=changed.items())
    kept = {**rows, **changed}
    place.crash()
    left = sorted([(key, value) for key, value in kept.items() if value is not None])
    assert list(place.open().rows()) == left


def test_rows_that_cannot_be_had_leave_what_was_there(place: Place):
    def broken() -> Iterator[tuple[bytes, bytes]]:
        yield b"a", b"2"
        raise ZeroDivisionError

    journal = place.open()
    journal.checkpoint(b"one", rows=[(b"a", b"1")])
    with pytest.raises(ZeroDivisionError):
        journal.checkpoint(b"two", rows=broken())
    place.crash()
    journal = place.open()
    assert journal.load() == Saved(b"one", [])
    assert list(journal.rows()) == [(b"a", b"1")]


def test_what_is_not_on_the_shelf_cannot_be_fetched(place: Place):
    journal = place.open()
    with pytest.raises(JournalError, match="shelf"):
        journal.fetch(1)


@pytest.mark.parametrize("other", [Identity("g", "b"), Identity("h", "a"), Identity("g", "a#2")])
def test_another_node_or_group_may_not_use_it(place: Place, other: Identity):
    place.open().close()
    with pytest.raises(JournalError, match="of a in g, not of"):
        place.open(other)
    place.open().close()


@pytest.mark.parametrize("seed", seeds(20))
def test_random_operations_and_crashes_lose_and_repeat_nothing(place: Place, seed: int):
    """Replay: THENCE_SEEDS as in the run, -k the name of this test."""
    draw = random.Random(seed)
    journal = place.open()
    checkpoint: bytes | None = None
    rows: dict[bytes, bytes] = {}
    there: list[bytes] = []
    staged: list[bytes] = []
    for step in range(60):
        action = draw.choices(("append", "commit", "checkpoint", "crash", "close"), (9, 6, 2, 1, 1))
        if action == ["append"]:
            staged.append(b"%d " % step * draw.choice((0, 1, 3000)))
            journal.append(staged[-1])
        elif action == ["commit"]:
            journal.commit()
            there, staged = there + staged, []
        elif action == ["checkpoint"]:
            checkpoint, there, staged = draw.randbytes(draw.choice((0, 9, 10_000))), [], []
            for _ in range(draw.choice((0, 1, 5))):
                rows[b"%d" % draw.randrange(9)] = b"%d" % step * draw.choice((0, 1, 3000))
            gone = [key for key in rows if draw.random() < 0.2]
            journal.checkpoint(checkpoint, rows=[*rows.items(), *[(key, None) for key in gone]])
            rows = {key: value for key, value in rows.items() if key not in gone}
        elif action == ["crash"]:
            place.crash()
            journal, staged = place.open(), []
        else:
            journal.close()
            journal, there, staged = place.open(), there + staged, []
        assert journal.load() == Saved(checkpoint, there)
        assert dict(journal.rows()) == rows
        assert journal.log_bytes == sum(map(len, there + staged))
