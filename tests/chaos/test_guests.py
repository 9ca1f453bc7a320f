"""Guests of an elastic group that send garbage and floods over real connections: it goes on."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.hostile import BOOT, Stranger
from tests.client.meshes import QUICK, run, until
from thence import Group
from thence.client.elastic import Elastic
from thence.client.links import GUESTS_MAX
from thence.config.node import MembershipConfig
from thence.wire import membership as said
from thence.wire import talk
from thence.wire.frame import frame
from thence.wire.membership import Knock, Member, Request, View

SEED = int(os.environ.get("THENCE_CHAOS_SEED", "1"))
SECRET = "open sesame"
NAMES = ("a", "b", "c")


def membership(folder: Path) -> MembershipConfig:
    file = folder / "secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    return MembershipConfig(
        elastic=True, beat_ms=50, suspect_s=1.0, suspect_phi=0, evict_s=3.0, join_s=2.0,
        secret_file=str(file),
    )  # fmt: skip


def council(*messages: said.CouncilMessage, group: str = "main") -> bytes:
    return b"".join(frame(talk.COUNCIL, said.encode(group, each)) for each in messages)


async def started(config: MembershipConfig, scheme: str) -> list[Group]:
    groups: list[Group] = []
    for name in NAMES:
        join = [groups[0].addresses[0]] if groups else ()
        group = Group(
            name, listen=f"{scheme}://127.0.0.1:0", membership=config, timing=QUICK, join=join
        )
        await group.start()
        group.on_event(lambda event: None)
        groups.append(group)
    for group in groups:
        await until(lambda group=group: len(group.members) == 3)  # type: ignore[misc]
        await group.until_connected()
    return groups


def view_of(group: Group) -> View:
    driver = group.driver
    assert isinstance(driver, Elastic)
    return driver.council.view


Deed = Callable[[View, random.Random], list[bytes]]


def _garbage(view: View, chance: random.Random) -> list[bytes]:
    return [frame(talk.COUNCIL, chance.randbytes(chance.randrange(200))) for _ in range(50)]


def _cut(view: View, chance: random.Random) -> list[bytes]:
    whole = said.encode("main", said.Installed(view))
    return [frame(talk.COUNCIL, whole[: chance.randrange(len(whole))]) for _ in range(50)]


def _forged_views(view: View, chance: random.Random) -> list[bytes]:
    stranger = Member("x", 1, view.slots)
    later = View(view.num + 9, (*view.members, stranger), view.slots + 1, view.gone)
    alone = View(view.num + 1, (stranger,), view.slots + 1, view.gone)
    return [
        council(said.Installed(later)),
        council(said.Installed(alone, b"p" * 32)),
        council(said.Accept(view.num, (99, 0), alone), said.Accepted(view.num, (99, 0))),
    ]


def _absurd_views(view: View, chance: random.Random) -> list[bytes]:
    many = tuple(Member(f"m{at}", 1, at) for at in range(400))
    return [
        council(said.Installed(View((1 << 63) - 1, many, 400))),
        council(said.Installed(View(view.num + 1, (many[0], many[0]), 1))),
    ]


def _orders(view: View, chance: random.Random) -> list[bytes]:
    slots = tuple(each.slot for each in view.members)
    return [
        council(said.Prepare(view.num, (99, 0), slots)),
        council(said.Beat(view.num, sentenced=slots, vouched=slots)),
        council(said.Beat(view.num, leaves=tuple((slot, 0) for slot in slots))),
        council(said.Beat(view.num, joins=tuple(Request(f"n{at}", at) for at in range(500)))),
    ]


def _knocks(view: View, chance: random.Random) -> list[bytes]:
    def request() -> Request:
        return Request(f"n{chance.randrange(1000)}", chance.getrandbits(60))

    own = [Knock(Request("x", chance.getrandbits(60)), b"n", b"p" * 32) for _ in range(500)]
    return [council(*[Knock(request()) for _ in range(500)]), council(*own)]


def _pieces(view: View, chance: random.Random) -> list[bytes]:
    return [
        council(said.Piece(1, 0, said.HEAD, b"x"), said.PieceAck(1, 1 << 60)),
        council(said.Pull(view.num, 0, 1, 1 << 39), said.Relay(view.num, 0, b"x")),
    ]


def _openings(view: View, chance: random.Random) -> list[bytes]:
    said = talk.Open(1, "main", "tagged", (), 0, 9, 9, True, "x", "a")
    return [talk.open_group(said)] * 50


def _asking(view: View, chance: random.Random) -> list[bytes]:
    return [council(*[said.Beat(0)] * 5000)]


DEEDS: dict[str, Deed] = {
    "garbage": _garbage, "cut messages": _cut, "forged views": _forged_views,
    "absurd views": _absurd_views, "orders": _orders, "knocks": _knocks, "pieces": _pieces,
    "openings": _openings, "asking again and again": _asking,
    "huge": lambda view, chance: [frame(talk.COUNCIL, bytes(1 << 20))],
    "other groups": lambda view, chance: [council(said.Beat(0), group=f"g{i}") for i in range(99)],
}  # fmt: skip


async def annoy(url: str, view: View, deed: Deed, chance: random.Random, name: str) -> None:
    stranger = await Stranger.dial(url)
    stranger.send(talk.hello(name, BOOT, "hostile"), *deed(view, chance))
    try:
        await stranger.until_closed(0.2)
    except TimeoutError:
        stranger.leave()


async def works(groups: list[Group], view: View) -> None:
    """Everybody gets what everybody sends, in the same view as before."""
    for group in groups:
        assert view_of(group) == view
        tag = await group.broadcast(b"it goes on")
        async with asyncio.timeout(10):
            await group.until_stable(tag)
        assert not group.driver.failed


@pytest.mark.timeout(90)
@pytest.mark.parametrize("scheme", ["tcp", "udp"])
def test_guests_do_not_change_a_view_or_stop_a_group(tmp_path: Path, scheme: str):
    async def main() -> None:
        chance = random.Random(SEED)
        groups = await started(membership(tmp_path), scheme)
        view = view_of(groups[0])
        for name, deed in DEEDS.items():
            for group in groups[:2]:
                await annoy(group.addresses[0], view, deed, chance, "x")
            for group in groups:
                assert view_of(group) == view, name
        await works(groups, view)
        for group in groups:
            driver: Any = group.driver
            assert not driver.council.joins
            assert not driver.reception.guests
            assert len(driver._views) <= 3 + 64
            assert {*group._runtime.hub.totals} <= {*NAMES}
        for group in reversed(groups):
            await group.aclose()

    run(main())


@pytest.mark.timeout(60)
def test_many_guests_at_once_lock_nobody_out(tmp_path: Path):
    async def main() -> None:
        config = membership(tmp_path)
        groups = await started(config, "tcp")
        url, view = groups[0].addresses[0], view_of(groups[0])
        crowd = [await Stranger.dial(url) for _ in range(2 * GUESTS_MAX)]
        for at, stranger in enumerate(crowd):
            stranger.send(talk.hello(f"x{at}", BOOT, "hostile"), council(said.Beat(0)))
        await asyncio.sleep(0.2)
        hub = groups[0]._runtime.hub
        assert sum(link.is_guest for link in hub.by_peer.values()) <= GUESTS_MAX
        await works(groups, view)
        j = Group("j", listen="tcp://127.0.0.1:0", membership=config, timing=QUICK, join=url)
        async with asyncio.timeout(10):
            await j.start()
        j.on_event(lambda event: None)
        for stranger in crowd:
            stranger.leave()
        for group in (j, *reversed(groups)):
            await group.aclose()

    run(main())
