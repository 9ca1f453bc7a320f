"""The same bytes to a real Redis and to the store: the same bytes come back, or it is said why not.

What is compared here is the protocol, the state of connections and the errors; the commands over
data have their own comparison in ``commands/``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest

from tests.store.commands.redis_server import Client, needs_redis, redis_server
from tests.store.raw import request, run, served

SETTLED_S = (0.15, 2.0)
"""What is not there so long after the last byte does not come; on a busy machine it may be late."""

R = request
VERSION = re.compile(rb"\$2\r\nid\r\n:\d+")
CASES: dict[str, bytes] = {
    # Requests that are none.
    "a count that is no number": b"*x\r\n",
    "a count too large": b"*2147483648\r\n",
    "a very large count": b"*1048577\r\n",
    "a negative count": b"*-5\r\n" + R("PING"),
    "a count of nothing": b"*0\r\n" + R("PING"),
    "a count with zeros": b"*01\r\n$4\r\nPING\r\n",
    "a count with a plus": b"*+1\r\n$4\r\nPING\r\n",
    "a count with a space": b"* 1\r\n$4\r\nPING\r\n",
    "an empty count": b"*\r\n",
    "no dollar": b"*1\r\n:4\r\nPING\r\n",
    "no dollar later": b"*2\r\n$4\r\nECHO\r\nPING\r\n",
    "nested arrays": b"*1\r\n" * 200,
    "a negative length": b"*1\r\n$-1\r\n",
    "a length that is no number": b"*1\r\n$x\r\n",
    "an empty length": b"*1\r\n$\r\n",
    "a length too large": b"*1\r\n$536870913\r\n",
    "a giant length": b"*2\r\n$4\r\nECHO\r\n$99999999999999999999\r\n",
    "a length without end": b"*1\r\n$" + b"1" * 70_000,
    "a count without end": b"*" + b"1" * 70_000,
    "a line without end": b"x" * 70_000,
    "quotes that do not end": b"echo 'a\r\n",
    "quotes with more behind": b'echo "a"b\r\n',
    "nonsense": b"\x00\xff\xfe\r\n\xff\r\n",
    "a line with a zero": b"echo a\x00b\r\necho 'a\x00b'\r\n",
    "a wrong line end": b"*1\r\n$4\r\nPINGxx" + R("ECHO", "a"),
    "after a request": R("SET", "k", "v") + b"*1\r\n$-2\r\n" + R("SET", "k", "w"),
    # Requests in one line.
    "inline": b"PING\r\n",
    "inline without carriage return": b"PING\nECHO a\n",
    "inline with quotes": b'echo "a\\x00\\n b"\r\necho \'a\\\'b\'\r\n',
    "an empty line": b"\r\n\r\n  \r\nPING\r\n",
    "an empty argument": b'echo ""\r\n',
    "inline, other spaces": b"PING\x0bx\r\nECHO\x0c a\r\nECHO\ta\rb\r\n\x0bPING\r\n"
    + b' \x0c ECHO a\x0bb\r\nECHO a\x0b"b"\r\nECHO "a"\x0b\r\n\x0b\r\n',
    "inline, mixed": b"PING\r\n" + R("PING") + b"ping x\r\n",
    # What a page in a browser makes it send to a server on the same machine.
    "HTTP": b"GET / HTTP/1.1\r\nHost: a\r\n\r\nSET k v\r\n",
    "HTTP, a form": R("PING") + b"POST / HTTP/1.1\r\nX: y\r\n\r\nSET k v\r\nPING\r\n",
    "HTTP, in a request": R("post") + R("PING"),
    # Names, arity.
    "unknown": R("FOO", "a", "b", "c" * 200, "d"),
    "unknown, long": R("f" * 300, "a" * 300),
    "unknown with a line end": R("a\r\nb", "c\r\nd"),
    "an empty name": R(""),
    "too few": R("GET") + R("SET", "k") + R("MSET", "a") + R("ECHO"),
    "too many": R("GET", "a", "b") + R("TIME", "x") + R("PING", "a", "b"),
    "capitals": R("gEt", "kc") + R("get", "kc") + R("SeT", "kc", "v") + R("GET", "kc"),
    "subcommands": R("CLIENT") + R("CLIENT", "FOO") + R("CLIENT", "SETNAME") + R("CONFIG", "x"),
    "subcommands, capitals": R("client", "SetName", "n") + R("CLIENT", "getname"),
    "subcommands in one word": R("CLIENT|ID", "x") + R("CONFIG|GET", "x", "save")
    + R("MEMORY|DOCTOR"),
    "unknown with a zero byte": R("a\0b", "c\0d", "e"),
    "wrong type": R("SADD", "s", "a") + R("GET", "s") + R("LPUSH", "s", "x") + R("INCR", "s"),
    "wrong number": R("SET", "k", "v") + R("INCR", "k") + R("INCRBY", "n", "1.5"),
    # Connections.
    "ping": R("PING") + R("PING", "hi") + R("ECHO", "x"),
    "select": R("SELECT", "0") + R("SELECT", "x") + R("SELECT", "99"),
    "quit": R("QUIT") + R("PING"),
    "quit with arguments": R("QUIT", "x", "y"),
    "reset": R("MULTI") + R("RESET") + R("EXEC") + R("RESET", "x"),
    "auth without password": R("AUTH", "x") + R("AUTH", "default", "x") + R("AUTH", "a", "b"),
    "auth, arguments": R("AUTH") + R("AUTH", "a", "b", "c"),
    "hello": R("HELLO", "2") + R("HELLO", "3") + R("HELLO"),
    "hello, faults": R("HELLO", "4") + R("HELLO", "x") + R("HELLO", "3", "FOO")
    + R("HELLO", "3", "SETNAME") + R("HELLO", "3", "AUTH", "x") + R("HELLO", "2", "SETNAME", "a b"),
    "hello with all": R("HELLO", "3", "AUTH", "default", "x", "SETNAME", "n")
    + R("CLIENT", "GETNAME"),
    "hello with a wrong user": R("HELLO", "3", "AUTH", "u", "x") + R("GET", "nothing"),
    "RESP3": R("HELLO", "3") + R("GET", "nothing") + R("HSET", "h", "a", "1") + R("HGETALL", "h")
    + R("SADD", "s3", "a") + R("SMEMBERS", "s3") + R("ZADD", "z", "1", "a") + R("ZSCORE", "z", "a")
    + R("CONFIG", "GET", "save"),
    "client names": R("CLIENT", "SETNAME", "a b") + R("CLIENT", "SETNAME", "ok")
    + R("CLIENT", "GETNAME") + R("CLIENT", "SETNAME", "") + R("CLIENT", "GETNAME"),
    "client options": R("CLIENT", "NO-EVICT", "x") + R("CLIENT", "NO-EVICT", "on")
    + R("CLIENT", "GETREDIR") + R("CLIENT", "REPLY", "x") + R("CLIENT", "ID", "x"),
    "client kill": R("CLIENT", "KILL", "1:1") + R("CLIENT", "KILL", "ID", "999999")
    + R("CLIENT", "KILL", "ID", "x") + R("CLIENT", "KILL", "TYPE", "x")
    + R("CLIENT", "KILL", "FOO", "x") + R("CLIENT", "KILL", "TYPE", "normal", "x")
    + R("CLIENT", "KILL", "USER", "nobody") + R("CLIENT", "KILL", "SKIPME", "x"),
    "client list": R("CLIENT", "LIST", "TYPE", "x") + R("CLIENT", "LIST", "ID", "x")
    + R("CLIENT", "LIST", "FOO") + R("CLIENT", "LIST", "TYPE", "pubsub"),
    "replies off": R("CLIENT", "REPLY", "OFF") + R("PING") + R("FOO") + R("CLIENT", "REPLY", "ON")
    + R("PING"),
    "a reply skipped": R("CLIENT", "REPLY", "SKIP") + R("PING") + R("ECHO", "seen"),
    "skips while off": R("CLIENT", "REPLY", "OFF") + R("CLIENT", "REPLY", "SKIP")
    + R("CLIENT", "REPLY", "ON") + R("PING") + R("PING"),
    "subscribing while replies are off": R("CLIENT", "REPLY", "OFF") + R("SUBSCRIBE", "c", "d")
    + R("UNSUBSCRIBE", "c") + R("PSUBSCRIBE", "p*") + R("PUNSUBSCRIBE") + R("UNSUBSCRIBE")
    + R("UNSUBSCRIBE") + R("PING") + R("CLIENT", "REPLY", "ON") + R("PING"),
    "subscribing with a reply skipped": R("CLIENT", "REPLY", "SKIP") + R("SUBSCRIBE", "c")
    + R("PING") + R("UNSUBSCRIBE") + R("CLIENT", "REPLY", "SKIP") + R("UNSUBSCRIBE") + R("PING"),
    # Far away.
    "bits far away": R("SET", "k", "abc") + b"".join(
        [R("GETBIT", "k", each) for each in ("2147483648", "4294967295", "4294967296", "-1")]
    ),
    "times long ago": b"".join(
        [
            R("SET", "k", "v") + R(name, "k", each) + R("EXISTS", "k")
            for name in ("PEXPIREAT", "PEXPIRE", "EXPIREAT", "EXPIRE")
            for each in ("-9223372036854775808", "-9223372036854775807", "9223372036854775807")
            + ("-9223372036854775", "-9223372036854776")
        ]
    ),
    # Transactions.
    "multi": R("MULTI") + R("SET", "a", "1") + R("INCR", "a") + R("GET", "a") + R("EXEC"),
    "multi, empty": R("MULTI") + R("EXEC"),
    "multi, nested": R("MULTI") + R("MULTI") + R("PING") + R("EXEC"),
    "exec alone": R("EXEC") + R("DISCARD"),
    "discard": R("MULTI") + R("SET", "a", "9") + R("DISCARD") + R("EXEC") + R("GET", "a9"),
    "multi, unknown": R("MULTI") + R("FOO") + R("PING") + R("EXEC") + R("PING"),
    "multi, arity": R("MULTI") + R("GET") + R("EXEC") + R("EXEC"),
    "multi, subcommand": R("MULTI") + R("CLIENT", "FOO") + R("EXEC"),
    "multi, an error inside": R("SADD", "ms", "a") + R("MULTI") + R("INCR", "ms")
    + R("SET", "m2", "1") + R("EXEC") + R("GET", "m2"),
    "multi, watch": R("MULTI") + R("WATCH", "a") + R("EXEC"),
    "watch": R("WATCH", "w") + R("SET", "w", "1") + R("MULTI") + R("PING") + R("EXEC"),
    "watch, RESP3": R("HELLO", "3") + R("WATCH", "w3") + R("SET", "w3", "1") + R("MULTI")
    + R("PING") + R("EXEC"),
    "watch, unwatch": R("WATCH", "w") + R("SET", "w", "2") + R("UNWATCH") + R("MULTI")
    + R("PING") + R("EXEC"),
    "watch, discard": R("WATCH", "w") + R("SET", "w", "3") + R("MULTI") + R("DISCARD")
    + R("MULTI") + R("PING") + R("EXEC"),
    "watch, unchanged": R("WATCH", "w9") + R("MULTI") + R("SET", "w9", "1") + R("EXEC"),
    "watch, once": R("WATCH", "w8") + R("SET", "w8", "1") + R("MULTI") + R("EXEC") + R("MULTI")
    + R("PING") + R("EXEC"),
    "multi, quit": R("MULTI") + R("SET", "q", "1") + R("QUIT"),
    "multi, subscribe": R("MULTI") + R("SUBSCRIBE", "a", "b") + R("EXEC") + R("GET", "a"),
    # Topics.
    "subscribe": R("SUBSCRIBE", "a", "b", "a") + R("UNSUBSCRIBE", "a") + R("UNSUBSCRIBE"),
    "unsubscribe without": R("UNSUBSCRIBE") + R("PUNSUBSCRIBE") + R("UNSUBSCRIBE", "a", "b"),
    "psubscribe": R("PSUBSCRIBE", "a*", "b*") + R("SUBSCRIBE", "a") + R("PUNSUBSCRIBE")
    + R("UNSUBSCRIBE"),
    "while subscribed": R("SUBSCRIBE", "a") + R("GET", "k") + R("PING") + R("PING", "x")
    + R("PUBLISH", "a", "b") + R("MULTI") + R("FOO") + R("GET") + R("RESET") + R("GET", "nothing"),
    "while subscribed, RESP3": R("HELLO", "3") + R("SUBSCRIBE", "a") + R("GET", "nothing")
    + R("PING") + R("PUBLISH", "b", "x") + R("UNSUBSCRIBE") + R("PING"),
    "subscribe, quit": R("SUBSCRIBE", "a") + R("QUIT"),
    "publish": R("PUBLISH", "nobody", "x") + R("PUBLISH", "a"),
    "pubsub": R("PUBSUB") + R("PUBSUB", "FOO") + R("PUBSUB", "NUMSUB") + R("PUBSUB", "NUMSUB", "a")
    + R("PUBSUB", "NUMPAT") + R("PUBSUB", "CHANNELS") + R("PUBSUB", "NUMPAT", "x")
    + R("PUBSUB", "CHANNELS", "a", "b"),
    "subscribe, RESP3": R("HELLO", "3") + R("SUBSCRIBE", "a") + R("PSUBSCRIBE", "p*")
    + R("PUBSUB", "CHANNELS") + R("PUBSUB", "NUMSUB", "a", "b") + R("PUBSUB", "NUMPAT"),
    # The server.
    "config": R("CONFIG", "GET") + R("CONFIG", "GET", "save") + R("CONFIG", "GET", "nothing")
    + R("CONFIG", "SET", "foo", "1") + R("CONFIG", "SET", "timeout", "x")
    + R("CONFIG", "SET", "timeout") + R("CONFIG", "SET", "timeout", "1", "timeout", "2")
    + R("CONFIG", "SET", "timeout", "-1")
    + R("CONFIG", "SET", "maxclients", "0") + R("CONFIG", "SET", "databases", "2")
    + R("CONFIG", "SET", "timeout", "0") + R("CONFIG", "GET", "tim*out")
    + R("CONFIG", "RESETSTAT"),
    "info": R("INFO", "nothing") + R("INFO", "a", "b"),
    "flush": R("FLUSHALL", "x") + R("FLUSHDB", "ASYNC", "SYNC") + R("FLUSHDB", "sync"),
    "shutdown": R("SHUTDOWN", "x") + R("SHUTDOWN", "ABORT") + R("SHUTDOWN", "SAVE", "NOSAVE"),
    "slow log": R("SLOWLOG", "GET", "-2") + R("SLOWLOG", "GET", "x") + R("SLOWLOG", "RESET")
    + R("SLOWLOG", "FOO") + R("SLOWLOG", "GET", "1", "2"),
    "latency": R("LATENCY", "LATEST") + R("LATENCY", "RESET") + R("LATENCY", "HISTORY", "x"),
    "memory": R("MEMORY", "USAGE") + R("MEMORY", "USAGE", "nothing")
    + R("MEMORY", "USAGE", "a", "SAMPLES") + R("MEMORY", "USAGE", "a", "FOO", "1"),
    "role": R("ROLE") + R("ACL", "WHOAMI"),
    "command": R("COMMAND", "FOO") + R("COMMAND", "LIST", "x") + R("COMMAND", "INFO", "nothing")
    + R("COMMAND", "DOCS", "nothing") + R("COMMAND", "COUNT", "x"),
    "keys of commands": R("COMMAND", "GETKEYS", "GET", "a") + R("COMMAND", "GETKEYS", "PING", "a")
    + R("COMMAND", "GETKEYS", "MSET", "a", "1", "b", "2") + R("COMMAND", "GETKEYS", "FOO", "a")
    + R("COMMAND", "GETKEYS", "GET") + R("COMMAND", "GETKEYS", "GET", "a", "b")
    + R("COMMAND", "GETKEYS", "ZUNION", "2", "a", "b")
    + R("COMMAND", "GETKEYS", "ZUNIONSTORE", "d", "9", "a", "b"),
}  # fmt: skip

DIFFERENCES: dict[str, str] = {
    "nonsense": "Redis looks for the end of a line no further than a byte of zero, and waits",
    "a line with a zero": "the same",
    "a very large count": "the limit is a million words; Redis has two milliards",
}
"""Cases whose answers differ, and why; each is held to differ."""


def comparable(data: bytes) -> bytes:
    """Without what is different at each connection."""
    return VERSION.sub(b"$2\r\nid\r\n:0", data)


async def answer(port: int, data: bytes, settled_s: float) -> tuple[bytes, bool]:
    """What comes back, and whether the connection was closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        found = b""
        try:
            while True:
                async with asyncio.timeout(settled_s):
                    more = await reader.read(1 << 16)
                if not more:
                    return comparable(found), True
                found += more
        except TimeoutError:
            return comparable(found), False
        except ConnectionError:
            return comparable(found), True
    finally:
        writer.close()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with redis_server(tmp_path_factory.mktemp("redis")) as client:
        yield client


