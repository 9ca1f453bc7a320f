"""Every order of events in a small world of councils, once per state.

A ``Scene`` says what befalls the nodes besides their duties (council_duties.py): each of its events
happens at any moment, or never.  So the rules of a world at rest are checked with every subset of
the events, whenever the world comes to rest.

Two coordinators that suspect each other can outbid each other for ever.  While somebody is
suspected who is alive, new ballots are counted, and end after ``Scene.ballots``; when all suspicion
is right there are as many as it takes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, Final

import msgspec

from thence.errors import LimitError
from thence.sim.council import Broken, Step, World
from thence.sim.council_duties import answers, check_end, duties, may_leave
from thence.sim.council_site import DOWN, LIVE

STATES_MAX: Final = 5_000_000


class Scene(msgspec.Struct, frozen=True):
    """What happens besides the duties, each at any moment."""

    nodes: int = 3
    joins: int = 0
    sends: tuple[int, ...] = ()
    """Who broadcasts, once per entry."""
    leaves: tuple[int, ...] = ()
    crashes: tuple[int, ...] = ()
    """Who dies, once each; a slot that was not handed out at the beginning is a newcomer's."""
    perishes: tuple[int, ...] = ()
    """Which newcomers die before they have the state, by ticket: 1 and so on."""
    falls: tuple[int, ...] = ()
    """Who crashes and comes back with what it had written down."""
    doubts: tuple[tuple[int, int], ...] = ()
    """Who suspects whom though it is alive; that ends some time."""
    resets: tuple[tuple[int, int], ...] = ()
    """Connections that break and come back, with all that was on its way."""
    contact: int = -1
    """Whom newcomers ask first; -1 is anybody, in turn."""
    is_noticed: bool = False
    """All suspect a dead one in the same moment, not one after the other."""
    ballots: int = 3
    """How many new ballots there are at most while somebody is suspected who is alive."""


class Explored(msgspec.Struct, frozen=True):
    """How much there was."""

    states: int
    steps: int
    rests: int
    """States in which no duty changes anything; each was checked."""


Path = tuple["Path | None", Step]


class Position(msgspec.Struct):
    """A state, what may still happen, and the way to it."""

    world: World
    left: tuple[Step, ...]
    ballots: int
    path: Path | None
    number: int


def explore(scene: Scene, states_max: int = STATES_MAX) -> Explored:
    """Visit every state; Broken names the path that fails, for ``follow``."""
    names: dict[Any, int] = {}
    seen: dict[int, int] = {}
    edges = (array("l"), array("l"))
    resting: list[int] = []
    world = _world(scene)
    start = Position(world, events_of(scene), scene.ballots, None, 0)
    seen[_key(start, names)] = 0
    todo = [start]
    steps = 0
    while todo:
        at = todo.pop()
        is_rest = True
        for step in choices(scene, at):
            after = _after(scene, at, step)
            steps += 1
            key = _key(after, names)
            number = seen.get(key)
            if number is None:
                number = seen[key] = len(seen)
                if number >= states_max:
                    raise LimitError(f"{scene} has more than {states_max} states")
                after.number = number
                todo.append(after)
            if number != at.number:
                edges[0].append(at.number)
                edges[1].append(number)
                is_rest = is_rest and step in at.left
        if is_rest:
            resting.append(at.number)
            _attempt(scene, at.path, check_end, at.world)
    _check_progress(scene, len(seen), edges, resting)
    return Explored(len(seen), steps, len(resting))


def _world(scene: Scene) -> World:
    world = World(scene.nodes, scene.joins)
    world.is_terse = True
    return world


def events_of(scene: Scene) -> tuple[Step, ...]:
    """The events of a scene, as steps."""
    return (
        *[("send", x) for x in scene.sends],
        *[("leave", x) for x in scene.leaves],
        *[("crash", x) for x in scene.crashes],
        *[("perish", ticket) for ticket in scene.perishes],
        *[("fall", x) for x in scene.falls],
        *[("doubt", p, x) for p, x in scene.doubts],
        *[("reset", x, p) for x, p in scene.resets],
    )


def choices(scene: Scene, at: Position) -> list[Step]:
    """What can happen next: duties, and events of the scene."""
    world = at.world
    steps = [step for step in duties(world) if at.ballots or not _is_rivalry(world, step)]
    steps = _narrowed(scene, world, steps)
    steps += [("rise", x) for x, site in sorted(world.sites.items()) if site.state == DOWN]
    done: list[Step] = []
    for step in at.left:
        if step not in done and _is_possible(world, step):
            done.append(step)
    return steps + done


