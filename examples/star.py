"""A star needs no more than fifo: what goes through one hub is causally ordered (Garg, 12.5).

The friends of chat.py again, under ``fifo``, and Joey's links to Ross and Rachel are slow again.
Whoever writes to all directly is misunderstood.  Through a hub, to which all write and which passes
it on, nothing can be overtaken: there is one way to each of them, and it keeps the order.

    python examples/star.py

    simulated, directly: ross, phoebe, ross, rachel: nonsense
    simulated, through the hub: ross, rachel, ross, phoebe: it makes sense
    on a real group, through the hub: ross, rachel, ross, phoebe: it makes sense
"""

from __future__ import annotations

from typing import Any

from chat import ANSWERS, GLAD, NO, SORRY, YES
from chat import NAMES as FRIENDS
from world import Member, World, real, simulated

HUB = "hub"
NAMES = (HUB, *FRIENDS)
Said = tuple[str, str]
SENSE: list[Said] = [("ross", NO), ("rachel", SORRY), ("ross", YES), ("phoebe", GLAD)]


class Hub:
    """Passes on what comes."""

    def __init__(self) -> None:
        self.member: Member

    def heard(self, sender: str, text: str, tag: Any) -> None:
        """A friend says this to the others."""
        if sender != HUB:
            others = [name for name in FRIENDS if name != sender]
            self.member.say(f"{sender}|{text}", to=others)


class Friend:
    """Keeps what was said, and answers."""

    def __init__(self, name: str, is_star: bool) -> None:
        self.name = name
        self.is_star = is_star
        self.member: Member
        self.seen: list[Said] = []

    def say(self, text: str) -> None:
        """To all others."""
        others = [name for name in FRIENDS if name != self.name]
        self.member.say(text, to=[HUB] if self.is_star else others)

    def heard(self, sender: str, text: str, tag: Any) -> None:
        """Somebody said this, perhaps oneself, perhaps through the hub."""
        if sender == HUB:
            sender, text = text.split("|")
        self.seen.append((sender, text))
        if answer := ANSWERS.get((self.name, text)):
            self.say(answer)


async def script(world: World, is_star: bool = True) -> list[list[Said]]:
    """The conversation; what each of the friends sees of it."""
    hub = Hub()
    hub.member = await world.member(HUB, hub.heard)
    friends = [Friend(name, is_star) for name in FRIENDS]
    for friend in friends:
        friend.member = await world.member(friend.name, friend.heard)
    ross, _, phoebe, joey = friends
    world.hold("rachel", "joey")
    ross.say(NO)
    await world.until(lambda: ("ross", NO) in joey.seen)
    world.hold("ross", "joey")
    await world.until(lambda: ("phoebe", GLAD) in phoebe.seen)
    await world.settle()
    world.release("ross", "joey")
    await world.settle()
    world.release("rachel", "joey")
    await world.until(lambda: all(len(friend.seen) == len(SENSE) for friend in friends))
    return [friend.seen for friend in friends]


async def directly(world: World) -> list[list[Said]]:
    """The same without the hub."""
    return await script(world, is_star=False)


def main() -> None:
    """Directly, through the hub, and that on sockets."""
    for title, play, played in (
        ("simulated, directly", simulated, directly),
        ("simulated, through the hub", simulated, script),
        ("on a real group, through the hub", real, script),
    ):
        joeys = play(played, NAMES, "fifo")[-1]
        verdict = "it makes sense" if joeys == SENSE else "nonsense"
        print(f"{title}: {', '.join(sender for sender, _ in joeys)}: {verdict}")


if __name__ == "__main__":
    main()
