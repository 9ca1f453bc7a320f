"""What a command is, and what it may use.

A module of commands has functions and a table of them:

    def get(db: Database, session: Session, args: list[bytes]) -> Reply:
        return db.string(args[0])

    TABLE = (
        command("GET", get, 2, "readonly fast", keys=(1, 1, 1), summary="The value of a string."),
        ...
    )

and registry.py puts the tables together as ``COMMANDS``.

- ``args`` has no name of the command in it; they may be kept, nobody changes them.
- ``arity`` is that of Redis: it counts the name, and negative means "at least".  It is checked
  before the function is called, so ``args[0]`` is there if the arity says so.
- ``keys`` is (first, last, step) as COMMAND shows them, counted from the name, which is 0; a
  negative last counts from the end.  Commands whose keys are elsewhere (a number says how many)
  give ``keys_of``, a function from args to keys, and the flag ``movablekeys``.
- Flags are those of Redis: exactly one of ``write`` and ``readonly`` if the command touches keys,
  and ``fast``, ``denyoom``, ``noscript``, ``loading``, ``stale``, ``no_auth``, ``pubsub``,
  ``no_multi``, ``blocking``, ``admin`` where they apply.  A command with ``write`` runs only while
  the group has room.  ``no_auth`` is allowed before AUTH, ``no_multi`` is not allowed in MULTI.
- The reply is a plain value, see replies.py.  What goes wrong is raised: ``CommandError(TEXT)``
  with a text of errors.py, ``WrongType()``; nothing was changed then.
- A command runs to its end without awaiting.  One that has to wait returns ``Later``.
- Numbers in arguments: ``integer`` and ``real`` of arguments.py, as strict as Redis is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

from thence.crdt.base import Crdt, Op
from thence.store.replies import Reply
from thence.store.session import Session


class Index(Protocol):
    """Something that is derived from the value of a key and kept in step with it.  It is told of
    operations of clients and of other nodes alike, no matter whether before or after they are
    carried out: it looks when it is asked next."""

    def touched(self, field: Any) -> None:
        """An operation on this field, or element."""

    def touched_all(self) -> None:
        """Anything may be different."""


class Database(Protocol):
    """The store, as commands see it; store/database.py is the one there is."""

    @property
    def node(self) -> str:
        """The name of this node, as stamps have it."""

    # Values.
    def now_ms(self) -> int:
        """The wall clock."""

    def get(self, key: bytes) -> Any:
        """What the key shows: bytes, int or float for a string, else its Crdt; None: nothing."""

    def typed(self, key: bytes, kind: type[Crdt]) -> Any:
        """Its object of this type, or None; WrongType if the key shows another type."""

    def string(self, key: bytes) -> bytes | None:
        """A string as bytes; WrongType if the key shows another type."""

    def update(self, key: bytes, kind: type[Crdt], op: Op) -> None:
        """Carry out an operation here and now, and queue it for the other nodes."""

    def write(self, key: bytes, value: bytes) -> None:
        """Whatever the key was, it is this string now, and stays."""

    def delete(self, key: bytes) -> None:
        """Reset every type of the key, and its expiry, as observed here."""

    def expire(self, key: bytes, at_ms: int | None) -> None:
        """None: never."""

    def expiry(self, key: bytes) -> int | None:
        """None: never."""

    def codes(self, key: bytes) -> list[int]:
        """The numbers of the types of which the key holds something, shown or not."""

    def keys(self) -> Iterable[bytes]:
        """The keys that show something."""

    def size(self) -> int: ...

    @property
    def changes(self) -> object:
        """The same as before only if nothing was written meanwhile; None: that is not known."""

    def flush_all(self) -> None: ...

    def index(self, key: bytes, make: Callable[[], Index]) -> Any:
        """What ``make`` gave when it was last called for this key: it is kept, and told of changes,
        until the key goes."""

    # Publish and subscribe.
    def publish(self, channel: bytes, message: bytes) -> None:
        """To the subscribers of all nodes, in causal order."""

    def subscribe(self, callback: Callable[[bytes, bytes], object]) -> object:
        """Call it with channel and message of everything published, this node's own included."""

    # Writing down, and room.
    @property
    def uncommitted(self) -> bool:
        """A write is not written down yet: no reply may leave."""

    def on_commit(self, callback: Callable[[str | None], object]) -> object:
        """Call it once when everything written so far is written down; with a text if it cannot
        be."""

    @property
    def failure(self) -> str:
        """Why nothing can be written any more; empty: it can."""

    def has_room(self) -> bool:
        """Whether the group takes another write."""

    def until_room(self) -> Awaitable[object]:
        """Done when it is worth asking ``has_room`` again."""

    # Transactions.
    def begin(self) -> None:
        """What is written until ``end`` is visible at the other nodes all or nothing."""

    def end(self) -> None: ...

    def room_bytes(self) -> int:
        """That may still be written without breaking what has to stay whole."""

    def watch(self, key: bytes) -> int:
        """Its ``version`` from now on; to be taken back with ``unwatch``, as often."""

    def unwatch(self, keys: Iterable[bytes]) -> None:
        """Who watched each of these once watches them no more."""

    def version(self, key: bytes) -> int:
        """A number that is another one whenever the key, which is watched, may have changed."""

    # Causality.
    def token(self) -> bytes:
        """What this node has seen, for a client that moves to another node."""

    def covers(self, token: bytes) -> bool:
        """Whether this node has seen all of it.  CommandError if it is no token."""

    def wait_token(self, token: bytes, timeout_ms: int) -> Awaitable[bool]:
        """Until ``covers``; 0 waits for ever; False: the time is over."""

    @property
    def last_write(self) -> Any:
        """Stands for everything written here so far."""

    def wait_replicas(self, count: int, timeout_ms: int, write: Any) -> Awaitable[int]:
        """Until so many other nodes have it; how many have when that is so or the time is over."""

    def stable(self, key: bytes) -> bool:
        """Whether everything about the key is stable: every node has it."""

    def info(self) -> dict[str, dict[str, object]]:
        """Sections of INFO with their fields."""


