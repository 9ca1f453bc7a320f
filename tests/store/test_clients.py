"""Real clients against a real node: redis-py, blocking and asyncio, redis-cli, redis-benchmark."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import redis
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import ResponseError, WatchError

from thence.store.node import Store
from thence.store.settings import Settings

BENCHMARK = "ping,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange,mset"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A node in a thread of its own."""
    ready: Future[int] = Future()
    ended = threading.Event()

    async def main() -> None:
        async with Store("a", settings=Settings(port=0)) as store:
            ready.set_result(int(store.address.rpartition(":")[2]))
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        yield ready.result(20)
    finally:
        ended.set()
        thread.join(20)


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def client(port: int, request: pytest.FixtureRequest) -> Iterator[Any]:
    with redis.Redis(port=port, protocol=request.param, decode_responses=True) as made:
        made.flushall()
        yield made


def test_strings_and_counters(client: Any):
    assert client.set("k", "v")
    assert client.set("k", "w", nx=True) is None
    assert client.set("k", "w", xx=True, get=True) == "v"
    assert client.get("k") == "w"
    assert client.getset("k", "x") == "w"
    assert client.append("k", "yz") == 3
    assert client.strlen("k") == 3
    assert client.getrange("k", 1, 2) == "yz"
    assert client.setrange("k", 1, "!") == 3
    assert client.mset({"m": "1", "n": "2"})
    assert client.mget("m", "n", "absent") == ["1", "2", None]
    assert client.setnx("m", "3") is False
    assert client.incr("c") == 1
    assert client.incrby("c", 9) == 10
    assert client.decr("c", 3) == 7
    assert client.incrbyfloat("c", 0.5) == 7.5
    assert client.getdel("c") == "7.5"
    assert client.getex("m", ex=100) == "1"
    with pytest.raises(ResponseError, match="not an integer"):
        client.incr("k")


def test_keys_and_expiry(client: Any):
    client.mset({f"k{number}": number for number in range(30)})
    client.sadd("s", "e")
    assert sorted(client.scan_iter("k*", count=7)) == sorted(f"k{n}" for n in range(30))
    assert list(client.scan_iter(_type="set")) == ["s"]
    assert client.exists("k1", "k2", "absent") == 2
    assert client.type("s") == "set"
    assert client.delete("k1", "absent") == 1
    assert client.unlink("k2") == 1
    assert client.rename("k3", "moved")
    assert client.get("moved") == "3"
    assert client.copy("moved", "copied")
    assert client.touch("moved", "copied") == 2
    assert client.randomkey()
    assert client.dbsize() == 30
    assert client.expire("k4", 100)
    assert 0 < client.ttl("k4") <= 100
    assert 0 < client.pttl("k4") <= 100_000
    assert client.expire("k4", 50, nx=True) is False
    assert client.persist("k4")
    assert client.ttl("k4") == -1
    assert client.pexpireat("k4", 1)
    assert client.get("k4") is None
    assert len(client.keys("k?")) == 6
    assert client.flushdb()
    assert client.keys() == []


def test_lists(client: Any):
    assert client.rpush("l", "a", "b", "c") == 3
    assert client.lpush("l", "z") == 4
    assert client.lrange("l", 0, -1) == ["z", "a", "b", "c"]
    assert client.linsert("l", "BEFORE", "b", "x") == 5
    assert client.lset("l", 0, "Z")
    assert client.lindex("l", 0) == "Z"
    assert client.lpos("l", "x") == 2
    assert client.lrem("l", 1, "x") == 1
    assert client.lpop("l") == "Z"
    assert client.rpop("l", 2) == ["c", "b"]
    assert client.llen("l") == 1
    assert client.lmove("l", "m", "LEFT", "RIGHT") == "a"
    assert client.rpushx("absent", "x") == 0
    client.rpush("m", *"bcd")
    assert client.ltrim("m", 1, 2)
    assert client.lrange("m", 0, -1) == ["b", "c"]
    assert client.sort("m", desc=True, alpha=True) == ["c", "b"]