def _narrowed(scene: Scene, world: World, steps: list[Step]) -> list[Step]:
    """Without the orders that a scene leaves out."""
    if scene.is_noticed:
        firsts = [next(s for s in steps if s[0] == "doubt")] if _has(steps, "doubt") else []
        steps = [step for step in steps if step[0] != "doubt"]
        steps += [("notice", x) for _, _, x in firsts]
    contact = world.sites.get(scene.contact)
    if contact is not None and contact.state == LIVE and contact.council.is_member:
        steps = [s for s in steps if s[0] != "knock" or s[2] == scene.contact]
    return steps


def _has(steps: list[Step], what: str) -> bool:
    return any([step[0] == what for step in steps])


def _is_possible(world: World, step: Step) -> bool:
    if step[0] == "perish":
        return world.joiners.get(step[1], ("", ""))[1] == LIVE
    site = world.sites.get(step[1])
    if site is None or site.state != LIVE:
        return False
    if step[0] == "send":
        return not site.is_leaving and site.council.is_member
    if step[0] == "leave":
        return may_leave(world, site)
    if step[0] == "doubt":
        x = step[2]
        return (
            site.council.is_member
            and site.view.member(x) is not None
            and x not in site.council.suspects
            and answers(world, step[1], x)
        )
    if step[0] == "reset":
        return bool(world.queues.get(step[1:]) or world.queues.get(step[:0:-1]))
    return True


def _is_rivalry(world: World, step: Step) -> bool:
    """Whether it is a tick while a living one is suspected."""
    return step[0] == "tick" and any(
        [
            answers(world, p, x)
            for p, site in world.sites.items()
            if site.state == LIVE and site.council.is_member
            for x in sorted(site.council.suspects)
        ]
    )


def _after(scene: Scene, at: Position, step: Step) -> Position:
    left = at.left
    if step in left:
        index = left.index(step)
        left = left[:index] + left[index + 1 :]
    ballots = at.ballots - _is_rivalry(at.world, step)
    world = at.world.copy()
    path = (at.path, step)
    _attempt(scene, path, _perform, world, step)
    return Position(world, left, ballots, path, 0)


def _perform(world: World, step: Step) -> None:
    world.perform(step)
    if step[0] == "beat":  # nothing is before it: at once is as good as later
        world.perform(("deliver", *step[1:]))


def _key(at: Position, names: dict[Any, int]) -> int:
    return hash((at.world.key(names), at.left, at.ballots))


def _attempt(scene: Scene, path: Path | None, do: Callable[..., None], *given: Any) -> None:
    try:
        do(*given)
    except Exception as error:
        what = str(error) if isinstance(error, Broken) else repr(error)
        raise Broken(f"{what}\nfollow({scene}, {_steps(path)})") from error


def _steps(path: Path | None) -> list[Step]:
    steps: list[Step] = []
    while path is not None:
        steps.append(path[1])
        path = path[0]
    return steps[::-1]


def follow(scene: Scene, steps: list[Step]) -> World:
    """The world that these steps lead to: how a failing path is looked at again."""
    world = _world(scene)
    for step in steps:
        _perform(world, step)
    return world


def _check_progress(
    scene: Scene, states: int, edges: tuple[array[int], array[int]], resting: list[int]
) -> None:
    """From every state the world can come to rest: backwards from where it rests."""
    starts = array("l", bytes(8 * (states + 2)))
    for target in edges[1]:
        starts[target + 2] += 1
    for number in range(2, states + 2):
        starts[number] += starts[number - 1]
    before = array("l", bytes(8 * len(edges[0])))
    for source, target in zip(*edges, strict=True):
        before[starts[target + 1]] = source
        starts[target + 1] += 1
    can = bytearray(states)
    todo = resting.copy()
    for number in todo:
        can[number] = 1
    while todo:
        at = todo.pop()
        for number in before[starts[at] : starts[at + 1]]:
            if not can[number]:
                can[number] = 1
                todo.append(number)
    stuck = states - sum(can)
    if stuck:
        raise Broken(f"from {stuck} of {states} states of {scene} there is no way to rest")
