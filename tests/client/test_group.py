"""A group as an application sees it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.client.meshes import QUICK, deliveries, each_scheme, mesh, run, take_all, until
from thence import (
    Blocked,
    Delivered,
    Full,
    Group,
    LimitError,
    LocalProtocolError,
    NodeConfig,
    Stable,
    UnusableInputError,
)
from thence.config import FaultConfig, FlowConfig, TimingConfig
from thence.message import PAYLOAD_BYTES_MAX


@each_scheme
def test_a_message_reaches_every_other_member_and_becomes_stable_everywhere(scheme: str):
    async def main() -> None:
        async with mesh("abc", scheme) as groups:
            seen: list[list[Any]] = [[] for _ in groups]
            takers = [
                asyncio.create_task(take_all(group, mine))
                for group, mine in zip(groups, seen, strict=True)
            ]
            tag = await groups[0].broadcast(b"hello")
            await groups[0].until_stable(tag)
            await until(lambda: all(type(mine[-1]) is Stable for mine in seen if mine))
        await asyncio.gather(*takers)
        assert [[type(event) for event in mine] for mine in seen] == [
            [Stable], [Delivered, Stable], [Delivered, Stable],
        ]  # fmt: skip
        assert {event.tag for mine in seen for event in mine} == {tag}

    run(main())


def test_an_answer_comes_after_its_question_and_what_was_not_read_is_concurrent():
    async def main() -> None:
        async with mesh("abc") as (a, b, c):
            question = await a.broadcast(b"question")
            assert await deliveries(b, 1) == [b"question"]
            beside = await c.broadcast(b"beside")  # c has not taken the question
            answer = await b.broadcast(b"answer")
            assert await deliveries(c, 2) == [b"question", b"answer"]
            found = {b"question": question}
            while len(found) < 3:
                event = await a.next()
                if isinstance(event, Delivered):
                    found[event.payload] = event.tag
            assert question < found[b"answer"] == answer
            assert found[b"beside"] == beside
            assert found[b"beside"].concurrent(question)
            assert found[b"beside"].concurrent(found[b"answer"])

    run(main())


def test_the_context_moves_when_an_event_is_taken_and_not_when_it_arrives():
    async def main() -> None:
        async with mesh("ab") as (a, b):
            first = await a.broadcast(b"1")
            await until(lambda: b._driver.has_events and bool(b._driver.queue))
            before = await b.broadcast(b"not read yet")
            assert before.context == ()
            await deliveries(b, 1)
            after = await b.broadcast(b"read")
            assert first.dot in after.context

    run(main())


def test_a_full_group_makes_broadcasts_wait_and_names_whom_it_waits_for():
    async def main() -> None:
        flow = FlowConfig(outbox_messages_max=3)
        async with mesh("ab", flow=flow, faults=FaultConfig()) as (a, b):
            for number in range(3):
                a.try_broadcast(b"%d" % number)
            with pytest.raises(Full, match="b has acknowledged least"):
                a.try_broadcast(b"too much")
            waiting = asyncio.create_task(a.broadcast(b"3"))
            await asyncio.sleep(0)
            event = await a.next()
            while not isinstance(event, Blocked):
                event = await a.next()
            assert event.waiting_for == ("b",)
            assert (await waiting).seq == 4
            assert await deliveries(b, 4) == [b"0", b"1", b"2", b"3"]

    run(main())


def test_a_slow_application_pushes_back_to_the_sender():
    async def main() -> None:
        flow = FlowConfig(credit_messages=4, outbox_messages_max=8)
        async with mesh("ab", flow=flow) as (a, b):
            for number in range(12):
                a.try_broadcast(b"%d" % number)
                await asyncio.sleep(0.005)
                if not a._driver.has_room:
                    break
            sent = a.sent
            with pytest.raises(Full):
                a.try_broadcast(b"too much")
            assert sent <= 4 + 8
            assert await deliveries(b, sent) == [b"%d" % number for number in range(sent)]
            await asyncio.wait_for(a.broadcast(b"room again"), 10)
            assert await deliveries(b, 1) == [b"room again"]

    run(main())


def test_callbacks_get_everything_and_a_failing_one_stops_nothing():
    async def main() -> None:
        reported: list[str] = []
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()
        loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
        async with mesh("ab") as (a, b):
            got: list[bytes] = []
            stable: list[Any] = []

            def deliver(tag: Any) -> None:
                got.append(tag.payload)
                if tag.payload == b"1":
                    raise ValueError("mine")

            b.on_deliver(deliver)
            b.on_stable(stable.append)
            a.on_deliver(lambda tag: None)
            for number in range(5):
                await a.broadcast(b"%d" % number)
            await until(lambda: len(stable) == 5)
            assert got == [b"0", b"1", b"2", b"3", b"4"]
        loop.set_exception_handler(before)
        assert reported == ["a callback of the group main failed"]

    run(main())


def test_a_message_for_some_is_not_told_to_others_and_keeps_its_place_in_the_order():
    async def main() -> None:
        async with mesh("abc") as (a, b, c):
            await a.send(b"secret", to=["b"])
            await a.broadcast(b"for all")
            assert await deliveries(b, 2) == [b"secret", b"for all"]
            assert await deliveries(c, 1) == [b"for all"]
            with pytest.raises(LocalProtocolError):
                await a.send(b"x", to=["nobody"])

    run(main())


def test_one_can_wait_for_some_members_before_all_of_them():
    async def main() -> None:
        async with mesh("abc") as (a, b, c):
            tag = await a.broadcast(b"x")
            await deliveries(b, 1)
            b.phantom()
            await a.until(tag, k=2)
            assert a._driver.known_by(tag) == 2
            with pytest.raises(LocalProtocolError, match="1 to 3"):
                await a.until(tag, k=4)
            await deliveries(c, 1)
            b_next = asyncio.create_task(take_all(b, []))
            c_next = asyncio.create_task(take_all(c, []))
            a_next = asyncio.create_task(take_all(a, []))
            await a.until_stable(tag)
            await a.until(tag, k=3)
        await asyncio.gather(a_next, b_next, c_next)

    run(main())


def test_only_the_flagship_answers_questions_about_stability_of_one_message():
    async def main() -> None:
        async with mesh("ab", engine="vector") as (a, b):
            tag = await a.broadcast(b"x")
            assert await deliveries(b, 1) == [b"x"]
            with pytest.raises(LocalProtocolError, match="only the engine tagged"):
                await a.until_stable(tag)

    run(main())


# ---- the short form -----------------------------------------------------------------------------


def both(**settings: Any) -> tuple[Group, Group]:
    addresses = {"a": "mem://a", "b": "mem://b"}
    settings = {"timing": QUICK, "peers": addresses, **settings}
    return Group("a", **settings), Group("b", **settings)


def test_a_group_by_itself_is_a_node_with_one_group():
    async def main() -> None:
        one, two = both(group="talk")
        async with one as a, two as b:
            assert (a.name, a.node, a.members) == ("talk", "a", ("a", "b"))
            assert a.addresses == ["mem://a"]
            await a.until_connected()
            assert a.connected == ("b",)
            await a.broadcast(b"hello")
            assert await deliveries(b, 1) == [b"hello"]

    run(main())


def test_closing_waits_until_others_have_what_was_sent():
    async def main() -> None:
        slow = FaultConfig(delay_to={"b": 100.0})
        one = Group("a", listen="mem://a", peers={"b": "mem://b"}, timing=QUICK, faults=slow)
        two = Group("b", listen="mem://b", peers={"a": "mem://a"}, timing=QUICK)
        async with two as b:
            async with one as a:
                await a.until_connected()
                for number in range(10):
                    await a.broadcast(b"%d" % number)
            assert await deliveries(b, 10) == [b"%d" % number for number in range(10)]

    run(main())


def test_closing_gives_up_after_the_time_for_it_and_with_a_journal_at_once(tmp_path: Path):
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for data, least_s, most_s in ((None, 0.3, 20.0), (tmp_path / "data", 0.0, 20.0)):
            timing = TimingConfig(drain_s=0.3 if data is None else 60.0)
            group = Group("a", listen="mem://a", peers={"b": "mem://b"}, timing=timing, data=data)
            await group.start()
            await group.broadcast(b"nobody is there")
            start = loop.time()
            await group.aclose()
            assert least_s - 0.01 <= loop.time() - start < most_s

    run(main())


def test_who_leaves_by_an_exception_does_not_wait():
    async def main() -> None:
        group = Group("a", listen="mem://a", peers={"b": "mem://b"})
        start = asyncio.get_running_loop().time()

        async def work() -> None:
            async with group:
                await group.broadcast(b"nobody is there")
                await group.broadcast(bytes(PAYLOAD_BYTES_MAX + 1))

        with pytest.raises(LimitError, match="at most"):
            await work()
        assert asyncio.get_running_loop().time() - start < 2.0

    run(main())


def test_a_closed_group_takes_nothing_and_its_events_end():
    async def main() -> None:
        one, two = both()
        async with two:
            await one.start()
            tag = await one.broadcast(b"x")
            taker = asyncio.create_task(take_all(one, []))
            waiter = asyncio.create_task(one.until_stable(tag))
            await one.until_connected()
            await one.aclose()
            await one.aclose()
            await taker
            with pytest.raises(LocalProtocolError, match="closed"):
                await waiter
            with pytest.raises(LocalProtocolError, match="closed"):
                await one.broadcast(b"y")
            with pytest.raises(LocalProtocolError, match="closed"):
                one.try_broadcast(b"y")
            with pytest.raises(LocalProtocolError, match="closed"):
                await one.next()

    run(main())


def test_before_the_start_there_is_one_clear_error():
    async def main() -> None:
        one, _ = both()
        with pytest.raises(LocalProtocolError, match="not started"):
            await one.broadcast(b"x")
        with pytest.raises(LocalProtocolError, match="not started"):
            _ = one.members
        await one.aclose()

    run(main())


def test_settings_that_cannot_be_used_leave_nothing_behind():
    async def main() -> None:
        with pytest.raises(UnusableInputError, match="nope"):
            await Group("a", listen="mem://a", engine="nope").start()
        async with Group("a", listen="mem://a") as group:  # the name is free again
            assert group.members == ("a",)
        with pytest.raises(LocalProtocolError, match="not both"):
            Group("a", config=NodeConfig(name="a"))

    run(main())


def test_a_group_of_one_is_stable_at_once():
    async def main() -> None:
        async with Group("a", listen="mem://a") as group:
            taker = asyncio.create_task(take_all(group, []))
            await group.until_stable(await group.broadcast(b"x"))
        await taker

    run(main())


def test_what_was_not_confirmed_comes_again_after_a_restart(tmp_path: Path):
    async def main() -> None:
        one, two = both(data=tmp_path)
        async with one as a:
            async with two as b:
                b.auto_confirm = False
                for number in range(3):
                    await a.broadcast(b"%d" % number)
                taken = []
                while len(taken) < 3:
                    event = await b.next()
                    if isinstance(event, Delivered):
                        taken.append(event)
                taken[0].confirm()
            _, again = both(data=tmp_path)
            async with again as b:
                assert await deliveries(b, 2) == [b"1", b"2"]

    run(main())
