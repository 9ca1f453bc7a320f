"""What a node says of itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.client.meshes import QUICK, deliveries, mesh, run, take_all, until
from thence import Group, Node, UnusableInputError
from thence.client.status import MARKS_MAX, LagMeter
from thence.config import FaultConfig, FlowConfig
from thence.telemetry.snapshot import GroupNumbers, Status

PAGE = "127.0.0.1:0"


async def get(address: str, path: str) -> tuple[int, bytes]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def status_of(group: Group) -> Status:
    page = group._station.status
    assert page is not None
    code, body = await get(page.address, "/status")
    assert code == 200
    return msgspec.json.decode(body, type=Status)


def numbers(status: Status) -> GroupNumbers:
    (found,) = status.snapshot.groups
    return found


@pytest.mark.parametrize("scheme", ["mem", "tcp", "udp"])
def test_it_counts_what_happened(scheme: str, tmp_path: Path):
    async def main() -> None:
        async with mesh("abc", scheme, status=PAGE, data=tmp_path) as groups:
            takers = [asyncio.create_task(take_all(group, [])) for group in groups]
            tags = [await groups[0].broadcast(bytes(100)) for _ in range(10)]
            await groups[0].until_stable(tags[-1])
            await until(lambda: groups[0]._driver.counts["stable"] == 10)
            await until(lambda: not groups[0].behind())
            status = await status_of(groups[0])
            found = numbers(status)
            assert (status.ready, status.why, status.snapshot.node) == (True, "", "a")
            assert (found.name, found.engine) == ("main", "tagged")
            assert (found.sent, found.delivered, found.stable) == (10, 0, 10)
            assert (found.pending, found.unstable, found.outbox_messages) == (0, 0, 0)
            assert found.lag.count == 10
            assert 0 < found.lag.sum_s < 10 * 20
            assert found.journal_bytes > 1000
            assert found.limits["outbox_messages"] == FlowConfig().outbox_messages_max
            assert [peer.name for peer in status.snapshot.peers] == ["b", "c"]
            for peer in status.snapshot.peers:
                assert peer.connected
                assert peer.bytes_sent > 10 * 100
                assert peer.bytes_received > 0
                assert peer.credit_messages > 0
                assert peer.reconnects == 0
            assert (await status_of(groups[1])).snapshot.groups[0].delivered == 10
        await asyncio.gather(*takers)

    run(main())


def test_all_pages_answer_and_are_gone_with_the_node():
    async def main() -> None:
        node = Node("a", listen="mem://a", status=PAGE)
        async with node:
            await node.group(members=["a"])
            for path, text in (
                ("/health", b"alive"),
                ("/ready", b"true"),
                ("/metrics", b"thence_"),
            ):
                code, body = await get(node.status_address, path)
                assert code == 200
                assert text in body
        with pytest.raises(OSError):
            await get(node.status_address, "/health")
        async with Node("a", listen="mem://a") as bare:
            assert bare.status_address == ""

    run(main())


def test_a_node_is_ready_when_somebody_would_get_what_it_broadcasts():
    async def main() -> None:
        peers = {"a": "mem://a", "b": "mem://b", "c": "mem://c"}
        flow = FlowConfig(outbox_messages_max=2)
        settings: dict[str, Any] = {"peers": peers, "timing": QUICK, "flow": flow}
        async with Group("a", status=PAGE, **settings) as a:
            alone = await status_of(a)
            assert not alone.ready
            assert alone.why == "no other member of main is connected: b, c"
            async with Group("b", **settings) as b:
                await a.until_connected("b")
                assert (await status_of(a)).ready  # c may come later
                await a.broadcast(b"1")
                await a.broadcast(b"2")
                await until(lambda: a.behind() == ["c"])
                full = await status_of(a)
                assert (full.ready, full.why) == (False, "main is full; c has acknowledged least")
                await deliveries(b, 2)
            page = a._station.status
            assert page is not None
            page.stopping = True
            stopping = await status_of(a)
            assert (stopping.ready, stopping.why) == (False, "it stops")
            await a.aclose(drain_s=0.0)

    run(main())


def test_it_says_who_is_waited_for():
    async def main() -> None:
        peers = {"a": "mem://a", "b": "mem://b", "c": "mem://c"}
        slow = FaultConfig(delay_to={"c": 60_000.0})
        one = Group("a", peers=peers, timing=QUICK, faults=slow)
        two = Group("b", peers=peers, timing=QUICK)
        three = Group("c", peers=peers, timing=QUICK, status=PAGE)
        async with two as b, three as c:
            await one.start()
            await one.until_connected("b")
            await one.broadcast(b"question")
            assert await deliveries(b, 1) == [b"question"]
            await b.broadcast(b"answer")
            await until(lambda: bool(c.waiting()))
            assert [(str(dot), str(missing)) for dot, missing in c.waiting()] == [("b:1", "a:1")]
            found = numbers(await status_of(c))
            assert (found.pending, found.blocked_on) == (1, {"a": 1})
            await one.aclose(drain_s=0.0)

    run(main())


def test_a_new_connection_is_counted_with_what_was_sent_again():
    async def main() -> None:
        async with mesh("ab", status=PAGE, faults=FaultConfig()) as (a, b):
            await a.broadcast(b"x")
            await deliveries(b, 1)
            before = (await status_of(a)).snapshot.peers[0]
            link = a._runtime.hub.by_peer["b"].connection
            link.abort("cut")  # type: ignore[attr-defined]
            await until(lambda: a._runtime.hub.totals["b"].connections > 1)
            await a.until_connected()
            after = (await status_of(a)).snapshot.peers[0]
            assert after.reconnects == 1
            assert after.bytes_sent > before.bytes_sent

    run(main())


def test_a_page_that_cannot_be_served_is_one_clear_sentence_and_nothing_is_left():
    async def main() -> None:
        with pytest.raises(UnusableInputError, match="others could read it"):
            await Node("a", listen="mem://a", status="0.0.0.0:0").start()
        async with Node("a", listen="mem://a", status=PAGE) as node:
            with pytest.raises(UnusableInputError, match="cannot listen"):
                await Node("b", listen="mem://b", status=node.status_address).start()
            async with Node("b", listen="mem://b"):
                pass

    run(main())


def tag(index: int) -> Any:
    return SimpleNamespace(index=index)


def test_lag_is_from_the_turn_in_which_a_message_was_taken():
    meter = LagMeter()
    meter.turn(2, 10.0)
    meter.turn(2, 11.0)  # nothing happened in this one
    meter.turn(5, 12.0)
    meter.stable([tag(1), tag(2), tag(4)], 13.0)
    assert meter.counter.lag().count == 3
    assert meter.counter.lag().sum_s == pytest.approx(3 + 3 + 1)


def test_a_meter_forgets_moments_and_not_messages():
    meter = LagMeter()
    for clock in range(1, 10 * MARKS_MAX):
        meter.turn(clock, clock / 1000)
    assert len(meter._marks) <= MARKS_MAX
    meter.stable([tag(clock) for clock in range(1, 10 * MARKS_MAX, 1000)], 50.0)
    assert meter.counter.lag().count == 41
