"""A worker, and coordinators that know the secret and say what no coordinator says."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.lab.crews import SECRET
from thence.errors import ThenceError, UnusableInputError, WireError
from thence.lab import worker
from thence.lab.handshake import welcome
from thence.lab.orders import GroupOrders, NodeOrders
from thence.lab.watch import Counts
from thence.lab.worker import Job, WorkerOptions, work
from thence.lab.worker_link import Link
from thence.lab.worker_messages import (
    KIND,
    NONCE_BYTES,
    VERSION,
    Beat,
    Challenge,
    Failed,
    Fetch,
    FromCoordinator,
    FromWorker,
    Go,
    Hello,
    Prepare,
    Prepared,
    Start,
    from_worker,
)

ORDERS = GroupOrders(
    group="run", nodes=(NodeOrders(name="a", send=1), NodeOrders(name="b", send=1)),
    engine="tagged", interval_ms=1.0, seed=1, sample_ms=100.0,
)  # fmt: skip
ADDRESSES = {"a": "tcp://127.0.0.1:1", "b": "tcp://127.0.0.1:2"}
OPTIONS = WorkerOptions(coordinator="", name="w1", seats=2, secret=SECRET)


def ordered(
    *orders: FromCoordinator, after: Callable[[FromWorker], None] = lambda _: None
) -> list[FromWorker]:
    """What a worker answers to these orders; it is alive at the end, and goes when told to."""

    async def coordinate() -> list[FromWorker]:
        heard: list[FromWorker] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            link = Link(reader, writer, from_worker)
            await link.send(Challenge(VERSION, b"n" * NONCE_BYTES))
            said = await link.receive()
            assert isinstance(said, Hello)
            await link.send(welcome(said, SECRET, 1))
            link.trust()
            for order in orders:
                await link.send(order)
                while isinstance(answer := await link.receive(), Beat):
                    pass
                heard.append(answer)
                await asyncio.to_thread(after, answer)
            await link.send(Go("that was all"))
            await link.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            options = msgspec.structs.replace(OPTIONS, coordinator=f"127.0.0.1:{port}")
            async with asyncio.timeout(20):
                await work(options, lambda _: None)
        return heard

    return asyncio.run(coordinate())


def prepared(names: Sequence[str], of: Sequence[str] = ("a", "b"), **changed: Any) -> Prepare:
    nodes = tuple(NodeOrders(name=name, send=1) for name in of)
    orders = msgspec.structs.replace(ORDERS, **{"nodes": nodes, **changed})
    return Prepare(1, orders, tuple(names))


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (prepared("c"), "not of the run"),
        (prepared(()), "not of the run"),
        (prepared("abc", "abc"), "3 nodes, and has 2 seats"),
        (prepared("aa"), "twice"),
        (prepared("a", "aa"), "twice"),
        (prepared(["\0"], ["\0", "b"]), "no name"),
        (prepared("a", group="../x"), "no name"),
        (prepared("a", engine="\0"), "no engine"),
        (prepared("a", nodes=(NodeOrders(name="a", send=1, delay_to={"\0": 1.0}),)), "delays"),
    ],
)
def test_what_a_worker_cannot_prepare_fails_the_run_and_not_the_worker(order: Prepare, why: str):
    (answer,) = ordered(order)
    assert isinstance(answer, Failed)
    assert why in answer.sentence


@pytest.mark.parametrize(
    "addresses",
    [
        {},
        {"a": ADDRESSES["a"]},
        {**ADDRESSES, "c": "tcp://127.0.0.1:3"},
        {**ADDRESSES, "b": "nowhere"},
        {**ADDRESSES, "b": "tcp://\0:1"},
        {**ADDRESSES, "b": "mem://b"},
        {**ADDRESSES, "b": "tcp://127.0.0.1:" + "1" * 5000},
    ],
)
def test_addresses_that_are_none_fail_the_run_and_not_the_worker(addresses: dict[str, str]):
    answers = ordered(prepared("a"), Start(1, addresses))
    assert isinstance(answers[0], Prepared)
    assert isinstance(answers[1], Failed)


def test_nodes_are_started_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker, "TELL_S", 60.0)
    found = Job(prepared("a"), "127.0.0.1", 2)
    try:
        found.start(ADDRESSES)
        with pytest.raises(ThenceError, match="started before"):
            found.start(ADDRESSES)
    finally:
        found.end()


@pytest.mark.parametrize("offset", [-1, 4, 1 << 63, (1 << 64) - 1])
def test_a_piece_is_of_a_log(offset: int, tmp_path: Path):
    found = Job(prepared("a"), "127.0.0.1", 2)
    try:
        log = tmp_path / "a-000000.parquet"
        log.write_bytes(b"log")
        found._files = {log.name: log}
        assert found.piece(log.name, 1) == b"og"
        with pytest.raises(ThenceError, match="nothing at"):
            found.piece(log.name, offset)
    finally:
        found.end()


def test_a_run_that_is_dropped_while_its_nodes_are_asked_takes_no_other_run_with_it(
    monkeypatch: pytest.MonkeyPatch,
):
    """Nodes that are asked while they are ended do not answer: that is no news of the next run."""
    asked, ended = threading.Event(), threading.Event()

    class Slow(Job):
        def counts(self) -> dict[str, Counts]:
            if self.run == 1:
                asked.set()
                ended.wait(10)
                raise ThenceError("node a ended")
            return {}

        def end(self) -> None:
            super().end()
            if self.run == 2:
                late.append("ended")

    late: list[str] = []
    monkeypatch.setattr(worker, "Job", Slow)
    monkeypatch.setattr(worker, "TELL_S", 0.01)

    def release(answer: FromWorker) -> None:
        if isinstance(answer, Prepared) and answer.run == 1:
            assert asked.wait(10)
        if isinstance(answer, Prepared) and answer.run == 2:
            ended.set()
            time.sleep(0.3)  # for what must not happen
        if isinstance(answer, Failed):
            late.append("failed")

    again = msgspec.structs.replace(prepared("a"), run=2)
    ordered(prepared("a"), again, Fetch(2, "none", 0), after=release)
    assert late[0] == "failed"


def test_garbage_of_a_coordinator_has_no_say_in_a_terminal():
    with pytest.raises(WireError) as error:
        from_worker(KIND, msgspec.msgpack.encode({"type": "\x1b[31mred\n"}))
    assert str(error.value).isprintable()


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_a_worker_is_given_some_time(seconds: float):
    options = msgspec.structs.replace(OPTIONS, coordinator="127.0.0.1:1", stop_after_s=seconds)
    with pytest.raises(UnusableInputError, match="--stop-after"):
        options.check()
