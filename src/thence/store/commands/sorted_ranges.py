"""Ranges of sorted sets: by rank, by score, by member; to read, to count, to store, to remove."""

from __future__ import annotations

from typing import Any, Final

from thence.crdt.zset_uw import SortedSet
from thence.store.commands.arguments import integer, loose_real
from thence.store.commands.base import Database, Function
from thence.store.commands.copies import replace, scored
from thence.store.commands.rows import GROW, READ, READ_FAST, TWO_KEYS, WRITE, Rows
from thence.store.commands.sorted_index import Entry, LexRange, ScoreRange, order_of
from thence.store.commands.sorted_sets import remove
from thence.store.errors import (
    MIN_OR_MAX_NOT_A_FLOAT,
    MIN_OR_MAX_NOT_LEX,
    SYNTAX,
    CommandError,
)
from thence.store.replies import Pairs, Reply
from thence.store.session import Session

RANK: Final = "BYRANK"
SCORE: Final = "BYSCORE"
LEX: Final = "BYLEX"
LIMIT_BY_RANK: Final = (
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
)
SCORES_BY_LEX: Final = "ERR syntax error, WITHSCORES not supported in combination with BYLEX"


# What is asked for.


def score_bound(argument: bytes) -> tuple[float, bool]:
    """A score, and whether the range begins after it, or ends before it."""
    number = argument.removeprefix(b"(")
    return loose_real(number, MIN_OR_MAX_NOT_A_FLOAT, huge=True), len(number) < len(argument)


def score_range(low: bytes, high: bytes) -> ScoreRange:
    """Of the arguments min and max."""
    return ScoreRange(*score_bound(low), *score_bound(high))


def lex_bound(argument: bytes) -> tuple[bytes | None, bool]:
    """A member, and whether it is left out of the range; None for ``-`` and ``+``."""
    if argument[:1] in (b"(", b"["):
        return argument[1:], argument[:1] == b"("
    if argument in (b"-", b"+"):
        return None, False
    raise CommandError(MIN_OR_MAX_NOT_LEX)


def lex_range(low: bytes, high: bytes) -> LexRange:
    """Of the arguments min and max."""
    nothing = low == b"+" or high == b"-"
    return LexRange(*lex_bound(low), *lex_bound(high), nothing)


class Wanted:
    """A range with its options, as arguments give them."""

    __slots__ = ("first", "kind", "last", "limit", "offset", "range", "reverse", "with_scores")

    def __init__(
        self, args: list[bytes], kind: str | None, reverse: bool | None, storing: bool
    ) -> None:
        """``args`` from the first bound on.  A kind or direction that is not None is that of the
        command, and no option can change it."""
        self.with_scores: bool = False
        self.offset: int = 0
        self.limit: int = -1
        self.kind: str
        self.reverse: bool
        self._options(args, kind, reverse, storing)
        if self.kind == RANK and self.limit != -1:
            raise CommandError(LIMIT_BY_RANK)
        if self.kind == LEX and self.with_scores:
            raise CommandError(SCORES_BY_LEX)
        low, high = args[0], args[1]
        if self.reverse and self.kind != RANK:
            low, high = high, low
        self.first: int = 0
        self.last: int = 0
        self.range: Any = None
        if self.kind == RANK:
            self.first, self.last = integer(low), integer(high)
        else:
            self.range = score_range(low, high) if self.kind == SCORE else lex_range(low, high)

    def _options(
        self, args: list[bytes], kind: str | None, reverse: bool | None, storing: bool
    ) -> None:
        at = 2
        while at < len(args):
            option = args[at].upper()
            if option == b"WITHSCORES" and not storing:
                self.with_scores = True
            elif option == b"LIMIT" and at + 2 < len(args):
                self.offset, self.limit = integer(args[at + 1]), integer(args[at + 2])
                at += 2
            elif option == b"REV" and reverse is None:
                reverse = True
            elif option in (b"BYLEX", b"BYSCORE") and kind is None:
                kind = option.decode()
            else:
                raise CommandError(SYNTAX)
            at += 1
        self.kind = kind or RANK
        self.reverse = bool(reverse)

    def entries(self, order: Any) -> list[Entry]:
        """What is asked for, of a sorted set in its order."""
        if self.kind == RANK:
            return self._by_rank(order)
        span = self.range.span(order)
        if span is None:
            found: Any = [entry for entry in order if self.range.has(entry[1])]
            first, last = 0, len(found)
        else:
            found = order
            first, last = span
        if self.offset < 0:
            return []
        if self.reverse:
            last = max(last - self.offset, first)
            if self.limit >= 0:
                first = max(first, last - self.limit)
            return list(found[first:last])[::-1]
        first = min(first + self.offset, last)
        if self.limit >= 0:
            last = min(last, first + self.limit)
        return list(found[first:last])

    def _by_rank(self, order: Any) -> list[Entry]:
        size = len(order)
        first = max(self.first + size, 0) if self.first < 0 else self.first
        last = min(self.last + size if self.last < 0 else self.last, size - 1)
        if first > last:
            return []
        if self.reverse:
            return list(order[size - 1 - last : size - first])[::-1]
        return list(order[first : last + 1])


