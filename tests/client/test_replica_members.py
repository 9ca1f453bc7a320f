"""A keyspace over a group whose members come and go, and that may be full."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.client.meshes import QUICK, mesh, run
from tests.client.test_replica import hooks, replicas, settled, state
from thence import Group, Joined
from thence.client.replica import Replica
from thence.client.replica_stamps import TagStamp
from thence.config import MembershipConfig
from thence.crdt import batch
from thence.crdt.children import REGISTER
from thence.crdt.keyspace import CLEAR, KEYS
from thence.crdt.register_counter import SET

HASTY = MembershipConfig(elastic=True, beat_ms=20, suspect_s=0.15, evict_s=0.3, suspect_phi=0)


@asynccontextmanager
async def member(name: str, replica: Replica, **more: Any) -> AsyncIterator[Group]:
    made = {"timing": QUICK, "membership": HASTY, **hooks(replica), **more}
    async with Group(name, listen=f"mem://{name}", **made) as group:
        replica.attach(group)
        yield group


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def test_what_was_done_just_before_leaving_is_sent():
    async def main() -> None:
        first, second = Replica(), Replica()
        async with member("a", first), member("b", second, join="mem://a") as b:
            second.update(b"x", REGISTER, (SET, b"last words"))
            assert await b.leave(5)
            await until(lambda: first.keyspace.get(b"x") == b"last words")
            assert second.failure == ""

    run(main())


def test_who_is_evicted_takes_nothing_among_what_it_could_not_send():
    async def main() -> None:
        first, second, third = Replica(), Replica(), Replica()
        async with (
            member("a", first), member("b", second, join="mem://a"),
            member("c", third, join="mem://a") as c,
        ):  # fmt: skip
            await settled([first, second, third])
            third.update(b"x", REGISTER, (SET, b"never sent"))
            c.driver.is_out = True
            third.flush()
            assert "no member" in third.failure
            c.driver.is_out = False
            first.update(b"x", REGISTER, (SET, b"1"))
            await until(lambda: c.driver.counts["delivered"] > 0)
            await asyncio.sleep(0.05)
            assert third.keyspace.get(b"x") == b"never sent"
            assert "no member" in third.failure
            assert not third.is_settled

    run(main())


def test_pieces_of_one_who_is_gone_are_forgotten():
    async def main() -> None:
        first, second = Replica(), Replica()
        async with member("a", first) as a, member("b", second, join="mem://a") as b:
            await b.broadcast(batch.encode(0, [b"k", REGISTER, (SET, bytes(1000))], 300)[0])
            await until(lambda: "b" in first._pieces)
            assert await b.leave(5)
            await until(lambda: a.view.num > 1 and len(a.view.members) == 1)
            assert first._pieces == {}

    run(main())


def test_who_joins_between_two_pieces_has_the_batch():
    async def main() -> None:
        first, second, third = Replica(), Replica(), Replica()
        pieces = batch.encode(5, [b"k", REGISTER, (SET, bytes(1000))], 800)
        assert len(pieces) == 2
        async with member("a", first), member("b", second, join="mem://a") as b:
            await b.broadcast(pieces[0])
            await until(lambda: "b" in first._pieces)
            async with member("c", third, join="mem://a"):
                await b.broadcast(pieces[1])
                await until(lambda: first.seen()["b"] == third.seen().get("b", 0) == 2)
                assert state(first) == state(third) == {b"k": bytes(1000)}

    run(main())


def test_who_is_not_alone_any_more_writes_with_stamps():
    async def main() -> None:
        first, second = Replica(), Replica()
        async with member("a", first):
            first.update(b"x", REGISTER, (SET, b"alone"))
            assert first.keyspace.is_stable(b"x")
            async with member("b", second, join="mem://a"):
                await until(lambda: state(second) == {b"x": b"alone"} and not first.is_alone)
                second.update(b"x", REGISTER, (SET, b"sooner"))
                second.flush()
                time.sleep(0.002)  # and nothing is taken meanwhile
                first.update(b"x", REGISTER, (SET, b"later"))
                assert not first.keyspace.is_stable(b"x")
                await settled([first, second])
                assert state(first) == state(second) == {b"x": b"later"}

    run(main())


def test_who_joins_while_everything_is_cleared_is_given_one_moment():
    replica = Replica()
    keyspace = replica.keyspace
    stamp = TagStamp("a", 1, 0, is_own=True)
    for number in range(50):
        keyspace.apply(b"%d" % number, REGISTER, (SET, number), stamp)
    keyspace.stabilise({stamp})
    before = state(replica)
    chunks = replica.snapshot()
    keyspace.apply(b"", KEYS, (CLEAR,), stamp)
    assert state(replica) == {}
    other = Replica()
    other.restore(chunks)
    other.begin(lambda node, seq: None, ())
    assert state(other) == before


def test_what_is_done_about_an_event_is_before_what_comes_next():
    async def main() -> None:
        second = Replica()
        done: list[bool] = []

        def greet(event: Any) -> None:
            if isinstance(event, Joined):
                first.update(b"x", REGISTER, (SET, b"welcome"))
                done.append(first.is_settled)

        class Watched(Replica):
            def _event(self, event: Any) -> None:
                super()._event(event)
                done.append(self.is_settled)

        first = Watched()
        first.on_event = greet
        async with member("a", first), member("b", second, join="mem://a"):
            await until(lambda: second.keyspace.get(b"x") == b"welcome")
            assert False in done
            assert done[done.index(False) + 1]

    run(main())


def test_without_room_the_others_are_not_asked():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, _ = replicas(groups)
            groups[0].driver._unstable_max = 0
            for _ in range(10):
                a.ask()
            assert groups[0].sent == 0

    run(main())


def test_what_is_not_for_everyone_is_no_batch():
    async def main() -> None:
        async with mesh("abc") as groups:
            a, b = members = replicas(groups[:2])
            other = groups[2]
            other.on_deliver(lambda tag: None)

            def payload(value: bytes) -> bytes:
                return batch.encode(0, [b"x", REGISTER, (SET, value)], 1000)[0]

            await other.broadcast(payload(b"for all"))
            await other.send(payload(b"for one"), ["a"])
            await other.broadcast(payload(b"never stable"), stream="s")
            await until(lambda: a.counts["ignored"] == 2 and b.counts["ignored"] == 1)
            assert [state(each) for each in members] == [{b"x": b"for all"}] * 2
            assert a.seen() == b.seen()
            await other.broadcast(payload(b"again"))
            await until(lambda: not any([each.unstable for each in members]) and a.seen()["c"] == 3)
            assert [state(each) for each in members] == [{b"x": b"again"}] * 2

    run(main())
