"""A file with copies, and a token: only who has it may change the file (Garg, problem 12.1).

A change is broadcast to all copies, then the token goes to the next site.  With causal delivery
that is enough for all copies to change in the same order: who has the token has seen all changes
before it got it, so each change is after all others.  Under ``fifo`` a change can overtake one that
was made before it, at another site.

    python examples/token_replication.py

    fifo, simulated: a draft, final, print; b draft, final, print; c final, print, draft
    tagged, simulated: a draft, final, print; b draft, final, print; c draft, final, print
    tagged, on a real group: a draft, final, print; b draft, final, print; c draft, final, print
"""

from __future__ import annotations

from typing import Any

from world import Member, World, real, simulated

NAMES = ("a", "b", "c")
CHANGES = {"a": "draft", "b": "final", "c": "print"}
TOKEN = "the token"


class Site:
    """A copy of the file: its versions, the last one is what it says."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.member: Member
        self.versions: list[str] = []

    def heard(self, sender: str, text: str, tag: Any) -> None:
        """A change, or the token."""
        if text != TOKEN:
            self.versions.append(text)
        elif sender != self.name:  # one hears oneself too
            self.has_token()

    def has_token(self) -> None:
        """Change the file, and pass the token on."""
        self.member.say(CHANGES[self.name])
        after = NAMES.index(self.name) + 1
        if after < len(NAMES):
            self.member.say(TOKEN, to=[NAMES[after]])


async def script(world: World) -> list[list[str]]:
    """Each site changes the file once; the versions at each, in the order in which they came."""
    sites = [Site(name) for name in NAMES]
    for site in sites:
        site.member = await world.member(site.name, site.heard)
    world.hold("a", "c")
    sites[0].has_token()
    await world.until(lambda: "final" in sites[1].versions)
    await world.settle()
    world.release("a", "c")
    await world.until(lambda: all(len(site.versions) == len(CHANGES) for site in sites))
    return [site.versions for site in sites]


def main() -> None:
    """Too weak, enough, and enough on sockets."""
    for engine, play, where in (
        ("fifo", simulated, "simulated"),
        ("tagged", simulated, "simulated"),
        ("tagged", real, "on a real group"),
    ):
        found = zip(NAMES, play(script, NAMES, engine), strict=True)
        told = [f"{name} {', '.join(versions)}" for name, versions in found]
        print(f"{engine}, {where}: {'; '.join(told)}")


if __name__ == "__main__":
    main()
