"""A replicated set in which an addition wins over a removal that did not know of it.

Additions and removals do not commute, so replicas that get concurrent ones in different orders
would differ.  Tags say which are concurrent: a removal takes away the additions before it, and no
others, whichever comes first (thesis, figure 16).

    python examples/add_wins_set.py

    simulated, by order of arrival: p {}, q {}, r {'a'}
    simulated, by tags: p {'a'}, q {'a'}, r {'a'}
    on a real group, by tags: p {'a'}, q {'a'}, r {'a'}
"""

from __future__ import annotations

from typing import Any

from world import Member, World, real, simulated

NAMES = ("p", "q", "r")


class AddWinsSet:
    """One replica: the additions that no removal after them has taken away."""

    def __init__(self, by_tags: bool = True) -> None:
        self.by_tags = by_tags
        self.member: Member
        self.operations = 0
        self._added: list[tuple[str, Any]] = []

    def add(self, element: str) -> None:
        """Here and everywhere."""
        self.member.say(f"add {element}")

    def remove(self, element: str) -> None:
        """Here and everywhere: what was added as far as is known here."""
        self.member.say(f"remove {element}")

    def heard(self, sender: str, text: str, tag: Any) -> None:
        """An operation, of this replica or of another."""
        operation, element = text.split()
        self.operations += 1
        if operation == "add":
            self._added.append((element, tag))
        else:
            self._added = [
                (other, added)
                for other, added in self._added
                if other != element or (self.by_tags and added.concurrent(tag))
            ]

    @property
    def elements(self) -> set[str]:
        """What is in the set."""
        return {element for element, _ in self._added}


async def script(world: World, by_tags: bool = True) -> list[set[str]]:
    """Figure 16; the sets of p, q and r at the end."""
    replicas = [AddWinsSet(by_tags) for _ in NAMES]
    for name, replica in zip(NAMES, replicas, strict=True):
        replica.member = await world.member(name, replica.heard)
    p, q, r = replicas

    p.add("a")
    await world.until(lambda: q.operations == 1)
    q.remove("a")
    await world.until(lambda: p.operations == r.operations == 2)
    assert not any(replica.elements for replica in replicas)  # in order: it is gone everywhere

    for one, other in (("p", "q"), ("p", "r"), ("q", "r")):
        world.hold(one, other)
    p.add("a")
    r.remove("a")  # crosses it
    world.release("p", "q")
    await world.until(lambda: q.operations == 3)
    world.release("q", "r")
    await world.until(lambda: q.operations == 4)
    world.release("p", "r")
    await world.until(lambda: p.operations == r.operations == 4)
    return [replica.elements for replica in replicas]


async def by_arrival(world: World) -> list[set[str]]:
    """The same without looking at tags."""
    return await script(world, by_tags=False)


def main() -> None:
    """What the replicas have in the end."""
    for title, play, played in (
        ("simulated, by order of arrival", simulated, by_arrival),
        ("simulated, by tags", simulated, script),
        ("on a real group, by tags", real, script),
    ):
        sets = play(played, NAMES, "tagged")
        told = [f"{name} {found or '{}'}" for name, found in zip(NAMES, sets, strict=True)]
        print(f"{title}: {', '.join(told)}")


if __name__ == "__main__":
    main()
