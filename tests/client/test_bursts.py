"""Bursts of an application: many messages sent at once, and taken as lists."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.client.fakes import driver_of
from tests.client.meshes import deliveries, each_scheme, mesh, run, until
from thence import Full, Group, LimitError, blocking
from thence.config import FlowConfig
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.message import PAYLOAD_BYTES_MAX
from thence.trace.check import check_paths

BURST = [b"%d" % number for number in range(100)]


@each_scheme
def test_a_burst_arrives_in_order_and_becomes_stable(scheme: str):
    async def main() -> None:
        async with mesh("abc", scheme) as (a, b, c):
            stable: list[Any] = []
            b.on_stable(stable.extend, many=True)
            taken: list[bytes] = []
            b.on_deliver(lambda tags: taken.extend(tag.payload for tag in tags), many=True)
            c.on_deliver(lambda tag: None)
            a.on_stable(lambda tag: None)
            tags = await a.broadcast_many(BURST)
            assert [tag.seq for tag in tags] == list(range(1, 101))
            assert tags[0] < tags[1] < tags[99]
            await a.until_stable(tags[-1])
            await until(lambda: len(stable) == 100)
            assert taken == BURST
            assert stable == tags

    run(main())


@pytest.mark.parametrize("written", ["trace", "data"])
def test_what_is_stable_comes_many_at_a_time_also_when_it_is_written_down(
    tmp_path: Path, written: str
):
    async def main() -> None:
        async with mesh("ab", **{written: tmp_path}) as (a, b):
            lists: list[list[Any]] = []
            payloads: list[bytes] = []

            def told(tags: list[Any]) -> None:
                lists.append(tags)
                payloads.extend(tag.payload for tag in tags)

            a.on_stable(told, many=True)
            b.on_deliver(lambda tag: None)
            tags = await a.broadcast_many(BURST)
            await until(lambda: sum(map(len, lists)) == 100)
            assert [tag for each in lists for tag in each] == tags
            assert payloads == BURST
            assert len(lists) < 50

    run(main())


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_takes_bursts(engine: str):
    async def main() -> None:
        async with mesh("ab", engine=engine) as (a, b):
            assert len(await a.broadcast_many(BURST[:7])) == 7
            assert await a.broadcast_many([]) == []
            assert await deliveries(b, 7) == BURST[:7]

    run(main())


def test_what_a_callback_with_a_list_sends_is_after_all_of_it():
    async def main() -> None:
        async with mesh("ab") as (a, b):
            answers: list[Any] = []

            def answer(tags: list[Any]) -> None:
                answers.append((b.try_broadcast(b"%d" % len(tags)), list(tags)))

            b.on_deliver(answer, many=True)
            await a.broadcast_many(BURST[:10])
            await until(lambda: sum(len(tags) for _, tags in answers) == 10)
            for sent, tags in answers:
                assert all(tag < sent for tag in tags)

    run(main())


def test_a_broadcast_of_a_callback_that_is_told_what_is_stable_confirms_all_of_it():
    async def main() -> None:
        async with mesh("ab") as (a, b):
            told: list[bool] = []

            def thank(tags: list[Any]) -> None:
                if not told:
                    assert all(tag.gone < 0 and tag.payload for tag in tags)
                    b.try_broadcast(b"thanks")
                    told.append(all(tag.gone >= 0 for tag in tags))

            b.on_stable(thank, many=True)
            b.on_deliver(lambda tags: None, many=True)
            a.on_deliver(lambda tag: None)
            await a.broadcast_many(BURST[:10])
            a.phantom()
            await until(lambda: bool(told))
            assert told == [True]

    run(main())


def test_a_callback_with_a_list_that_fails_is_reported_and_the_next_is_called():
    async def main() -> None:
        loop = asyncio.get_running_loop()
        before, reported = loop.get_exception_handler(), []
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        seen: list[int] = []

        def bad(tags: list[Any]) -> None:
            seen.append(len(tags))
            raise ValueError("bad")

        async with mesh("ab") as (a, b):
            b.on_deliver(bad, many=True)
            for _ in range(2):
                await a.broadcast_many(BURST[:5])
                await until(lambda: sum(seen) % 5 == 0 and bool(seen))
            await until(lambda: sum(seen) == 10)
        loop.set_exception_handler(before)
        assert {type(error) for error in reported} == {ValueError}

    run(main())


def test_a_burst_is_cut_where_the_room_ends_and_the_rest_waits():
    async def main() -> None:
        flow = FlowConfig(outbox_messages_max=10)
        async with mesh("ab", flow=flow) as (a, b):
            taken = a.try_broadcast_many(BURST)
            assert len(taken) == 10
            with pytest.raises(Full):
                a.try_broadcast_many(BURST)
            rest = asyncio.create_task(a.broadcast_many(BURST[10:]))
            assert await deliveries(b, 100) == BURST
            assert [tag.seq for tag in await rest] == list(range(11, 101))

    run(main())


def test_a_burst_is_cut_where_the_bytes_end():
    async def main() -> None:
        large = [bytes(60_000)] * 5
        flow = FlowConfig(outbox_bytes_max=100_000)
        async with mesh("ab", flow=flow) as (a, _):
            assert len(a.try_broadcast_many(large)) == 2

    run(main())


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_sent_of_a_burst_that_is_cut_has_its_tags(engine: str):
    options = EngineOptions(clock=lambda _: 0)
    driver = driver_of(engine=engine, options=options, flow=FlowConfig(outbox_bytes_max=1024))
    tags = driver.broadcast_many([bytes(100)] * 20, 0.0)
    assert 0 < len(tags) < 20
    assert len(tags) == driver.counts["sent"]
    kept = driver.unsent[0]  # by a synchronous engine until it is through
    assert len(tags) in (kept, kept + driver.exchange.outbox.last)
    with pytest.raises(Full):
        driver.broadcast_many([b"more"] * 20, 0.0)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_burst_with_a_payload_too_large_is_not_sent(engine: str):
    async def main() -> None:
        async with mesh("ab", engine=engine) as (a, _):
            with pytest.raises(LimitError):
                await a.broadcast_many([b"x", bytes(PAYLOAD_BYTES_MAX + 1)])
            assert a.sent == 0

    run(main())


def test_bursts_survive_a_restart_and_are_traced(tmp_path: Path):
    def settings(name: str) -> dict[str, Any]:
        where = {"a": "mem://a", "b": "mem://b"}
        return {"peers": where, "data": tmp_path / f"data-{name}", "trace": tmp_path / "trace"}

    async def main() -> None:
        async with Group("a", **settings("a")) as a:
            await a.broadcast_many(BURST[:30])  # b is not there yet
        async with Group("a", **settings("a")) as a, Group("b", **settings("b")) as b:
            await a.broadcast_many(BURST[30:])
            assert await deliveries(b, 100) == BURST
            b.take()
            await b.synced()
            await asyncio.sleep(0.1)
            await a.aclose(ended=True)
            await b.aclose(ended=True)

    run(main())
    report = check_paths([tmp_path / "trace"])
    assert report.ok


def test_threads_send_bursts_too():
    where = {"a": "mem://a", "b": "mem://b"}
    with blocking.Group("a", peers=where) as a, blocking.Group("b", peers=where) as b:
        assert len(a.broadcast_many(BURST[:5])) == 5
        found: list[bytes] = []
        while len(found) < 5:
            event = b.next(timeout=5)
            found += [event.payload] if hasattr(event, "payload") else []
        assert found == BURST[:5]