def test_sets(client: Any):
    assert client.sadd("s", "a", "b", "c") == 3
    assert client.sadd("t", "b", "c", "d") == 3
    assert client.smembers("s") == {"a", "b", "c"}
    assert client.sismember("s", "a")
    assert client.smismember("s", ["a", "z"]) == [1, 0]
    assert client.sinter("s", "t") == {"b", "c"}
    assert client.sunion("s", "t") == {"a", "b", "c", "d"}
    assert client.sdiff("s", "t") == {"a"}
    assert client.sinterstore("u", "s", "t") == 2
    assert client.sintercard(2, ["s", "t"]) == 2
    assert client.srem("s", "a", "z") == 1
    assert client.smove("s", "t", "b")
    assert client.scard("s") == 1
    assert client.spop("s") == "c"
    assert client.srandmember("t") in {"b", "c", "d"}
    assert set(client.sscan_iter("t")) == {"b", "c", "d"}


def test_hashes(client: Any):
    assert client.hset("h", mapping={"a": "1", "b": "2"}) == 2
    assert client.hget("h", "a") == "1"
    assert client.hmget("h", ["a", "z"]) == ["1", None]
    assert client.hgetall("h") == {"a": "1", "b": "2"}
    assert client.hincrby("h", "a", 4) == 5
    assert client.hincrbyfloat("h", "b", 0.5) == 2.5
    assert client.hexists("h", "a")
    assert client.hsetnx("h", "a", "9") == 0
    assert client.hlen("h") == 2
    assert client.hkeys("h") == ["a", "b"]
    assert client.hvals("h") == ["5", "2.5"]
    assert client.hstrlen("h", "b") == 3
    assert dict(client.hscan_iter("h")) == {"a": "5", "b": "2.5"}
    assert client.hrandfield("h") in {"a", "b"}
    assert client.hdel("h", "a", "b") == 2
    assert client.exists("h") == 0


def test_sorted_sets(client: Any):
    assert client.zadd("z", {"a": 1, "b": 2, "c": 3}) == 3
    assert client.zadd("z", {"a": 5}, gt=True, ch=True) == 1
    assert client.zincrby("z", 0.5, "b") == 2.5
    assert client.zscore("z", "b") == 2.5
    assert client.zmscore("z", ["a", "x"]) == [5.0, None]
    assert client.zrange("z", 0, -1) == ["b", "c", "a"]
    with_scores = client.zrange("z", 0, -1, withscores=True)
    assert [tuple(pair) for pair in with_scores] == [("b", 2.5), ("c", 3.0), ("a", 5.0)]
    assert client.zrevrange("z", 0, 0) == ["a"]
    assert client.zrangebyscore("z", 3, "+inf") == ["c", "a"]
    assert client.zcount("z", "(2.5", 5) == 2
    assert client.zrank("z", "c") == 1
    assert client.zrevrank("z", "c") == 1
    assert client.zcard("z") == 3
    assert [tuple(pair) for pair in client.zpopmin("z", 1)] == [("b", 2.5)]
    assert [tuple(pair) for pair in client.zpopmax("z", 1)] == [("a", 5.0)]
    client.zadd("y", {"c": 1, "d": 2})
    assert client.zunion(["z", "y"]) == ["d", "c"]
    assert client.zinterstore("x", ["z", "y"]) == 1
    assert client.zremrangebyscore("y", 2, 2) == 1
    assert client.zrem("y", "c") == 1
    assert dict(client.zscan_iter("z")) == {"c": 3.0}
    client.zadd("w", dict.fromkeys("abc", 0))
    assert client.zrangebylex("w", "[b", "+") == ["b", "c"]


def test_pipelines_and_transactions(client: Any):
    with client.pipeline(transaction=False) as pipe:
        replies = pipe.set("k", 1).incr("k").get("k").lpush("k", "x").execute(False)
    assert replies[:3] == [True, 2, "2"]
    assert "WRONGTYPE" in str(replies[3])
    with client.pipeline() as pipe:
        assert pipe.incr("n").incr("n").execute() == [1, 2]
    with client.pipeline() as pipe:
        pipe.watch("n")
        client.incr("n")
        pipe.multi()
        pipe.incr("n")
        with pytest.raises(WatchError):
            pipe.execute()

    def double(pipe: Any) -> None:
        value = int(pipe.get("n"))
        pipe.multi()
        pipe.set("n", value * 2)

    assert client.transaction(double, "n") == [True]
    assert client.get("n") == "6"


