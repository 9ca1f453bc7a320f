"""A life of a simulated node: one incarnation with its own log and its own application, which keeps
the names of all messages that it has seen.  That is the state that newcomers take over.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from thence.causal.dot import SEQ_MAX
from thence.client.elastic import Elastic
from thence.client.newcomer import Newcomer
from thence.journal.memory import MemoryDisk
from thence.sim.diary import Diary
from thence.sim.node_view import Broken
from thence.trace.record import Record

FILLER = b"x" * 40_000
"""Makes a state that takes several round trips."""


class Life:
    """One incarnation of a node: its driver, its log, its application."""

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.began = now
        self.driver: Elastic | None = None
        self.newcomer: Newcomer | None = None
        self.records: list[Record] = []
        self.seen: dict[str, bytes] = {}
        """The application: every message that it sent or took, or that was handed to it."""
        self.stable: set[str] = set()
        self.sent = 0
        self.disk: MemoryDisk | None = None
        """What survives a crash, if anything does."""
        self.diary: Diary | None = None
        """The same application once more, if its state is to be kept in the journal."""
        self.restarts = 0
        self.rejected: list[str] = []
        self.members: set[str] = set()
        self.is_leaving = False
        self.is_over = False
        self.why = ""

    def over(self, why: str) -> None:
        """It ended."""
        self.is_over, self.why = True, why
        if self.newcomer is not None:
            self.newcomer.close()

    @property
    def id(self) -> str:
        """As in ``a#2``; its name until it is let in."""
        return self.name if self.driver is None else self.driver.name

    def snapshot(self) -> Iterator[bytes]:
        """Its state, a few messages at a time."""
        items = list(self.seen.items())
        for at in range(0, len(items), 20):
            yield msgspec.msgpack.encode(items[at : at + 20])
        yield FILLER

    def resume(self, driver: Elastic) -> None:
        """Go on from what was confirmed; what was taken since is told again."""
        assert driver._ledger is not None
        names = driver.members.names
        reached = {
            names[slot]: packed & SEQ_MAX
            for slot, packed in driver._ledger.confirmed.reached.items()
        }
        self.seen = {
            dot: payload
            for dot, payload in self.seen.items()
            if int(dot.rpartition(":")[2]) <= reached.get(dot.rpartition(":")[0], 0)
        }
        if len(self.seen) != sum(reached.values()):
            raise Broken(f"{driver.name} has confirmed {reached}, and {len(self.seen)} messages")
        if self.diary is not None and self.diary.dots("had", "sent", "took") != set(self.seen):
            raise Broken(f"{driver.name} has {sorted(self.seen)}, and did {self.diary.did}")
        self.driver = driver
        self.sent = driver.client.sent & SEQ_MAX
        self.members = {*(driver._members_confirmed() or ())}
        self.restarts += 1

    def restore(self, chunks: Iterator[bytes]) -> None:
        """Take over the state of another."""
        for chunk in chunks:
            if chunk == FILLER:
                return
            self.seen.update(msgspec.msgpack.decode(chunk, type=list[tuple[str, bytes]]))
