"""Every transport of the table through one suite, on both event loops.

What a peer does wrong is done with ``send``, which takes any bytes: the other side must refuse them
in the same words whatever carries them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.transport.peers import LOOPS, Recorder, World, run, some_url
from thence.errors import UnreachableError, UnusableInputError
from thence.transport.base import BACKLOG_BYTES_HIGH, Url
from thence.transport.registry import TRANSPORTS
from thence.transport.watch import (
    BAD_FRAME,
    CROWDED,
    CUT_FRAME,
    NEVER_TRUSTED,
    STALLED_FRAME,
    Limits,
)
from thence.wire.frame import GREETING_BYTES_MAX, frame

MB = 1 << 20
SHORT = Limits(greeting_s=0.2, stall_s=0.2, close_s=0.2)

Test = Callable[[str], Awaitable[None]]


def conforms(test: Test) -> Callable[[str, str], None]:
    """A test of every transport on both loops."""

    @pytest.mark.parametrize("loop", LOOPS)
    @pytest.mark.parametrize("scheme", TRANSPORTS)
    def checked(scheme: str, loop: str) -> None:
        run(loop, test(scheme))

    checked.__name__ = test.__name__
    checked.__doc__ = test.__doc__
    return checked


@conforms
async def test_frames_arrive_whole_and_in_order_both_ways(scheme: str):
    world = World(scheme)
    near, far = await world.connect()
    random_ = random.Random(7)
    sent: dict[object, list[tuple[int, bytes]]] = {near: [], far: []}
    for _ in range(300):
        end = random_.choice((near, far))
        body = random_.randbytes(random_.choice((0, 1, 64, 1400, 9000)))
        kind = random_.randrange(256)
        end.send(frame(kind, body))
        sent[end].append((kind, body))
        if random_.random() < 0.2:
            await asyncio.sleep(0)
    await world.far.until(lambda: len(world.far.frames[far]) == len(sent[near]))
    await world.near.until(lambda: len(world.near.frames[near]) == len(sent[far]))
    assert world.far.frames[far] == sent[near]
    assert world.near.frames[near] == sent[far]
    await world.end()


@conforms
async def test_what_is_sent_in_one_turn_arrives_together(scheme: str):
    """At most a few packets' worth of calls, not one for each message."""
    world = World(scheme)
    near, far = await world.connect()
    for number in range(200):
        near.send(frame(1, number.to_bytes(8, "big")))
    await world.far.until(lambda: len(world.far.frames[far]) == 200)
    assert world.far.calls <= 10
    await world.end()


@conforms
async def test_ends_say_who_they_are(scheme: str):
    world = World(scheme)
    near, far = await world.connect()
    assert (near.dialled, far.dialled) == (True, False)
    assert near.address
    assert far.address
    assert (near.backlog_bytes, far.backlog_bytes) == (0, 0)
    proved = ("far", "near") if scheme == "tls" else (None, None)
    assert (near.peer_name, far.peer_name) == proved
    assert world.listener.url.scheme == scheme
    assert Url.parse(str(world.listener.url)) == world.listener.url
    assert scheme == "mem" or world.listener.url.port
    await world.end()


@conforms
async def test_a_large_frame_needs_trust(scheme: str):
    world = World(scheme)
    near, far = await world.connect()
    large = random.Random(1).randbytes(10 * MB)
    far.trust()
    near.send(frame(9, large))
    await world.far.until(lambda: world.far.frames[far])
    assert world.far.frames[far] == [(9, large)]
    far.send(frame(9, large[: GREETING_BYTES_MAX + 1]))  # near trusts nobody yet
    assert str(GREETING_BYTES_MAX) in await world.near.reason(near)
    assert world.near.frames[near] == []
    assert world.near_reports.kinds == [BAD_FRAME]
    await world.end()


@conforms
async def test_many_connections_at_once_do_not_mix(scheme: str):
    world = World(scheme)
    world.far.trusting = True
    await world.listen()
    dialled = await asyncio.gather(
        *(world.near_transport.dial(world.listener.url, world.near) for _ in range(50))
    )
    for number, connection in enumerate(dialled):
        for part in range(5):
            connection.send(frame(part, str(number).encode()))
        await asyncio.sleep(0)
    await world.far.until(
        lambda: sum(map(len, world.far.frames.values())) == 250,
    )
    heard = sorted(
        int(frames[0][1])
        for frames in world.far.frames.values()
        if len({b for _, b in frames}) == 1
    )
    assert heard == list(range(50))
    await world.end()


