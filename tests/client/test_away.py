"""Members that are away: nobody waits for them, and what is kept for them has its limits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.client.meshes import run, until
from tests.client.test_joining import BRISK, found, joined, kill, stop, trio
from thence.config.node import FlowConfig
from thence.engine.tag import SHELVED
from thence.errors import Full


def test_nobody_waits_for_a_member_that_is_away():
    async def main() -> None:
        a, b, c = await trio(flow=FlowConfig(outbox_messages_max=2))
        kill(c)
        await until(lambda: a._driver.connected == ["b"])
        for _ in range(20):
            await a.broadcast(b"x")
        assert a.members == ("a", "b", "c")
        await stop(b, a)

    run(main())


def test_a_suspected_member_is_evicted_early_when_others_have_to_wait_because_of_it():
    patient = msgspec.structs.replace(BRISK, evict_s=600.0)
    memory = FlowConfig(unstable_bytes_max=2048)

    async def main() -> None:
        a, b, c = await trio(flow=memory, membership=patient)
        kill(c)
        for _ in range(6):
            await a.broadcast(bytes(1024))
        await until(lambda: a.members == ("a", "b"))
        await stop(b, a)

    run(main())


def test_a_suspected_member_is_not_evicted_early_if_that_is_not_wanted():
    patient = msgspec.structs.replace(BRISK, evict_s=600.0, evict_full=False)
    memory = FlowConfig(unstable_bytes_max=2048)

    async def main() -> None:
        a, b, c = await trio(flow=memory, membership=patient)
        kill(c)
        await until(lambda: a.suspects == ("c",))
        for _ in range(2):
            a.try_broadcast(bytes(1024))
        await until(lambda: not a._driver.has_room)
        with pytest.raises(Full, match="c has acknowledged least"):
            a.try_broadcast(b"")
        await asyncio.sleep(0.2)
        assert a.members == ("a", "b", "c")
        await stop(b, a)

    run(main())


def test_what_is_kept_for_a_member_that_is_away_goes_to_the_journal(tmp_path: Path):
    """Many times what may be in memory, to one that was cut off, and to one that joins meanwhile
    and gets the rest from there."""
    patient = msgspec.structs.replace(BRISK, evict_s=600.0)
    memory = FlowConfig(unstable_bytes_max=64 << 10)
    payloads = [bytes([number]) * 4096 for number in range(200)]

    async def main() -> None:
        folder = str(tmp_path)
        a, b, c = await trio(flow=memory, membership=patient, data=folder)
        c._runtime.hub.addresses.clear()
        for peer in list(c._runtime.hub.by_peer.values()):
            peer.connection.close("cut")
        for other in (a, b):
            other._runtime.hub.addresses.pop("c", None)
        await until(lambda: a._driver.connected == ["b"])
        tags = [await a.broadcast(payload) for payload in payloads]
        shelf = a._driver.shelf
        await until(lambda: shelf.bytes <= 64 << 10)
        assert shelf.shelved_bytes > 600 << 10
        assert tags[0].body is SHELVED
        assert [tag.payload for tag in tags] == payloads
        got: list[bytes] = []
        c.on_deliver(lambda tag: got.append(tag.payload))
        # With the view that it makes, a and b learn where c is.
        d = await joined("d", b, membership=patient, flow=memory, data=folder)
        assert d._driver.shelf.shelved_bytes > 600 << 10
        await until(lambda: len(got) == len(payloads))
        assert got == payloads
        for group in (a, b, c, d):
            await until(lambda group=group: group._driver.shelf.is_idle)  # type: ignore[misc]
            assert group._driver.unstable == 0
        await stop(d, c, b, a)

    run(main())


def test_nobody_waits_for_a_newcomer_whose_application_fails():
    patient = msgspec.structs.replace(BRISK, join_s=600.0)

    def fails(chunks: object) -> None:
        raise ValueError("no room for it")

    async def main() -> None:
        a = await found(membership=patient, snapshot=lambda: b"state")
        with pytest.raises(ValueError, match="no room for it"):
            await joined("b", a, membership=patient, restore=fails)
        await until(lambda: a.view.num == 2)
        assert a.members == ("a",)
        await stop(a)

    run(main())
