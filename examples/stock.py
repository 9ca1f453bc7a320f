"""A price that is out of date when it arrives, told by its tag.

An option server announces prices.  A pricing server derives a theoretical price from each.  A
monitor shows both, and must not show a theoretical price beside an option price that it was not
derived from.  Causal delivery alone cannot help: a new option price and a theoretical price derived
from the old one are concurrent, so they may arrive in either order.  Tags can: a theoretical price
that is not after the newest option price is stale (thesis, section 3.4.1).

    python examples/stock.py

    simulated, without tags
      option 25.50
      theoretical 26.75
      option 26.00
      option 26.50
      theoretical 26.25
    simulated, with tags
      option 25.50
      theoretical 26.75
      option 26.00
      option 26.50
      theoretical 26.25 is stale: pricing:2 and option:3 are concurrent
    on a real group, with tags
      option 25.50
      theoretical 26.75
      option 26.00
      option 26.50
      theoretical 26.25 is stale: pricing:2 and option:3 are concurrent
"""

from __future__ import annotations

from typing import Any

from world import World, real, simulated

NAMES = ("option", "pricing", "monitor")


class Monitor:
    """Shows prices, and tells which of them belong together."""

    def __init__(self, by_tags: bool) -> None:
        self.by_tags = by_tags
        self.newest: Any = None
        self.shown: list[str] = []

    def heard(self, sender: str, price: str, tag: Any) -> None:
        """A price arrives."""
        if sender == "option":
            self.newest = tag
            self.shown.append(f"option {price}")
        elif self.by_tags and tag.concurrent(self.newest):
            pair = f"{tag} and {self.newest} are concurrent"
            self.shown.append(f"theoretical {price} is stale: {pair}")
        else:
            self.shown.append(f"theoretical {price}")


async def script(world: World, by_tags: bool = True) -> list[str]:
    """Three prices of an option, two theoretical prices, one of them too late; what is shown."""
    monitor = Monitor(by_tags)
    known: list[str] = []
    option = await world.member("option", lambda *_: None)
    pricing = await world.member("pricing", lambda sender, price, tag: known.append(price))
    await world.member("monitor", monitor.heard)

    option.say("25.50")
    await world.until(lambda: known[-1:] == ["25.50"])
    pricing.say("26.75")
    await world.until(lambda: len(monitor.shown) == 2)

    option.say("26.00")
    await world.until(lambda: known[-1:] == ["26.00"])
    world.hold("option", "pricing")
    option.say("26.50")  # has not reached the pricing server when that sends again
    await world.until(lambda: monitor.shown[-1] == "option 26.50")
    pricing.say("26.25")
    await world.until(lambda: len(monitor.shown) == 5)
    return monitor.shown


async def without_tags(world: World) -> list[str]:
    """The anomaly."""
    return await script(world, by_tags=False)


def main() -> None:
    """The anomaly, and no anomaly."""
    for title, play, played in (
        ("simulated, without tags", simulated, without_tags),
        ("simulated, with tags", simulated, script),
        ("on a real group, with tags", real, script),
    ):
        print(title)
        for line in play(played, NAMES, "tagged"):
            print(f"  {line}")


if __name__ == "__main__":
    main()
