"""SORT: the elements of a list, a set or a sorted set in another order."""

from __future__ import annotations

from collections.abc import Sequence as Elements
from typing import Any, Final

from thence.crdt.base import Crdt
from thence.crdt.map_uw import MapUw
from thence.crdt.sequence import Sequence
from thence.crdt.set_aw import SetAw
from thence.crdt.zset_uw import SortedSet
from thence.store.commands.arguments import integer, loose_real
from thence.store.commands.base import Database
from thence.store.commands.copies import inserted, replace
from thence.store.commands.hashes import field_of
from thence.store.commands.kinds import list_at
from thence.store.commands.rows import Rows
from thence.store.commands.sorted_index import order_of
from thence.store.commands.values import as_bytes
from thence.store.errors import SYNTAX, CommandError
from thence.store.replies import Reply
from thence.store.session import Session

NOT_A_SCORE: Final = "ERR One or more scores can't be converted into double"


class Options:
    """Of SORT."""

    __slots__ = ("alpha", "by", "count", "descending", "gets", "offset", "store")

    def __init__(self, args: list[bytes], storing: bool) -> None:
        self.alpha: bool = False
        self.descending: bool = False
        self.by: bytes | None = None
        self.gets: list[bytes] = []
        self.offset: int = 0
        self.count: int = -1
        self.store: bytes | None = None
        at = 0
        while at < len(args):
            at = self._take(args, at, storing)

    def _take(self, args: list[bytes], at: int, storing: bool) -> int:
        """Take the option at this place; the place of the next one."""
        word = args[at].upper()
        left = len(args) - at - 1
        if word in (b"ASC", b"DESC"):
            self.descending = word == b"DESC"
        elif word == b"ALPHA":
            self.alpha = True
        elif word == b"LIMIT" and left >= 2:
            self.offset, self.count = integer(args[at + 1]), integer(args[at + 2])
            return at + 3
        elif word == b"STORE" and left and storing:
            self.store = args[at + 1]
            return at + 2
        elif word == b"BY" and left:
            self.by = args[at + 1]
            return at + 2
        elif word == b"GET" and left:
            self.gets.append(args[at + 1])
            return at + 2
        else:
            raise CommandError(SYNTAX)
        return at + 1

    @property
    def in_order(self) -> bool:
        """Whether nothing has to be sorted: BY something that is the same for all."""
        return self.by is not None and b"*" not in self.by

    def cut(self, elements: list[bytes]) -> list[bytes]:
        """What LIMIT leaves."""
        start = max(self.offset, 0)
        return elements[start:] if self.count < 0 else elements[start : start + self.count]


def looked_up(db: Database, pattern: bytes, element: bytes) -> bytes | None:
    """What BY and GET find for an element: the string at the key that the pattern becomes, or with
    ``->`` a field of the hash there.  ``#`` is the element itself."""
    if pattern == b"#":
        return element
    before, star, after = pattern.partition(b"*")
    if not star:
        return None
    rest, arrow, field = after.partition(b"->")
    value = db.get(before + element + (rest if field else after))
    if arrow and field:
        return field_of(value, field) if type(value) is MapUw else None
    return None if value is None or isinstance(value, Crdt) else as_bytes(value)


def _elements(db: Database, key: bytes, descending: bool) -> list[bytes]:
    """As they come without sorting."""
    found = db.get(key)
    if isinstance(found, SortedSet):
        order = order_of(db, key, found)
        return [member for _, member in (reversed(order) if descending else order)]
    # Peers that are no stores may have added texts and numbers.
    if isinstance(found, SetAw):
        return [as_bytes(member) for member in found]
    elements = [as_bytes(element) for element in list_at(db, key) or ()]
    return elements[::-1] if descending else elements


def _sorted(db: Database, elements: list[bytes], options: Options) -> list[bytes]:
    keys: dict[bytes, Any] = {}
    by = options.by
    for element in elements:
        value = element if by is None else looked_up(db, by, element)
        if not options.alpha:
            # Elements of the same score are in the order of their bytes.
            keys[element] = (loose_real(value or b"", NOT_A_SCORE), element)
        elif value is None:
            keys[element] = (False, b"")
        else:
            keys[element] = (True, value)
    return sorted(elements, key=keys.__getitem__, reverse=options.descending)


def _sort(db: Database, args: list[bytes], storing: bool) -> Reply:
    options = Options(args[1:], storing)
    key = args[0]
    in_order = options.in_order
    if in_order and options.store is not None and isinstance(db.get(key), SetAw):
        # A set has no order to store.
        in_order, options.alpha, options.by = False, True, None
    elements = _elements(db, key, options.descending and in_order)
    if not in_order:
        elements = _sorted(db, elements, options)
    elements = options.cut(elements)
    results: Elements[bytes | None] = elements
    if options.gets:
        results = [looked_up(db, get, element) for element in elements for get in options.gets]
    if options.store is None:
        return list(results)
    operations = inserted(result or b"" for result in results)
    replace(db, options.store, [(Sequence, operation) for operation in operations])
    return len(results)


def sort(db: Database, session: Session, args: list[bytes]) -> Reply:
    return _sort(db, args, storing=True)


def sort_ro(db: Database, session: Session, args: list[bytes]) -> Reply:
    return _sort(db, args, storing=False)


def keys_of_sort(args: list[bytes]) -> list[bytes]:
    """The key, and that of STORE; those that patterns make are not known before."""
    found = args[:1]
    for at in range(1, len(args) - 1):
        if args[at].upper() == b"STORE":
            found = [args[0], args[at + 1]]
    return found


_row = Rows("generic")
TABLE = (
    _row(
        "SORT",
        sort,
        -2,
        "write denyoom movablekeys",
        "The elements of a list, set or sorted set in order.",
        (1, 1, 1),
        keys_of_sort,
    ),
    _row("SORT_RO", sort_ro, -2, "readonly movablekeys", "The same, without STORE."),
)
