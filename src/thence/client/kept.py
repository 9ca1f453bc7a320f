"""State of an application that is kept in the journal of its group, and comes back with it.

Without this an application has to bring its own state into step with its group after a crash.
With it, checkpoints of the journal hold rows of the application, written in one step with what the
group itself remembers; what happened since is told again when the node starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from thence.causal.dot import SEQ_BITS, SEQ_MAX
from thence.errors import LocalProtocolError

Find = Callable[[str, int], Any]
"""This node's tag of the message (node, seq); None if it is stable and forgotten.  ``node`` as tags
have it, as in ``a`` or ``a#2``; messages of the default stream."""


class Kept(Protocol):
    """What such an application has to offer."""

    def begin(self, find: Find, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Once, before anything else happens: the rows of the last checkpoint; none at a first
        start, without a journal, and when another member handed over the state."""

    def sent(self, tag: Any) -> None:
        """In a former life, after the checkpoint: this was sent, after everything told so far."""

    def delivered(self, tag: Any) -> None:
        """The same: this was taken, and confirmed."""

    def stable(self, tag: Any) -> None:
        """The same: the application was told that this is stable, and confirmed it."""

    @property
    def is_settled(self) -> bool:
        """Whether its state is that of everything sent and taken here, no more and no less.  While
        it is not, no checkpoint is made."""

    def rows(self) -> Iterable[tuple[bytes, bytes | None]]:
        """Rows that are others than at the last call (at the first: all), by key; None: gone."""


def finder(client: Any, engine: Any) -> Find:
    """What finds the tags of this node; it is a mistake to ask for what was not taken here."""
    past = client.past

    def find(node: str, seq: int) -> Any:
        slot = past.members.slot(node)
        tag = past.known(slot << SEQ_BITS | seq)
        is_there = 0 < seq <= engine.delivered[slot] & SEQ_MAX
        if not is_there or (tag is not None and tag.index < 0):
            raise LocalProtocolError(f"{node}:{seq} was not sent or taken here")
        return tag

    return find
