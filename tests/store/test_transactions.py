"""Transactions over nodes, and what bounds them."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import ResponseError

from tests.store.raw import run, served, until
from tests.store.stores import world
from thence.client import replica
from thence.store import database, session
from thence.store.commands import transactions
from thence.store.errors import TRANSACTION_TOO_LARGE


def test_a_transaction_takes_effect_at_other_nodes_all_or_nothing():
    async def main() -> None:
        async with world("ab") as nodes:
            seen: set[tuple[bytes | None, bytes | None]] = set()
            database = nodes.stores["b"].database
            replica = nodes.stores["b"].replica
            replica.each_turn(lambda: seen.add((database.string(b"x"), database.string(b"y"))))
            for number in range(20):
                async with nodes.clients["a"].pipeline(transaction=True) as pipeline:
                    pipeline.set("x", number)
                    pipeline.set("y", number)
                    await pipeline.execute()
                await asyncio.sleep(0)
            await nodes.synced()
            assert len(seen) > 1
            assert all(x == y for x, y in seen)

    run(main())


def test_wait_after_exec_is_about_what_exec_wrote():
    async def main() -> None:
        async with world("ab") as nodes:
            client = nodes.clients["a"]
            await nodes.cut()
            async with client.pipeline(transaction=True) as pipeline:
                pipeline.set("x", "1")
                await pipeline.execute()
            assert await client.execute_command("WAIT", 1, 20) == 0
            await nodes.heal()
            assert await client.execute_command("WAIT", 1, 5000) == 1

    run(main())


def test_watch_notices_what_comes_from_another_node():
    async def main() -> None:
        async with world("ab") as nodes:
            a, b = nodes.clients["a"], nodes.clients["b"]
            async with a.pipeline() as pipeline:
                await pipeline.watch("k")
                await b.set("k", "theirs")
                await nodes.synced()
                pipeline.multi()
                pipeline.set("k", "mine")
                with pytest.raises(Exception, match="Watched variable changed"):
                    await pipeline.execute()
            assert await a.get("k") == "theirs"

    run(main())


def test_what_one_connection_queues_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session, "QUEUED_MAX", 3)
    monkeypatch.setattr(session, "WATCHED_MAX", 2)

    async def main() -> None:
        async with served() as site:
            client = await site.client()
            assert "at most 2 keys" in str(await client.do("WATCH", "a", "b", "c"))
            assert b" watch=0 " in await client.do("CLIENT", "INFO")
            assert await client.do("WATCH", "a", "b", "a") == b"OK"
            assert "at most 2 keys" in str(await client.do("WATCH", "a", "c"))
            await client.do("MULTI")
            for _ in range(3):
                assert await client.do("INCR", "n") == b"QUEUED"
            assert "at most 3 commands" in str(await client.do("INCR", "n"))
            assert str(await client.do("EXEC")).startswith("EXECABORT")
            assert await client.do("GET", "n") is None

    run(main())


def test_the_bytes_of_a_queue_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session, "QUEUED_BYTES_MAX", 1000)

    async def main() -> None:
        async with served() as site:
            client = await site.client()
            await client.do("MULTI")
            assert await client.do("SET", "k", "x" * 600) == b"QUEUED"
            assert "1000 bytes" in str(await client.do("SET", "k", "x" * 600))
            assert str(await client.do("EXEC")).startswith("EXECABORT")
            await client.do("MULTI")  # a new one begins at 0
            assert await client.do("SET", "k", "x" * 600) == b"QUEUED"
            assert await client.do("EXEC") == [b"OK"]

    run(main())


def test_small_arguments_of_a_queue_count_with_what_they_take(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session, "QUEUED_BYTES_MAX", 10_000)

    async def main() -> None:
        async with served() as site:
            client = await site.client()
            await client.do("MULTI")
            assert await client.do("DEL", *["k"] * 150) == b"QUEUED"
            assert "10000 bytes" in str(await client.do("DEL", *["k"] * 150))

    run(main())


def test_commands_that_wait_are_not_for_transactions():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            await client.do("MULTI")
            assert "not allowed inside a transaction" in str(await client.do("WAIT", "1", "0"))
            assert str(await client.do("EXEC")).startswith("EXECABORT")

    run(main())


def test_a_token_is_not_for_transactions_for_it_would_not_cover_them():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            await client.do("MULTI")
            await client.do("SET", "k", "v")
            assert "not allowed inside a transaction" in str(await client.do("CAUSAL.TOKEN"))
            assert str(await client.do("EXEC")).startswith("EXECABORT")
            assert str(await client.do("CAUSAL.TOKEN")).startswith("b'1.")

    run(main())


def test_an_exec_that_is_refused_ends_the_transaction():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            await client.do("MULTI")
            await client.do("INCR", "n")
            assert str(await client.do("EXEC", "2")) == (
                "EXECABORT Transaction discarded because of: "
                "wrong number of arguments for 'exec' command"
            )
            assert str(await client.do("EXEC")) == "ERR EXEC without MULTI"
            await client.do("MULTI")
            await client.do("INCR", "n")
            site.gate.failure = "evicted"
            assert str(await client.do("EXEC")) == (
                "EXECABORT Transaction discarded because of: "
                "MISCONF nothing can be written any more: evicted"
            )
            site.gate.failure = ""  # it joined again
            assert await client.do("GET", "n") is None

    run(main())


def test_a_command_that_fails_as_none_should_is_one_reply_of_its_transaction(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(replica, "BATCH_BYTES_MAX", 1000)

    async def main() -> None:
        async with served() as site:
            client = await site.client()

            def broken(key: bytes) -> None:
                raise ValueError(key)

            site.gate.expiry = broken
            await client.do("MULTI")
            await client.do("SET", "k", "v")
            await client.do("SADD", "t", "x" * 2000)
            await client.do("TTL", "k")
            await client.do("INCR", "n")
            ok, too_large, internal, count = await client.do("EXEC")
            assert (ok, count) == (b"OK", 1)
            assert str(too_large) == "ERR an operation has at most 1000 bytes"
            assert str(internal).startswith("ERR internal error")
            assert await client.do("GET", "k") == b"v"

    run(main())


@pytest.mark.parametrize("end", ["UNWATCH", "EXEC", "DISCARD", "RESET", "QUIT"])
def test_who_watches_no_more_leaves_nothing_behind(end: str):
    async def main() -> None:
        async with served() as site:
            client, other = await site.client(), await site.client()
            versions = site.gate._versions
            await other.do("WATCH", "shared")
            await client.do("WATCH", "shared", *[f"k{number}" for number in range(100)])
            assert len(versions) == 101
            if end in ("EXEC", "DISCARD"):
                await client.do("MULTI")
            await client.do(end)
            await until(lambda: len(versions) == 1)
            # The one that still watches hears of changes.
            await (await site.client()).do("SET", "shared", "v")
            await other.do("MULTI")
            await other.do("PING")
            assert await other.do("EXEC") is None
            assert not versions

    run(main())


def test_the_bytes_that_one_connection_watches_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session, "WATCHED_BYTES_MAX", 100)

    async def main() -> None:
        async with served() as site:
            client = await site.client()
            assert await client.do("WATCH", "x" * 60) == b"OK"
            assert "of 100 bytes" in str(await client.do("WATCH", "y" * 60))
            assert await client.do("UNWATCH") == b"OK"
            assert await client.do("WATCH", "y" * 60) == b"OK"

    run(main())


def test_a_transaction_is_whole_whatever_its_commands_make_of_their_arguments(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(replica, "BATCH_BYTES_SOON", 1000)
    for module in (replica, database):
        monkeypatch.setattr(module, "BATCH_BYTES_MAX", 20_000)
    monkeypatch.setattr(transactions, "SPARE_BYTES", 5000)

    async def main() -> None:
        async with world("ab") as nodes:
            there = nodes.stores["b"].database
            seen: set[int] = set()
            await nodes.clients["a"].rpush("list", *["x" * 1000] * 3)
            await nodes.clients["a"].rpush("large", *["x" * 1000] * 12)
            await nodes.clients["a"].set("text", "x" * 1000)
            await nodes.synced()
            nodes.stores["b"].replica.each_turn(lambda: seen.add(there.size()))
            for commands, kept in (
                ([("copy", "list", f"copy{number}") for number in range(9)], 5),
                ([("copy", "large", f"large{number}") for number in range(9)], 1),
                ([("setrange", f"text{number}", 999, "x") for number in range(30)], 15),
            ):
                seen.clear()
                before = there.size()
                async with nodes.clients["a"].pipeline(transaction=True) as pipeline:
                    for command, *arguments in commands:
                        getattr(pipeline, command)(*arguments)
                    pipeline.get("text")
                    replies = await pipeline.execute(raise_on_error=False)
                await nodes.synced()
                errors = [reply for reply in replies if isinstance(reply, ResponseError)]
                assert len(errors) == len(commands) - kept
                assert {str(error) for error in errors} == {TRANSACTION_TOO_LARGE[4:]}
                assert replies[-1] == "x" * 1000
                assert before + kept in seen <= {before, before + kept}

    run(main())
