"""Times at which keys go, as arguments give them, and the commands about them."""

from __future__ import annotations

from typing import Final

from thence.crdt.base import Crdt
from thence.crdt.expiry import NEVER_MS
from thence.store.commands.arguments import INTEGER_MAX, INTEGER_MIN, integer
from thence.store.commands.base import Database, Function
from thence.store.commands.rows import READ_FAST, WRITE_FAST, Rows
from thence.store.commands.values import check_removable
from thence.store.errors import SYNTAX, CommandError, invalid_expire, shown
from thence.store.replies import Reply
from thence.store.session import Session

Unit = tuple[int, bool]
"""(milliseconds in one, whether it counts from now)."""
SECONDS_FROM_NOW: Final = (1000, True)
MS_FROM_NOW: Final = (1, True)
SECONDS_AT: Final = (1000, False)
MS_AT: Final = (1, False)
OPTION_UNITS: Final[dict[bytes, Unit]] = {
    b"EX": SECONDS_FROM_NOW,
    b"PX": MS_FROM_NOW,
    b"EXAT": SECONDS_AT,
    b"PXAT": MS_AT,
}
"""The options of SET and GETEX."""
TIME_MS_MAX: Final = NEVER_MS - 1
"""The last one that is not never; so far away that one millisecond makes no difference."""


def moment(db: Database, argument: bytes, unit: Unit, name: str, past: bool) -> int:
    """The time that an argument says, in milliseconds since 1970.  ``past``: whether zero and
    negative numbers are allowed, which are long ago."""
    number = integer(argument)
    scale, from_now = unit
    ms = number * scale
    at_ms = ms + db.now_ms() if from_now else ms
    if (number <= 0 and not past) or ms < INTEGER_MIN or at_ms > INTEGER_MAX:
        raise CommandError(invalid_expire(name))
    return min(at_ms, TIME_MS_MAX)


def expire_at(db: Database, key: bytes, at_ms: int) -> None:
    """The key goes at that time; at once if it is over."""
    if at_ms <= db.now_ms():
        db.delete(key)
    else:
        db.expire(key, at_ms)


CONFLICT: Final = "ERR NX and XX, GT or LT options at the same time are not compatible"
GREATER_AND_LESS: Final = "ERR GT and LT options at the same time are not compatible"


def _conditions(args: list[bytes]) -> set[bytes]:
    given = set()
    for argument in args:
        option = argument.upper()
        if option not in (b"NX", b"XX", b"GT", b"LT"):
            raise CommandError(f"ERR Unsupported option {shown(argument)}")
        given.add(option)
    if b"NX" in given and len(given) > 1:
        raise CommandError(CONFLICT)
    if b"GT" in given and b"LT" in given:
        raise CommandError(GREATER_AND_LESS)
    return given


def _allowed(given: set[bytes], now: int | None, wanted: int) -> bool:
    """Whether the options let the time be changed; a key without one goes after all others."""
    if b"NX" in given and now is not None:
        return False
    if b"XX" in given and now is None:
        return False
    if b"GT" in given and (now is None or wanted <= now):
        return False
    return not (b"LT" in given and now is not None and wanted >= now)


def expiring(name: str, unit: Unit) -> Function:
    """EXPIRE and its like."""

    def expire(db: Database, session: Session, args: list[bytes]) -> Reply:
        given = _conditions(args[2:]) if len(args) > 2 else None
        key = args[0]
        at_ms = moment(db, args[1], unit, name, past=True)
        found = db.get(key)
        if found is None:
            return 0
        if isinstance(found, Crdt):
            check_removable(db, [key])
        if given and not _allowed(given, db.expiry(key), at_ms):
            return 0
        expire_at(db, key, at_ms)
        return 1

    return expire


NO_KEY: Final = -2
NEVER: Final = -1


def remaining(scale: int) -> Function:
    """TTL and PTTL."""

    def ttl(db: Database, session: Session, args: list[bytes]) -> Reply:
        if db.get(args[0]) is None:
            return NO_KEY
        at_ms = db.expiry(args[0])
        if at_ms is None:
            return NEVER
        left = max(at_ms - db.now_ms(), 0)
        return (left + scale // 2) // scale

    return ttl


def expire_time(scale: int) -> Function:
    """EXPIRETIME and PEXPIRETIME."""

    def time_of(db: Database, session: Session, args: list[bytes]) -> Reply:
        if db.get(args[0]) is None:
            return NO_KEY
        at_ms = db.expiry(args[0])
        if at_ms is None:
            return NEVER
        return (at_ms + scale // 2) // scale

    return time_of


def persist(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    if db.get(key) is None or db.expiry(key) is None:
        return 0
    db.expire(key, None)
    return 1


class ExpireOptions:
    """EX, PX, EXAT, PXAT, KEEPTTL and PERSIST among the options of SET and GETEX; at most one."""

    __slots__ = ("_at", "_given", "keep", "persist")

    def __init__(self) -> None:
        self._at = -1
        self._given = b""
        self.keep = False
        self.persist = False

    def take(self, args: list[bytes], at: int, name: str) -> int:
        """Take the option at this place; the place of the next one, ``at`` if this is none.  The
        number is left to ``time_ms``: Redis finds wrong words before it finds wrong numbers."""
        option = args[at].upper()
        if option in OPTION_UNITS and at + 1 < len(args):
            self._only(option)
            self._at = at
            return at + 2
        if option == b"KEEPTTL" and name == "set":
            self._only(option)
            self.keep = True
            return at + 1
        if option == b"PERSIST" and name == "getex":
            self._only(option)
            self.persist = True
            return at + 1
        return at

    def time_ms(self, db: Database, args: list[bytes], name: str) -> int | None:
        """The time, if one is given."""
        if self._at < 0:
            return None
        unit = OPTION_UNITS[args[self._at].upper()]
        return moment(db, args[self._at + 1], unit, name, past=False)

    def _only(self, option: bytes) -> None:
        """As in Redis: one of them, which may come again; then the last one counts."""
        if self._given not in (b"", option):
            raise CommandError(SYNTAX)
        self._given = option


_row = Rows("generic")
TABLE = (
    _row(
        "EXPIRE",
        expiring("expire", SECONDS_FROM_NOW),
        -3,
        WRITE_FAST,
        "The key goes after so many seconds.",
    ),
    _row(
        "PEXPIRE",
        expiring("pexpire", MS_FROM_NOW),
        -3,
        WRITE_FAST,
        "The key goes after so many milliseconds.",
    ),
    _row(
        "EXPIREAT",
        expiring("expireat", SECONDS_AT),
        -3,
        WRITE_FAST,
        "The key goes at a time in seconds since 1970.",
    ),
    _row(
        "PEXPIREAT",
        expiring("pexpireat", MS_AT),
        -3,
        WRITE_FAST,
        "The key goes at a time in milliseconds since 1970.",
    ),
    _row("TTL", remaining(1000), 2, READ_FAST, "Seconds until the key goes."),
    _row("PTTL", remaining(1), 2, READ_FAST, "Milliseconds until the key goes."),
    _row("EXPIRETIME", expire_time(1000), 2, READ_FAST, "When the key goes, seconds since 1970."),
    _row("PEXPIRETIME", expire_time(1), 2, READ_FAST, "When it goes, milliseconds since 1970."),
    _row("PERSIST", persist, 2, WRITE_FAST, "The key stays."),
)
