"""One node of a generated dynamic execution (tests/trace/dynamics.py), as plain sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.trace.executions import D

Dots = frozenset[D]


@dataclass(frozen=True)
class View:
    members: frozenset[str]
    joins: tuple[str, ...] = ()
    removals: tuple[tuple[str, str], ...] = ()  # kind of record, node


@dataclass(frozen=True)
class Phantom:
    dot: D
    context: Dots
    view: int


@dataclass(frozen=True)
class Confirmed:
    """What an application may have confirmed; the rest is taken back by a restart."""

    there: Dots
    told: Dots
    view: int
    members: frozenset[str]


@dataclass
class Node:
    """One incarnation of a name; without state (``view`` -1) until it has a snapshot."""

    name: str
    log: list[dict[str, Any]] = field(default_factory=list)
    view: int = -1
    members: set[str] = field(default_factory=set)  # its view
    is_up: bool = True
    is_leaving: bool = False  # sends nothing any more
    taken: set[D] = field(default_factory=set)
    there: set[D] = field(default_factory=set)
    told: set[D] = field(default_factory=set)
    ever: set[D] = field(default_factory=set)  # there in any life, and below the application
    heard: list[Phantom] = field(default_factory=list)
    confirmable: list[Confirmed] = field(default_factory=list)  # one of these is, for sure

    def write(self, kind: str, dot: D | None = None, **more: Any) -> None:
        self.log.append({"kind": kind, "dot": dot, **more})

    def mark(self) -> None:
        """The application might confirm this much."""
        there, told = frozenset(self.there), frozenset(self.told)
        self.confirmable.append(Confirmed(there, told, self.view, frozenset(self.members)))

    def confirm(self) -> None:
        """The application has confirmed all until here."""
        self.confirmable.clear()
        self.mark()


def owner(origin: str) -> str:
    return origin.partition("/")[0]


def latest(dots: set[D] | Dots) -> list[D]:
    """The latest dot of each origin."""
    last: dict[str, int] = {}
    for origin, seq in dots:
        last[origin] = max(seq, last.get(origin, 0))
    return sorted(last.items())
