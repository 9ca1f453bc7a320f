"""A conversation that makes sense, or does not: what causal delivery is for.

Ross cannot come, Rachel is sorry; then he can, and Phoebe is glad (thesis, section 3.2; the chat of
Garg, 12.4.1).  Joey only reads, and his links to Ross and Rachel are slow.  Under ``fifo`` he sees
that Phoebe is glad before there is a reason to be, and that Rachel is sorry that Ross will come.
Any causal engine holds both back until he has seen what they had read.

    python examples/chat.py

    fifo, simulated: what Joey sees
      ross: I won't be able to join
      phoebe: Great news!!
      ross: Lecture canceled, joining soon!
      rachel: Oh, too bad!
    tagged, simulated: what Joey sees
      ross: I won't be able to join
      rachel: Oh, too bad!
      ross: Lecture canceled, joining soon!
      phoebe: Great news!!
    tagged, on a real group: what Joey sees
      ross: I won't be able to join
      rachel: Oh, too bad!
      ross: Lecture canceled, joining soon!
      phoebe: Great news!!
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from world import Member, World, real, simulated

NAMES = ("ross", "rachel", "phoebe", "joey")
NO, SORRY, YES, GLAD = (
    "I won't be able to join",
    "Oh, too bad!",
    "Lecture canceled, joining soon!",
    "Great news!!",
)
ANSWERS = {("rachel", NO): SORRY, ("ross", SORRY): YES, ("phoebe", YES): GLAD}
"""Who answers what by what."""


class Friend:
    """Keeps what was said, and answers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.member: Member
        self.seen: list[tuple[str, str]] = []

    def heard(self, sender: str, text: str, tag: Any) -> None:
        """Somebody said this, perhaps oneself."""
        self.seen.append((sender, text))
        if answer := ANSWERS.get((self.name, text)):
            self.member.say(answer)

    def saw(self, *texts: str) -> Callable[[], bool]:
        """Whether all of that was heard, to wait for."""
        return lambda: {*texts} <= {text for _, text in self.seen}


async def script(world: World) -> list[tuple[str, str]]:
    """The conversation; what Joey sees of it."""
    friends = {name: Friend(name) for name in NAMES}
    for name, friend in friends.items():
        friend.member = await world.member(name, friend.heard)
    ross, _, phoebe, joey = friends.values()
    world.hold("ross", "rachel")
    world.hold("rachel", "joey")
    ross.member.say(NO)
    await world.until(joey.saw(NO))
    world.hold("ross", "joey")  # from now on slow
    world.release("ross", "rachel")
    await world.until(phoebe.saw(GLAD))
    await world.settle()
    world.release("ross", "joey")
    await world.settle()
    world.release("rachel", "joey")
    await world.until(joey.saw(NO, SORRY, YES, GLAD))
    return joey.seen


async def query(world: World) -> list[tuple[str, str]]:
    """Garg's chat, whose messages are for a list of users: Ross asks Rachel and Joey, Rachel
    answers both; what Joey sees.  Phoebe is not meant, and hears nothing."""
    friends = {name: Friend(name) for name in NAMES}
    for name, friend in friends.items():
        friend.member = await world.member(name, friend.heard)
    ross, rachel, phoebe, joey = friends.values()
    world.hold("ross", "joey")
    ross.member.say("Where?", to=["rachel", "joey"])
    await world.until(rachel.saw("Where?"))
    rachel.member.say("Central Perk", to=["ross", "joey"])
    await world.settle()
    world.release("ross", "joey")
    await world.until(joey.saw("Where?", "Central Perk"))
    assert not phoebe.seen
    return joey.seen


def main() -> None:
    """Wrong, right, and right on sockets."""
    for engine, play, where in (
        ("fifo", simulated, "simulated"),
        ("tagged", simulated, "simulated"),
        ("tagged", real, "on a real group"),
    ):
        print(f"{engine}, {where}: what Joey sees")
        for sender, text in play(script, NAMES, engine):
            print(f"  {sender}: {text}")


if __name__ == "__main__":
    main()
