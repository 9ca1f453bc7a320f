"""Lists: sequences whose concurrent pushes all stay, each run of them together.

A pop takes what this node sees first: two nodes may pop the same element at the same time.
``LSET`` puts a new element where the old one was; two at the same time leave both new elements.
Commands that wait for an element are not offered: that exactly one client gets it cannot be
promised.
"""

from __future__ import annotations

from typing import Any, Final

from thence.crdt.sequence import DELETE, INSERT, Sequence
from thence.store.commands.arguments import bounded, integer
from thence.store.commands.base import Database, Function
from thence.store.commands.kinds import list_at
from thence.store.commands.rows import (
    GROW,
    GROW_FAST,
    READ,
    READ_FAST,
    TWO_KEYS,
    WRITE,
    WRITE_FAST,
    Rows,
    counted_keys,
)
from thence.store.commands.values import drop_if_empty
from thence.store.errors import (
    INDEX_OUT_OF_RANGE,
    MUST_BE_POSITIVE,
    NO_SUCH_KEY,
    SYNTAX,
    CommandError,
    wrong_arity,
)
from thence.store.replies import NULL_ARRAY, OK, Reply
from thence.store.session import Session

COUNT_MAX: Final = 2**63 - 1
RANK_ZERO: Final = (
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... "
    "or use negative to start from the end of the list"
)


def length(db: Database, key: bytes) -> int:
    """0 if the key is not there; WrongType if it shows another type."""
    found = list_at(db, key)
    return 0 if found is None else len(found)