# Reading.


def _reading(kind: str | None = None, reverse: bool | None = None) -> Function:
    def ranged(db: Database, session: Session, args: list[bytes]) -> Reply:
        wanted = Wanted(args[1:], kind, reverse, storing=False)
        found = db.typed(args[0], SortedSet)
        entries = [] if found is None else wanted.entries(order_of(db, args[0], found))
        if wanted.with_scores:
            return Pairs([(member, score) for score, member in entries])
        return [member for _, member in entries]

    return ranged


def zrangestore(db: Database, session: Session, args: list[bytes]) -> Reply:
    wanted = Wanted(args[2:], None, None, storing=True)
    found = db.typed(args[1], SortedSet)
    entries = [] if found is None else wanted.entries(order_of(db, args[1], found))
    return store(db, args[0], entries)


def store(db: Database, key: bytes, entries: list[Entry]) -> int:
    """Whatever the key was, it is this sorted set now; how many members it has."""
    operations = scored((member, score) for score, member in entries)
    replace(db, key, [(SortedSet, operation) for operation in operations])
    return len(entries)


def zcount(db: Database, session: Session, args: list[bytes]) -> Reply:
    scores = score_range(args[1], args[2])
    found = db.typed(args[0], SortedSet)
    if found is None:
        return 0
    first, last = scores.span(order_of(db, args[0], found))
    return last - first


def zlexcount(db: Database, session: Session, args: list[bytes]) -> Reply:
    members = lex_range(args[1], args[2])
    found = db.typed(args[0], SortedSet)
    if found is None:
        return 0
    order = order_of(db, args[0], found)
    span = members.span(order)
    if span is None:
        return sum([members.has(member) for _, member in order])
    return span[1] - span[0]


# Removing.


def _removing(kind: str) -> Function:
    def removed(db: Database, session: Session, args: list[bytes]) -> Reply:
        wanted = Wanted(args[1:], kind, reverse=False, storing=True)
        found = db.typed(args[0], SortedSet)
        entries = [] if found is None else wanted.entries(order_of(db, args[0], found))
        remove(db, args[0], [member for _, member in entries])
        return len(entries)

    return removed


_row = Rows("sorted-set")
TABLE = (
    _row("ZRANGE", _reading(), -4, READ, "Members by rank, score or name."),
    _row("ZREVRANGE", _reading(RANK, True), -4, READ, "Members by rank, backwards."),
    _row("ZRANGEBYSCORE", _reading(SCORE, False), -4, READ, "Members by score."),
    _row("ZREVRANGEBYSCORE", _reading(SCORE, True), -4, READ, "Members by score, backwards."),
    _row("ZRANGEBYLEX", _reading(LEX, False), -4, READ, "Members by name."),
    _row("ZREVRANGEBYLEX", _reading(LEX, True), -4, READ, "Members by name, backwards."),
    _row("ZRANGESTORE", zrangestore, -5, GROW, "Store what ZRANGE gives.", TWO_KEYS),
    _row("ZCOUNT", zcount, 4, READ_FAST, "How many members have scores in a range."),
    _row("ZLEXCOUNT", zlexcount, 4, READ_FAST, "How many members are in a range by name."),
    _row("ZREMRANGEBYRANK", _removing(RANK), 4, WRITE, "Remove members by rank."),
    _row("ZREMRANGEBYSCORE", _removing(SCORE), 4, WRITE, "Remove members by score."),
    _row("ZREMRANGEBYLEX", _removing(LEX), 4, WRITE, "Remove members by name."),
)
