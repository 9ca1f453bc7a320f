"""The store of one node where things go wrong: strange keys and times, no room, former lives."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.exceptions import ResponseError

from tests.client.meshes import QUICK, run
from tests.store.stores import client_of, until, world
from thence.client.replica import Replica
from thence.client.replica_stamps import TagStamp
from thence.config import FlowConfig, MembershipConfig
from thence.crdt.counter_pn import CounterPn
from thence.crdt.expiry import AT
from thence.crdt.register_counter import INC, SET, RegisterCounter
from thence.store import tokens
from thence.store.database import EXPIRY, LACKING_MAX, TIMES_SPARE
from thence.store.node import Store
from thence.store.settings import Settings

HASTY = MembershipConfig(elastic=True, beat_ms=20, suspect_s=0.15, evict_s=0.3, suspect_phi=0)
REGISTER = RegisterCounter.CODE


def alone(**settings: Any) -> Store:
    return Store("a", settings=Settings(port=0), **settings)


def test_keys_that_no_command_can_name_harm_no_other():
    async def main() -> None:
        async with world("ab") as made:
            replica, db = made.stores["a"].replica, made.stores["b"].database
            at_ms = db.now_ms() + 60_000
            for key in (b"x", "x", 7, 2.5, b"y"):
                replica.update(key, REGISTER, (SET, b"v"))
                replica.update(key, EXPIRY, (AT, at_ms))
            await made.synced()
            assert db.failure == ""
            for name in "ab":
                assert sorted(await made.do(name, "KEYS *")) == ["x", "y"]
                assert sorted(await made.do(name, "KEYS ?")) == ["x", "y"]
                assert await made.do(name, "RANDOMKEY") in ("x", "y")

    run(main())


def test_giving_a_key_a_time_again_and_again_keeps_one():
    async def main() -> None:
        async with alone() as store:
            db = store.database
            db.update(b"x", RegisterCounter, (SET, b"v"))
            at_ms = db.now_ms() + 3_600_000
            for number in range(5 * TIMES_SPARE):
                db.expire(b"x", at_ms + number)
            assert len(db._times) <= TIMES_SPARE + 4
            db.expire(b"x", db.now_ms() + 50)
            await until(lambda: store.replica.keyspace.expiry_count == 0)
            assert db.size() == 0

    run(main())


def test_what_is_over_and_cannot_be_removed_stays_absent():
    async def main() -> None:
        async with alone() as store:
            db = store.database
            db.update(b"x", RegisterCounter, (SET, b"v"))
            db.expire(b"x", db.now_ms() + 20)
            db.replica.update(b"x", CounterPn.CODE, (0, 1))  # as a peer may have, at the same time
            await asyncio.sleep(0.1)
            assert db.get(b"x") is None
            assert list(db.keys()) == []

    run(main())


def test_who_waits_for_room_is_told_when_there_never_will_be_any():
    async def main() -> None:
        async with world("ab", flow=FlowConfig(outbox_messages_max=20)) as made:
            await made.cut()
            store = made.stores["a"]

            async def fill() -> None:
                for number in range(50):
                    await made.do("a", f"SET k {number}")

            filling = asyncio.create_task(fill())
            await until(lambda: not store.database.has_room())
            await asyncio.sleep(0.02)
            assert not filling.done()
            store.group.driver.failed = "the disk is full"
            store.group.runtime.turn()
            with pytest.raises(ResponseError, match="the disk is full"):
                async with asyncio.timeout(5):
                    await filling
            made.stores.pop("a")
            await store.aclose(drain_s=0.0)

    run(main())


def test_who_waits_for_room_goes_on_when_the_others_are_back():
    async def main() -> None:
        async with world("ab", flow=FlowConfig(outbox_messages_max=20)) as made:
            await made.cut()
            database = made.stores["a"].database

            async def fill(number: int) -> None:
                async with client_of(made.stores["a"]) as client:
                    for _ in range(30):
                        await client.incr(f"n{number}")

            filling = [asyncio.create_task(fill(number)) for number in range(3)]
            await until(lambda: not database.has_room())
            await asyncio.sleep(0.02)
            await made.heal()
            async with asyncio.timeout(5):
                await asyncio.gather(*filling)
            await made.synced()
            assert await made.do("b", "MGET n0 n1 n2") == ["30", "30", "30"]

    run(main())


def test_waiting_for_others_sends_nothing_when_there_is_no_room():
    async def main() -> None:
        async with world("ab", flow=FlowConfig(outbox_messages_max=20)) as made:
            await made.cut()
            store = made.stores["a"]
            await made.do("a", "SET k v")
            for _ in range(60):
                assert await made.do("a", "WAIT 1 1") == 0
            assert store.group.sent <= 20
            await made.heal()
            assert await made.do("a", "WAIT 1 5000") == 1

    run(main())


def test_waiting_for_a_write_of_a_former_life_is_answered_by_what_became_of_it():
    def elastic(name: str, **more: Any) -> Store:
        return Store(
            name, listen=f"mem://{name}", settings=Settings(port=0), timing=QUICK,
            membership=HASTY, **more,
        )  # fmt: skip

    async def main() -> None:
        async with (
            elastic("a") as a, elastic("b", join="mem://a"), elastic("c", join="mem://a") as c,
            client_of(c) as client,
        ):  # fmt: skip
            await client.set("x", "1")
            assert await client.execute_command("WAIT", 2, 5000) == 2
            write = c.replica.latest
            a.group.evict("c")
            await until(lambda: c.group.is_out)
            await c.rejoin()
            assert await client.execute_command("WAIT", 2, 100) == 2
            assert await client.get("x") == "1"
            # One that the others did not accept.
            assert write is not None
            lost = TagStamp("c", write.seq + 100, 0, write.tag)
            assert await c.database.wait_replicas(1, 20, lost) == 0

    run(main())


def test_who_waits_for_many_members_costs_no_more_than_who_waits_for_one():
    async def main() -> None:
        async with world("ab") as made:
            replica, database = made.stores["a"].replica, made.stores["a"].database
            looked_up: list[int] = []

            def has_seen(other: dict[str, int]) -> bool:
                looked_up.append(len(other))
                return Replica.has_seen(replica, other)

            replica.has_seen = has_seen  # type: ignore[method-assign]
            seen = {"a": 1, "b": 1}
            await made.do("a", "SET k v")
            token = tokens.encode({**seen, **{f"n{at}": 1 for at in range(1000)}})
            waiting = [asyncio.create_task(database.wait_token(token, 0)) for _ in range(5)]
            ending = asyncio.create_task(database.wait_token(tokens.encode(seen), 0))
            await asyncio.sleep(0)
            looked_up.clear()
            await made.do("b", "SET k v")
            assert await ending
            assert 0 < len(looked_up) < 1000
            assert set(looked_up) == {1}
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            assert not database._waiting

    run(main())


def test_the_members_that_a_client_waits_for_are_bounded():
    async def main() -> None:
        async with alone() as store, client_of(store) as client:
            token = tokens.encode({f"n{at}": 1 for at in range(LACKING_MAX + 1)})
            with pytest.raises(ResponseError, match="at most 1024 members"):
                await client.execute_command("CAUSAL.WAIT", token, 1)
            # Those that are known are not waited for, however many they are.
            store.replica._seen.update({f"n{at}": 1 for at in range(LACKING_MAX)})
            assert await client.execute_command("CAUSAL.WAIT", token, 1) == 0

    run(main())


def test_a_sum_that_no_number_can_say_is_stable():
    async def main() -> None:
        async with world("ab") as made:
            for name in "ab":
                made.stores[name].replica.update(b"n", REGISTER, (INC, 2**62))
                made.stores[name].replica.update(b"n", REGISTER, (INC, 2**62 - 1))
            await made.synced()
            await made.stable()
            for name in "ab":
                assert await made.do(name, "CRDT.STABLE n") == 1

    run(main())


def test_without_a_group_writes_are_refused_and_nothing_else():
    async def main() -> None:
        async with alone() as store, client_of(store) as client:
            await client.set("k", "v")
            store.database.close()
            with pytest.raises(ResponseError, match="this node has no group now"):
                await client.set("k", "w")
            store.database.open(store.group)
            await client.set("k", "w")
            assert await client.get("k") == "w"

    run(main())


@pytest.mark.parametrize(
    "command",
    [
        ["MSET", *(word for at in range(20) for word in (f"m{at}", "x" * 500_000))],
        ["COPY", "large", "small"],
    ],
    ids=lambda command: command[0],
)
def test_what_one_command_does_is_one_batch_however_large_it_is(command: list[str]):
    async def main() -> None:
        async with world("a") as made:
            replica, client = made.stores["a"].replica, made.clients["a"]
            await client.hset("large", mapping={str(at): "x" * 100_000 for at in range(30)})
            before = replica.counts["sent"]
            await client.execute_command(*command)
            assert replica.counts["sent"] == before + 1

    run(main())
