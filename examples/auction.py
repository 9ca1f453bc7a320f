"""An auction without a server: which bids count is read off their tags.

Of two bids that crossed each other the higher one counts.  A bid that is not higher than one that
its bidder had seen is refused.  And what the hammer decides are the bids that the auctioneer had
seen, at every member alike, although a bid that crosses the hammer arrives before it at some
(thesis, section 3.1).

    python examples/auction.py

    simulated, by order of arrival: sold to ann for 150 say ann, bob, cat; cat for 130 says eve
    simulated, by tags: sold to cat for 130 say ann, bob, cat, eve
    on a real group, by tags: sold to cat for 130 say ann, bob, cat, eve
    bob's 120 is outbid: it crossed 130
    bob's 125 is refused: its bidder had seen 130
    ann's 150 is too late: it crossed the hammer
"""

from __future__ import annotations

from typing import Any

from world import Member, World, real, simulated

NAMES = ("ann", "bob", "cat", "eve")
HAMMER = "sold!"
Sale = tuple[str, int]


class Bidder:
    """One member's view of the auction; the auctioneer has the same."""

    def __init__(self, name: str, by_tags: bool) -> None:
        self.name = name
        self.by_tags = by_tags
        self.member: Member
        self.bids: dict[Sale, Any] = {}
        """The tag of each."""
        self.sold: Sale | None = None
        self.why: dict[Sale, str] = {}
        """Why a bid does not count."""

    def heard(self, sender: str, text: str, tag: Any) -> None:
        """A bid, or the hammer."""
        if text == HAMMER:
            self.sold = self._best(tag)
            return
        bid = (sender, int(text))
        if self.sold is not None:
            self.why[bid] = "too late: it crossed the hammer"
        for other, known in self.bids.items():  # compared as they come
            low, high = sorted((bid, other), key=lambda each: each[1])
            if tag.concurrent(known):
                self.why.setdefault(low, f"outbid: it crossed {high[1]}")
            elif low == bid:
                self.why.setdefault(bid, f"refused: its bidder had seen {high[1]}")
        self.bids[bid] = tag

    def _best(self, hammer: Any) -> Sale:
        found = self.bids
        if self.by_tags:
            late = [bid for bid, tag in self.bids.items() if not tag < hammer]
            self.why.update(dict.fromkeys(late, "too late: it crossed the hammer"))
            found = {bid: tag for bid, tag in self.bids.items() if bid not in late}
        return max(found, key=lambda bid: bid[1])


async def script(world: World, by_tags: bool = True) -> list[Bidder]:
    """Five bids, one too low, one too late; what each of them holds for the outcome."""
    bidders = [Bidder(name, by_tags) for name in NAMES]
    for bidder in bidders:
        bidder.member = await world.member(bidder.name, bidder.heard)
    ann, bob, cat, eve = bidders

    ann.member.say("100")
    await world.until(lambda: bool(bob.bids and cat.bids and eve.bids))
    world.hold("bob", "cat")
    bob.member.say("120")
    cat.member.say("130")
    world.release("bob", "cat")
    await world.until(lambda: all(len(bidder.bids) == 3 for bidder in bidders))
    bob.member.say("125")
    await world.until(lambda: all(len(bidder.bids) == 4 for bidder in bidders))
    world.hold("ann", "eve")
    ann.member.say("150")
    await world.until(lambda: len(bob.bids) == len(cat.bids) == 5)
    eve.member.say(HAMMER)
    world.release("ann", "eve")
    await world.until(lambda: all(each.sold and len(each.bids) == 5 for each in bidders))
    return bidders


async def by_arrival(world: World) -> list[Bidder]:
    """The same when all bids count that arrive before the hammer."""
    return await script(world, by_tags=False)


def outcome(bidders: list[Bidder]) -> str:
    """Who says what."""
    said: dict[Sale, list[str]] = {}
    for bidder in bidders:
        assert bidder.sold is not None
        said.setdefault(bidder.sold, []).append(bidder.name)
    told = [
        f"{name} for {price} {'say' if len(by) > 1 else 'says'} {', '.join(by)}"
        for (name, price), by in said.items()
    ]
    return f"sold to {'; '.join(told)}"


def main() -> None:
    """By arrival, by tags, and by tags on sockets."""
    for title, play, played in (
        ("simulated, by order of arrival", simulated, by_arrival),
        ("simulated, by tags", simulated, script),
        ("on a real group, by tags", real, script),
    ):
        bidders = play(played, NAMES, "tagged")
        print(f"{title}: {outcome(bidders)}")
    for (name, price), why in bidders[-1].why.items():
        print(f"{name}'s {price} is {why}")


if __name__ == "__main__":
    main()
