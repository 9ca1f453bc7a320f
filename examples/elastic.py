"""A dict that all members have, in a group that people join and leave while it is used.

Each member sets keys of its own.  A newcomer gets the whole dict from whom it asks, and then every
change that is not in it; who leaves is gone when everybody has what it set.

    python examples/elastic.py

    bob has joined and has {'ann': 'tea'}
    cat has joined and has {'ann': 'tea', 'bob': 'coffee'}
    ann has {'ann': 'tea', 'bob': 'coffee', 'cat': 'milk'}
    ann was told: Joined(bob, view 1), Joined(cat, view 2), Left(bob, view 3)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import thence


class SharedDict:
    """One member's copy."""

    def __init__(self, name: str, **how: Any) -> None:
        self.name = name
        self.values: dict[str, str] = {}
        self.told: list[thence.Joined | thence.Left] = []
        self.group = thence.Group(
            name, listen="tcp://127.0.0.1:0", snapshot=self.snapshot, restore=self.restore, **how
        )

    def snapshot(self) -> bytes:
        """For a newcomer; called between two events, at the member that it asks."""
        return json.dumps(self.values).encode()

    def restore(self, chunks: Iterable[bytes]) -> None:
        """At the newcomer, before its first event."""
        self.values = json.loads(b"".join(chunks))

    async def start(self) -> None:
        await self.group.start()  # returns when the state is here
        self.group.on_deliver(lambda tag: self.values.update(json.loads(tag.payload)))
        self.group.on_event(self.happened)

    def happened(self, event: thence.Event) -> None:
        if isinstance(event, thence.Joined | thence.Left):
            self.told.append(event)

    async def set(self, value: str) -> None:
        # First here: a state that is handed over must have all that this member has sent.
        self.values[self.name] = value
        await self.group.broadcast(json.dumps({self.name: value}).encode())


async def main() -> None:
    ann = SharedDict("ann", elastic=True)
    await ann.start()
    await ann.set("tea")
    bob = SharedDict("bob", join=ann.group.addresses)
    await bob.start()
    print("bob has joined and has", bob.values)
    await bob.set("coffee")
    cat = SharedDict("cat", join=[*bob.group.addresses, *ann.group.addresses])
    await cat.start()
    print("cat has joined and has", cat.values)
    await cat.set("milk")
    await bob.group.leave()
    while len(ann.told) < 3 or "cat" not in ann.values:
        await asyncio.sleep(0.01)
    print("ann has", ann.values)
    print("ann was told:", ", ".join(map(str, ann.told)))
    for each in (bob, cat, ann):
        await each.group.aclose()


if __name__ == "__main__":
    asyncio.run(main())
