"""An application of simulated nodes whose state is kept in the journal: it writes down what it did.

It knows what it sent and took and was told to be stable, in order, and what is still to become
stable.  So it sees whether it is given back what it had, is told again what it confirmed, once and
in the same order, and finds the tags it is to find and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from thence.client.events import Delivered, Event, Stable
from thence.client.kept import Find
from thence.sim.node_view import Broken

_DID = b"did "
_OPEN = b"open "
_COUNT = b"count"
STABLE = "stable"


class Diary:
    """One life of one application in one group."""

    def __init__(
        self, name: str, settle: Callable[[], bool], stability: bool = True,
        had: Iterable[tuple[str, bytes]] = (),
    ) -> None:  # fmt: skip
        """``settle``: whether it says that it is settled, when it is asked; ``had``: what another
        member has handed over."""
        self.name = name
        self.did: list[str] = []
        """What, and the dot of the message."""
        self.open: dict[str, bytes] = {}
        """Payloads of messages that are not stable."""
        self._settle = settle
        self._stability = stability
        self._changed: dict[bytes, bytes | None] = {}
        self._is_begun = False
        for dot, payload in had:
            self._do("had", dot)
            self._keep(dot, payload)

    def dots(self, *what: str) -> set[str]:
        """Of messages with which it did one of these things."""
        pairs = [did.split() for did in self.did]
        return {dot for did, dot in pairs if did in what}

    # ---- what happens ----------------------------------------------------------------------------

    def took(self, event: Event) -> None:
        """It took an event."""
        if isinstance(event, Delivered):
            self.delivered(event.tag)
        elif isinstance(event, Stable):
            self.stable(event.tag)

    def sent(self, tag: Any) -> None:
        """Now or in a former life."""
        self._do("sent", str(tag))
        self._keep(str(tag), bytes(tag.payload))

    def delivered(self, tag: Any) -> None:
        """The same."""
        self._do("took", str(tag))
        self._keep(str(tag), bytes(tag.payload))

    def stable(self, tag: Any) -> None:
        """The same."""
        dot = str(tag)
        self._do(STABLE, dot)
        if self.open.pop(dot, None) != bytes(tag.payload):
            raise Broken(f"{self.name}: {dot} is stable, with another payload or twice")
        self._changed[_OPEN + dot.encode()] = None

    def _do(self, what: str, dot: str) -> None:
        if not self._is_begun and what != "had":
            raise Broken(f"{self.name}: {what} {dot}, and it has not begun")
        self._changed[_DID + b"%08d" % len(self.did)] = f"{what} {dot}".encode()
        self.did.append(f"{what} {dot}")

    def _keep(self, dot: str, payload: bytes) -> None:
        if dot in self.open:
            raise Broken(f"{self.name}: {dot} came twice")
        self.open[dot] = payload
        self._changed[_OPEN + dot.encode()] = payload

    # ---- its state -------------------------------------------------------------------------------

    def begin(self, find: Find, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """What the journal has."""
        if self._is_begun:
            raise Broken(f"{self.name}: it begins twice")
        self._is_begun = True
        count, handed = 0, len(self.did)
        for key, value in sorted(rows):
            if key == _COUNT:
                count = int(value)
            elif key.startswith(_DID):
                self.did.append(value.decode())
            else:
                self.open[key.removeprefix(_OPEN).decode()] = value
        if count != len(self.did) - handed:
            raise Broken(f"{self.name}: {len(self.did)} of {count} rows are there")
        told = self.dots(STABLE)
        for dot in self.dots("had", "sent", "took"):
            if "/" not in dot and self._stability:
                self._find(find, dot, dot in told)

    def _find(self, find: Find, dot: str, is_told: bool) -> None:
        node, _, number = dot.rpartition(":")
        tag = find(node, int(number))
        if tag is None and f"had {dot}" in self.did:  # it was told so before it was handed over
            self.open.pop(dot, None)
            self._changed[_OPEN + dot.encode()] = None
        elif (tag is None) != is_told:
            raise Broken(f"{self.name}: {dot} is {tag}, and was told stable: {is_told}")
        elif tag is not None and (str(tag), bytes(tag.payload)) != (dot, self.open[dot]):
            raise Broken(f"{self.name}: {tag} was found for {dot}, or has another payload")

    @property
    def is_settled(self) -> bool:
        """It always is, and does not always say so."""
        return self._settle()

    def rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        """What has changed."""
        changed, self._changed = self._changed, {}
        yield from changed.items()
        yield _COUNT, b"%d" % len(self.did)

    def follows(self, former: Diary, sure: int) -> None:
        """It goes on from what a former life did, the first ``sure`` of that at least."""
        count = len(self.did)
        if self.did != former.did[:count] or count < sure:
            raise Broken(f"{self.name} did {former.did}, {sure} for sure, and knows {self.did}")
