"""Garbage on every port of a group that works: refused, counted, and the group goes on."""

from __future__ import annotations

import asyncio
import math
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.chaos.hostile import BREACHES, STRANGERS, Door, Seat, Stranger
from tests.chaos.victims import CREDIT_BYTES, NAMES, SIDE, Victims, resident_bytes
from thence.trace.record import info_from_json
from thence.trace.writer import mark_closed, write_info
from thence.transport.base import BACKLOG_BYTES_HIGH, Url
from thence.transport.tls import TlsFiles
from thence.wire import talk

SEED = int(os.environ.get("THENCE_CHAOS_SEED", "1"))
LONG_ROUNDS = int(os.environ.get("THENCE_GARBAGE_ROUNDS", "20"))
SCHEMES = ("tcp", "tls", "udp")
GROWTH_BYTES_MAX = (64 << 20) + len(NAMES) * CREDIT_BYTES
COUNTED_AT_ONCE = ("random_bytes", "huge_lengths", "wrong_hello", "status_port")
"""Others leave something half done, which is given up after a time, or may hit nothing."""
KINDS_MAX = 40
"""Different reasons that are counted: a stranger must not be able to make up more."""


async def attack(
    victims: Victims, recorded: list[bytes], chance: random.Random, rounds: float
) -> None:
    """Every attack of strangers and every breach of a member's, on some node; in random order."""
    seat = Seat("m", "side", SIDE)
    tls = victims.tls("m")
    deeds = [(kind, name) for kind in (STRANGERS, BREACHES) for name in kind]
    count = round(rounds * len(deeds))
    deeds *= math.ceil(rounds)
    chance.shuffle(deeds)
    # After these there is no credit left: whatever comes then is refused for that alone.
    for kind, deed in sorted(deeds[:count], key=lambda each: each[1].startswith("credit")):
        name = chance.choice(NAMES)
        node = victims.nodes[name]
        url = node.addresses[0]
        before = victims.refused(name)
        if kind is STRANGERS:
            await STRANGERS[deed](Door(url, node.status_address, recorded), chance)
            if deed in COUNTED_AT_ONCE:
                assert victims.refused(name) > before, f"{name} did not count: {deed}"
            continue
        stranger, has = await seat.sit(url, tls)
        stranger.send(*BREACHES[deed](seat, has, NAMES.index(name), chance))
        try:
            await stranger.until_closed()
        except TimeoutError:
            raise AssertionError(f"{name} goes on after: {deed}") from None
        if victims.refused(name) <= before:
            said = f"{stranger.reason} {stranger.refusals()} {victims.complaints[-1:]}"
            raise AssertionError(f"{name} did not count: {deed}: {said}")
        await make_up(seat, url, tls)


async def make_up(seat: Seat, url: str, tls: TlsFiles | None) -> None:
    """Send in order what comes next, as a member does that was refused and has nothing to hide."""
    stranger, has = await seat.sit(url, tls)
    if has.limit >= has.have + 2:
        next_two = [seat.message(number) for number in (has.have + 1, has.have + 2)]
        stranger.send(seat.data(has.have + 1, *next_two), talk.ping(1))
        await stranger.wait(lambda: bool(stranger.said(talk.PONG)))
        assert stranger.said(talk.PONG), f"{url}: {stranger.reason} {stranger.refusals()}"
    stranger.leave()


async def honest_session(victims: Victims) -> list[bytes]:
    """What the fourth member sends when it keeps the rules; each node gets it once."""
    seat = Seat("m", "side", SIDE)
    first: list[bytes] = []
    for name in NAMES:
        stranger, has = await seat.sit(victims.nodes[name].addresses[0], victims.tls("m"))
        sent = [
            seat.data(number, seat.message(number, payload=b"m" * 20))
            for number in range(has.have + 1, has.have + 6)
        ]
        sent.append(talk.ping(1))
        stranger.send(*sent)
        await stranger.wait(lambda: bool(stranger.said(talk.PONG)))  # noqa: B023
        assert stranger.said(talk.PONG)
        stranger.leave()
        first = first or [seat.hello(), seat.open(), *sent]
    return first


