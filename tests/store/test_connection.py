"""One connection: what it waits for, and what a client cannot do to the server."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.store.raw import Client, Site, request, run, served, until
from tests.transport.peers import each_loop
from thence.store.connection import QUIET_S, UNREAD_BYTES_MAX

MIB = 1 << 20


@each_loop
def test_requests_are_answered_in_order(loop: str):
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            client.write(b"".join([request("INCR", "n") for _ in range(1000)]))
            assert [await client.reply() for _ in range(1000)] == list(range(1, 1001))

    run(main(), loop)


@each_loop
def test_no_reply_leaves_before_the_commit(loop: str):
    async def main() -> None:
        async with served() as site:
            writer, reader = await site.client(), await site.client()
            await writer.do("SET", "k", "old")
            site.gate.uncommitted = True
            writer.send("SET", "k", "new")
            writer.send("GET", "k")
            assert await writer.is_silent()
            reader.send("GET", "k")  # of another connection, which must not tell of it either
            assert await reader.is_silent()
            site.gate.commit()
            assert [await writer.reply(), await writer.reply()] == [b"OK", b"new"]
            assert await reader.reply() == b"new"

    run(main(), loop)


def test_replies_keep_their_order_across_commits():
    async def main() -> None:
        async with served() as site:
            client, other = await site.client(), await site.client()
            site.gate.uncommitted = True
            client.send("ECHO", "1")
            await until(lambda: bool(site.gate.waiting))
            other.send("ECHO", "2")  # after the database was asked: it may be of the next commit
            assert await other.is_silent()
            client.send("ECHO", "3")
            assert await client.is_silent()
            site.gate.commit(all_of_it=False)
            assert await client.reply() == b"1"
            assert await client.is_silent()
            assert await other.is_silent()
            site.gate.uncommitted = False  # written down; nobody was told yet
            client.send("ECHO", "4")
            assert await client.is_silent()
            site.gate.commit()
            assert await other.reply() == b"2"
            assert [await client.reply() for _ in range(2)] == [b"3", b"4"]
            assert await client.do("ECHO", "5") == b"5"

    run(main())


def test_when_nothing_can_be_written_down_clients_hear_it():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            site.gate.uncommitted = True
            client.write(request("SET", "k", "v") + request("GET", "k") + request("FOO"))
            await until(lambda: bool(site.gate.waiting))
            site.gate.commit("disk full")
            text = "MISCONF nothing can be written any more: disk full"
            assert [str(await client.reply()) for _ in range(3)] == [text] * 3
            for words in (["SET", "k", "v"], ["DEL", "k"], ["GET", "k"], ["PUBLISH", "c", "m"]):
                assert str(await client.do(*words)) == text
            # What tells nothing about data is answered; somebody has to find out what is wrong.
            assert await client.do("PING") == b"PONG"
            assert b"redis_version" in await client.do("INFO")
            assert str(await client.do("FOO")).startswith("ERR unknown command")
            await client.do("MULTI")
            await client.do("GET", "k")
            assert str(await client.do("EXEC")).endswith(text)

    run(main())


def test_a_failure_in_the_middle_of_requests_lets_no_reply_slip_out():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            write = site.gate.write

            def failing(key: bytes, value: bytes) -> None:
                write(key, value)
                site.gate.uncommitted = True
                site.gate.failure = "disk full" if key == b"second" else ""

            site.gate.write = failing
            client.write(request("SET", "first", "1") + request("SET", "second", "2"))
            client.write(request("GET", "first") + request("CLIENT", "ID") + request("PING"))
            await until(lambda: bool(site.gate.waiting))
            assert await client.is_silent()
            site.gate.commit("disk full")
            replies = [str(await client.reply()) for _ in range(5)]
            assert [reply[:8] for reply in replies] == ["MISCONF "] * 5

    run(main())


def test_a_write_without_room_waits_and_others_go_on():
    async def main() -> None:
        async with served() as site:
            client, other = await site.client(), await site.client()
            site.gate.room.clear()
            client.write(request("GET", "k") + request("SET", "k", "v") + request("GET", "k"))
            assert await client.reply() is None
            assert await client.is_silent()
            assert await other.do("GET", "k") is None
            client.send("MULTI")
            client.send("INCR", "n")
            client.send("EXEC")
            other.send("MULTI")
            other.send("INCR", "n")
            other.send("EXEC")
            assert [await other.reply() for _ in range(2)] == [b"OK", b"QUEUED"]
            assert await other.is_silent()
            site.gate.room.set()
            assert [await client.reply() for _ in range(2)] == [b"OK", b"v"]
            assert await other.reply() in ([1], [2])
            assert [await client.reply() for _ in range(2)] == [b"OK", b"QUEUED"]
            assert await client.reply() in ([1], [2])

    run(main())


@each_loop
def test_a_client_that_does_not_read_is_not_read_from(loop: str):
    async def main() -> None:
        async with served(output_bytes_pause=64 * 1024) as site:
            small = socket.socket()  # its window does not grow, so the system keeps little
            small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
            small.connect(("127.0.0.1", site.server.port))
            greedy = await site.client(sock=small)
            greedy.writer.transport.pause_reading()
            await (await site.client()).do("SET", "k", "x" * 100_000)
            commands = site.server.shared.commands
            greedy.write(request("GET", "k") * 100)
            await asyncio.sleep(0.2)
            assert site.server.shared.commands - commands < 70
            assert await (await site.client()).do("PING") == b"PONG"
            greedy.writer.transport.resume_reading()
            for _ in range(100):
                assert len(await greedy.reply()) == 100_000

    run(main(), loop)


@each_loop
def test_others_have_their_turn_while_one_sends_a_lot(loop: str):
    async def main() -> None:
        async with served() as site:
            shared = site.server.shared
            greedy, other = await site.client(), await site.client()
            count = 60_000
            greedy.write(request("SET", "k", "v") * count)
            between: list[int] = []
            while shared.commands < count:
                before = shared.commands
                assert await other.do("PING") == b"PONG"
                between.append(shared.commands - before)
            # A loop reads 256 KB at most, and it may do so twice between question and answer.
            assert max(between) < 3 * 256 * 1024 // len(request("SET", "k", "v"))
            assert await greedy.reply() == b"OK"

    run(main(), loop)


def test_replies_that_wait_for_a_commit_choke_too():
    async def main() -> None:
        async with served(output_bytes_pause=1000) as site:
            client = await site.client()
            await client.do("SET", "k", "x" * 2000)
            site.gate.uncommitted = True
            client.send("GET", "k")
            await until(lambda: bool(site.gate.waiting))
            before = site.server.shared.commands
            client.send("GET", "k")
            assert await client.is_silent()
            assert site.server.shared.commands == before
            site.gate.commit()
            assert len(await client.reply()) == len(await client.reply()) == 2000

    run(main())


def test_what_arrives_while_a_connection_waits_is_bounded():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            site.gate.room.clear()
            client.send("SET", "k", "v")
            client.write(request("ECHO", "x" * 1000) * 20_000)
            await asyncio.sleep(0.3)
            connection = next(iter(site.server._connections))
            assert UNREAD_BYTES_MAX < connection._unread_bytes < UNREAD_BYTES_MAX + MIB
            site.gate.room.set()
            assert await client.reply() == b"OK"
            for _ in range(20_000):
                assert await client.reply() == b"x" * 1000

    run(main())


def test_a_command_that_waits_keeps_its_place():
    async def main() -> None:
        async with served() as site:
            client, other = await site.client(), await site.client()
            client.write(request("SET", "k", "v") + request("WAIT", "5", "150") + request("PING"))
            assert await client.reply() == b"OK"
            assert await other.do("PING") == b"PONG"
            assert [await client.reply(), await client.reply()] == [0, b"PONG"]

    run(main())


@each_loop
def test_thousands_of_connections_come_and_go(loop: str):
    async def main() -> None:
        async with served() as site:
            for number in range(100):
                clients = [await site.client() for _ in range(20)]
                for client in clients:
                    client.write(request("SET", "k", str(number)) + b"*2\r\n$3\r\nGE")
                if number % 2:
                    assert await clients[0].reply() == b"OK"
                for at, client in enumerate(clients):
                    client.writer.transport.abort() if at % 2 else client.close()
            await until(lambda: site.server.clients == 0)
            assert site.server.shared.sessions == {}
            assert site.server.shared.connections == 2000
            assert await (await site.client()).do("GET", "k") == b"99"

    run(main(), loop)


def test_there_is_a_limit_on_clients():
    async def main() -> None:
        async with served(clients_max=2) as site:
            first, second = await site.client(), await site.client()
            assert await first.do("PING") == await second.do("PING") == b"PONG"
            third = await site.client()
            assert await third.rest() == b"-ERR max number of clients reached\r\n"
            assert site.server.shared.rejected == 1
            first.close()
            await until(lambda: site.server.clients == 1)
            assert await (await site.client()).do("PING") == b"PONG"

    run(main())


def test_who_is_silent_for_too_long_is_dropped_unless_it_listens():
    async def main() -> None:
        async with served(idle_timeout_s=0.5) as site:
            silent, listening = await site.client(), await site.client()
            await listening.do("SUBSCRIBE", "c")
            async with asyncio.timeout(5):
                assert await silent.is_closed()
            assert (await listening.do("PING"))[0] == b"pong"

    run(main())


def test_a_subscriber_that_does_not_read_is_dropped():
    async def main() -> None:
        async with served(subscriber_bytes_max=MIB) as site:
            deaf, hearing = await site.client(limit=1024), await site.client()
            for each in (deaf, hearing):
                await each.do("SUBSCRIBE", "c")
            deaf.writer.transport.pause_reading()
            speaker = await site.client()
            heard = 0
            while site.server.shared.dropped == 0:
                await speaker.do("PUBLISH", "c", "x" * 200_000)
                assert (await hearing.reply())[2] == b"x" * 200_000
                heard += 1
                assert heard < 200
            assert await speaker.do("PUBLISH", "c", "last") == 1
            assert (await hearing.reply())[2] == b"last"

    run(main())


async def _faulty(site: Site, data: bytes) -> bytes:
    client = await site.client()
    client.write(request("PING") + data)
    return await client.rest()


@pytest.mark.parametrize(
    "data",
    [b"*x\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$999999999\r\n", b"*1\r\n:1\r\n", b"*999999999\r\n"]
    + [b"x" * 70_000, b"'\r\n", b"*1\r\n" * 1000, bytes(range(256)) * 300],
)
def test_nonsense_ends_its_connection_after_what_came_before(data: bytes):
    async def main() -> None:
        async with served() as site:
            answer = await _faulty(site, data)
            assert answer.startswith(b"+PONG\r\n-ERR ")
            assert b"Protocol error: " in answer
            assert await (await site.client()).do("PING") == b"PONG"
            assert site.server.shared.dropped == 1

    run(main())


@each_loop
def test_who_sends_too_much_can_send_all_of_it_and_hears_what_is_wrong(loop: str):
    """A connection that is closed while bytes arrive is reset: the client would lose the error."""

    async def main() -> None:
        async with served(value_bytes_max=MIB) as site:
            client = await site.client()
            client.write(request("SET", "k", bytes(32 * MIB)))
            await client.writer.drain()
            assert await client.rest() == b"-ERR Protocol error: invalid bulk length\r\n"
            client.close()
            await until(lambda: not site.server.clients)

    run(main(), loop)


@each_loop
def test_who_was_told_what_is_wrong_and_is_silent_is_dropped(loop: str):
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            client.write(b"*x\r\n")
            assert b"Protocol error" in await client.rest()
            assert site.server.clients == 1
            async with asyncio.timeout(10 * QUIET_S):
                await until(lambda: not site.server.clients)

    run(main(), loop)


def test_a_bug_in_a_command_is_an_error_and_the_connection_goes_on(
    monkeypatch: pytest.MonkeyPatch,
):
    async def main() -> None:
        async with served() as site:

            def broken(key: bytes) -> None:
                raise ZeroDivisionError

            site.gate.string = broken
            client = await site.client()
            for words in (("GET", "k"), ("get", "k"), ("GeT", "k")):
                assert str(await client.do(*words)).startswith("ERR internal error")
            assert await client.do("PING") == b"PONG"

    run(main())


def test_stopping_lets_clients_have_their_replies():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            site.gate.uncommitted = True
            client.send("SET", "k", "v")
            await until(lambda: bool(site.gate.waiting))
            stopping = asyncio.create_task(site.server.stop())
            await asyncio.sleep(0.05)
            assert not stopping.done()
            site.gate.commit()
            await stopping
            assert await client.rest() == b"+OK\r\n"
            with pytest.raises(ConnectionRefusedError):
                await site.client()

    run(main())


def test_stopping_does_not_wait_for_ever():
    async def main() -> None:
        async with served() as site:
            client: Client = await site.client()
            site.gate.uncommitted = True
            client.send("SET", "k", "v")
            await until(lambda: bool(site.gate.waiting))
            await site.server.stop(grace_s=0.1)
            assert site.server.clients == 0
            assert await client.is_closed()

    run(main())
