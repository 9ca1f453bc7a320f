"""Random orders of events in larger worlds of councils, with everything that can befall them.

For a while anything happens: duties (council_duties.py); signs of life, ticks and repetitions at
moments when nobody waits for them; broadcasts, joins, leaves, crashes with and without a return,
suspicion of the living, broken connections, a network in parts.  Then all faults end, and the world
must come to rest.  The same seed walks the same way.
"""

from __future__ import annotations

import random
from typing import Final

import msgspec

from thence.sim.council import Broken, Step, World
from thence.sim.council_duties import check_end, duties, may_leave
from thence.sim.council_site import DEAD, DOWN, LIVE, Site

REST_STEPS_MAX: Final = 1_500
"""A world that has not come to rest after so many steps without faults will not: 300 are many."""


class CouncilWalkOptions(msgspec.Struct, frozen=True):
    """One walk.  ``plan`` draws a varied one from a seed; rates are chances per step."""

    seed: int
    nodes: int = 3
    steps: int = 120
    sends: float = 0.05
    joins: int = 1
    leaves: int = 1
    crashes: int = 1
    falls: int = 1
    doubts: int = 2
    resets: float = 0.01
    parts: int = 0
    haste: float = 0.1
    """Chance that a step is a tick, a repetition or a sign of life that nobody waits for."""
    faults: float = 0.15
    """Chance that a step is one of the faults that are left."""
    patience: float = 0.8
    """Chance that suspicion of the living lasts when it could end."""
    is_aimed: bool = False
    """Faults happen mostly while somebody has a proposal."""
    is_vouched: bool = False
    """Operators say of some of the dead that they are."""


def plan_councils(seed: int) -> CouncilWalkOptions:
    """A varied walk: size, load and faults all follow from the seed."""
    rng = random.Random(seed)
    return CouncilWalkOptions(
        seed=seed,
        nodes=rng.choice((1, 2, 3, 3, 3, 3, 4, 5, 6)),
        steps=rng.choice((40, 80, 150, 300)),
        sends=rng.choice((0.0, 0.03, 0.1)),
        joins=rng.choice((0, 1, 1, 2, 3)),
        leaves=rng.choice((0, 1, 1, 2)),
        crashes=rng.choice((0, 1, 1, 2)),
        falls=rng.choice((0, 0, 1, 3)),
        doubts=rng.choice((0, 1, 3, 6, 12)),
        resets=rng.choice((0.0, 0.01, 0.05)),
        parts=rng.choice((0, 0, 1, 2)),
        haste=rng.choice((0.0, 0.1, 0.3)),
        faults=rng.choice((0.05, 0.15, 0.4)),
        patience=rng.choice((0.5, 0.9, 0.98)),
        is_aimed=rng.random() < 0.7,
    )


def walk_councils(options: CouncilWalkOptions | int) -> World:
    """Walk, check every step and the end; Broken names the walk that failed."""
    if isinstance(options, int):
        options = plan_councils(options)
    walk = CouncilWalk(options)
    try:
        walk.wander()
        walk.settle()
        check_end(walk.world)
    except Exception as error:
        what = str(error) if isinstance(error, Broken) else repr(error)
        raise Broken(f"{what}\nwalk_councils({options})") from error
    return walk.world