def check(folder: Path) -> None:
    """``thence check`` of the group that nobody of the strangers belongs to."""
    run = folder / "main"
    info = info_from_json((run / "run.json").read_bytes())
    write_info(run, msgspec.structs.replace(info, complete=True))
    mark_closed(run)
    done = subprocess.run(
        [sys.executable, "-m", "thence", "check", os.fspath(run)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


async def suffer(folder: Path, scheme: str, rounds: float) -> str:
    victims = Victims(folder, scheme)
    async with victims:
        chance = random.Random(SEED)
        await asyncio.sleep(0.5)
        recorded = await honest_session(victims)
        if rounds > 1:  # what is loaded and kept once does not count
            await attack(victims, recorded, chance, 1)
        before = resident_bytes()
        await attack(victims, recorded, chance, rounds)
        await asyncio.sleep(0.2)
        growth = resident_bytes() - before
        try:
            await victims.settle()
        except TimeoutError:
            raise AssertionError(f"the group does not settle: {victims.state()}") from None
        kinds = max(map(victims.kinds, NAMES))
        sent = sum(map(len, victims.sent.values()))
        said = (
            f"{scheme}, seed {SEED}, {rounds:g} rounds: {sent} sent, "
            f"refused {[victims.refused(name) for name in NAMES]}, "
            f"{growth / (1 << 20):.1f} MiB more"
        )
    assert not victims.complaints, victims.complaints[:3]
    assert growth < GROWTH_BYTES_MAX, said
    assert kinds <= KINDS_MAX, victims.state()
    return said


async def come_back(folder: Path, scheme: str) -> None:
    """Nothing that was refused is in the way of a new start from the journals."""
    victims = Victims(folder, scheme, traced=False)
    async with victims:
        await asyncio.sleep(0.5)
        try:
            await victims.settle()
        except TimeoutError:
            raise AssertionError(f"the group does not settle: {victims.state()}") from None
        for node in victims.nodes.values():
            assert "nonsense" not in node.runtime.hub.refused, victims.state()
    assert not victims.complaints, victims.complaints[:3]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("scheme", "rounds"), [("tcp", 1.0), ("tls", 0.3), ("udp", 0.3)])
def test_a_group_goes_on_whatever_strangers_and_a_bad_member_send(
    tmp_path: Path, scheme: str, rounds: float
):
    print(asyncio.run(suffer(tmp_path, scheme, rounds)))
    check(tmp_path / "trace")
    asyncio.run(come_back(tmp_path, scheme))


@pytest.mark.soak
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_group_goes_on_under_long_attacks(tmp_path: Path, scheme: str):
    print(asyncio.run(suffer(tmp_path, scheme, LONG_ROUNDS)))
    check(tmp_path / "trace")
    asyncio.run(come_back(tmp_path, scheme))


async def pretend(folder: Path, scheme: str) -> tuple[Victims, list[Stranger]]:
    """A stranger says to ``a`` that it is ``b``, stays for a moment, and goes."""
    victims = Victims(folder, scheme)
    seat = Seat("b", "main", NAMES)
    strangers = []
    async with victims:
        await asyncio.sleep(0.3)
        for _ in range(3):
            files = victims.tls("m")
            stranger = await Stranger.dial(victims.nodes["a"].addresses[0], files)
            stranger.send(seat.hello(), talk.ping(1))
            await asyncio.sleep(0.2)
            stranger.leave()
            strangers.append(stranger)
        await victims.settle()
    return victims, strangers


@pytest.mark.timeout(60)
def test_with_tls_a_member_cannot_pass_for_another(tmp_path: Path):
    victims, strangers = asyncio.run(pretend(tmp_path, "tls"))
    for stranger in strangers:
        assert [each.code for each in stranger.refusals()] == [talk.WRONG_NAME]
    assert victims.nodes["a"].runtime.hub.refused["wrong-name"] == len(strangers)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("scheme", ["tcp", "udp"])
def test_without_tls_a_stranger_who_says_a_members_name_is_believed(tmp_path: Path, scheme: str):
    """What SECURITY.md says: nothing is proved.  It takes the member's place until it goes."""
    victims, strangers = asyncio.run(pretend(tmp_path, scheme))
    assert all(stranger.said(talk.PONG) for stranger in strangers)
    assert victims.is_settled()
    assert not victims.complaints, victims.complaints[:3]
    check(tmp_path / "trace")


async def push_without_reading(folder: Path) -> tuple[int, int]:
    """A member asks for signs of life and does not read them: bytes of it, bytes that wait."""
    victims = Victims(folder, "tcp")
    seat, asked = Seat("m", "side", SIDE), 0
    async with victims:
        hub, url = victims.nodes["a"].runtime.hub, Url.parse(victims.nodes["a"].addresses[0])
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect((url.host, url.port))
        _, writer = await asyncio.open_connection(sock=sock, limit=1 << 10)
        writer.write(seat.hello() + seat.open())
        many = talk.ping(1) * 5000
        try:
            async with asyncio.timeout(3.0):
                while asked < 16 << 20:
                    writer.write(many)
                    asked += len(many)
                    await writer.drain()
        except (TimeoutError, OSError):
            pass
        backlog = hub.by_peer["m"].connection.backlog_bytes
        writer.transport.abort()
        await victims.settle()
    assert not victims.complaints, victims.complaints[:3]
    return asked, backlog


@pytest.mark.timeout(60)
def test_answers_do_not_pile_up_for_a_peer_that_does_not_read_them(tmp_path: Path):
    asked, backlog = asyncio.run(push_without_reading(tmp_path))
    assert asked > 8 << 20
    assert backlog < 2 * BACKLOG_BYTES_HIGH


async def claim_too_much(folder: Path) -> list[talk.Refuse]:
    """A peer that was here says that it has more than there is."""
    victims = Victims(folder, "tcp")
    seat = Seat("m", "side", SIDE)
    async with victims:
        url = victims.nodes["a"].addresses[0]
        stranger, _ = await seat.sit(url)
        stranger.leave()
        await stranger.until_closed()
        liar = await Stranger.dial(url)
        liar.send(seat.hello(), seat.open(have=1 << 40))
        await liar.until_closed()
        await victims.side["a"].broadcast(b"it goes on")
        await victims.settle()
    assert not victims.complaints, victims.complaints[:3]
    return liar.refusals()


@pytest.mark.timeout(60)
def test_a_peer_that_was_here_cannot_make_a_node_believe_that_its_journal_is_lost(tmp_path: Path):
    assert [each.code for each in asyncio.run(claim_too_much(tmp_path))] == [talk.NONSENSE]
