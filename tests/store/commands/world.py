"""Nodes that run commands over keyspaces, without a network: what one node does is carried to the
others when a test says so.  The clock is the test's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from thence.crdt.base import Crdt, Op
from thence.crdt.batch import fault_in
from thence.crdt.children import UNREMOVABLE, class_of
from thence.crdt.expiry import AT, NEVER, Expiry
from thence.crdt.keyspace import CLEAR, KEYS, REMOVE, Keyspace
from thence.crdt.register_counter import SET, RegisterCounter
from thence.store.commands.base import Command
from thence.store.commands.glob import matcher
from thence.store.commands.values import as_bytes
from thence.store.errors import CommandError, WrongType, unknown_subcommand, wrong_arity
from thence.store.replies import Reply
from thence.store.session import Session, Shared
from thence.store.settings import Settings
from thence.store.topics import Topics

START_MS = 1_700_000_000_000


class VectorStamp:
    """A stamp that knows its past as a version vector."""

    def __init__(self, node: str, seq: int, clock_ms: int, past: dict[str, int]) -> None:
        self.node = node
        self.seq = seq
        self.clock_ms = clock_ms
        self.past = {**past, node: seq}

    def sees(self, stored: Any) -> bool:
        return self.past.get(stored.node, 0) >= stored.seq


class Node:
    """A database of one node, with a session of one client."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.keyspace = Keyspace()
        self.keyspace.watch = self._changes
        self.session = Session(Shared(Settings(), Topics(matcher)), 1)
        self.past: dict[str, int] = {}
        self.stamps: dict[tuple[str, int], VectorStamp] = {}
        self.indexes: dict[bytes, Any] = {}
        self.batch: list[Any] = []
        self.stamp: VectorStamp | None = None
        self.sent: list[tuple[VectorStamp, bytes]] = []

    # What commands use.

    def room_bytes(self) -> int:
        return sys.maxsize

    @property
    def node(self) -> str:
        return self.name

    def now_ms(self) -> int:
        return self.world.now_ms

    def get(self, key: bytes) -> Any:
        return None if self._is_over(key) else self.keyspace.get(key)

    def _is_over(self, key: bytes) -> bool:
        at_ms = self.keyspace.expiry_ms(key)
        return at_ms is not None and at_ms <= self.world.now_ms

    def typed(self, key: bytes, kind: type[Crdt]) -> Any:
        found = self.get(key)
        if found is None or type(found) is kind:
            return found
        raise WrongType

    def string(self, key: bytes) -> bytes | None:
        found = self.get(key)
        if isinstance(found, Crdt):
            raise WrongType
        return None if found is None else as_bytes(found)

    def update(self, key: bytes, kind: type[Crdt], op: Op) -> None:
        if self.keyspace.expiry_ms(key) is not None and self.get(key) is None:
            self.delete(key)
        self._apply(key, kind.CODE, op)

    def write(self, key: bytes, value: bytes) -> None:
        if self.expiry(key) is not None or isinstance(self.get(key), Crdt):
            self.delete(key)
        self.update(key, RegisterCounter, (SET, value))

    def delete(self, key: bytes) -> None:
        for code in self.keyspace.codes(key):
            if class_of(code).NAME in UNREMOVABLE:
                raise CommandError(f"ERR a {class_of(code).NAME} cannot be removed")
        self._apply(key, KEYS, (REMOVE,))

    def expire(self, key: bytes, at_ms: int | None) -> None:
        self._apply(key, Expiry.CODE, (NEVER,) if at_ms is None else (AT, at_ms))

    def expiry(self, key: bytes) -> int | None:
        return self.keyspace.expiry_ms(key)

    def codes(self, key: bytes) -> list[int]:
        return self.keyspace.codes(key)

    def keys(self) -> Iterable[bytes]:
        return [key for key in self.keyspace if self.get(key) is not None]

    def size(self) -> int:
        return len(self.keyspace)

    @property
    def changes(self) -> Any:
        return dict(self.past), len(self.batch)

    def flush_all(self) -> None:
        self._apply(b"", KEYS, (CLEAR,))

    def stable(self, key: bytes) -> bool:
        return self.keyspace.is_stable(key)

    def token(self) -> bytes:
        return repr(sorted(self.past.items())).encode()

    def index(self, key: bytes, make: Callable[[], Any]) -> Any:
        if key not in self.indexes:
            self.indexes[key] = make()
        return self.indexes[key]

    def _changes(self, key: Any, code: int, op: Op | None) -> None:
        index = self.indexes.get(key)
        if op is None or index is None:
            return
        if code == KEYS:
            del self.indexes[key]
        elif code in (3, 5, 16) and len(op) > 1:
            index.touched(op[1])
        else:
            index.touched_all()

    # Replication.

    def _apply(self, key: bytes, code: int, op: Op) -> None:
        assert fault_in(key, code, op) == "", (key, code, op)
        if self.stamp is None:
            seq = self.past.get(self.name, 0) + 1
            self.stamp = VectorStamp(self.name, seq, self.world.now_ms, self.past)
            self.past[self.name] = seq
            self.stamps[self.name, seq] = self.stamp
        self.batch += (key, code, op)
        self.keyspace.apply(key, code, op, self.stamp)

    def flush(self) -> None:
        """The end of a turn."""
        if self.stamp is not None:
            self.sent.append((self.stamp, msgspec.msgpack.encode(self.batch)))
            self.stamp, self.batch = None, []

    def receive(self, sent: VectorStamp, payload: bytes) -> None:
        stamp = VectorStamp(sent.node, sent.seq, sent.clock_ms, sent.past)
        self.stamps[sent.node, sent.seq] = stamp
        self.past[sent.node] = sent.seq
        items = msgspec.msgpack.decode(payload)
        for at in range(0, len(items), 3):
            self.keyspace.apply(items[at], items[at + 1], items[at + 2], stamp)

    def stabilise(self) -> None:
        self.keyspace.stabilise(set(self.stamps.values()))
        self.stamps.clear()

    # A client.

    def run(self, *words: bytes | str | float) -> Reply:
        """The reply to a command, which may be a CommandError."""
        name, *args = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        full = name.decode().upper()
        if full in self.world.containers:
            if not args:
                return CommandError(wrong_arity(full))
            full = f"{full}|{args[0].decode('latin-1').upper()}"
            if full not in self.world.commands:
                return CommandError(unknown_subcommand(name.decode(), args[0]))
        command = self.world.commands[full]
        if not command.arguments_min <= len(args) <= command.arguments_max:
            return CommandError(wrong_arity(command.name))
        before = len(self.batch)
        try:
            return command.function(self, self.session, args)
        except CommandError as error:
            assert len(self.batch) == before, f"{full} changed something and failed: {error}"
            return error


class World:
    """A few nodes, and everything that they have to say to one another."""

    def __init__(self, tables: Iterable[Iterable[Command]], count: int = 1) -> None:
        self.now_ms = START_MS
        self.commands = {command.name: command for table in tables for command in table}
        self.containers = {n.partition("|")[0] for n in self.commands if "|" in n}
        self.nodes = [Node("abc"[number], self) for number in range(count)]

    def run(self, *words: bytes | str | float) -> Reply:
        """By the first node."""
        return self.nodes[0].run(*words)

    def exchange(self, stabilise: bool = True) -> None:
        """Everybody gets everything.  Batches of one node at most since the last time, or batches
        that are concurrent: those of a node are carried out in their order."""
        for node in self.nodes:
            node.flush()
        for node in self.nodes:
            for stamp, payload in node.sent:
                for other in self.nodes:
                    if other is not node:
                        other.receive(stamp, payload)
            node.sent.clear()
        if stabilise:
            self.stabilise()

    def stabilise(self) -> None:
        """Everything is stable, for what is not sent yet is flushed first."""
        for node in self.nodes:
            node.flush()
        if len(self.nodes) == 1:
            self.nodes[0].sent.clear()
        for node in self.nodes:
            node.stabilise()
