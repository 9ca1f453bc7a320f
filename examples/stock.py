"""A price that is out of date when it arrives, told by its tag.

An option server announces prices.  A pricing server derives a theoretical price from each.  A
monitor shows both, and must not show a theoretical price beside an option price that it was not
derived from.  Causal delivery alone cannot help: a new option price and a theoretical price derived
from the old one are concurrent, so they may arrive in either order.  Tags can: a theoretical price
that is not after the newest option price is stale (thesis, section 3.4.1).

    python examples/stock.py

    monitor: option 25.50
    monitor: theoretical 26.75, from the current option
    monitor: option 26.00
    monitor: option 26.50
    monitor: theoretical 26.25 is stale: pricing:2 and option:3 are concurrent
"""

from __future__ import annotations

import thence

NAMES = ("option", "pricing", "monitor")


class Node:
    """A client and an engine; whoever calls ``receive`` is the network."""

    def __init__(self, name: str) -> None:
        self.slot = NAMES.index(name)
        self.client, self.engine = thence.make_node(NAMES, name)

    def send(self, text: str) -> thence.Message:
        """Broadcast: what the other members are to receive."""
        out = thence.Effects()
        self.engine.broadcast(self.client.broadcast(text.encode()), out)
        message: thence.Message = out.send[0]
        return message

    def receive(self, message: thence.Message) -> list[thence.Tag]:
        """The application takes everything that this message made ready."""
        out = thence.Effects()
        self.engine.receive(message.origin, message, out)
        for tag in out.deliver:
            self.client.consume(tag)
        return out.deliver


class Monitor(Node):
    """Shows prices, and tells which of them belong together."""

    def __init__(self) -> None:
        super().__init__("monitor")
        self.newest: thence.Tag | None = None

    def show(self, message: thence.Message) -> None:
        """Take a message and say what it means."""
        for tag in self.receive(message):
            price = tag.payload.decode()
            if tag.dot.node == "option":
                self.newest = tag
                print(f"monitor: option {price}")
            elif self.newest is not None and tag.concurrent(self.newest):
                pair = f"{tag} and {self.newest} are concurrent"
                print(f"monitor: theoretical {price} is stale: {pair}")
            else:
                print(f"monitor: theoretical {price}, from the current option")


def main() -> None:
    """Three prices of an option, two theoretical prices, one of them too late."""
    option, pricing, monitor = Node("option"), Node("pricing"), Monitor()

    first = option.send("25.50")
    pricing.receive(first)
    derived = pricing.send("26.75")
    monitor.show(derived)  # nothing to show yet: the option that it was derived from is missing
    monitor.show(first)

    second = option.send("26.00")
    pricing.receive(second)
    third = option.send("26.50")  # has not reached the pricing server when that sends again
    late = pricing.send("26.25")
    monitor.show(second)
    monitor.show(third)
    monitor.show(late)


if __name__ == "__main__":
    main()
