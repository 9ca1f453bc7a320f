"""A forum whose topics do not wait for each other: one group for each.

Bob reads a question about music, answers it, and writes about cooking.  Cat is cut off from who
asked the question.  In one group for the whole forum everything of bob's waits for the question, as
he had read it.  With a group for each topic only his answer does (thesis, section 3.8): what is
lost is that a post about cooking may really have come of one about music.

    python examples/forum.py

    simulated, one group: at first cat sees nothing
      then: music: who plays bass?; music: I do; cooking: add salt
    simulated, a group for each topic: at first cat sees cooking: add salt
      then: music: who plays bass?; music: I do
    on real groups, a group for each topic: at first cat sees cooking: add salt
      then: music: who plays bass?; music: I do
"""

from __future__ import annotations

from typing import Any

from world import Heard, Member, World, real, simulated

NAMES = ("ann", "bob", "cat")
TOPICS = ("music", "cooking")
QUESTION, ANSWER, OTHER = "music: who plays bass?", "music: I do", "cooking: add salt"


class Reader:
    """One user: what there is to read, and a member for each topic."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.posts: list[str] = []
        self._members: dict[str, Member] = {}

    async def join(self, world: World, is_split: bool) -> None:
        """Take part in all topics, ``is_split``: in a group for each."""
        heard: Heard = self._heard
        if is_split:
            for topic in TOPICS:
                self._members[topic] = await world.member(self.name, heard, group=topic)
        else:
            self._members = dict.fromkeys(TOPICS, await world.member(self.name, heard))

    def post(self, text: str) -> None:
        """Write to a topic."""
        self._members[text.partition(":")[0]].say(text)

    def _heard(self, sender: str, text: str, tag: Any) -> None:
        self.posts.append(text)


async def script(world: World, is_split: bool = True) -> tuple[list[str], list[str]]:
    """What cat sees while she is cut off from ann, and what she sees after that."""
    readers = [Reader(name) for name in NAMES]
    for reader in readers:
        await reader.join(world, is_split)
    ann, bob, cat = readers
    world.hold("ann", "cat")
    ann.post(QUESTION)
    await world.until(lambda: QUESTION in bob.posts)
    bob.post(ANSWER)
    bob.post(OTHER)
    await world.settle()
    early = list(cat.posts)
    world.release("ann", "cat")
    await world.until(lambda: len(cat.posts) == 3)
    return early, cat.posts[len(early) :]


async def in_one_group(world: World) -> tuple[list[str], list[str]]:
    """The same with one group for the whole forum."""
    return await script(world, is_split=False)


def main() -> None:
    """One group, a group for each topic, and these on sockets."""
    for title, play, played in (
        ("simulated, one group", simulated, in_one_group),
        ("simulated, a group for each topic", simulated, script),
        ("on real groups, a group for each topic", real, script),
    ):
        early, late = play(played, NAMES, "tagged")
        print(f"{title}: at first cat sees {'; '.join(early) or 'nothing'}")
        print(f"  then: {'; '.join(late)}")


if __name__ == "__main__":
    main()
