"""CLIENT: the connections of this server, seen and dropped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from thence.store.commands.arguments import INTEGER_MAX, bounded
from thence.store.commands.base import Database, command
from thence.store.commands.help import help_of
from thence.store.errors import SYNTAX, CommandError, shown
from thence.store.replies import NOTHING, OK, Reply, Verbatim
from thence.store.session import Session

NAME_BYTES_MAX: Final = 1024
"""Of a connection's name, and of what it says about its library."""
BAD_NAME: Final = "ERR Client names cannot contain spaces, newlines or special characters."
_TYPES: Final = (b"normal", b"master", b"replica", b"slave", b"pubsub")


def check_name(name: bytes) -> None:
    """CommandError if a connection cannot be called so."""
    if len(name) > NAME_BYTES_MAX or not all([33 <= letter <= 126 for letter in name]):
        raise CommandError(BAD_NAME)


def _line(db: Database, session: Session) -> str:
    """A connection as CLIENT LIST shows it."""
    now = time.monotonic()
    topics = session.shared.topics
    queue = session.queue
    fields = {
        "id": session.id,
        "addr": session.address,
        "laddr": session.local_address,
        "name": session.name.decode(),
        "age": int(now - session.created),
        "idle": int(max(now - session.last_active, 0)),
        "flags": ("P" if session.subscriptions else "") + ("x" if queue is not None else "") or "N",
        "db": 0,
        "sub": len(topics.topics_of(session, False)),
        "psub": len(topics.topics_of(session, True)),
        "ssub": 0,
        "multi": -1 if queue is None else len(queue),
        "watch": len(session.watched),
        "events": "r",
        "cmd": session.last_command.decode().lower() or "NULL",
        "user": "default",
        "redir": -1,
        "resp": session.protocol,
        "lib-name": session.attributes.get("lib-name", b"").decode(),
        "lib-ver": session.attributes.get("lib-ver", b"").decode(),
    }
    return " ".join([f"{name}={value}" for name, value in fields.items()]) + "\n"


def _type_of(session: Session) -> bytes:
    return b"pubsub" if session.subscriptions else b"normal"


def _wanted_type(argument: bytes) -> bytes:
    found = argument.lower()
    if found not in _TYPES:
        raise CommandError(f"ERR Unknown client type '{shown(argument)}'")
    return found


def client_id(db: Database, session: Session, args: list[bytes]) -> Reply:
    return session.id


def getname(db: Database, session: Session, args: list[bytes]) -> Reply:
    return session.name or None


def setname(db: Database, session: Session, args: list[bytes]) -> Reply:
    check_name(args[1])
    session.name = args[1]
    return OK


def setinfo(db: Database, session: Session, args: list[bytes]) -> Reply:
    """Of Redis 7.2, which clients try on every connection."""
    attribute = args[1].lower()
    if attribute not in (b"lib-name", b"lib-ver"):
        raise CommandError(f"ERR Unrecognized option '{shown(args[1])}'")
    try:
        check_name(args[2])
    except CommandError:
        raise CommandError(
            f"ERR {attribute.decode()} cannot contain spaces, newlines or special characters."
        ) from None
    session.attributes[attribute.decode()] = args[2]
    return OK


def client_info(db: Database, session: Session, args: list[bytes]) -> Reply:
    return Verbatim(_line(db, session))


