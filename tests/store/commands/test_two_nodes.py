"""Commands on nodes of one group that are connected: what needs the database to do its part."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.client.meshes import run
from tests.store.stores import World, world
from thence.store.commands.sorted_index import SortedIndex


async def orders(made: World) -> list[Any]:
    return [await made.do(name, "ZRANGE z 0 -1") for name in made.clients]


async def _follow() -> None:
    async with world("ab") as made:
        await made.do("a", "ZADD z " + " ".join([f"{n} m{n:03}" for n in range(400)]))
        await made.synced()
        first, second = await orders(made)
        assert first == second
        assert len(first) == 400
        indexes = [store.database._indexes[b"z"] for store in made.stores.values()]
        await made.do("b", "ZADD z 1000 m000")
        await made.do("b", "ZREM z m001")
        await made.synced()
        for index in indexes:
            assert isinstance(index, SortedIndex)
            assert index._touched == {b"m000", b"m001"}, "few changes, looked up one by one"
        assert await orders(made) == [[*first[2:], first[0]]] * 2
        await made.do("b", "DEL z")
        await made.do("b", "ZADD z 1 again")
        await made.synced()
        assert await orders(made) == [["again"]] * 2
        await made.stable()
        assert await orders(made) == [["again"]] * 2


def test_the_order_of_a_sorted_set_is_kept_in_step_with_the_other_node():
    run(_follow())


async def _move() -> None:
    async with world("ab") as made:
        await made.cut()
        await made.do("a", "SET x 1")
        token = await made.do("a", "CAUSAL.TOKEN")
        assert await made.do("b", f"CAUSAL.WAIT {token} 20") == 0
        assert await made.do("a", f"CAUSAL.WAIT {token}") == 1
        waiting = asyncio.ensure_future(made.do("b", f"CAUSAL.WAIT {token} 15000"))
        assert await made.do("a", "WAIT 1 20") == 0
        assert await made.do("a", "CRDT.STABLE x") == 0
        await made.heal()
        assert await waiting == 1
        assert await made.do("b", "GET x") == "1"
        assert await made.do("a", "WAIT 1 15000") == 1
        await made.stable()
        assert await made.do("a", "CRDT.STABLE x") == 1


def test_a_client_that_moves_with_its_token_reads_what_it_wrote():
    run(_move())


async def _bounded() -> None:
    async with world("ab") as made:
        assert await made.do("a", "CRDT.BOUNDED INC stock 11") == 11
        assert await made.do("a", "CRDT.BOUNDED TRANSFER stock b 4") == 11
        await made.synced()
        assert await made.do("b", "CRDT.RIGHTS stock") == [4]
        await made.cut()
        assert await made.do("a", "CRDT.BOUNDED DEC stock 6") == 5
        assert await made.do("b", "CRDT.BOUNDED DEC stock 4") == 7
        await made.heal()
        assert [await made.do(name, "CRDT.GET stock") for name in "ab"] == [1, 1]


def test_nodes_that_are_cut_off_never_sell_more_than_there_is():
    run(_bounded())


async def _text() -> None:
    async with world("ab") as made:
        await made.do("a", "CRDT.TEXT INSERT note 0 'Dear all'")
        await made.synced()
        await made.cut()
        await made.do("a", "CRDT.TEXT INSERT note 8 ', hello'")
        await made.do("b", "CRDT.TEXT INSERT note 8 ' of you'")
        await made.heal()
        first, second = [await made.do(name, "CRDT.GET note") for name in "ab"]
        assert first == second
        assert first in ("Dear all, hello of you", "Dear all of you, hello")


def test_what_two_type_at_the_same_time_is_not_mixed():
    run(_text())