class CouncilWalk:
    """One walk, on its way."""

    def __init__(self, options: CouncilWalkOptions) -> None:
        self.options = options
        self.rng = random.Random(f"councils {options.seed}")
        self.world = World(options.nodes)
        for site in self.world.sites.values():
            site.council.up = {site.slot}  # of the others it hears by signs of life
        self.taken: list[Step] = []
        self.tickets = 0
        kinds = ("join", "leave", "crash", "fall", "doubt", "part")
        numbers = (
            options.joins, options.leaves, options.crashes, options.falls, options.doubts,
            options.parts,
        )  # fmt: skip
        self.faults = [
            kind for kind, count in zip(kinds, numbers, strict=True) for _ in range(count)
        ]
        self.rng.shuffle(self.faults)

    def wander(self) -> None:
        """Anything may happen."""
        rng, options = self.rng, self.options
        for _ in range(options.steps):
            chance = rng.random()
            step: Step | None
            if chance < options.haste:
                step = self._hasty()
            elif chance < options.haste + options.sends:
                step = self._send()
            elif chance < options.haste + options.sends + options.resets:
                step = self._reset()
            elif rng.random() < options.faults and self._is_time():
                step = self._fault()
            else:
                step = self._duty()
            if step is not None:
                self._take(step)

    def settle(self) -> None:
        """All faults end; what is bound to happen does."""
        world = self.world
        if world.parts:
            self._take(("part", {}))
        for x, site in sorted(world.sites.items()):
            if site.state == DOWN:
                self._take(("rise", x))
        for _ in range(REST_STEPS_MAX):
            steps = duties(world)
            urgent = [step for step in steps if step[0] != "resend"]
            if urgent:
                self._take(self.rng.choice(urgent))
                continue
            before = world.key({})
            for step in steps:
                self._take(step)
            if world.key({}) == before:
                return
        raise Broken(f"no rest after {REST_STEPS_MAX} steps: {duties(world)}")

    def _take(self, step: Step) -> None:
        self.taken.append(step)
        self.world.perform(step)

    # ---- which step ------------------------------------------------------------------------------

    def _live(self) -> list[Site]:
        sites = sorted(self.world.sites.items())
        return [site for _, site in sites if site.state == LIVE and site.council.is_member]

    def _is_time(self) -> bool:
        if not self.options.is_aimed or self.faults[-1:] in (["join"], ["leave"]):
            return True
        is_busy = any([site.council.proposal is not None for site in self._live()])
        return is_busy or self.rng.random() < 0.2

    def _duty(self) -> Step | None:
        steps = duties(self.world)
        if self.rng.random() < self.options.patience:
            steps = [step for step in steps if step[0] != "trust"]  # suspicion lasts a little
        return self.rng.choice(steps) if steps else None

    def _hasty(self) -> Step | None:
        live = self._live()
        if not live:
            return None
        site = self.rng.choice(live)
        kind = self.rng.randrange(3)
        if kind == 0:
            return ("tick", site.slot)
        if kind == 1:
            return ("resend", site.slot)
        others = site.council.others
        return ("beat", site.slot, self.rng.choice(others)) if others else None

    def _send(self) -> Step | None:
        live = [site for site in self._live() if not site.is_leaving]
        return ("send", self.rng.choice(live).slot) if live else None

    def _reset(self) -> Step | None:
        pairs = sorted(self.world.queues)
        return ("reset", *self.rng.choice(pairs)) if pairs else None

    def _fault(self) -> Step | None:
        """One of those that are left, if it is possible now."""
        rng, world = self.rng, self.world
        down = [x for x, site in sorted(world.sites.items()) if site.state == DOWN]
        if down and rng.random() < 0.5:
            return ("rise", rng.choice(down))
        if world.parts and rng.random() < 0.3:
            return ("part", {})
        if self.options.is_vouched and rng.random() < 0.3:
            return self._vouch()
        if not self.faults:
            return None
        step: Step | None = getattr(self, "_fault_" + self.faults[-1])()
        if step is None:
            self.faults.insert(0, self.faults.pop())
            return None
        self.faults.pop()
        return step

    def _fault_join(self) -> Step | None:
        """Somebody new, or somebody who was here before."""
        live = self._live()
        self.tickets += 1
        waiting = [name for name, _ in self.world.joiners.values()]
        taken = {*waiting, *[each.name for site in live for each in site.view.members]}
        former = sorted({gone.name for site in live for gone in site.view.gone} - taken)
        return ("arrive", self.tickets, self.rng.choice([f"j{self.tickets}", *former]))

    def _fault_leave(self) -> Step | None:
        able = [site.slot for site in self._live() if may_leave(self.world, site)]
        return ("leave", self.rng.choice(able)) if able else None

    def _fault_crash(self) -> Step | None:
        """A node, one that has left perhaps, or a newcomer that still waits for the state."""
        waiting = [
            ("perish", ticket)
            for ticket, (_, state) in sorted(self.world.joiners.items())
            if state == LIVE
        ]
        sites = sorted(self.world.sites.items())
        steps = waiting + [("crash", x) for x, site in sites if site.state != DEAD]
        return self.rng.choice(steps) if steps else None

    def _fault_fall(self) -> Step | None:
        live = self._live()
        return ("fall", self.rng.choice(live).slot) if live else None

    def _fault_doubt(self) -> Step | None:
        live = [site for site in self._live() if site.council.others]
        if not live:
            return None
        site = self.rng.choice(live)
        what = self.rng.choice(("doubt", "doubt", "suspect"))
        return (what, site.slot, self.rng.choice(site.council.others))

    def _fault_part(self) -> Step | None:
        if self.world.parts:
            return None
        return ("part", {x: self.rng.randrange(2) for x in sorted(self.world.sites)})

    def _vouch(self) -> Step | None:
        """Of somebody dead, at a node with the latest view that somebody living has: else those
        who know a later one would be left behind, and no quorum can help that."""
        sites = self.world.sites
        latest = max([site.view.num for site in sites.values() if site.state != DEAD], default=0)
        able = [
            (site.slot, x)
            for site in self._live()
            if site.view.num == latest
            for x in site.council.others
            if x in sites and sites[x].state == DEAD and x not in site.council.vouched
        ]
        return ("vouch", *self.rng.choice(able)) if able else None
