"""Sorted sets: members with scores.

``ZADD`` against ``ZADD`` on another node at the same time: the last writer wins.  ``ZINCRBY`` adds
up, and what adds or counts wins over ``ZREM``: a member of score 4.1 that one node removes while
another counts it up by 2 has the score 2.  ``ZPOPMIN`` and its like pick here and remove what they
picked: two nodes may pop the same member at the same time.

Scores are summed exactly, as the decimal numbers they print as: 0.1 and 0.2 make 0.3.
"""

from __future__ import annotations

import math
from typing import Any, Final

from thence.crdt.children import REGISTER, REMOVE, UPDATE
from thence.crdt.register_counter import INC, SET
from thence.crdt.zset_uw import SortedSet
from thence.store.commands.arguments import INTEGER_MAX, bounded, real
from thence.store.commands.base import Database, Function
from thence.store.commands.rows import (
    GROW_FAST,
    NO_KEYS,
    READ,
    READ_FAST,
    WRITE_FAST,
    Rows,
    counted_keys,
)
from thence.store.commands.samples import Picker, picked, random_options
from thence.store.commands.sorted_index import Entry, as_score, order_of
from thence.store.commands.values import drop_if_empty, shortest
from thence.store.errors import (
    MUST_BE_POSITIVE,
    RESULTING_SCORE_NAN,
    SYNTAX,
    CommandError,
    wrong_arity,
)
from thence.store.replies import NULL_ARRAY, Pairs, Reply
from thence.store.session import Session

BOTH: Final = "ERR XX and NX options at the same time are not compatible"
THREE: Final = "ERR GT, LT, and/or NX options at the same time are not compatible"
ONE_PAIR: Final = "ERR INCR option supports a single increment-element pair"


DIGITS: Final = frozenset([b"%d" % digit for digit in range(10)])