@conforms
async def test_closing_carries_what_was_accepted(scheme: str):
    """Also when the other side is talking: what lies unread here must not reset the connection."""
    world = World(scheme)
    near, far = await world.connect()
    far.trust()
    for _ in range(200):
        far.send(frame(2, bytes(1000)))
    body = random.Random(2).randbytes(3 * MB)
    near.send(frame(1, body))
    near.send(frame(1, b"last"))
    near.close("enough said")
    near.send(frame(1, b"too late"))
    assert await world.far.reason(far)
    assert world.far.frames[far] == [(1, body), (1, b"last")]
    assert await world.near.reason(near) == "enough said"
    assert world.far_reports.kinds == []
    await world.end()


@conforms
async def test_both_ends_hear_once_that_it_is_closed(scheme: str):
    world = World(scheme)
    near, far = await world.connect()
    near.close("first")
    near.close("second")
    far.close("far's own")
    assert await world.near.reason(near) == "first"
    assert await world.far.reason(far) == "far's own"
    near.close("third")
    near.send(frame(1))
    near.trust()
    await asyncio.sleep(0.05)  # the Recorder asserts that nothing follows
    assert near.backlog_bytes == 0
    await world.end()


@conforms
async def test_the_other_end_is_told_that_the_peer_closed(scheme: str):
    world = World(scheme)
    near, far = await world.connect()
    near.close("done")
    assert await world.far.reason(far) == "the peer closed the connection"
    assert world.far_reports.kinds == []
    await world.end()


@conforms
async def test_a_handler_may_close_while_it_receives(scheme: str):
    class Hasty(Recorder):
        def received(self, connection, frames):  # type: ignore[no-untyped-def]
            super().received(connection, frames)
            connection.send(frame(3, b"no"))
            connection.close("heard enough")

    world = World(scheme)
    world.far = Hasty()
    near, far = await world.connect()
    for _ in range(20):
        near.send(frame(1, bytes(1000)))
        await asyncio.sleep(0)
    assert await world.far.reason(far) == "heard enough"
    assert await world.near.reason(near)
    assert world.near.frames[near] == [(3, b"no")]
    assert world.far.calls == 1
    await world.end()


@conforms
async def test_a_backlog_shows_and_its_end_is_told(scheme: str):
    world = World(scheme)
    near, far = await world.connect()
    piece = frame(1, bytes(10_000))
    count = 0
    while near.backlog_bytes <= BACKLOG_BYTES_HIGH:
        near.send(piece)
        count += 1
    assert not world.near.drains
    await world.near.until(lambda: world.near.drains)
    assert near.backlog_bytes <= BACKLOG_BYTES_HIGH
    await world.far.until(lambda: len(world.far.frames[far]) == count)
    while near.backlog_bytes:
        await asyncio.sleep(0.001)
    assert world.near.drains == [near]
    await world.end()


@conforms
async def test_a_sender_that_waits_for_drained_loses_nothing_and_holds_little(scheme: str):
    world = World(scheme)
    near, far = await world.connect()
    piece = frame(1, bytes(10_000))
    highest = 0
    for _ in range(2000):
        if near.backlog_bytes > BACKLOG_BYTES_HIGH:
            seen = len(world.near.drains)
            await world.near.until(lambda seen=seen: len(world.near.drains) > seen)
        near.send(piece)
        highest = max(highest, near.backlog_bytes)
    await world.far.until(lambda: len(world.far.frames[far]) == 2000)
    assert highest <= BACKLOG_BYTES_HIGH + len(piece)
    await world.end()


@conforms
async def test_nobody_listens(scheme: str):
    world = World(scheme)
    listener = await world.listen()
    await listener.close()
    with pytest.raises(UnreachableError, match="nobody listens there"):
        await world.near_transport.dial(listener.url, world.near)
    assert not world.near.connections


@conforms
async def test_a_listener_that_is_closed_leaves_its_connections(scheme: str):
    world = World(scheme)
    near, far = await world.connect()
    await world.listener.close()
    await world.listener.close()
    near.send(frame(1, b"still here"))
    await world.far.until(lambda: world.far.frames[far])
    far.send(frame(1, b"me too"))
    await world.near.until(lambda: world.near.frames[near])
    if scheme != "udp":  # where connections have no sockets of their own
        again = await world.far_transport.listen(world.listener.url, world.far)
        await again.close()
    await world.end()


@conforms
async def test_an_address_has_one_listener(scheme: str):
    world = World(scheme)
    listener = await world.listen()
    with pytest.raises(UnusableInputError, match="cannot listen on"):
        await world.far_transport.listen(listener.url, world.far)
    await listener.close()


