"""What the online checker remembers of a run between two feeds: plain data, nothing else.

Everything here is made of lists, dictionaries and numbers that msgspec writes and reads back
exactly, because a checkpoint of the checker is these structures.

Nodes and streams are *origins*, numbered as they are met; a dot is a pair (origin, seq).  A
vector is a list of sequence numbers by origin, and may be shorter than there are origins: what it
lacks is 0.  ``Ranges`` are sets of sequence numbers (online_ranges.py).  A table of ranges has one
set for each origin.
"""

from __future__ import annotations

from typing import Final

import msgspec

from thence.causal.dot import Dot
from thence.trace.online_ranges import Ranges
from thence.trace.record import RunInfo

STATE_VERSION: Final = 2

Pair = tuple[int, int]
Vector = list[int]
Table = list[Ranges]
Found = tuple[str, int, str, Dot | None, Dot | None]
"""A violation as node, pos, rule, dot, missing."""


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a rule reads of a record."""

    kind: str
    dot: Dot | None = None
    context: tuple[Dot, ...] | None = None
    to: tuple[str, ...] | None = None
    peer: str | None = None
    stable: tuple[Dot, ...] | None = None


class Origin(msgspec.Struct, array_like=True):
    """What is known of the messages of one origin.  They are met in ascending order."""

    name: str
    owner: str
    """The node: the name without its stream."""
    is_stream: bool
    sent: Ranges = []
    floor: int = 0
    """Up to here it is settled which messages were sent: no more will be."""
    base: int = 0
    """Up to here every message is taken, and told, wherever it must be: no vector is kept."""
    ragged: bool = False
    """Something up to the base is in the past of others' messages and not at every node."""
    seqs: list[int] = []
    """The sent messages above the base, ascending."""
    downs: list[Vector] = []
    """The past of each of them, and the message itself."""
    to: dict[int, tuple[str, ...]] = {}
    """The recipients of those of them that are multicasts."""


class Phantom(msgspec.Struct, array_like=True):
    """A phantom that a node took into account."""

    origin: int
    """The announcer."""
    next: int
    """The sequence number it announced."""
    knows: Vector
    """The pasts of the dots in its context that are settled."""
    open: list[Pair]
    """The other dots of its context."""


class Snap(msgspec.Struct, array_like=True):
    """What a snapshot brought, for the order of deliveries."""

    pos: int
    brought: Table


class Log(msgspec.Struct, kw_only=True):
    """One node's log: how far it was followed and what holds there, in the life it is in."""

    name: str
    origin: int
    next: int = 0
    """The position to be read next."""
    waiting: dict[int, Event] = {}
    """Records that cannot be judged yet, by position."""
    waits: Pair | None = None
    """The dot whose send must be met first."""
    is_ended: bool = False
    is_dynamic: bool = False
    is_whole: bool = True
    """Everything up to the bases that is for this node is there, and told."""
    view: set[str] = set()
    there: Table = []
    told: Table = []
    known: Vector = []
    """The past of everything this node has taken, and that itself."""
    latest: dict[int, int] = {}
    """The latest dots of what it has taken: origin to seq."""
    phantoms: list[Phantom] = []
    deliveries: dict[int, list[Pair]] = {}
    """Origin to (seq, pos) of deliveries above the base: a later cut may put them outside."""
    unjoined: list[tuple[int, str, Pair]] = []
    """(pos, rule, dot) of what breaks a rule if this log turns out to be dynamic."""
    order: list[tuple[int, int, int]] = []
    """Total orders: (origin, seq, pos) of what was delivered, in order."""
    snaps: list[Snap] = []


class Removal(msgspec.Struct, array_like=True):
    """The first record of a log that removes a node."""

    pos: int
    cut: int
    again: list[tuple[int, int]] = []
    """(pos, cut) of the later ones: a removal that a restart took back is told again."""


class Early(msgspec.Struct, array_like=True):
    """A stable event that may be early: not all is known to say so, or to say what is missing."""

    node: str
    pos: int
    dot: Pair
    unjoined: bool
    """It counts only if the log of the node never becomes dynamic."""
    lacking: dict[int, int]
    """Members that are not known to be past the dot, to their first message that is (0: none)."""
    doubtful: dict[int, list[Pair]]
    """Members to the dots of their phantoms whose past will decide."""


class Disorder(msgspec.Struct, array_like=True):
    """A stable event whose dot has not been met: what was told before it."""

    node: str
    pos: int
    dot: Pair
    told: Table


class Cover(msgspec.Struct, array_like=True):
    """A context (tags over) that names dots which have not been met."""

    node: str
    pos: int
    dot: Pair
    latest: list[Pair]
    named: list[Pair]


class State(msgspec.Struct, kw_only=True):
    """Everything."""

    v: int = STATE_VERSION
    run: str
    retain: int
    """Messages of each origin that are kept although no rule should need them any more."""
    info: RunInfo | None = None
    members: set[str] = set()
    origins: list[Origin] = []
    logs: dict[str, Log] = {}
    joined: set[str] = set()
    """Who came, by a join or a snapshot."""
    removals: dict[str, dict[str, Removal]] = {}
    """Who was removed to the logs that say so."""
    has_recipients: bool = False
    has_doubt: bool = False
    """Something was taken for never sent that could still be: rules on pasts wait for the end."""
    settled: Table = []
    """Total orders: the messages whose order was compared."""
    early: list[Early] = []
    disorder: list[Disorder] = []
    covers: list[Cover] = []
    held: list[Found] = []
    """Violations that are told at the end, unless they turn out not to be."""
    emitted: set[int] = set()
    """A hash of every violation that was told."""
    events: int = 0
    gave_up: str = ""
    """Why only a check of the whole run can go on; empty as long as that is not so."""
    closed: bool = False
