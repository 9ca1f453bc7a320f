"""One at a time, and first come first served: a lock without a server.

Everybody says when it wants the lock and when it is done, in an order that is the same for all: so
all have the same queue, and whoever is at its head knows that it alone is.  It is fair: the order
extends what happened before what, so a wish that was uttered knowing of another is behind it
(Garg, 12.1).  Under an engine that does not order everything, two are at the head at once.

    python examples/mutual_exclusion.py

    tagged, simulated: at most 2 inside; ann, bob, cat
    lamport, simulated: at most 1 inside; ann, bob, cat
    lamport, on a real group: at most 1 inside; ann, bob, cat
"""

from __future__ import annotations

from typing import Any

from world import Member, World, real, simulated

NAMES = ("ann", "bob", "cat")
WANT, DONE = "I want it", "I am done"


class Room:
    """What the lock is for; it sees when more than one are inside."""

    def __init__(self) -> None:
        self.inside: list[Lock] = []
        self.log: list[str] = []
        self.most = 0

    def enter(self, lock: Lock) -> None:
        """Somebody comes in."""
        self.inside.append(lock)
        self.log.append(lock.name)
        self.most = max(self.most, len(self.inside))

    def leave(self, lock: Lock) -> None:
        """Somebody goes."""
        self.inside.remove(lock)


class Lock:
    """One member's copy of the queue."""

    def __init__(self, name: str, room: Room) -> None:
        self.name = name
        self.room = room
        self.member: Member
        self.queue: list[str] = []
        self.waits = False

    def want(self) -> None:
        """Get in line; ``room.enter`` is called in its turn."""
        self.waits = True
        self.member.say(WANT)

    def done(self) -> None:
        """Let the next one in."""
        self.room.leave(self)
        self.member.say(DONE)

    def heard(self, sender: str, text: str, tag: Any) -> None:
        """Somebody gets in line, or is done."""
        if text == WANT:
            self.queue.append(sender)
        else:
            self.queue.remove(sender)
        if self.waits and self.queue[:1] == [self.name]:
            self.waits = False
            self.room.enter(self)


async def script(world: World) -> tuple[int, list[str]]:
    """Two want it at once, one when it knows that; how many were inside at most, and the order."""
    room = Room()
    locks = [Lock(name, room) for name in NAMES]
    for lock in locks:
        lock.member = await world.member(lock.name, lock.heard)
    ann, bob, cat = locks
    world.hold("ann", "bob")
    ann.want()
    bob.want()
    await world.settle()
    world.release("ann", "bob")
    await world.until(lambda: {"ann", "bob"} <= {*cat.queue, *room.log})
    cat.want()
    for _ in locks:
        await world.until(lambda: bool(room.inside))
        room.inside[0].done()
    return room.most, room.log


def main() -> None:
    """Without a total order, with one, and that on sockets."""
    for engine, play, where in (
        ("tagged", simulated, "simulated"),
        ("lamport", simulated, "simulated"),
        ("lamport", real, "on a real group"),
    ):
        most, log = play(script, NAMES, engine)
        print(f"{engine}, {where}: at most {most} inside; {', '.join(log)}")


if __name__ == "__main__":
    main()
