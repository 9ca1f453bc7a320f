"""Data types that Redis does not have, as commands: one for each type, and CRDT.GET to read any.

    CRDT.COUNTER INC visits 5
    CRDT.RWSET ADD banned mallory
    CRDT.MAP UPDATE cart apples counter_resettable inc 3
    CRDT.TEXT INSERT note 0 "Dear all"
    CRDT.GET cart apples

What is concurrent is decided by the type: docs/reference/crdts.md.  Keys of these types work with
DEL, EXPIRE, TYPE, RENAME and whatever else does not ask what a key holds; some cannot be removed,
because their replicas count on one another: then DEL and its like say so.
"""

from __future__ import annotations

from collections.abc import Container, Sized
from typing import Any, Final

from thence.crdt.base import Crdt
from thence.crdt.counter_bounded import CounterBounded
from thence.crdt.counter_ranged import CounterRanged
from thence.crdt.counter_resettable import CounterResettable
from thence.crdt.flag_dw import FlagDw
from thence.crdt.flag_ew import FlagEw
from thence.crdt.map_rw import MapRw
from thence.crdt.map_uw import MapUw
from thence.crdt.register_lww import RegisterLww
from thence.crdt.register_mv import RegisterMv
from thence.crdt.sequence import Sequence
from thence.crdt.set_2p import Set2p
from thence.crdt.set_g import SetG
from thence.crdt.set_rw import SetRw
from thence.store.commands.base import Command, Database, Function
from thence.store.commands.rows import READ, READ_FAST, Rows
from thence.store.commands.type_calls import CALLS, call_named, inside, operation, render, text_of
from thence.store.commands.values import drop_if_empty
from thence.store.errors import (
    CommandError,
    WrongType,
    unknown_subcommand,
    wrong_arity,
)
from thence.store.replies import OK, Reply, Simple
from thence.store.session import Session

COUNTERS: Final = (CounterResettable, CounterBounded, CounterRanged)
SETS: Final = (SetG, Set2p, SetRw)


def typed(db: Database, key: bytes, kind: type[Crdt]) -> Any:
    """Its object of this type, or None; of sequences only texts count."""
    found = db.typed(key, kind)
    if found is not None and kind is Sequence and not found.is_text:
        raise WrongType
    return found


def _calling(name: str, kind: type[Crdt]) -> Function:
    """The command of a type."""

    def run(db: Database, session: Session, args: list[bytes]) -> Reply:
        if args[0].upper() == b"HELP" and len(args) == 1:
            return help_of(name, kind)
        call = call_named(kind, args[0])
        if call is None:
            raise CommandError(unknown_subcommand(name, args[0]))
        if not call.arguments_min <= len(args) - 2 <= call.arguments_max:
            raise CommandError(wrong_arity(f"{name}|{call.name}"))
        key = args[1]
        found = typed(db, key, kind)
        size = len(found) if kind in SETS and found is not None else 0
        db.update(key, kind, operation(kind, found, call, args[2:], db.node))
        drop_if_empty(db, key)
        found = db.typed(key, kind)
        if kind in COUNTERS:
            return 0 if found is None else render(found.value())
        if kind in SETS:
            return abs((0 if found is None else len(found)) - size)
        if kind is Sequence:
            return 0 if found is None else len(found)
        return OK

    return run


def help_of(name: str, kind: type[Crdt]) -> Reply:
    """A line for each operation."""
    lines = [f"{name.upper()} <operation> <key> [<argument> ...]. Operations are:"]
    lines += [f"{call.name.upper()} key {call.usage}".rstrip() for call in CALLS[kind.NAME]]
    lines.append("HELP")
    return [Simple(line.encode()) for line in lines]


def get(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = db.get(args[0])
    if found is None or len(args) == 1:
        return render(found)
    return render(inside(found, args[1:]))


def _object(db: Database, key: bytes) -> Crdt | None:
    """What is no string."""
    found = db.get(key)
    if found is None or isinstance(found, Crdt):
        return found
    raise WrongType


def has(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = _object(db, args[0])
    if found is None:
        return [0] * (len(args) - 1)
    if not isinstance(found, Container):
        raise WrongType
    return [int(member in found) for member in args[1:]]


def length(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = _object(db, args[0])
    if found is None:
        return 0
    if not isinstance(found, Sized):
        raise WrongType
    return len(found)


def rights(db: Database, session: Session, args: list[bytes]) -> Reply:
    """For a node, this one if none is named: how much it can decrement, and, if there is an upper
    bound, increment."""
    if len(args) > 2:
        raise CommandError(wrong_arity("crdt.rights"))
    found = db.get(args[0])
    node = text_of(args[1]) if len(args) == 2 else db.node
    if isinstance(found, CounterRanged):
        return list(found.rights(node))
    if found is None or isinstance(found, CounterBounded):
        return [0 if found is None else found.rights(node)]
    raise WrongType


_row = Rows("crdt")


def _type_row(name: str, kind: type[Crdt], summary: str) -> Command:
    return _row(name, _calling(name.lower(), kind), -2, "write denyoom", summary, (2, 2, 1))


TABLE = (
    _type_row("CRDT.COUNTER", CounterResettable, "A counter that can be reset."),
    _type_row("CRDT.BOUNDED", CounterBounded, "A counter that stays above a bound."),
    _type_row("CRDT.RANGED", CounterRanged, "A counter that stays between two bounds."),
    _type_row("CRDT.LWW", RegisterLww, "A register: the last writer wins."),
    _type_row("CRDT.MV", RegisterMv, "A register that keeps all concurrent values."),
    _type_row("CRDT.FLAG", FlagEw, "A flag: enabling wins."),
    _type_row("CRDT.DWFLAG", FlagDw, "A flag: disabling wins."),
    _type_row("CRDT.GSET", SetG, "A set that only grows."),
    _type_row("CRDT.2PSET", Set2p, "A set: what was removed never comes back."),
    _type_row("CRDT.RWSET", SetRw, "A set: removing wins."),
    _type_row("CRDT.MAP", MapUw, "A map of objects: updating wins.  A hash is one of strings."),
    _type_row("CRDT.RWMAP", MapRw, "A map of objects: removing wins."),
    _type_row("CRDT.TEXT", Sequence, "A text that several edit at once."),
    _row("CRDT.GET", get, -2, READ, "What a key holds, whatever it is; of a map a field."),
    _row("CRDT.HAS", has, -3, READ_FAST, "Which of these are in a set or map."),
    _row("CRDT.LEN", length, 2, READ_FAST, "How long a set, map, list or text is."),
    _row("CRDT.RIGHTS", rights, -2, READ_FAST, "How far a node can count a bounded counter."),
)