def client_list(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = list(session.shared.sessions.values())
    if len(args) == 3 and args[1].upper() == b"TYPE":
        wanted = _wanted_type(args[2])
        found = [each for each in found if _type_of(each) == wanted]
    elif len(args) > 2 and args[1].upper() == b"ID":
        numbers = [bounded(arg, 1, INTEGER_MAX, "ERR Invalid client ID") for arg in args[2:]]
        known = session.shared.sessions
        found = [known[number] for number in numbers if number in known]
    elif len(args) > 1:
        raise CommandError(SYNTAX)
    return Verbatim("".join([_line(db, each) for each in found]))


def kill(db: Database, session: Session, args: list[bytes]) -> Reply:
    """The old form with an address, and the new one with options."""
    sessions = session.shared.sessions
    if len(args) == 2:
        for each in list(sessions.values()):
            if each.address.encode() == args[1]:
                _end(each, session)
                return OK
        raise CommandError("ERR No such client")
    if len(args) % 2 == 0:
        raise CommandError(SYNTAX)
    tests: list[Callable[[Session], bool]] = []
    skip_me = True
    for option, value in zip(args[1::2], args[2::2], strict=True):
        if option.upper() == b"SKIPME":
            if value.lower() not in (b"yes", b"no"):
                raise CommandError(SYNTAX)
            skip_me = value.lower() == b"yes"
        else:
            tests.append(_test(option.upper(), value))
    found = [
        each
        for each in sessions.values()
        if not (skip_me and each is session) and all([test(each) for test in tests])
    ]
    for each in found:
        _end(each, session)
    return len(found)


def _test(option: bytes, value: bytes) -> Callable[[Session], bool]:
    """Whether a connection is one of those that an option of CLIENT KILL means."""
    if option == b"ID":
        number = bounded(value, 1, INTEGER_MAX, "ERR client-id should be greater than 0")
        return lambda each: each.id == number
    if option == b"TYPE":
        wanted = _wanted_type(value)
        return lambda each: _type_of(each) == wanted
    if option == b"ADDR":
        return lambda each: each.address.encode() == value
    if option == b"LADDR":
        return lambda each: each.local_address.encode() == value
    if option == b"USER":
        if value != b"default":
            raise CommandError(f"ERR No such user '{shown(value)}'")
        return lambda each: True
    raise CommandError(SYNTAX)


def _end(each: Session, session: Session) -> None:
    """Its own connection ends after the reply."""
    if each is session:
        each.closing = True
    else:
        each.kill()


def reply_mode(db: Database, session: Session, args: list[bytes]) -> Reply:
    mode = args[1].upper()
    if mode == b"ON":
        session.replies_off = False
        session.skip_reply = 0
        session.look_again()
        return OK
    if mode == b"OFF":
        session.replies_off = True
    elif mode == b"SKIP":
        if not session.replies_off:
            session.skip_reply = 2
    else:
        raise CommandError(SYNTAX)
    session.look_again()
    return NOTHING


def on_off(db: Database, session: Session, args: list[bytes]) -> Reply:
    """NO-EVICT and NO-TOUCH: nothing is ever evicted here, and nothing kept of when it was used."""
    if args[1].upper() not in (b"ON", b"OFF"):
        raise CommandError(SYNTAX)
    return OK


def getredir(db: Database, session: Session, args: list[bytes]) -> Reply:
    return -1


_GROUP: Final = "connection"
_FLAGS: Final = "noscript loading stale"
_ADMIN: Final = "admin noscript loading stale"
_rows = (
    ("ID", client_id, 2, _FLAGS, "The number of this connection."),
    ("GETNAME", getname, 2, _FLAGS, "The name of this connection."),
    ("SETNAME", setname, 3, _FLAGS, "Name this connection."),
    ("SETINFO", setinfo, 4, _FLAGS, "Say which library this is."),
    ("INFO", client_info, 2, _FLAGS, "This connection."),
    ("LIST", client_list, -2, _ADMIN, "All connections of this node."),
    ("KILL", kill, -3, _ADMIN, "Drop connections of this node."),
    ("REPLY", reply_mode, 3, _FLAGS, "Whether requests are answered."),
    ("NO-EVICT", on_off, 3, _ADMIN, "Accepted; nothing is evicted in any case."),
    ("NO-TOUCH", on_off, 3, _FLAGS, "Accepted; when keys were used is not kept."),
    ("GETREDIR", getredir, 2, _FLAGS, "-1: there is no tracking."),
)
TABLE = (
    *(
        command(f"CLIENT|{name}", function, arity, flags, group=_GROUP, summary=summary)
        for name, function, arity, flags, summary in _rows
    ),
    help_of(
        "CLIENT",
        _GROUP,
        "GETNAME",
        "    The name of this connection.",
        "GETREDIR",
        "    -1: there is no tracking.",
        "ID",
        "    The number of this connection.",
        "INFO",
        "    What is known about this connection.",
        "KILL <ip:port>",
        "    Drop the connection from there.",
        "KILL <option> <value> [<option> <value> [...]]",
        "    Drop connections. Options: ADDR, LADDR, TYPE (NORMAL|PUBSUB), USER, ID,",
        "    SKIPME (YES|NO): whether this connection stays (default: yes).",
        "LIST [TYPE (NORMAL|PUBSUB) | ID <id> [<id> ...]]",
        "    What is known about connections of this node.",
        "NO-EVICT (ON|OFF)",
        "    Accepted, and without effect: no client is ever evicted.",
        "REPLY (ON|OFF|SKIP)",
        "    Whether requests are answered.",
        "SETINFO (LIB-NAME|LIB-VER) <value>",
        "    Say which library this is.",
        "SETNAME <name>",
        "    Name this connection.",
    ),
)
