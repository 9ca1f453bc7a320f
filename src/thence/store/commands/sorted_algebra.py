"""Unions, intersections and differences of sorted sets; plain sets take part with scores of 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from thence.crdt.set_aw import SetAw
from thence.crdt.zset_uw import SortedSet
from thence.store.commands.arguments import INTEGER_MAX, bounded, integer, real
from thence.store.commands.base import Database, Function
from thence.store.commands.rows import NO_KEYS, Rows, counted_keys
from thence.store.commands.sorted_index import as_score
from thence.store.commands.sorted_ranges import store
from thence.store.errors import SYNTAX, CommandError
from thence.store.replies import Pairs, Reply
from thence.store.session import Session

Aggregate = Callable[[float, float], float]
NOT_A_WEIGHT: Final = "ERR weight value is not a float"
LIMIT_NEGATIVE: Final = "ERR LIMIT can't be negative"


def number_or_zero(value: float) -> float:
    """Infinity times zero counts as zero, and so does infinity less infinity."""
    return value if value == value else 0.0


def _sum(left: float, right: float) -> float:
    return number_or_zero(left + right)


AGGREGATES: Final[dict[bytes, Aggregate]] = {b"SUM": _sum, b"MIN": min, b"MAX": max}


class Source:
    """One of the sets that are combined, with its weight."""

    __slots__ = ("_found", "_scored", "weight")

    def __init__(self, db: Database, key: bytes) -> None:
        found = db.get(key)
        self._scored: Final = not isinstance(found, SetAw)
        self._found: Final = db.typed(key, SortedSet) if self._scored else found
        self.weight: float = 1.0

    def __len__(self) -> int:
        return 0 if self._found is None else len(self._found)

    def __contains__(self, member: bytes) -> bool:
        return self._found is not None and member in self._found

    def score(self, member: bytes) -> float:
        """Of a member that is there, weighed; perhaps no number."""
        return self.weight * (as_score(self._found.get(member)) if self._scored else 1.0)

    def members(self) -> Iterator[bytes]:
        """Each once, in any order; as in ranges, those that commands cannot name are left out."""
        return (member for member in self._found or () if type(member) is bytes)


class Combination:
    """The sets and options of a command: numkeys key ... [WEIGHTS ...] [AGGREGATE ...] ..."""

    __slots__ = ("aggregate", "limit", "sources", "with_scores")

    def __init__(self, db: Database, args: list[bytes], name: str, words: frozenset[bytes]) -> None:
        number = integer(args[0])
        if number < 1:
            raise CommandError(f"ERR at least 1 input key is needed for '{name}' command")
        if number > len(args) - 1:
            raise CommandError(SYNTAX)
        self.sources: Final = [Source(db, key) for key in args[1 : number + 1]]
        self.aggregate: Aggregate = _sum
        self.with_scores: bool = False
        self.limit: int = 0
        at = number + 1
        while at < len(args):
            at = self._option(args, at, words)

    def _option(self, args: list[bytes], at: int, words: frozenset[bytes]) -> int:
        """Take the option at this place; the place of the next one."""
        word = args[at].upper()
        left = len(args) - at - 1
        if word in words:
            if word == b"WEIGHTS" and left >= len(self.sources):
                for source, weight in zip(self.sources, args[at + 1 :], strict=False):
                    source.weight = real(weight, NOT_A_WEIGHT)
                return at + 1 + len(self.sources)
            if word == b"AGGREGATE" and left:
                aggregate = AGGREGATES.get(args[at + 1].upper())
                if aggregate is not None:
                    self.aggregate = aggregate
                    return at + 2
            if word == b"WITHSCORES":
                self.with_scores = True
                return at + 1
            if word == b"LIMIT" and left:
                self.limit = bounded(args[at + 1], 0, INTEGER_MAX, LIMIT_NEGATIVE)
                return at + 2
        raise CommandError(SYNTAX)

    def union(self) -> dict[bytes, float]:
        """Members of any set, with their scores."""
        scores: dict[bytes, float] = {}
        aggregate = self.aggregate
        for source in sorted(self.sources, key=len):
            for member in source.members():
                score = number_or_zero(source.score(member))
                scores[member] = aggregate(scores[member], score) if member in scores else score
        return scores

    def intersection(self) -> dict[bytes, float]:
        """Members of all sets."""
        scores: dict[bytes, float] = {}
        first, *others = sorted(self.sources, key=len)
        for member in first.members():
            if all([member in other for other in others]):
                score = number_or_zero(first.score(member))
                for other in others:
                    # What is no number makes no number of the sum, which is 0 then, as in Redis.
                    score = self.aggregate(score, other.score(member))
                scores[member] = score
        return scores

    def common(self) -> int:
        """How many members all sets have; the limit, if there are more."""
        first, *others = sorted(self.sources, key=len)
        count = 0
        for member in first.members():
            if all([member in other for other in others]):
                count += 1
                if count == self.limit:
                    break
        return count

    def difference(self) -> dict[bytes, float]:
        """Members of the first set only."""
        first, *others = self.sources
        return {
            member: number_or_zero(first.score(member))
            for member in first.members()
            if not any([member in other for other in others])
        }


Combine = Callable[[Combination], dict[bytes, float]]
_SCORES: Final = frozenset({b"WITHSCORES"})
_WEIGHED: Final = frozenset({b"WEIGHTS", b"AGGREGATE"})


def _ordered(scores: dict[bytes, float]) -> list[tuple[float, bytes]]:
    return sorted([(score, member) for member, score in scores.items()])


def _reading(combine: Combine, name: str, words: frozenset[bytes]) -> Function:
    def combined(db: Database, session: Session, args: list[bytes]) -> Reply:
        combination = Combination(db, args, name, words)
        entries = _ordered(combine(combination))
        if combination.with_scores:
            return Pairs([(member, score) for score, member in entries])
        return [member for _, member in entries]

    return combined


def _storing(combine: Combine, name: str, words: frozenset[bytes]) -> Function:
    def stored(db: Database, session: Session, args: list[bytes]) -> Reply:
        scores = combine(Combination(db, args[1:], name, words))
        return store(db, args[0], _ordered(scores))

    return stored


def zintercard(db: Database, session: Session, args: list[bytes]) -> Reply:
    return Combination(db, args, "zintercard", frozenset({b"LIMIT"})).common()


_row = Rows("sorted-set")
_READ: Final = "readonly movablekeys"
_GROW: Final = "write denyoom movablekeys"
_KEYS: Final = counted_keys(0)
_KEYS_AFTER_ONE: Final = counted_keys(1, before=1)
_UNION: Final = Combination.union
_INTER: Final = Combination.intersection
_DIFF: Final = Combination.difference
TABLE = (
    _row(
        "ZUNION",
        _reading(_UNION, "zunion", _WEIGHED | _SCORES),
        -3,
        _READ,
        "The members that any sorted set has.",
        NO_KEYS,
        _KEYS,
    ),
    _row(
        "ZINTER",
        _reading(_INTER, "zinter", _WEIGHED | _SCORES),
        -3,
        _READ,
        "The members that all sorted sets have.",
        NO_KEYS,
        _KEYS,
    ),
    _row(
        "ZDIFF",
        _reading(_DIFF, "zdiff", _SCORES),
        -3,
        _READ,
        "The members that only the first sorted set has.",
        NO_KEYS,
        _KEYS,
    ),
    _row(
        "ZINTERCARD",
        zintercard,
        -3,
        _READ,
        "How many members all sorted sets have.",
        NO_KEYS,
        _KEYS,
    ),
    _row(
        "ZUNIONSTORE",
        _storing(_UNION, "zunionstore", _WEIGHED),
        -4,
        _GROW,
        "Store what ZUNION gives.",
        (1, 1, 1),
        _KEYS_AFTER_ONE,
    ),
    _row(
        "ZINTERSTORE",
        _storing(_INTER, "zinterstore", _WEIGHED),
        -4,
        _GROW,
        "Store what ZINTER gives.",
        (1, 1, 1),
        _KEYS_AFTER_ONE,
    ),
    _row(
        "ZDIFFSTORE",
        _storing(_DIFF, "zdiffstore", frozenset()),
        -4,
        _GROW,
        "Store what ZDIFF gives.",
        (1, 1, 1),
        _KEYS_AFTER_ONE,
    ),
)
