"""A chat in which all users see all messages in the same order (Garg, problem 12.10).

Three people write at once.  Under a causal engine everybody sees their own message first, and that
contradicts nothing.  Under an engine with a total order there is one conversation, and all read it.

    python examples/ordered_chat.py

    tagged, simulated
      ann sees: pizza? sushi? soup?
      bob sees: sushi? soup? pizza?
      cat sees: soup? pizza? sushi?
    lamport, simulated
      ann sees: pizza? sushi? soup?
      bob sees: pizza? sushi? soup?
      cat sees: pizza? sushi? soup?
    lamport, on a real group
      ann sees: pizza? sushi? soup?
      bob sees: pizza? sushi? soup?
      cat sees: pizza? sushi? soup?
"""

from __future__ import annotations

from typing import Any

from world import World, real, simulated

NAMES = ("ann", "bob", "cat")
ASKED = ("pizza?", "sushi?", "soup?")


class User:
    """Shows what is said, in order."""

    def __init__(self) -> None:
        self.screen: list[str] = []

    def heard(self, sender: str, text: str, tag: Any) -> None:
        """Somebody said this."""
        self.screen.append(text)


async def script(world: World) -> list[list[str]]:
    """All write at once; their screens."""
    users = [User() for _ in NAMES]
    members = [
        await world.member(name, user.heard) for name, user in zip(NAMES, users, strict=True)
    ]
    for member, text in zip(members, ASKED, strict=True):
        member.say(text)
    await world.until(lambda: all(len(user.screen) == len(ASKED) for user in users))
    return [user.screen for user in users]


def main() -> None:
    """Without a total order, with one, and that on sockets."""
    for engine, play, where in (
        ("tagged", simulated, "simulated"),
        ("lamport", simulated, "simulated"),
        ("lamport", real, "on a real group"),
    ):
        print(f"{engine}, {where}")
        for name, screen in zip(NAMES, play(script, NAMES, engine), strict=True):
            print(f"  {name} sees: {' '.join(screen)}")


if __name__ == "__main__":
    main()
