"""What is bound to happen in a world of councils, and how it must look when all of it has.

Duties are the steps that no fault is needed for: what was sent arrives, clocks tick, the dead are
suspected and the living are not, those who want to join knock and are handed the state.  When no
duty changes anything any more the world is at rest, and the nodes that can reach each other must
agree.

Signs of life are sent only when they tell the receiver something that it has a use for: that a
node is in another view, or to a coordinator what there is to do.
"""

from __future__ import annotations

from thence.sim.council import Broken, Step, World, is_quorum
from thence.sim.council_site import DEAD, LIVE, Site
from thence.wire.membership import View


def duties(world: World) -> list[Step]:
    """Every step that will happen in the end, if it still changes something then."""
    steps: list[Step] = [("deliver", x, p) for x, p in sorted(world.queues)]
    for p, site in sorted(world.sites.items()):
        if site.state != LIVE:
            continue
        if site.would_tick():
            steps.append(("tick", p))
        elif may_resend(world, site):
            steps.append(("resend", p))
        if site.council.is_member:
            for x in site.council.others:
                steps += _opinion(world, site, x)
                if is_news(world, p, x):
                    steps.append(("beat", p, x))
        if site.is_leaving and site.council.is_member and p not in site.council.leaves:
            steps.append(("leave", p))  # it came back from a crash, and still wants to
    steps += _arrivals(world)
    return steps


def may_resend(world: World, site: Site) -> bool:
    """Whether a coordinator waits for something, and nothing but data is on its way anywhere."""
    return site.council.proposal is not None and not [
        pair
        for pair, queue in world.queues.items()
        if any([not isinstance(item, int) for item in queue])
    ]


def is_news(world: World, x: int, p: int) -> bool:
    """Whether a sign of life from x would tell p something."""
    if not world.connected(x, p) or (x, p) in world.queues or (p, x) in world.queues:
        return False
    sender, receiver = world.sites[x].council, world.sites[p].council
    if sender.view.num != receiver.view.num:
        # The older one hears of the newer view at once; the other way round takes one more turn.
        return sender.view.num < receiver.view.num or x not in receiver.others
    if not receiver.is_member or receiver.coordinator != p or receiver.is_minority:
        return False
    joins = [each.name for each in sender.beat().joins if receiver.view.named(each.name) is None]
    return (
        any([name not in receiver.joins for name in joins])
        or any([leaver not in receiver.leaves for leaver in sender.leaves])
        or bool((receiver.leaves or receiver.joins) and x in sender.up and x not in receiver.up)
        or bool(sender.frozen and receiver.proposal is None and not receiver._is_stuck())
    )


def _opinion(world: World, site: Site, x: int) -> list[Step]:
    """The dead are suspected in the end, and nobody else."""
    council = site.council
    if answers(world, site.slot, x):
        return [("trust", site.slot, x)] if x in council.suspects else []
    return [] if x in council.condemned else [("doubt", site.slot, x)]


def answers(world: World, p: int, x: int) -> bool:
    """Whether x is alive and can be heard at p; somebody who waits for the state can."""
    if x in world.sites:
        return world.connected(p, x)
    member = world.sites[p].view.member(x)
    return member is not None and world.joiners.get(member.ticket, ("", DEAD))[1] == LIVE


def _arrivals(world: World) -> list[Step]:
    """Those who want to join ask again when nobody remembers, and take the first state they get."""
    steps: list[Step] = []
    live = [site for site in world.sites.values() if site.state == LIVE and site.council.is_member]
    for ticket, (name, state) in sorted(world.joiners.items()):
        if state != LIVE:
            continue
        inside = [site for site in live if _slot_of(site.view, ticket) is not None]
        steps += [("hand", site.slot, _slot_of(site.view, ticket)) for site in inside]
        if not inside and not any([_remembers(site, name, ticket) for site in live]):
            steps += [
                ("knock", ticket, site.slot) for site in live if site.view.named(name) is None
            ]
    return steps


def _remembers(site: Site, name: str, ticket: int) -> bool:
    """Whether it asked there; who only heard of it tells nobody."""
    held = site.council.joins.get(name)
    return held is not None and held[0].ticket == ticket and name in site.council._asked


def _slot_of(view: View, ticket: int) -> int | None:
    return next((each.slot for each in view.members if each.ticket == ticket), None)


def may_leave(world: World, site: Site) -> bool:
    """Whether everybody has told a node, in its view, that its messages are delivered."""
    if site.state != LIVE or site.is_leaving or not site.council.is_member:
        return False
    for p in site.council.others:
        other = world.sites.get(p)
        if other is None or other.view.num > site.view.num or other.reached(site.slot) < site.sent:
            return False
    return True


# ---- the end -------------------------------------------------------------------------------------


def check_end(world: World) -> None:
    """Of a world at rest: those who can go on agree on everything.

    A view that only somebody knows who was removed, and whom no member asks, is as good as unknown:
    in a pair the first can agree with itself that it leaves, and be gone before it says so.
    """
    live = [site for site in world.sites.values() if site.state == LIVE]
    members = [site for site in live if site.council.is_member]
    asked = {x for site in members for x in site.council.others}
    known = [site.view for site in live if site in members or site.slot in asked]
    view = max(known, key=lambda each: each.num, default=None)
    if view is None:
        return
    there = [site for site in live if view.member(site.slot) is not None]
    if not is_quorum(view, [site.slot for site in there]):
        return  # a minority cannot go on
    for site in there:
        _check_member(world, site, view)
    if len(there) != len(view.members):
        slots = [site.slot for site in there]
        raise Broken(f"view {view.num} has members that are not there: {view}, there are {slots}")
    for ticket, (name, state) in world.joiners.items():
        if state == LIVE and view.members and not _was_evicted(view, ticket):
            raise Broken(f"{name} with ticket {ticket} was not let in: {view}")


def _check_member(world: World, site: Site, view: View) -> None:
    council = site.council
    if site.view != view:
        raise Broken(f"{site.slot} is in view {site.view.num} at the end, not in {view.num}")
    if site.frozen or council.proposal is not None:
        raise Broken(f"{site.slot} is not done: frozen {site.frozen}, {council.proposal}")
    if site.is_leaving:
        raise Broken(f"{site.slot} wants to leave, and is there")
    for each in view.members:
        sender = world.sites.get(each.slot)
        if sender is not None and site.reached(each.slot) != sender.sent:
            raise Broken(
                f"{site.slot} lacks messages of {each.slot}: it has {site.reached(each.slot)} of "
                f"{sender.sent}"
            )


def _was_evicted(view: View, ticket: int) -> bool:
    return any([gone.ticket == ticket for gone in view.gone])
