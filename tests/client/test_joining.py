"""Joining on real transports: who cannot be asked, who says no; what an application waits for when
the members change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.meshes import QUICK, deliveries, run, until
from thence import Connected, Disconnected, Evicted, Group, Joined, Left, Removed
from thence.client.handover import WINDOW_PIECES
from thence.client.station import node_config
from thence.config import TimingConfig
from thence.config.node import FlowConfig, MembershipConfig
from thence.engine.base import EngineOptions
from thence.errors import LocalProtocolError, UnreachableError, UnusableInputError

BRISK = MembershipConfig(elastic=True, beat_ms=20, suspect_s=0.3, suspect_phi=0, evict_s=0.6)
QUIET = (Connected, Disconnected)
IMPATIENT = MembershipConfig(elastic=True, beat_ms=20, join_s=0.6)


async def found(name: str = "a", *, listen: str = "", **more: Any) -> Group:
    """A group of one; its application takes everything."""
    settings = {"membership": BRISK, "timing": QUICK, **more}
    group = Group(name, listen=listen or f"mem://{name}", **settings)
    await group.start()
    group.on_event(lambda event: None)
    return group


async def joined(name: str, *contacts: Group, **more: Any) -> Group:
    return await found(name, join=[each.addresses[0] for each in contacts], **more)


async def trio(**more: Any) -> list[Group]:
    a = await found("a", **more)
    b = await joined("b", a, **more)
    c = await joined("c", a, **more)
    groups = [a, b, c]
    for group in groups:
        await until(lambda group=group: len(group.members) == 3)  # type: ignore[misc]
        await group.until_connected()
    return groups


async def stop(*groups: Group) -> None:
    for group in groups:
        await group.aclose(drain_s=0)


def kill(group: Group) -> None:
    """It is gone without a word."""
    runtime = group._runtime
    runtime._stopped = True
    for link in list(runtime.hub.links.values()):
        link.connection.close("killed")


# ---- joining


@pytest.mark.parametrize("join", [(), None, []])
def test_a_group_that_joins_nobody_is_elastic_if_its_settings_say_so(join: Any):
    config = node_config("a", None, {"membership": BRISK, "join": join})
    assert config.membership.is_elastic


def test_a_newcomer_takes_over_the_state_and_is_a_member():
    async def main() -> None:
        state = [b"one", b"", b"x" * 700_000]
        a = await found(snapshot=lambda: state)
        taken: list[bytes] = []
        b = await joined("b", a, restore=taken.extend)
        assert taken == state
        await a.broadcast(b"hello")
        b.on_event(None)
        assert await deliveries(b, 1) == [b"hello"]
        await b.aclose()
        await until(lambda: a.members == ("a",))
        await stop(a)

    run(main())


async def _no(url: str, sentence: str, **more: Any) -> None:
    group = Group("z", listen="tcp://127.0.0.1:0", join=url, membership=IMPATIENT, **more)
    with pytest.raises(UnreachableError, match=sentence) as caught:
        await group.start()
    assert "z was not let into main within 0.6 s" in str(caught.value)


def test_where_nobody_listens_the_reason_is_said():
    run(_no("tcp://127.0.0.1:9", "nobody listens|refused|cannot"))


def test_a_node_whose_members_do_not_change_takes_no_newcomers():
    async def main() -> None:
        fixed = Group("a", listen="tcp://127.0.0.1:0", timing=QUICK)
        await fixed.start()
        await _no(fixed.addresses[0], "refused by .*z is no member of a group here")
        await fixed.aclose()

    run(main())


@pytest.mark.parametrize(
    "says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x00\x00\x02\x01x"]
)
def test_something_that_is_no_node_is_given_up(says: bytes):
    async def main() -> None:
        def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(says)
            writers.append(writer)

        writers: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await _no(f"tcp://127.0.0.1:{port}", "was not let in")
        for writer in writers:
            writer.close()
        server.close()
        await server.wait_closed()

    run(main())


def test_a_group_that_the_contact_does_not_have_is_said():
    async def main() -> None:
        a = await found(listen="tcp://127.0.0.1:0")
        with pytest.raises(UnreachableError, match="a has no group another that one can join"):
            await joined("z", a, group="another", membership=IMPATIENT)
        await stop(a)

    run(main())


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"engine": "graph"}, "engine graph has no members that change"),
        ({"listen": ()}, "listens nowhere"),
        ({"options": EngineOptions(stability=False)}, "main is elastic, and stability is off"),
    ],
)
def test_what_cannot_join_is_said_before_anybody_is_asked(more: dict[str, Any], sentence: str):
    async def main() -> None:
        settings = {"listen": "mem://z", "membership": IMPATIENT, "join": "mem://a", **more}
        with pytest.raises(UnusableInputError, match=sentence):
            await Group("z", **settings).start()

    run(main())


def test_a_journal_of_a_group_whose_members_did_not_change_is_said(tmp_path: Path):
    async def main() -> None:
        async with Group("z", listen="mem://z", data=str(tmp_path)) as alone:
            await alone.broadcast(b"")
        again = Group(
            "z", listen="mem://z", join="mem://a", membership=IMPATIENT, data=str(tmp_path)
        )
        with pytest.raises(UnusableInputError, match="from when the members of main did not"):
            await again.start()

    run(main())


def test_a_group_without_stability_cannot_be_elastic():
    async def main() -> None:
        with pytest.raises(UnusableInputError, match="main is elastic, and stability is off"):
            await found(options=EngineOptions(stability=False))

    run(main())


def test_a_wrong_secret_is_said_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    def secret(name: str) -> MembershipConfig:
        file = tmp_path / name
        file.write_text(name)
        file.chmod(0o600)
        return MembershipConfig(elastic=True, beat_ms=20, secret_file=str(file))

    async def main() -> None:
        a = await found(membership=secret("right"))
        with pytest.raises(Removed, match="a has another secret"):
            await joined("b", a, membership=secret("wrong"))
        assert a._runtime.hub.refused == {"wrong-secret": 1}
        lines = [str(each.__dict__) for each in caplog.records]
        wanted = "b wants to join main and has another secret"
        assert sum(wanted in line for line in lines) == 1
        with pytest.raises(Removed, match="a asks for the secret of the group"):
            await joined("c", a)
        d = await joined("d", a, membership=secret("right"))
        assert a._runtime.hub.refused == {"wrong-secret": 1}, "who has none, or the right one"
        await stop(d, a)

    run(main())


def test_a_snapshot_that_fails_is_told_to_the_application_and_the_node_goes_on():
    async def main() -> None:
        told: list[Any] = []
        broken = True

        def snapshot() -> bytes:
            if broken:
                raise ValueError("not now")
            return b"state"

        a = await found(snapshot=snapshot)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        joining = asyncio.create_task(joined("b", a))
        await until(lambda: bool(told))
        assert isinstance(told[0], ValueError)
        broken = False
        b = await joining
        await a.broadcast(b"it goes on")
        await stop(b, a)

    run(main())


# ---- waiting while members change


def waits(what: Callable[[Group, Any], Coroutine[Any, Any, None]]) -> None:
    """c is evicted while its application waits for something: it is told."""

    async def main() -> None:
        a, b, c = await trio(flow=FlowConfig(unstable_messages_max=2))
        c._runtime.hub.addresses.clear()
        for peer in list(c._runtime.hub.by_peer.values()):
            peer.connection.close("cut")
        for other in (a, b):
            other._runtime.hub.addresses.pop("c", None)
        await asyncio.sleep(0.05)
        tag = c.try_broadcast(b"nobody gets it")
        waiting = asyncio.create_task(what(c, tag))
        await until(lambda: len(a.members) == 2 and len(b.members) == 2)
        assert not waiting.done()
        c._runtime.hub.know("a", a.addresses[0], c._runtime.now)
        c._runtime.turn()
        with pytest.raises(Removed, match="c is no member of main any more"):
            await waiting
        assert c.is_out
        with pytest.raises(Removed):
            await what(c, tag)
        await stop(c, b, a)

    run(main())


def test_until_stable_ends_when_this_node_is_out():
    waits(lambda group, tag: group.until_stable(tag))


def test_until_k_members_know_ends_when_this_node_is_out():
    waits(lambda group, tag: group.until(tag, 2))


def test_until_connected_ends_when_this_node_is_out():
    waits(lambda group, tag: group.until_connected())


async def _send_until_full(group: Group, tag: Any) -> None:
    while True:
        await group.broadcast(b"more")


def test_a_broadcast_that_waits_for_room_ends_when_this_node_is_out():
    waits(_send_until_full)


def test_a_message_is_stable_when_the_member_that_lacked_it_is_gone():
    async def main() -> None:
        a, b, c = await trio()
        kill(c)
        tag = await a.broadcast(b"x")
        known = asyncio.create_task(a.until(tag, 3))
        await a.until_stable(tag)
        assert a.members == ("a", "b")
        await known  # no more than those two will ever know it
        await stop(b, a)

    run(main())


def test_a_broadcast_that_waits_for_room_goes_on_when_the_member_that_held_it_up_is_gone():
    async def main() -> None:
        a, b, c = await trio(flow=FlowConfig(unstable_messages_max=2))
        kill(c)
        for _ in range(6):
            await a.broadcast(b"x")
        assert a.members == ("a", "b")
        await stop(b, a)

    run(main())


# ---- the end


def test_events_end_when_this_node_is_out_and_the_last_says_why():
    async def main() -> None:
        a, b, c = await trio()
        c.on_event(None)
        events: list[Any] = []

        async def take() -> None:
            async for event in c.events():
                events.append(event)

        taking = asyncio.create_task(take())
        await asyncio.sleep(0)
        a.evict("c")
        await taking
        assert isinstance(events[-1], Evicted)
        with pytest.raises(Removed):
            await c.next()
        with pytest.raises(Removed):
            await c.broadcast(b"x")
        with pytest.raises(Removed):
            c.evict("a")
        await stop(c, b, a)

    run(main())


def test_closing_leaves_in_order_and_closing_without_time_does_not():
    async def main() -> None:
        a, b, c = await trio()
        events: list[Any] = []
        a.on_event(events.append)
        a.on_deliver(lambda tag: events.append(tag.payload))
        await c.broadcast(b"the last word")
        await c.aclose()
        await until(lambda: any(isinstance(each, Left) for each in events))
        told = [each for each in events if not isinstance(each, QUIET)]
        assert told[0] == b"the last word"
        assert isinstance(told[1], Left), "after everything that it sent"
        await b.aclose(drain_s=0)
        await asyncio.sleep(0.1)
        assert a.members == ("a", "b"), "it is missed until it is evicted"
        await until(lambda: any(isinstance(each, Evicted) for each in events))
        await stop(a)

    run(main())


def test_streams_and_messages_for_some_are_refused_in_a_sentence():
    async def main() -> None:
        a = await found()
        for sent in (a.broadcast(b"x", stream="s"), a.send(b"x", ["a"])):
            with pytest.raises(LocalProtocolError, match="every message is for everyone"):
                await sent
        await stop(a)

    run(main())


def test_questions_about_members_that_do_not_change_are_refused():
    async def main() -> None:
        fixed = Group("a", listen="mem://a", timing=TimingConfig(drain_s=0.1))
        await fixed.start()
        with pytest.raises(LocalProtocolError, match="the members of main do not change"):
            fixed.evict("b")
        assert not fixed.is_elastic
        await fixed.aclose()

    run(main())


def test_a_newcomer_sees_who_joined_after_it():
    async def main() -> None:
        a = await found()
        b = await joined("b", a)
        b.on_event(None)
        c = await joined("c", a)
        event = await b.next()
        while not isinstance(event, Joined):
            event = await b.next()
        assert (event.member, b.members) == ("c", ("a", "b", "c"))
        await stop(c, b, a)

    run(main())


def test_the_time_for_the_state_begins_when_it_begins_to_come():
    """A node that was killed while it joined waits first until its former life is evicted."""

    def slowly() -> Iterator[bytes]:
        for at in range(60):
            time.sleep(0.01 if at > WINDOW_PIECES else 0)
            yield b"x"

    async def main() -> None:
        a = await found(snapshot=slowly)
        start = time.monotonic()
        joining = asyncio.create_task(joined("b", a, membership=IMPATIENT))
        a.on_event(None)  # who takes no events lets nobody in
        await asyncio.sleep(0.45)
        a.on_event(lambda event: None)
        b = await joining
        assert time.monotonic() - start > IMPATIENT.join_s
        await stop(b, a)

    run(main())


def test_a_member_that_knows_nobody_any_more_asks_whom_its_operator_names(tmp_path: Path):
    """All whom the journal of b knows have gone while it was down; c came later."""

    async def main() -> None:
        a = await found("a")
        b = await joined("b", a, data=str(tmp_path))
        await until(lambda: len(a.members) == 2)
        await stop(b)  # with a journal it stays a member
        a.evict("b", is_dead=True)
        await until(lambda: a.members == ("a",))
        c = await joined("c", a)
        await a.leave()
        await until(lambda: c.members == ("c",))
        await stop(a)
        again = Group(
            "b", listen="mem://b", join="mem://c", membership=BRISK, timing=QUICK,
            data=str(tmp_path),
        )  # fmt: skip
        await again.start()
        again.on_event(lambda event: None)
        await until(lambda: again.is_out)
        await stop(c, again)

    run(main())