@pytest.fixture
def real_port(real: Client) -> int:
    """Of a real Redis, which is empty."""
    real.run(b"FLUSHALL")
    port: int = real._socket.getpeername()[1]
    return port


@needs_redis
@pytest.mark.parametrize("name", list(CASES))
def test_the_answer_is_that_of_redis(name: str, real: Client, real_port: int):
    async def main() -> None:
        for settled_s in SETTLED_S:
            real.run(b"FLUSHALL")
            async with served() as site:
                port = site.server.port
                theirs, ours = await asyncio.gather(
                    answer(real_port, CASES[name], settled_s), answer(port, CASES[name], settled_s)
                )
                # Whatever it was, the next connection is as new.
                client = await site.client()
                assert await client.do("PING") == b"PONG"
            if (ours != theirs) == (name in DIFFERENCES):
                return
        raise AssertionError((ours, theirs))

    run(main())


@needs_redis
def test_pipelines_cut_anywhere_are_answered_alike(real_port: int):
    """One byte at a time, in halves, all at once."""
    data = b"".join(
        [R("SET", "cut", "v" * 600), R("GET", "cut"), b"PING\r\n", R("MULTI"), R("INCR", "cutn")]
        + [R("EXEC"), R("DEL", "cut", "cutn")]
    )

    async def pieces(port: int, size: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for at in range(0, len(data), size):
            writer.write(data[at : at + size])
            await asyncio.sleep(0)
        writer.write(R("QUIT"))
        found = await reader.read()
        writer.close()
        return found

    async def main() -> None:
        async with served() as site:
            for size in (1, 7, len(data) // 2, len(data)):
                assert await pieces(site.server.port, size) == await pieces(real_port, size)

    run(main())
