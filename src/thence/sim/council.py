"""A small world of councils (client/council.py), to be looked at in every order of events.

The councils are the real ones.  What they stand on is a model: of the messages of the group only
numbers are left.  A node has delivered so many of each member; a message waits at a receiver until
what its sender had delivered is delivered there as well; between two nodes there is one queue in
each direction for data and for what councils say, in order, which is lost when the connection
breaks or one of the two crashes.  A sender gives a peer nothing that was sent in a later view than
the peer has installed.  What is frozen is dropped when it comes, and sent again after a view that
lifts the freeze without removing the sender.

A ``World`` is changed by steps.  ``copy`` is cheap: sites are copied when they are touched, so that
an exploration can go back to any state.  ``key`` is all that the future depends on.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from thence.client.council import Council
from thence.sim.council_site import DEAD, DOWN, LIVE, NOW, Handed, Item, Site, is_stale
from thence.sim.names import node_names
from thence.wire.membership import Pull, Request, View

Step = tuple[Any, ...]
"""What happens, and to whom."""


class Broken(Exception):
    """A rule does not hold."""


def is_quorum(view: View, slots: Container[int]) -> bool:
    """Most of the members, or half with the first: written again, to judge by."""
    members = [each.slot for each in view.members]
    there = [slot for slot in members if slot in slots]
    return 2 * len(there) + (members[:1] == there[:1]) > len(members)


class World:
    """Nodes, what is between them, and those who want to join."""

    def __init__(self, count: int, joiners: int = 0) -> None:
        view = View.first(dict.fromkeys(node_names(count), ""))
        self.sites = {slot: Site(slot, view, {}) for slot in range(count)}
        for site in self.sites.values():
            site.council.up = set(range(count))
        self.queues: dict[tuple[int, int], tuple[Item, ...]] = {}
        self.messages: dict[tuple[int, int], tuple[int, tuple[tuple[int, int], ...]]] = {}
        """By sender and number: the view it was sent in, and what its sender had delivered."""
        self.joiners: dict[int, tuple[str, str]] = {
            ticket: (f"j{ticket}", LIVE) for ticket in range(1, joiners + 1)
        }
        """By ticket those who want to join and have no state yet: name, and if they are alive."""
        self.chain: dict[int, View] = {0: view}
        """Every view that was ever agreed on, as far as this path knows."""
        self.parts: dict[int, int] = {}
        """While the network is cut into parts: by slot, in which part a node is."""
        self.is_terse = False
        """What will change nothing is not put into a queue: fewer states, and the same outcomes."""
        self.is_vouched = False
        """An operator has said of some of the dead that they are: what only they knew is void."""
        self._owned = {*self.sites}

    def copy(self) -> World:
        """The same state, from which steps lead elsewhere."""
        other = World.__new__(World)
        vars(other).update(vars(self))
        other.sites = self.sites.copy()
        other.queues = self.queues.copy()
        other._owned = set()
        self._owned = set()
        return other

    def key(self, names: dict[Any, int]) -> tuple[Any, ...]:
        """All that the future depends on; ``names`` numbers what occurs in it."""
        number = names.setdefault
        return (
            tuple([(slot, self.sites[slot].key(names)) for slot in sorted(self.sites)]),
            tuple(
                [
                    (pair, tuple([number(item, len(names)) for item in self.queues[pair]]))
                    for pair in sorted(self.queues)
                ]
            ),
            tuple(sorted(self.messages.items())),
            tuple(sorted(self.joiners.items())),
            tuple(sorted(self.parts.items())),
        )

    def touch(self, slot: int) -> Site:
        """The node, to be changed."""
        if slot not in self._owned:
            self._owned.add(slot)
            self.sites[slot] = self.sites[slot].copy()
        site = self.sites[slot]
        site._key = site._would_tick = None
        return site

    # ---- steps -----------------------------------------------------------------------------------

    def perform(self, step: Step) -> None:
        """Let it happen, and see that no rule is broken."""
        getattr(self, "_do_" + step[0])(*step[1:])

    def _do_deliver(self, x: int, p: int) -> None:
        """What is first in the queue from x to p arrives."""
        queue = self.queues[x, p]
        self._set_queue(x, p, queue[1:])
        item = queue[0]
        site = self.touch(p)
        if isinstance(item, int):
            if (
                x not in site.frozen
                and site.view.member(x) is not None
                and item == site.have(x) + 1
            ):
                site.held.setdefault(x, []).append(item)
                self._advance(site)
        elif isinstance(item, Handed):
            self._take_relay(site, item)
        elif isinstance(item, Pull) and item.view == site.view.num:
            last = min(item.last, site.reached(item.slot))
            if item.first <= last:
                self._put(p, x, Handed(item.view, item.slot, item.first, last))
        else:
            site.council.receive(x, item, NOW)
        self._say(site)

    def _do_tick(self, p: int) -> None:
        """Time passes at p, but not enough to ask again."""
        site = self.touch(p)
        site.council.tick(NOW)
        self._say(site)

    def _do_resend(self, p: int) -> None:
        """Time enough has passed at p to ask again."""
        site = self.touch(p)
        if site.council.proposal is not None:
            site.council.proposal.sent_at = -1.0
        site.council.tick(NOW)
        if site.council.proposal is not None:
            site.council.proposal.sent_at = NOW
        self._say(site)

    def _do_beat(self, x: int, p: int) -> None:
        """x gives p a sign of life."""
        self._put(x, p, self.sites[x].council.beat())

    def _do_send(self, x: int) -> None:
        """The application of x broadcasts."""
        site = self.touch(x)
        past = tuple(sorted(site.delivered.items()))
        site.delivered[x] = site.sent + 1
        self.messages = {**self.messages, (x, site.sent): (site.view.num, past)}
        for p in site.council.others:
            self._push(x, p)

    def _do_crash(self, x: int) -> None:
        """x is dead for good."""
        self._stop(x, DEAD)

    def _do_fall(self, x: int) -> None:
        """x crashes, and has written down what it must remember."""
        self._stop(x, DOWN)

    def _do_rise(self, x: int) -> None:
        """x comes back as the same member."""
        site = self.touch(x)
        assert site.kept is not None
        site.council = Council(x, site.kept.view, site)
        site.council.resume(site.kept)
        site.state, site.kept = LIVE, None
        self._connect(x)

    def _do_doubt(self, p: int, x: int) -> None:
        """p begins to suspect x, and would evict it."""
        council = self.touch(p).council
        council.suspects |= {x}
        council.condemned |= {x}

    def _do_notice(self, x: int) -> None:
        """Everybody begins to suspect x."""
        for p, site in sorted(self.sites.items()):
            if site.state == LIVE and p != x and site.view.member(x) is not None:
                self._do_doubt(p, x)

    def _do_suspect(self, p: int, x: int) -> None:
        """p begins to suspect x, and leaves it at that."""
        self.touch(p).council.suspects |= {x}

    def _do_trust(self, p: int, x: int) -> None:
        """p does not suspect x any more."""
        council = self.touch(p).council
        council.suspects -= {x}
        council.condemned -= {x}

    def _do_vouch(self, p: int, x: int) -> None:
        """An operator tells p that x is dead."""
        self.touch(p).council.vouched |= {x}
        self.is_vouched = True

    def _do_arrive(self, ticket: int, name: str) -> None:
        """There is one more who wants to join."""
        self.joiners = {**self.joiners, ticket: (name, LIVE)}

    def _do_knock(self, ticket: int, p: int) -> None:
        """Somebody asks p to let it join."""
        self.touch(p).council.want(Request(self.joiners[ticket][0], ticket), NOW)

    def _do_forget(self, ticket: int, p: int) -> None:
        """p has not heard of somebody who wants to join for long."""
        council, name = self.touch(p).council, self.joiners[ticket][0]
        council.joins.pop(name, None)
        council._asked.pop(name, None)

    def _do_perish(self, ticket: int) -> None:
        """Somebody who wants to join is dead."""
        name, _ = self.joiners[ticket]
        self.joiners = {**self.joiners, ticket: (name, DEAD)}

    def _do_hand(self, p: int, slot: int) -> None:
        """p hands the state over to a new member, which takes part from now on."""
        provider = self.sites[p]
        member = provider.view.member(slot)
        assert member is not None
        self.joiners = {
            ticket: held for ticket, held in self.joiners.items() if ticket != member.ticket
        }
        self.sites[slot] = Site(slot, provider.view, provider.delivered.copy())
        self._owned.add(slot)
        if self.parts:
            self.parts = {**self.parts, slot: self.parts[p]}
        self._connect(slot)
        self._check(self.sites[slot])

    def _do_leave(self, x: int) -> None:
        """x has nothing more to say, and everybody has what it has said."""
        site = self.touch(x)
        site.is_leaving = True
        site.council.leave(site.sent)

    def _do_reset(self, x: int, p: int) -> None:
        """The connection of the two breaks, and comes back."""
        self._set_queue(x, p, ())
        self._set_queue(p, x, ())
        self._push(x, p)
        self._push(p, x)

    def _do_part(self, parts: dict[int, int]) -> None:
        """The network falls into parts, or is whole again (no parts)."""
        self.parts = parts
        for x, p in sorted(self.queues):
            if not self.connected(x, p):
                self._set_queue(x, p, ())
        for x in sorted(self.sites):
            self._connect(x)

    # ---- what nodes do ---------------------------------------------------------------------------

    def _stop(self, x: int, state: str) -> None:
        site = self.touch(x)
        site.state = state
        site.kept = site.council.state() if state == DOWN else None
        site.held.clear()
        for pair in sorted(self.queues):
            if x in pair:
                del self.queues[pair]

    def _take_relay(self, site: Site, handed: Handed) -> None:
        slot = handed.slot
        if handed.view != site.view.num or slot not in site.frozen:
            return
        for number in range(handed.first, handed.last + 1):
            if number == site.have(slot) + 1 and number <= site.council.limit.get(slot, 0):
                site.held.setdefault(slot, []).append(number)
        self._advance(site)

    def _advance(self, site: Site) -> None:
        """Deliver what waits for nothing any more."""
        is_frozen = False
        again = True
        while again:
            again = False
            for x in sorted(site.held):
                past = self.messages[x, site.held[x][0]][1]
                if all([site.reached(y) >= number for y, number in past]):
                    site.delivered[x] = site.held[x].pop(0)
                    if not site.held[x]:
                        del site.held[x]
                    is_frozen = is_frozen or x in site.frozen
                    again = True
        if is_frozen:
            site.council.advanced()

    def _say(self, site: Site) -> None:
        """What the step made a council do: views first, then what it says."""
        council = site.council
        for old, new, frozen in site.views:
            self._check_cuts(site, old, new)
            self._agreed(new)
            for x in [*site.held]:
                if new.member(x) is None:
                    del site.held[x]
            for x in sorted(frozen):
                if new.member(x) is not None:
                    self._do_reset(x, site.slot)
        if site.views:
            site.views = []
            self._connect(site.slot)
        for x in sorted(site.frozen):
            queue = self.queues.get((x, site.slot), ())
            self._set_queue(x, site.slot, tuple([i for i in queue if not isinstance(i, int)]))
        for p, message in council.out:
            if p == site.slot:
                raise Broken(f"{p} says something to itself: {message}")
            self._put(site.slot, p, message)
        council.out = []
        for x, p in [pair for pair in self.queues if site.slot in pair] if self.is_terse else []:
            a, b = self.sites[x], self.sites[p]
            kept = tuple([item for item in self.queues[x, p] if not is_stale(a, b, item)])
            self._set_queue(x, p, kept)
        self._check(site)

    def connected(self, x: int, p: int) -> bool:
        """Whether a message from the one can reach the other."""
        a, b = self.sites.get(x), self.sites.get(p)
        if a is None or b is None or a.state != LIVE or b.state != LIVE:
            return False
        return not self.parts or self.parts.get(x) == self.parts.get(p)

    def _connect(self, x: int) -> None:
        """Whatever may be sent from or to x now is on its way."""
        for p in sorted(self.sites):
            if p != x:
                self._push(x, p)
                self._push(p, x)

    def _push(self, x: int, p: int) -> None:
        """Put the messages of x that p lacks, and may have, into the queue."""
        if not self.connected(x, p):
            return
        sender, receiver = self.sites[x], self.sites[p]
        if sender.view.member(p) is None or receiver.view.member(x) is None or x in receiver.frozen:
            return
        queue = self.queues.get((x, p), ())
        number = max([item for item in queue if isinstance(item, int)], default=receiver.have(x))
        more: list[Item] = []
        while number < sender.sent and self.messages[x, number + 1][0] <= receiver.view.num:
            number += 1
            more.append(number)
        self._set_queue(x, p, (*queue, *more))

    def _put(self, x: int, p: int, item: Item) -> None:
        if self.is_terse and x in self.sites and p in self.sites:
            if is_stale(self.sites[x], self.sites[p], item):
                return
        if self.connected(x, p):
            self._set_queue(x, p, (*self.queues.get((x, p), ()), item))

    def _set_queue(self, x: int, p: int, queue: tuple[Item, ...]) -> None:
        if queue:
            self.queues[x, p] = queue
        else:
            self.queues.pop((x, p), None)

    # ---- rules that hold at every moment ---------------------------------------------------------

    def _agreed(self, view: View) -> None:
        if self.is_vouched:
            known = [site.view for site in self.sites.values() if site.state != DEAD]
            self.chain = {each.num: each for each in known if each.num != view.num or each == view}
            if any([each.num == view.num and each != view for each in known]):
                raise Broken(f"two views {view.num} among the living: {known}")
            return
        if self.chain.get(view.num, view) != view:
            raise Broken(f"two views {view.num}: {self.chain[view.num]} and {view}")
        if view.num not in self.chain:
            if view.members and not [each for each in view.members if each.slot in self.sites]:
                raise Broken(f"nobody of view {view.num} has the state: {view}")
            self.chain = {**self.chain, view.num: view}

    def _check(self, site: Site) -> None:
        """Of a node that has changed: views, what was accepted, freezes, cuts."""
        council = site.council
        self._agreed(council.view)
        if site.frozen != council.frozen:
            raise Broken(f"{site.slot} has frozen {site.frozen}, not {council.frozen}")
        if council.accepted is not None:
            same = [
                other.slot
                for other in self.sites.values()
                if other.view.num == council.view.num
                and other.council.accepted_in == council.accepted_in
                and other.council.accepted == council.accepted
            ]
            if is_quorum(council.view, same):
                self._agreed(council.accepted)
        if council.is_member:
            for gone in council.view.gone:
                if site.reached(gone.slot) != gone.cut:
                    raise Broken(
                        f"{site.slot} has {site.reached(gone.slot)} messages of {gone.slot} in "
                        f"view {council.view.num}, its cut is {gone.cut}"
                    )

    def _check_cuts(self, site: Site, old: View, new: View) -> None:
        """A survivor, or one who leaves, has exactly what counts of those who are removed."""
        removed = {gone.slot: gone for gone in new.gone if old.member(gone.slot) is not None}
        mine = removed.get(site.slot)
        if new.member(site.slot) is None and (
            mine is None or mine.is_evicted or new.num > old.num + 1
        ):
            return  # others may have gone after it has
        for slot, gone in removed.items():
            if site.reached(slot) != gone.cut:
                raise Broken(
                    f"{site.slot} installs view {new.num} with {site.reached(slot)} messages of "
                    f"{slot}, whose cut is {gone.cut}"
                )