def test_publish_and_subscribe(client: Any):
    with client.pubsub() as heard:
        heard.subscribe("news")
        heard.psubscribe("n*")
        assert heard.get_message(timeout=5)["type"] == "subscribe"
        assert heard.get_message(timeout=5)["type"] == "psubscribe"
        assert client.publish("news", "hello") == 2
        found = [heard.get_message(timeout=5) for _ in range(2)]
        assert {each["type"] for each in found} == {"message", "pmessage"}
        assert {each["data"] for each in found} == {"hello"}
        assert client.pubsub_channels() == ["news"]
        assert client.pubsub_numpat() == 1
        heard.unsubscribe()
        assert heard.get_message(timeout=5)["type"] == "unsubscribe"


def test_the_connection_and_the_server(client: Any):
    assert client.ping()
    assert client.echo("hello") == "hello"
    assert client.client_setname("me")
    assert client.client_getname() == "me"
    assert client.client_id() > 0
    assert [each for each in client.client_list() if each["name"] == "me"]
    info = client.info()
    assert info["redis_version"]
    assert info["role"] == "master"
    assert "unstable_messages" in info
    assert client.config_get("maxclients")
    assert client.command_count() > 150
    assert client.time()
    assert client.execute_command("CAUSAL.TOKEN").startswith("1.")


def test_locks_of_redis_py_are_refused_with_a_reason(client: Any):
    """They need a script to let go, and one node would give what another has given: a lock is no
    thing that concurrent replicas can agree on."""
    lock = client.lock("lock", timeout=10)
    assert lock.acquire(blocking=False)
    with pytest.raises(ResponseError, match="not supported"):
        lock.release()


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_asyncio_client(port: int, protocol: int):
    async def main() -> None:
        async with AsyncRedis(port=port, protocol=protocol, decode_responses=True) as client:
            await client.flushall()
            await asyncio.gather(*(client.incr("n") for _ in range(100)))
            assert await client.get("n") == "100"
            async with client.pipeline() as pipe:
                pipe.hset("h", mapping={"f": "v"}).hgetall("h").zadd("z", {"m": 1.5})
                assert await pipe.execute() == [1, {"f": "v"}, 1]
            assert [key async for key in client.scan_iter()] != []
            async with client.pubsub() as heard:
                await heard.subscribe("news")
                await client.publish("news", "hello")
                message = None
                while message is None or message["type"] != "message":
                    message = await heard.get_message(timeout=5)
                assert message["data"] == "hello"

    asyncio.run(main())


# ---- the programs that come with Redis ----------------------------------------------------------


def cli(port: int, *words: str, given: str = "") -> str:
    done = subprocess.run(
        ["redis-cli", "-p", str(port), *words], input=given, capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip
    assert not done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="no redis-cli")
def test_redis_cli(port: int):
    cli(port, "FLUSHALL")
    assert cli(port, "SET", "k", "hello") == "OK\n"
    assert cli(port, "GET", "k") == "hello\n"
    lines = cli(port, given="MULTI\nINCR n\nLPUSH l a b\nEXEC\nGET\nLRANGE l 0 -1\n").splitlines()
    assert lines[:3] == ["OK", "QUEUED", "QUEUED"]
    assert "ERR wrong number of arguments for 'get' command" in lines
    assert lines[-2:] == ["b", "a"]
    assert cli(port, "-3", "HELLO").startswith("server redis\n")
    assert "db0:keys=3" in cli(port, "INFO", "keyspace")
    assert "k\n" in cli(port, "--scan")
    assert "summary" in cli(port, "COMMAND", "DOCS", "GET")
    bulk = "".join(f"SET bulk{number} {number}\r\n" for number in range(500))
    assert "replies: 500" in cli(port, "--pipe", given=bulk)
    assert "Biggest string" in cli(port, "--bigkeys")


@pytest.mark.skipif(shutil.which("redis-benchmark") is None, reason="no redis-benchmark")
@pytest.mark.parametrize("pipeline", ["1", "16"])
def test_redis_benchmark(port: int, pipeline: str):
    done = subprocess.run(
        ["redis-benchmark", "-p", str(port), "-t", BENCHMARK, "-n", "300", "-c", "10", "-q",
         "-P", pipeline, "-r", "100"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "ERR" not in said
    assert "WARN" not in said
    done_lines = [line for line in said.replace("\r", "\n").splitlines() if "per second" in line]
    found = {line.split(":")[0].split(" (")[0].strip() for line in done_lines}
    assert found >= {"PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "LPUSH", "RPUSH", "LPOP",
                     "RPOP", "SADD", "HSET", "SPOP", "ZADD", "ZPOPMIN", "LRANGE_100",
                     "LRANGE_300", "LRANGE_500", "LRANGE_600", "MSET"}  # fmt: skip
