"""A node of the store as an object: its group, its data, its server; and after an eviction."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError, ResponseError

from tests.client.meshes import QUICK, run
from tests.store.stores import client_of, until, world
from thence.client.events import Blocked
from thence.config import FlowConfig, MembershipConfig, RespConfig
from thence.errors import LocalProtocolError, UnusableInputError
from thence.store.node import Store, settings_from
from thence.store.settings import Settings

HASTY = MembershipConfig(elastic=True, beat_ms=20, suspect_s=0.15, evict_s=0.3, suspect_phi=0)


def test_alone_it_is_a_store():
    async def main() -> None:
        async with Store("a", settings=Settings(port=0)) as store:
            async with client_of(store) as client:
                await client.set("k", "v")
                assert store.database.string(b"k") == b"v"
                assert await client.execute_command("CRDT.STABLE", "k") == 1
            assert store.name == "a"
            assert store.group.members == ("a",)
        await store.aclose()

    run(main())


def test_closing_lets_clients_go_and_the_others_have_everything():
    async def main() -> None:
        async with world("ab") as made:
            await asyncio.gather(*(made.do("a", f"SET k{number} v") for number in range(50)))
            await made.stores["a"].aclose()
            assert await made.do("b", "DBSIZE") == 50
            with pytest.raises(ConnectionError):
                await made.do("a", "PING")

    run(main())


def test_with_a_journal_it_comes_back(tmp_path: Path):
    async def main() -> None:
        for number in range(3):
            store = Store("a", settings=Settings(port=0), data=tmp_path)
            async with store, client_of(store) as client:
                assert await client.incr("n") == number + 1
                await client.sadd("s", number)
                assert await client.scard("s") == number + 1

    run(main())


def test_what_writes_wait_for_can_be_seen():
    async def main() -> None:
        async with world("ab", flow=FlowConfig(outbox_messages_max=3)) as made:
            replication = await made.clients["a"].info("replication")
            assert (replication["writes_waiting"], replication["unsent_batches_max"]) == (0, 3)
            await made.cut()
            happened: list[Any] = []
            made.stores["a"].database.on_event = happened.append
            for _ in range(3):
                await made.do("a", "INCR n")
            waiting = asyncio.ensure_future(made.do("a", "INCR n"))
            await until(lambda: any(isinstance(event, Blocked) for event in happened))
            async with client_of(made.stores["a"]) as other:
                replication = await other.info("replication")
            assert (replication["writes_waiting"], replication["unsent_batches"]) == (1, 3)
            await made.heal()
            assert await waiting == 4

    run(main())


def test_what_cannot_start_leaves_nothing_behind():
    async def main() -> None:
        async with Store("a", settings=Settings(port=0)) as store:
            port = int(store.address.rpartition(":")[2])
            with pytest.raises(UnusableInputError, match="cannot listen"):
                await Store("b", listen="mem://b", settings=Settings(port=port)).start()
            async with Store("b", listen="mem://b", settings=Settings(port=0)):
                pass

    run(main())


def elastic(name: str, **settings: Any) -> Store:
    return Store(
        name, listen=f"mem://{name}", settings=Settings(port=0), timing=QUICK, membership=HASTY,
        **settings,
    )  # fmt: skip


def test_a_newcomer_takes_over_the_data():
    async def main() -> None:
        async with elastic("a") as a, client_of(a) as client:
            await client.mset({f"k{number}": number for number in range(500)})
            await client.rpush("l", "x", "y")
            async with elastic("b", join="mem://a") as b, client_of(b) as other:
                assert await other.dbsize() == 501
                await other.rpush("l", "z")
                assert await other.execute_command("WAIT", 1, 5000) == 1
            assert await client.lrange("l", 0, -1) == ["x", "y", "z"]

    run(main())


def test_an_evicted_node_refuses_clients_until_it_has_joined_again():
    async def main() -> None:
        async with (
            elastic("a") as a, elastic("b", join="mem://a") as b, elastic("c", join="mem://a") as c,
            client_of(b) as other, client_of(c) as client,
        ):  # fmt: skip
            await client.set("k", "1")
            assert await client.execute_command("WAIT", 2, 5000) == 2
            token = await client.execute_command("CAUSAL.TOKEN")
            a.group.evict("c")
            await until(lambda: c.group.is_out)
            with pytest.raises(ResponseError, match="c was evicted from the group"):
                await client.set("k", "lost")
            with pytest.raises(ResponseError, match="c was evicted from the group"):
                await client.get("k")
            await other.set("k", "2")
            await c.rejoin()
            assert await client.execute_command("CAUSAL.WAIT", token, 5000) == 1
            assert await client.get("k") == "2"
            await client.set("k", "3")
            assert await client.execute_command("WAIT", 2, 5000) == 2
            assert a.database.string(b"k") == b"3"
            assert a.group.members == ("a", "b", "c#2")

    run(main())


# ---- settings -----------------------------------------------------------------------------------


def test_the_password_is_that_of_the_file_or_of_the_environment(tmp_path: Path):
    path = tmp_path / "password"
    path.write_text("from the file\n")
    environ = {"THENCE_RESP_PASSWORD": "from outside"}
    assert settings_from(RespConfig(), environ).password == "from outside"
    assert settings_from(RespConfig(password_file=str(path)), environ).password == "from the file"
    assert settings_from(RespConfig(), {}).password == ""
    path.write_bytes(b"\xff\n")
    with pytest.raises(UnusableInputError, match="UTF-8"):
        settings_from(RespConfig(password_file=str(path)), {})


def test_the_defaults_of_the_configuration_are_those_of_the_server():
    assert repr(settings_from(RespConfig(), {})) == repr(Settings())
    for name in Settings.__struct_fields__:
        assert getattr(settings_from(RespConfig(), {}), name) == getattr(Settings(), name), name


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"groups": ("x", "y")}, "one group"),
        ({"engine": "fifo"}, "tagged"),
        ({"resp": RespConfig(address="0.0.0.0:0")}, "set a password"),
    ],
)
def test_what_cannot_be_a_store_is_refused(settings: dict[str, Any], reason: str):
    with pytest.raises((UnusableInputError, LocalProtocolError), match=reason):
        Store("a", **settings)