Function = Callable[[Database, Session, list[bytes]], Reply]
KeysOf = Callable[[list[bytes]], list[bytes]]


class Command:
    """An entry of the table."""

    __slots__ = (
        "arguments_max",
        "arguments_min",
        "arity",
        "flags",
        "function",
        "group",
        "keys",
        "keys_of",
        "name",
        "summary",
        "write",
    )

    def __init__(
        self,
        name: str,
        function: Function,
        arity: int,
        flags: frozenset[str],
        keys: tuple[int, int, int],
        keys_of: KeysOf | None,
        group: str,
        summary: str,
    ) -> None:
        self.name: Final = name
        self.function: Final = function
        self.arity: Final = arity
        self.arguments_min: Final = abs(arity) - 1
        self.arguments_max: Final = arity - 1 if arity > 0 else 2**31
        self.flags: Final = flags
        self.write: Final = "write" in flags
        self.keys: Final = keys
        self.keys_of: Final = keys_of
        self.group: Final = group
        self.summary: Final = summary

    def __repr__(self) -> str:
        return f"Command({self.name})"

    def keys_in(self, args: list[bytes]) -> list[bytes]:
        """The keys among the arguments of a call."""
        if self.keys_of is not None:
            return self.keys_of(args)
        first, last, step = self.keys
        if not first:
            return []
        end = last if last >= 0 else len(args) + 1 + last
        return args[first - 1 : end : step]


def command(
    name: str,
    function: Function,
    arity: int,
    flags: str = "",
    *,
    keys: tuple[int, int, int] = (0, 0, 0),
    keys_of: KeysOf | None = None,
    group: str = "generic",
    summary: str = "",
) -> Command:
    """An entry of a table; flags are separated by spaces.  ``group`` is that of COMMAND DOCS:
    string, hash, set, sorted-set, list, generic, connection, server, pubsub, transactions; crdt."""
    return Command(name, function, arity, frozenset(flags.split()), keys, keys_of, group, summary)


Table = tuple[Command, ...]
