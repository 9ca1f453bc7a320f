"""Nodes of the store with a bug in them, so that tests show that they would find it.

``python -c "...; sys.exit(saboteurs.serve())" NAME serve ...`` is ``thence serve ...`` with the bug
of that name.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from thence.client.replica import Replica
from thence.journal.sqlite import SqliteJournal
from thence.store.database import Database

SLOW_S = 0.03


def slow_commit() -> None:
    """No bug: it takes time until something is written down."""
    commit = SqliteJournal.commit

    def slow(self: SqliteJournal) -> None:
        time.sleep(SLOW_S)
        commit(self)

    SqliteJournal.commit = slow  # type: ignore[method-assign]


def answer_early() -> None:
    """Replies leave before what they acknowledge is written down."""
    slow_commit()
    Replica.is_written = True  # type: ignore[assignment, method-assign]


def apply_twice() -> None:
    """After a crash, what was done since the last checkpoint is done twice."""
    sent = Replica.sent

    def twice(self: Replica, tag: Any) -> None:
        sent(self, tag)
        sent(self, tag)

    Replica.sent = twice  # type: ignore[method-assign]


def forget_removals() -> None:
    """After a crash, keys that were removed since the last checkpoint are there."""
    from thence.crdt.keyspace import KEYS, Keyspace

    apply = Keyspace.apply

    def lossy(self: Keyspace, key: Any, code: int, op: Any, stamp: Any) -> None:
        if code != KEYS or self.watch is not None:  # watched by a store that is open
            apply(self, key, code, op, stamp)

    Keyspace.apply = lossy  # type: ignore[method-assign]


def wait_for_nothing() -> None:
    """CAUSAL.WAIT answers at once."""

    async def at_once(self: Database, token: bytes, timeout_ms: int) -> bool:
        return True

    Database.wait_token = at_once  # type: ignore[method-assign]


BUGS: Mapping[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        slow_commit, answer_early, apply_twice, forget_removals, wait_for_nothing,
    )
}  # fmt: skip


def serve() -> int:
    """The process of such a node."""
    from thence.cli.main import main

    BUGS[sys.argv[1]]()
    return main(sys.argv[2:])