def lpush(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    found = list_at(db, key)
    size = 0 if found is None else len(found)
    elements = args[:0:-1]
    db.update(key, Sequence, (INSERT, 0, elements))
    return size + len(elements)


def rpush(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    found = list_at(db, key)
    size = 0 if found is None else len(found)
    elements = args[1:]
    db.update(key, Sequence, (INSERT, size, elements))
    return size + len(elements)


def lpushx(db: Database, session: Session, args: list[bytes]) -> Reply:
    return lpush(db, session, args) if length(db, args[0]) else 0


def rpushx(db: Database, session: Session, args: list[bytes]) -> Reply:
    return rpush(db, session, args) if length(db, args[0]) else 0


def _popping(left: bool, name: str) -> Function:
    def pop(db: Database, session: Session, args: list[bytes]) -> Reply:
        key = args[0]
        if len(args) == 1:
            found = list_at(db, key)
            if not found:
                return None
            size = len(found)
            at = 0 if left else size - 1
            element: Reply = found.item(at)
            db.update(key, Sequence, (DELETE, at, 1))
            if size == 1:
                drop_if_empty(db, key)
            return element
        if len(args) > 2:
            raise CommandError(wrong_arity(name))
        count = bounded(args[1], 0, COUNT_MAX, MUST_BE_POSITIVE)
        found = list_at(db, key)
        return take(db, key, found, left, count) if found else NULL_ARRAY

    return pop


def take(db: Database, key: bytes, found: Any, left: bool, count: int) -> list[Any]:
    """Remove so many elements at one end; the outermost comes first."""
    size = len(found)
    count = min(count, size)
    if not count:
        return []
    first = 0 if left else size - count
    elements = list(found.slice(first, first + count))
    db.update(key, Sequence, (DELETE, first, count))
    if count == size:
        drop_if_empty(db, key)
    return elements if left else elements[::-1]


lpop: Final = _popping(True, "lpop")
rpop: Final = _popping(False, "rpop")


def llen(db: Database, session: Session, args: list[bytes]) -> Reply:
    return length(db, args[0])


def span(first: int, last: int, size: int) -> tuple[int, int]:
    """The places from ``first`` to before the second number, of indices that may count from the
    end; the second is not greater than the first if there are none."""
    first = max(first + size, 0) if first < 0 else first
    last = last + size if last < 0 else last
    return first, min(last + 1, size)


def lrange(db: Database, session: Session, args: list[bytes]) -> Reply:
    first, last = integer(args[1]), integer(args[2])
    found = list_at(db, args[0])
    if not found:
        return []
    start, stop = span(first, last, len(found))
    return list(found.slice(start, stop)) if start < stop else []


def ltrim(db: Database, session: Session, args: list[bytes]) -> Reply:
    first, last = integer(args[1]), integer(args[2])
    key = args[0]
    size = length(db, key)
    start, stop = span(first, last, size)
    if not size:
        return OK
    if start >= stop:
        db.update(key, Sequence, (DELETE, 0, size))
        drop_if_empty(db, key)
        return OK
    if stop < size:
        db.update(key, Sequence, (DELETE, stop, size - stop))
    if start:
        db.update(key, Sequence, (DELETE, 0, start))
    return OK


def lindex(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = list_at(db, args[0])
    if not found:
        return None
    at = integer(args[1])
    if at < 0:
        at += len(found)
    if not 0 <= at < len(found):
        return None
    element: Reply = found.item(at)
    return element


def lset(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    size = length(db, key)
    if not size:
        raise CommandError(NO_SUCH_KEY)
    at = integer(args[1])
    if at < 0:
        at += size
    if not 0 <= at < size:
        raise CommandError(INDEX_OUT_OF_RANGE)
    db.update(key, Sequence, (INSERT, at, [args[2]]))
    db.update(key, Sequence, (DELETE, at + 1, 1))
    return OK


def linsert(db: Database, session: Session, args: list[bytes]) -> Reply:
    key, where, pivot, element = args
    side = where.upper()
    if side not in (b"BEFORE", b"AFTER"):
        raise CommandError(SYNTAX)
    found = list_at(db, key)
    if not found:
        return 0
    for at, present in enumerate(found):
        if present == pivot:
            size = len(found)
            db.update(key, Sequence, (INSERT, at + (side == b"AFTER"), [element]))
            return size + 1
    return -1


def lrem(db: Database, session: Session, args: list[bytes]) -> Reply:
    key, element = args[0], args[2]
    count = integer(args[1])
    found = list_at(db, key)
    if not found:
        return 0
    places = [at for at, present in enumerate(found) if present == element]
    if count > 0:
        places = places[:count]
    elif count < 0:
        places = places[count:]
    everything = len(places) == len(found)
    # From the end, so that the places in front stay what they are; neighbours go together.
    at = len(places)
    while at:
        last = first = places[at - 1]
        at -= 1
        while at and places[at - 1] == first - 1:
            first -= 1
            at -= 1
        db.update(key, Sequence, (DELETE, first, last - first + 1))
    if everything:
        drop_if_empty(db, key)
    return len(places)


def lpos(db: Database, session: Session, args: list[bytes]) -> Reply:
    rank, count, looks_max = _lpos_options(args)
    found = list_at(db, args[0])
    if not found:
        return None if count is None else []
    elements = list(found)
    size = len(elements)
    places = range(size) if rank > 0 else range(size - 1, -1, -1)
    if looks_max:
        places = places[:looks_max]
    wanted = args[1]
    skip = abs(rank) - 1
    matches: list[int] = []
    for at in places:
        if elements[at] == wanted:
            if skip:
                skip -= 1
                continue
            if count is None:
                return at
            matches.append(at)
            if len(matches) == count:
                break
    return None if count is None else matches


def _lpos_options(args: list[bytes]) -> tuple[int, int | None, int]:
    rank, count, looks_max = 1, None, 0
    for at in range(2, len(args), 2):
        option = args[at].upper()
        if at + 1 == len(args):
            raise CommandError(SYNTAX)
        if option == b"RANK":
            rank = integer(args[at + 1])
            if rank == -COUNT_MAX - 1:
                raise CommandError("ERR value is out of range")
            if not rank:
                raise CommandError(RANK_ZERO)
        elif option == b"COUNT":
            count = bounded(args[at + 1], 0, COUNT_MAX, "ERR COUNT can't be negative")
        elif option == b"MAXLEN":
            looks_max = bounded(args[at + 1], 0, COUNT_MAX, "ERR MAXLEN can't be negative")
        else:
            raise CommandError(SYNTAX)
    return rank, count, looks_max


SIDES: Final = {b"LEFT": True, b"RIGHT": False}


def move(db: Database, source: bytes, target: bytes, from_left: bool, to_left: bool) -> Reply:
    """The element that moves from one end to the other; None if there is none."""
    found = list_at(db, source)
    if not found:
        return None
    if source != target:
        length(db, target)
    element = found.item(0 if from_left else len(found) - 1)
    if source != target or len(found) > 1:
        take(db, source, found, from_left, 1)
        at = 0 if to_left else length(db, target)
        db.update(target, Sequence, (INSERT, at, [element]))
    reply: Reply = element
    return reply


def lmove(db: Database, session: Session, args: list[bytes]) -> Reply:
    from_left, to_left = SIDES.get(args[2].upper()), SIDES.get(args[3].upper())
    if from_left is None or to_left is None:
        raise CommandError(SYNTAX)
    return move(db, args[0], args[1], from_left, to_left)


def rpoplpush(db: Database, session: Session, args: list[bytes]) -> Reply:
    return move(db, args[0], args[1], from_left=False, to_left=True)


def lmpop(db: Database, session: Session, args: list[bytes]) -> Reply:
    number = bounded(args[0], 1, COUNT_MAX, "ERR numkeys should be greater than 0")
    if number + 2 > len(args):
        raise CommandError(SYNTAX)
    left = SIDES.get(args[number + 1].upper())
    if left is None:
        raise CommandError(SYNTAX)
    options = args[number + 2 :]
    count = 1
    if options:
        if len(options) == 1 or options[0].upper() != b"COUNT":
            raise CommandError(SYNTAX)
        count = bounded(options[1], 1, COUNT_MAX, "ERR count should be greater than 0")
        if len(options) > 2:
            raise CommandError(SYNTAX)
    for key in args[1 : number + 1]:
        found = list_at(db, key)
        if found:
            return [key, take(db, key, found, left, count)]
    return NULL_ARRAY


_row = Rows("list")
TABLE = (
    _row("LPUSH", lpush, -3, GROW_FAST, "Put elements in front."),
    _row("RPUSH", rpush, -3, GROW_FAST, "Put elements at the end."),
    _row("LPUSHX", lpushx, -3, GROW_FAST, "Put elements in front of a list that is there."),
    _row("RPUSHX", rpushx, -3, GROW_FAST, "Put elements at the end of a list that is there."),
    _row("LPOP", lpop, -2, WRITE_FAST, "Take elements from the front."),
    _row("RPOP", rpop, -2, WRITE_FAST, "Take elements from the end."),
    _row("LLEN", llen, 2, READ_FAST, "How many elements there are."),
    _row("LRANGE", lrange, 4, READ, "The elements from one index to another."),
    _row("LTRIM", ltrim, 4, WRITE, "Keep the elements from one index to another."),
    _row("LINDEX", lindex, 3, READ, "The element at an index."),
    _row("LSET", lset, 4, GROW, "Another element at an index."),
    _row("LINSERT", linsert, 5, GROW, "Put an element beside another."),
    _row("LREM", lrem, 4, WRITE, "Remove elements that are equal to one."),
    _row("LPOS", lpos, -3, READ, "Where elements are that are equal to one."),
    _row("LMOVE", lmove, 5, GROW, "Move an element from one list to another.", TWO_KEYS),
    _row("RPOPLPUSH", rpoplpush, 3, GROW, "As LMOVE RIGHT LEFT.", TWO_KEYS),
    _row(
        "LMPOP",
        lmpop,
        -4,
        "write movablekeys",
        "Take elements from the first list that has any.",
        (0, 0, 0),
        counted_keys(0),
    ),
)
