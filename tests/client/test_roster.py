"""What the status page says of members that come and go."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.client.meshes import QUICK, run, take_all, until
from tests.client.test_status import PAGE, get, status_of
from thence import Group, LocalProtocolError, Node, UnreachableError
from thence.config import MembershipConfig
from thence.telemetry.snapshot import MembershipNumbers, Status

SOON = MembershipConfig(elastic=True, beat_ms=50, suspect_s=0.3, suspect_phi=0, evict_s=0, join_s=9)


def settings(name: str, join: str = "", **more: Any) -> dict[str, Any]:
    membership = msgspec.structs.replace(SOON, join=(join,) if join else ())
    return {"name": name, "listen": f"mem://{name}", "membership": membership, "timing": QUICK,
            **more}  # fmt: skip


def of(status: Status) -> MembershipNumbers:
    (group,) = status.snapshot.groups
    assert group.membership is not None
    return group.membership


def test_a_founder_alone_is_ready_and_counts_who_comes_and_goes():
    async def main() -> None:
        async with Group(**settings("a", status=PAGE)) as a:
            taker = asyncio.create_task(take_all(a, []))
            alone = await status_of(a)
            assert (alone.ready, alone.why) == (True, "")
            assert [(each.name, each.state) for each in of(alone).members] == [("a", "self")]
            async with Group(**settings("b", "mem://a", status=PAGE)) as b:
                other = asyncio.create_task(take_all(b, []))
                await until(lambda: 1 in a._driver.council.up)
                found = of(await status_of(a))
                assert (found.view, found.changes, found.handovers) == (1, 1, 1)
                assert [(each.name, each.state) for each in found.members] == [
                    ("a", "self"),
                    ("b", "up"),
                ]
                assert [each.name for each in of(await status_of(b)).members] == ["a", "b"]
            await other
            await until(lambda: a.members == ("a",))
            left = await status_of(a)
            assert (left.ready, of(left).view, len(of(left).members)) == (True, 2, 1)
            assert left.snapshot.peers == () or [p.name for p in left.snapshot.peers] == ["b"]
            assert left.snapshot.groups[0].limits["events_waiting"] == 0
        await taker

    run(main())


def test_a_node_on_its_way_in_is_not_ready_and_says_why():
    async def main() -> None:
        b = Node(**settings("b", "mem://nobody", status=PAGE))
        async with b:
            joining = asyncio.create_task(b.group())
            await until(lambda: bool(b.runtime.hub.newcomers))
            await asyncio.sleep(0.1)
            code, body = await get(b.status_address, "/status")
            status = msgspec.json.decode(body, type=Status)
            assert (code, status.ready) == (200, False)
            assert status.why.startswith("joining main: ")
            assert [each.group for each in status.snapshot.joining] == ["main"]
            assert status.snapshot.peers == ()  # an address to ask is no peer
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)

    run(main())


def test_a_minority_is_not_ready():
    async def main() -> None:
        a = await Group(**settings("a")).start()
        takers = [asyncio.create_task(take_all(a, []))]
        async with Group(**settings("b", "mem://a", status=PAGE)) as b:
            takers.append(asyncio.create_task(take_all(b, [])))
            await until(lambda: 0 in b._driver.council.up)
            await a.aclose(drain_s=0)  # without a word
            await until(lambda: b.is_minority)
            status = await status_of(b)
            assert status.why == (
                "only a minority of main can be reached (b of 2): what is sent here may not be "
                "accepted"
            )
            found = of(status)
            assert (status.ready, found.minority, found.suspects) == (False, True, 1)
            b.evict("a", is_dead=True)
            await until(lambda: b.members == ("b",))
            assert (await status_of(b)).ready
        await asyncio.gather(*takers)

    run(main())


def test_a_node_that_was_evicted_is_out_and_joins_again():
    async def main() -> None:
        async with Group(**settings("a")) as a, Node(**settings("b", "mem://a", status=PAGE)) as b:
            takers = [asyncio.create_task(take_all(a, []))]
            group = await b.group()
            with pytest.raises(LocalProtocolError, match="b is not out of main"):
                await b.rejoin()
            takers.append(asyncio.create_task(take_all(group, [])))
            a.evict("b")
            await until(lambda: group.is_out)
            code, body = await get(b.status_address, "/ready")
            assert code == 503
            assert b"b is no member of main any more" in body
            code, _ = await get(b.status_address, "/metrics")
            assert code == 200
            again = await b.rejoin()
            takers.append(asyncio.create_task(take_all(again, [])))
            assert (again.node, again.members, again.is_out) == ("b#2", ("a", "b#2"), False)
            await until(lambda: a.members == ("a", "b#2"))
            tag = await again.broadcast(b"back")
            await again.until_stable(tag)
        await asyncio.gather(*takers)

    run(main())


def test_joining_again_can_be_tried_again():
    async def main() -> None:
        impatient = msgspec.structs.replace(SOON, join=("mem://a",), join_s=1.5)
        async with Node(**settings("b") | {"membership": impatient}) as b:
            async with Group(**settings("a")) as a:
                taker = asyncio.create_task(take_all(a, []))
                group = await b.group()
                takers = [taker, asyncio.create_task(take_all(group, []))]
                a.evict("b")
                await until(lambda: group.is_out)
                await a.aclose(drain_s=0)
            for _ in range(2):
                with pytest.raises(UnreachableError, match="nobody listens there"):
                    await b.rejoin()
            async with Group(**settings("a")) as a:
                takers.append(asyncio.create_task(take_all(a, [])))
                again = await b.rejoin()
                assert again.members == ("a", "b")
                takers.append(asyncio.create_task(take_all(again, [])))
        await asyncio.gather(*takers)

    run(main())


def test_a_node_that_is_not_let_in_again_may_try_it_again():
    async def main() -> None:
        async with Group(**settings("a")) as a, Node(**settings("b", "mem://a")) as b:
            takers = [asyncio.create_task(take_all(a, []))]
            group = await b.group()
            takers.append(asyncio.create_task(take_all(group, [])))
            a.evict("b")
            await until(lambda: group.is_out)

            def fails(chunks: object) -> None:
                raise ValueError("no room for it")

            with pytest.raises(ValueError, match="no room for it"):
                await b.rejoin(restore=fails)
            a.evict("b")
            again, second = await asyncio.gather(b.rejoin(), b.rejoin(), return_exceptions=True)
            assert "b is about to join main already" in str(second)
            takers.append(asyncio.create_task(take_all(again, [])))
            assert again.node == "b#3"
        await asyncio.gather(*takers)

    run(main())
