"""Three nodes of the store that go on all the while, with a slow link between two of them.

``trio`` is started once; at the end its traces are checked.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.saboteurs import BUGS
from tests.chaos.store_sessions import Crew, Session, Worker, number, ticking
from tests.chaos.stores import Stores

SLOW_MS = 60
WATCH_S = 1.5


def slow(name: str) -> list[str]:
    """From a to c everything takes a while, while what goes by way of b is quick."""
    return ["--delay-to", f"c={SLOW_MS}"] if name == "a" else []


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    with Stores(tmp_path_factory.mktemp("trio"), is_cabled=True, words=slow) as stores:
        yield stores
        stores.settle()
        stores.end()


@pytest.fixture
def clients(trio: Stores) -> Iterator[dict[str, Any]]:
    made = {name: trio.client(name) for name in trio.names}
    made["a"].flushall()
    trio.settle()
    yield made
    for client in made.values():
        client.close()


def test_concurrent_incr_on_all_nodes_lose_nothing(trio: Stores, clients: dict[str, Any]):
    def count(client: Any) -> None:
        for _ in range(200):
            client.incr("n")
        with client.pipeline(transaction=False) as pipe:
            for _ in range(200):
                pipe.incr("n")
                pipe.hincrby("h", "n", 2)
                pipe.zincrby("z", 0.5, "n")
            pipe.execute()

    threads = [threading.Thread(target=count, args=(each,)) for each in clients.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trio.settle()
    for client in clients.values():
        assert client.get("n") == "1200"
        assert client.hget("h", "n") == "1200"
        assert client.zscore("z", "n") == 300.0


def test_what_was_done_on_both_sides_of_a_partition_is_there_after_it(
    trio: Stores, clients: dict[str, Any]
):
    a, b, _ = clients.values()
    a.mset({"text": "old", "doomed": "x"})
    a.sadd("s", "kept", "gone")
    a.hset("h", mapping={"f": "old", "g": "old"})
    trio.settle()
    assert trio.cables is not None
    trio.cables.cut("a", "bc")
    try:
        trio.until("a is alone", lambda: a.info("replication")["peers_connected"] == 0)
        a.srem("s", "kept", "gone")
        a.hdel("h", "f", "g")
        a.delete("doomed", "text")
        b.sadd("s", "kept")
        b.hset("h", "f", "new")
        b.set("text", "new")
        b.incrby("n", 3)
        a.incrby("n", 4)
        assert a.keys() == ["n"]
        assert b.get("n") == "3"
    finally:
        trio.cables.mend()
    trio.settle()
    for client in clients.values():
        assert client.smembers("s") == {"kept"}
        assert client.hgetall("h") == {"f": "new"}
        assert client.mget("text", "doomed", "n") == ["new", None, "7"]


def test_who_sees_an_effect_sees_its_cause(trio: Stores, clients: dict[str, Any]):
    """The cause is written at a, the effect at b; from a to c the way is long."""
    count = 0

    def relay(worker: Worker) -> None:
        nonlocal count
        count += 1
        worker.at("a").set("x", count)
        worker.at("a").set("y", count)
        while number(worker.at("b").get("y")) < count:
            time.sleep(0.001)
        worker.at("b").set("z", count)
        time.sleep(0.002)

    def look(node: str) -> Any:
        def at_node(worker: Worker) -> None:
            z, y, x = [number(worker.at(node).get(key)) for key in "zyx"]
            assert x >= y >= z, f"{node} shows {x=} {y=} {z=}"

        return at_node

    with Crew(trio, relay, look("a"), look("b"), look("c")):
        time.sleep(WATCH_S)
    trio.settle()
    assert clients["c"].mget("x", "y", "z") == [str(count)] * 3 or count


def roam(stores: Stores, seconds: float, meanwhile: Any = time.sleep) -> None:
    """Two sessions, somebody who counts, and a watcher at every node."""
    sessions = [Session(f"s{at}", stores.names, at) for at in range(2)]
    watchers = [sessions[0].watch(name) for name in stores.names]
    with Crew(stores, ticking("a"), *[each.step for each in sessions], *watchers):
        meanwhile(seconds)


@pytest.mark.usefixtures("clients")
def test_a_client_that_moves_with_its_token_has_the_guarantees_of_a_session(trio: Stores):
    roam(trio, 2 * WATCH_S)


def test_they_hold_through_restarts(tmp_path: Path):
    def restarts(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for name in "bc":
                time.sleep(0.3)
                stores.kill(name)
                stores.start(name)
                stores.wait_ready(name)

    with Stores(tmp_path, words=slow) as stores:
        roam(stores, WATCH_S, restarts)
        stores.settle()
        stores.end()


def test_without_waiting_for_the_token_they_do_not_hold(tmp_path: Path):
    assert "wait_for_nothing" in BUGS
    with (
        Stores(tmp_path, words=slow, sabotage="wait_for_nothing", is_journaled=False) as stores,
        pytest.raises(AssertionError, match=r"it wrote|it had read|shows"),
    ):
        roam(stores, 2 * WATCH_S)


def test_wait_tells_how_many_nodes_have_a_write(trio: Stores, clients: dict[str, Any]):
    a = clients["a"]
    a.set("k", "1")
    assert a.execute_command("WAIT", 2, 10_000) == 2
    assert trio.cables is not None
    trio.cables.cut("c", "ab")
    try:
        a.set("k", "2")
        assert a.execute_command("WAIT", 1, 10_000) == 1
        since = time.monotonic()
        assert a.execute_command("WAIT", 2, 300) == 1
        assert 0.25 < time.monotonic() - since < 5
        assert a.execute_command("CRDT.STABLE", "k") == 0
    finally:
        trio.cables.mend()
    assert a.execute_command("WAIT", 2, 20_000) == 2
    trio.settle()
    assert a.execute_command("CRDT.STABLE", "k") == 1


def test_a_key_that_expires_is_gone_at_all_nodes(trio: Stores, clients: dict[str, Any]):
    a, b, c = clients.values()
    a.set("soon", "x", px=700)
    a.rpush("list", "x")
    a.set("stays", "x")
    a.pexpire("list", 700)
    trio.settle()
    assert 0 < c.pttl("soon") <= 700
    b.persist("list")
    time.sleep(0.8)
    for client in clients.values():
        assert client.get("soon") is None
        assert client.exists("soon") == 0
    trio.until("it is removed", lambda: all(each.dbsize() == 2 for each in clients.values()))
    assert c.lrange("list", 0, -1) == ["x"]


def test_what_is_published_comes_in_causal_order(trio: Stores, clients: dict[str, Any]):
    a, b = clients["a"], clients["b"]
    heard = {name: clients[name].pubsub(ignore_subscribe_messages=True) for name in "bc"}
    for each in heard.values():
        each.subscribe("news")
        assert each.get_message(timeout=5) is None
    try:
        for at in range(20):
            a.publish("news", f"question {at}")
            assert next_text(heard["b"]) == f"question {at}"
            b.publish("news", f"answer {at}")
            assert next_text(heard["b"]) == f"answer {at}"
        found = [next_text(heard["c"]) for _ in range(40)]
        assert found == [f"{what} {at}" for at in range(20) for what in ("question", "answer")]
    finally:
        for each in heard.values():
            each.close()


def next_text(heard: Any) -> str:
    while (message := heard.get_message(timeout=10)) is None:
        pass
    return str(message["data"])


NONSENSE = (
    b"*1\r\n$-5\r\n", b"*99999999\r\n", b"*2\r\n$3\r\nGET\r\n$999999999999\r\n",
    b"$5\r\nhello\r\n", b"*1\r\n*1\r\n*1\r\n$4\r\nPING\r\n", b"\x00\xff\xfe garbage \r\n",
    b"GET\r\n", b"'unbalanced\r\n", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n", b"x" * 100_000,
    b"*-1\r\n*0\r\n\r\n\r\n", b"GET a b c d\r\n",
    b"*1\r\n$4\r\nPINGxx",
)  # fmt: skip


def test_nonsense_from_some_clients_does_not_touch_the_others(
    trio: Stores, clients: dict[str, Any]
):
    def work(worker: Worker) -> None:
        assert worker.at("b").incr("work") == worker.rounds + 1

    with Crew(trio, work):
        for _ in range(10):
            for each in NONSENSE:
                with socket.create_connection(trio.address("b")) as rude:
                    rude.sendall(each)
                    rude.shutdown(socket.SHUT_WR)
                    rude.settimeout(10)
                    while rude.recv(65536):
                        pass
    assert clients["b"].ping()
    assert trio.running["b"].poll() is None