@conforms
async def test_garbage_is_refused_and_counted(scheme: str):
    world = World(scheme)
    random_ = random.Random(3)
    for _ in range(20):
        near, far = await world.connect()
        near.send(b"\xff" + random_.randbytes(random_.randrange(5, 3000)))
        assert "a frame of" in await world.far.reason(far)
        assert world.far.frames[far] == []
        assert await world.near.reason(near)
    assert world.far_reports.kinds == [BAD_FRAME] * 20
    await world.end()


@conforms
async def test_a_huge_length_is_refused_when_it_is_seen(scheme: str):
    world = World(scheme)
    near, far = await world.connect()
    far.trust()
    near.send((1 << 30).to_bytes(4, "big"))
    assert str(1 << 30) in await world.far.reason(far)
    assert world.far_reports.kinds == [BAD_FRAME]
    await world.end()


@conforms
async def test_a_frame_that_is_cut_off_is_counted(scheme: str):
    world = World(scheme)
    near, far = await world.connect()
    near.send(frame(1, b"whole") + frame(1, b"not whole")[:-1])
    near.close("gone")
    assert await world.far.reason(far)
    assert world.far.frames[far] == [(1, b"whole")]
    assert world.far_reports.kinds == [CUT_FRAME]
    await world.end()


@conforms
async def test_a_peer_that_does_not_say_who_it_is_is_dropped(scheme: str):
    """However busy it is."""
    world = World(scheme, SHORT)
    near, far = await world.connect()
    near.trust()
    while far not in world.far.closings:
        near.send(frame(1, b"hello?"))
        await asyncio.sleep(0.01)
    assert "did not say who it is within 0.2 s" in world.far.closings[far]
    assert world.far_reports.kinds[0] == NEVER_TRUSTED  # what is on its way then is counted too
    await world.near.reason(near)
    await world.end()


@conforms
async def test_a_trusted_peer_may_be_silent(scheme: str):
    world = World(scheme, SHORT)
    near, far = await world.connect()
    near.trust()
    far.trust()
    await asyncio.sleep(0.5)
    near.send(frame(1))
    await world.far.until(lambda: world.far.frames[far])
    assert world.far_reports.kinds == world.near_reports.kinds == []
    await world.end()


@conforms
async def test_a_frame_that_stalls_is_given_up(scheme: str):
    """Bytes that trickle in are progress; none are not."""
    world = World(scheme, SHORT)
    near, far = await world.connect()
    near.trust()
    far.trust()
    slow = frame(1, b"x" * 40)
    for at in range(30):
        near.send(slow[at : at + 1])
        await asyncio.sleep(0.01)
    assert far not in world.far.closings
    assert "sent nothing of a frame for 0.2 s" in await world.far.reason(far)
    assert world.far_reports.kinds == [STALLED_FRAME]
    await world.near.reason(near)
    await world.end()


@conforms
async def test_strangers_are_bounded_and_the_newest_is_served(scheme: str):
    world = World(scheme, Limits(waiting=4))
    await world.listen()
    friend, known = await world.connect()
    known.trust()
    for _ in range(10):
        await world.connect()
    newest, its = world.near.connections[-1], world.far.connections[-1]
    await world.far.until(lambda: len(world.far.closings) == 6)
    assert world.far_reports.kinds == [CROWDED] * 6
    assert list(world.far.closings) == world.far.connections[1:7]  # the oldest went
    newest.send(frame(1, b"who is there"))
    friend.send(frame(1, b"your friend"))
    await world.far.until(lambda: world.far.frames[its] and world.far.frames[known])
    await world.end()


@conforms
async def test_a_full_house_of_friends_keeps_nobody_out(scheme: str):
    world = World(scheme, Limits(waiting=2))
    world.far.trusting = True
    for _ in range(6):
        await world.connect()
    assert world.far_reports.kinds == []
    await world.end()


@conforms
async def test_a_dial_that_is_given_up_leaves_nothing(scheme: str):
    world = World(scheme)
    await world.listen()
    dialling = asyncio.create_task(world.near_transport.dial(world.listener.url, world.near))
    await asyncio.sleep(0)
    dialling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dialling
    await asyncio.sleep(0.05)
    await world.far.until(lambda: len(world.far.closings) == len(world.far.connections))
    assert len(world.near.closings) == len(world.near.connections)
    await world.listener.close()


@conforms
async def test_a_place_to_listen_is_of_the_transport(scheme: str):
    world = World(scheme)
    assert world.near_transport.scheme == scheme == some_url(scheme).scheme