class AddOptions:
    """The options of ZADD, and where its pairs begin."""

    __slots__ = ("at", "given")
    WORDS: Final = frozenset({b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"})

    def __init__(self, args: list[bytes]) -> None:
        given = set()
        at = 1
        while at < len(args) and args[at].upper() in self.WORDS:
            given.add(args[at].upper())
            at += 1
        self.given: Final = given
        self.at: Final = at
        pairs = len(args) - at
        if not pairs or pairs % 2:
            raise CommandError(SYNTAX)
        if b"NX" in given and b"XX" in given:
            raise CommandError(BOTH)
        if len(given & {b"NX", b"GT", b"LT"}) > 1:
            raise CommandError(THREE)
        if b"INCR" in given and pairs > 2:
            raise CommandError(ONE_PAIR)

    def allow(self, old: float | None, new: float) -> bool:
        """Whether a member may be added (``old`` is None) or get another score."""
        given = self.given
        if old is None:
            return b"XX" not in given
        if b"NX" in given or (b"GT" in given and new <= old):
            return False
        return not (b"LT" in given and new >= old)


def score_of(found: Any, member: bytes) -> float | None:
    """The score of a member; None if it, or the sorted set, is not there."""
    value = None if found is None else found.get(member)
    return None if value is None else as_score(value)


def put(db: Database, key: bytes, member: bytes, score: float) -> None:
    """Give a member a score."""
    db.update(key, SortedSet, (UPDATE, member, REGISTER, (SET, shortest(score))))


def zadd(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    if len(args) == 3 and args[1][-1:] in DIGITS:
        # One pair, by far the most frequent; no option ends with a digit.
        score = real(args[1])
        found = db.typed(key, SortedSet)
        new = 1 if found is None or args[2] not in found else 0
        put(db, key, args[2], score)
        return new
    options = AddOptions(args)
    if b"INCR" in options.given:
        return _increment(db, args, options)
    scores = [real(score) for score in args[options.at :: 2]]
    found = db.typed(key, SortedSet)
    added = updated = 0
    # What a member has by now, for it may come more than once.
    now: dict[bytes, float | None] = {}
    for score, member in zip(scores, args[options.at + 1 :: 2], strict=True):
        old = now[member] if member in now else score_of(found, member)
        now[member] = old
        if not options.allow(old, score):
            continue
        if old is None:
            added += 1
        elif old != score:
            updated += 1
        # The score it has already is written as well: it wins over a remove elsewhere.
        put(db, key, member, score)
        now[member] = score
    return added + updated if b"CH" in options.given else added


def _increment(db: Database, args: list[bytes], options: AddOptions) -> Reply:
    """The new score; None if the options do not allow it."""
    key, member = args[0], args[options.at + 1]
    amount = real(args[options.at])
    found = db.typed(key, SortedSet)
    old = score_of(found, member)
    new = amount if old is None else old + amount
    if new != new:
        raise CommandError(RESULTING_SCORE_NAN)
    if not options.allow(old, new):
        return None
    if math.isinf(new):
        # Nothing adds up with infinity; from here on every count leaves it what it is.
        put(db, key, member, new)
        return new
    db.update(key, SortedSet, (UPDATE, member, REGISTER, (INC, shortest(amount))))
    return score_of(db.typed(key, SortedSet), member)


def zincrby(db: Database, session: Session, args: list[bytes]) -> Reply:
    return _increment(db, args, AddOptions(args))


def remove(db: Database, key: bytes, members: list[bytes]) -> None:
    """Members that are there."""
    for member in members:
        db.update(key, SortedSet, (REMOVE, member))
    if members:
        drop_if_empty(db, key)


def zrem(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = db.typed(args[0], SortedSet)
    if found is None:
        return 0
    members = [member for member in dict.fromkeys(args[1:]) if member in found]
    remove(db, args[0], members)
    return len(members)


def zscore(db: Database, session: Session, args: list[bytes]) -> Reply:
    return score_of(db.typed(args[0], SortedSet), args[1])


def zmscore(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = db.typed(args[0], SortedSet)
    return [score_of(found, member) for member in args[1:]]


def zcard(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = db.typed(args[0], SortedSet)
    return 0 if found is None else len(found)


def _ranking(reverse: bool, name: str) -> Function:
    def rank(db: Database, session: Session, args: list[bytes]) -> Reply:
        if len(args) > 3:
            raise CommandError(wrong_arity(name))
        with_score = len(args) == 3
        if with_score and args[2].upper() != b"WITHSCORE":
            raise CommandError(SYNTAX)
        found = db.typed(args[0], SortedSet)
        score = score_of(found, args[1])
        if score is None:
            return NULL_ARRAY if with_score else None
        order = order_of(db, args[0], found)
        place: int = order.bisect_left((score, args[1]))
        if reverse:
            place = len(order) - 1 - place
        return [place, score] if with_score else place

    return rank


zrank: Final = _ranking(False, "zrank")
zrevrank: Final = _ranking(True, "zrevrank")


def take(db: Database, key: bytes, found: SortedSet, lowest: bool, count: int) -> list[Entry]:
    """Remove so many members at one end; the outermost comes first."""
    order = order_of(db, key, found)
    count = min(count, len(order))
    entries = list(order[:count] if lowest else reversed(order[len(order) - count :]))
    remove(db, key, [member for _, member in entries])
    return entries


def _popping(lowest: bool) -> Function:
    def pop(db: Database, session: Session, args: list[bytes]) -> Reply:
        if len(args) > 2:
            raise CommandError(SYNTAX)
        count = bounded(args[1], 0, INTEGER_MAX, MUST_BE_POSITIVE) if len(args) == 2 else 1
        found = db.typed(args[0], SortedSet)
        entries = [] if found is None else take(db, args[0], found, lowest, count)
        pairs = [(member, score) for score, member in entries]
        if len(args) == 2:
            return Pairs(pairs)
        return list(pairs[0]) if pairs else []

    return pop


zpopmin: Final = _popping(True)
zpopmax: Final = _popping(False)
ENDS: Final = {b"MIN": True, b"MAX": False}


def zmpop(db: Database, session: Session, args: list[bytes]) -> Reply:
    number = bounded(args[0], 1, INTEGER_MAX, "ERR numkeys should be greater than 0")
    if number + 2 > len(args):
        raise CommandError(SYNTAX)
    lowest = ENDS.get(args[number + 1].upper())
    if lowest is None:
        raise CommandError(SYNTAX)
    options = args[number + 2 :]
    count = 1
    if options:
        if len(options) == 1 or options[0].upper() != b"COUNT":
            raise CommandError(SYNTAX)
        count = bounded(options[1], 1, INTEGER_MAX, "ERR count should be greater than 0")
        if len(options) > 2:
            raise CommandError(SYNTAX)
    for key in args[1 : number + 1]:
        found = db.typed(key, SortedSet)
        if found is not None:
            entries = take(db, key, found, lowest, count)
            return [key, [[member, score] for score, member in entries]]
    return NULL_ARRAY


def zrandmember(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    if len(args) == 1:
        found = db.typed(key, SortedSet)
        return None if found is None else _picker(db, session, key, found).one()
    count, with_scores = random_options(args, b"WITHSCORES")
    found = db.typed(key, SortedSet)
    if found is None:
        return []
    members = picked(_picker(db, session, key, found), found, count)
    if not with_scores:
        return members
    return Pairs([(member, score_of(found, member)) for member in members])


def _picker(db: Database, session: Session, key: bytes, found: Any) -> Picker:
    return Picker(db, session, ("zset", key), found, len(found), lambda: list(found))


_row = Rows("sorted-set")
TABLE = (
    _row("ZADD", zadd, -4, GROW_FAST, "Add members, or give them other scores."),
    _row("ZINCRBY", zincrby, 4, GROW_FAST, "Count a score up."),
    _row("ZREM", zrem, -3, WRITE_FAST, "Remove members."),
    _row("ZSCORE", zscore, 3, READ_FAST, "The score of a member."),
    _row("ZMSCORE", zmscore, -3, READ_FAST, "The scores of several members."),
    _row("ZCARD", zcard, 2, READ_FAST, "How many members there are."),
    _row("ZRANK", zrank, -3, READ_FAST, "How many members are before one."),
    _row("ZREVRANK", zrevrank, -3, READ_FAST, "How many members are after one."),
    _row("ZPOPMIN", zpopmin, -2, WRITE_FAST, "Take members from the low end."),
    _row("ZPOPMAX", zpopmax, -2, WRITE_FAST, "Take members from the high end."),
    _row(
        "ZMPOP",
        zmpop,
        -4,
        "write movablekeys",
        "Take members from the first sorted set that has any.",
        NO_KEYS,
        counted_keys(0),
    ),
    _row("ZRANDMEMBER", zrandmember, -2, READ, "Members picked at random."),
)
