"""A keyspace over real groups: batches, causality, stability, newcomers, crashes."""

from __future__ import annotations

import asyncio
import gc
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

import thence.client.ledger
import thence.client.replica
import thence.journal.sqlite
from tests.client.meshes import QUICK, mesh, run
from tests.seeds import seeds
from thence import Group
from thence.client.replica import Replica
from thence.config import JournalConfig
from thence.crdt.children import REGISTER, UPDATE
from thence.crdt.keyspace import Keyspace
from thence.crdt.map_uw import MapUw
from thence.crdt.register_counter import DEL, INC, SET, RegisterCounter
from thence.crdt.sequence import INSERT, Sequence
from thence.crdt.set_aw import ADD, SetAw
from thence.errors import JournalError, LimitError, LocalProtocolError

SETS, LISTS, MAPS = SetAw.CODE, Sequence.CODE, MapUw.CODE


def replicas(groups: list[Group]) -> list[Replica]:
    made = []
    for group in groups:
        made.append(Replica())
        made[-1].attach(group)
    return made


def state(replica: Replica) -> dict[Any, Any]:
    """What all keys show."""
    found = {}
    for key in replica.keyspace:
        value = replica.keyspace.get(key)
        found[key] = value.value() if hasattr(value, "value") else value
    return found


async def settled(members: list[Replica]) -> None:
    """Until all have everything, and all of it is stable everywhere."""
    async with asyncio.timeout(20):
        while True:
            seen = [replica.seen() for replica in members]
            if all(each == seen[0] for each in seen) and not any(r.unstable for r in members):
                return
            await asyncio.sleep(0.005)


def test_what_one_does_others_see():
    async def main() -> None:
        async with mesh("abc") as groups:
            a, b, c = members = replicas(groups)
            a.update(b"x", REGISTER, (SET, b"1"))
            assert a.keyspace.get(b"x") == b"1"
            b.update(b"s", SETS, (ADD, b"e"))
            c.update(b"l", LISTS, (INSERT, 0, [b"p", b"q"]))
            await settled(members)
            expected = {b"x": b"1", b"s": {b"e"}, b"l": [b"p", b"q"]}
            assert [state(each) for each in members] == [expected] * 3
            assert [each.keyspace.stamps() for each in members] == [[], [], []]

    run(main())


def test_a_turn_is_one_batch_and_increments_in_it_are_one():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = members = replicas(groups)
            for _ in range(100):
                a.update(b"n", REGISTER, (INC, 1))
            await settled(members)
            assert b.keyspace.get(b"n") == 100
            assert (a.counts["sent"], b.counts["applied"]) == (1, 1)
            assert groups[0].sent == 1

    run(main())


def test_what_is_done_before_a_removal_and_after_it_in_one_turn_is_not_merged():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = members = replicas(groups)
            for value in (1, 2):
                a.update(b"x", REGISTER, (SET, value))
                a.update(b"y", REGISTER, (SET, value))
                if value == 1:
                    a.remove(b"x")
                    a.clear()
            await settled(members)
            assert state(a) == state(b) == {b"x": 2, b"y": 2}

    run(main())


def test_concurrent_increments_add_up():
    async def main() -> None:
        async with mesh("abc") as groups:
            members = replicas(groups)
            for _ in range(50):
                for each in members:
                    each.update(b"n", REGISTER, (INC, 2))
                await asyncio.sleep(0)
            await settled(members)
            assert [each.keyspace.get(b"n") for each in members] == [300] * 3

    run(main())


def test_a_batch_larger_than_a_message_takes_effect_in_one_go():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = members = replicas(groups)
            seen = set()
            b.each_turn(lambda: seen.add(len(b.keyspace)))
            a.begin_whole()
            for number in range(40):
                a.update(b"%d" % number, REGISTER, (SET, bytes(1 << 20)))
            a.end_whole()
            await settled(members)
            assert len(b.keyspace) == 40
            assert seen <= {0, 40}
            assert a.counts["sent"] == 1
            assert groups[0].sent > 2

    run(main())


def test_publications_come_in_causal_order_with_changes():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = members = replicas(groups)
            heard: list[Any] = []
            b.hear(lambda channel, message: heard.append((message, b.keyspace.get(b"x"))))
            for number in range(5):
                a.update(b"x", REGISTER, (SET, number))
                a.publish(b"news", b"%d" % number)
                await asyncio.sleep(0.01)
            await settled(members)
            assert heard == [(b"%d" % number, number) for number in range(5)]

    run(main())


def test_what_a_peer_sends_that_is_no_batch_is_ignored_by_all():
    async def main() -> None:
        async with mesh("ab") as groups:
            b = Replica()
            b.attach(groups[1])
            groups[0].on_deliver(lambda tag: None)
            nonsense = (b"", b"\xc1", b"\x91\x01", b"\x93\x01\x00\x93\xa1k\x01\x92\x00\xc0")
            for payload in nonsense:
                await groups[0].broadcast(payload)
            async with asyncio.timeout(5):
                while b.counts["ignored"] < len(nonsense):
                    await asyncio.sleep(0.01)
            assert state(b) == {}
            b.update(b"x", REGISTER, (SET, 1))
            assert state(b) == {b"x": 1}

    run(main())


def test_a_group_with_a_journal_wants_the_replica_when_it_is_made(tmp_path: Path):
    async def main() -> None:
        async with Group("a", listen="mem://a", data=tmp_path / "a") as group:
            with pytest.raises(LocalProtocolError, match="kept=replica"):
                Replica().attach(group)

    run(main())


def test_a_group_without_stability_is_refused():
    async def main() -> None:
        async with mesh("ab", engine="fifo") as groups:
            with pytest.raises(LocalProtocolError, match="tags and stability"):
                Replica().attach(groups[0])

    run(main())


async def opened(
    name: str, folder: Path, peers: dict[str, str], journal: JournalConfig | None = None
) -> tuple[Group, Replica]:
    replica = Replica()
    group = Group(
        name, listen=f"mem://{name}", peers=peers, data=folder / name, timing=QUICK,
        journal=journal or JournalConfig(), kept=replica,
    )  # fmt: skip
    await group.start()
    replica.attach(group)
    return group, replica


PEERS = {name: {other: f"mem://{other}" for other in "ab" if other != name} for name in "ab"}


@pytest.mark.parametrize("seed", seeds(4))
def test_data_comes_back_with_the_journal(tmp_path: Path, seed: int):
    draw = random.Random(seed)

    async def main() -> None:
        for name in "ab":
            (tmp_path / name).mkdir()
        groups = {name: await opened(name, tmp_path, PEERS[name]) for name in "ab"}
        total = 0
        for _ in range(30):
            name = draw.choice("ab")
            replica = groups[name][1]
            what = draw.random()
            if what < 0.6:
                replica.update(b"n", REGISTER, (INC, 1))
                total += 1
                replica.update(b"s", SETS, (ADD, b"%d" % total))
                replica.update(b"l", LISTS, (INSERT, 0, [b"%d" % total]))
            elif what < 0.8:
                await asyncio.sleep(draw.choice((0, 0.001, 0.01)))
            else:  # it is gone, after what it has written down
                group, replica = groups[name]
                await group.synced()
                before = state(replica)
                await crash(group)
                groups[name] = await opened(name, tmp_path, PEERS[name])
                after = groups[name][1].keyspace
                assert {key: show(after.get(key)) for key in before} == before
        members = [replica for _, replica in groups.values()]
        await settled(members)
        values = [str(n).encode() for n in range(1, total + 1)]
        for each in members:
            found = state(each)
            assert found.get(b"n", 0) == total
            assert found.get(b"s", set()) == set(values)
            assert sorted(found.get(b"l", [])) == sorted(values)
            assert each.keyspace.stamps() == []
        for group, _ in groups.values():
            await group.aclose()

    run(main())


def show(value: Any) -> Any:
    return value.value() if hasattr(value, "value") else value


async def crash(group: Group) -> None:
    """As near as one comes within a process: nothing more is said or written."""
    await group._station.stop()
    group._closed = group._closing = True
    group.driver._ledger._journal.close()
    await asyncio.sleep(0)


def test_a_newcomer_has_the_state_while_it_goes_on_changing(tmp_path: Path):
    async def main() -> None:
        first, second = Replica(), Replica()
        async with Group("a", listen="mem://a", elastic=True, timing=QUICK, **hooks(first)) as a:
            first.attach(a)
            for number in range(2000):
                first.update(b"%d" % number, REGISTER, (SET, bytes(100)))
                first.update(b"s%d" % (number % 7), SETS, (ADD, number))
            stop = False

            async def write() -> None:
                number = 0
                while not stop:
                    for _ in range(20):
                        number += 1
                        first.update(b"%d" % (number % 2500), REGISTER, (INC, 1))
                        first.update(b"s%d" % (number % 9), SETS, (ADD, number))
                        if number % 5 == 0:
                            first.remove(b"%d" % (number % 1999))
                    await asyncio.sleep(0)

            writing = asyncio.create_task(write())
            b = Group("b", listen="mem://b", join="mem://a", timing=QUICK, **hooks(second))
            async with b:
                second.attach(b)
                second.update(b"from b", REGISTER, (SET, b"hello"))
                await asyncio.sleep(0.1)
                stop = True
                await writing
                await settled([first, second])
                assert state(second) == state(first)
                assert second.keyspace.get(b"from b") == b"hello"
                assert first.keyspace.stamps() == second.keyspace.stamps() == []

    run(main())


def hooks(replica: Replica) -> dict[str, Any]:
    return {"snapshot": replica.snapshot, "restore": replica.restore, "kept": replica}


def test_a_newcomer_is_given_the_state_of_one_moment():
    keyspace = Keyspace()
    replica = Replica()
    keyspace = replica.keyspace

    class Stamp:
        node, seq, clock_ms = "a", 1, 0

        def sees(self, stored: Any) -> bool:
            return True

    stamp = Stamp()
    for number in range(5000):
        keyspace.apply(b"%d" % number, REGISTER, (SET, number), stamp)
    keyspace.stabilise({stamp})
    chunks = replica.snapshot()
    got = [next(chunks)]
    for number in range(0, 5000, 3):
        keyspace.apply(b"%d" % number, REGISTER, (DEL,), stamp)
        keyspace.apply(b"new%d" % number, REGISTER, (SET, b""), stamp)
    got += list(chunks)
    other = Replica()
    other.restore(iter(got))
    other.begin(lambda node, seq: None, ())
    assert state(other) == {b"%d" % number: number for number in range(5000)}
    assert isinstance(other.keyspace.child(b"7", REGISTER), RegisterCounter)


def test_what_becomes_stable_first_after_a_newcomer_was_served_is_stable():
    replica = Replica()
    keyspace = replica.keyspace

    class Stamp:
        node, seq, clock_ms = "a", 1, 0

        def sees(self, stored: Any) -> bool:
            return True

    stamp = Stamp()
    chunks = replica.snapshot()
    for key in (b"x", b"y", b"z"):
        keyspace.apply(key, REGISTER, (SET, 1), stamp)
    list(chunks)
    del chunks
    gc.collect()
    keyspace.stabilise({stamp})
    assert keyspace.stamps() == []
    assert keyspace.watch is None


def test_a_bug_in_what_becomes_stable_stops_the_writes(monkeypatch: pytest.MonkeyPatch):
    async def main() -> None:
        async with mesh("ab") as groups:
            a, _ = replicas(groups)

            def broken(stamps: Any) -> None:
                raise ZeroDivisionError("a bug")

            monkeypatch.setattr(a.followers, "stabilise", broken)
            a.update(b"x", REGISTER, (SET, 1))
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
            async with asyncio.timeout(10):
                while not a.failure:
                    await asyncio.sleep(0.005)
            assert a.failure == "unexpected ZeroDivisionError: a bug"

    run(main())


@pytest.mark.parametrize(
    "state",
    [
        b"\x93\xc0\x06\x92\xc3\xa1x",  # counter_pn, its total the exact number "x"
        b"\x93\xc0\x03" + b"\x92\x90\x93\xa1f\x03" * 5000 + b"\x92\x90\x90",  # maps in maps
        b"\x93\xc0\x02\x01",  # set_aw, which is 1
        b"\x01",
        b"",
    ],
)
def test_a_state_that_is_none_is_refused_with_a_sentence(state: bytes):
    replica = Replica()
    chunk = msgspec.msgpack.encode([(b"\xa1k", state)])
    with pytest.raises(JournalError, match="a row of the state cannot be read"):
        replica.restore(iter([chunk]))


def test_what_has_to_stay_whole_and_is_too_large_becomes_another_batch(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(thence.client.replica, "BATCH_BYTES_SOON", 1000)
    monkeypatch.setattr(thence.client.replica, "BATCH_BYTES_MAX", 5000)

    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = members = replicas(groups)
            a.begin_whole()
            for number in range(20):
                a.update(b"%d" % number, REGISTER, (SET, bytes(800)))
            a.end_whole()
            with pytest.raises(LimitError, match="at most 5000"):
                a.update(b"x", REGISTER, (SET, bytes(5001)))
            assert b"x" not in state(a)
            await settled(members)
            assert len(b.keyspace) == 20
            assert 3 <= a.counts["sent"] <= 5

    run(main())


def test_keys_count_and_what_is_overwritten_does_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(thence.client.replica, "BATCH_BYTES_SOON", 10_000)

    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = members = replicas(groups)
            for number in range(40):
                a.update(b"k" * 1000, MAPS, (UPDATE, b"%d" % number, REGISTER, (SET, b"v")))
            await settled(members)
            assert 4 <= a.counts["sent"] <= 6
            for _ in range(40):
                a.update(b"x", REGISTER, (SET, bytes(1000)))
            nested = (UPDATE, b"f", MAPS, (UPDATE, b"g", REGISTER, (SET, bytes(11_000))))
            await settled(members)
            assert a.counts["sent"] <= 7
            sent = a.counts["sent"]
            a.update(b"m", MAPS, nested)
            assert a.counts["sent"] == sent + 1
            await settled(members)
            assert state(a) == state(b)

    run(main())


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_turn_may_write_more_than_one_commit_of_the_journal_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_whole: bool
):
    monkeypatch.setattr(thence.client.replica, "BATCH_BYTES_SOON", 2_000)
    monkeypatch.setattr(thence.client.replica, "BATCH_BYTES_MAX", 10_000)
    monkeypatch.setattr(thence.client.ledger, "COMMIT_BYTES_SOON", 10_000)
    monkeypatch.setattr(thence.journal.sqlite, "STAGED_BYTES_MAX", 30_000)

    async def main() -> None:
        group, replica = await opened("a", tmp_path, {})
        if is_whole:
            replica.begin_whole()
        for number in range(200):
            replica.update(b"%d" % number, REGISTER, (SET, bytes(1000)))
        if is_whole:
            replica.end_whole()
        await group.synced()
        assert (replica.failure, replica.is_written) == ("", True)
        before = state(replica)
        await crash(group)
        group, replica = await opened("a", tmp_path, {})
        assert state(replica) == before
        assert len(before) == 200
        await group.aclose()

    run(main())


@pytest.mark.parametrize(
    ("code", "op"),
    [
        (MAPS, (UPDATE, "f", MAPS, (UPDATE, "g", REGISTER, (SET, bytes(5001))))),
        (LISTS, (INSERT, 0, [2**62] * 1000)),
        (SETS, (ADD, *[2**62 + number for number in range(1000)])),
        (LISTS, (INSERT, 0, "\U0001f600" * 1500)),
    ],
)
def test_an_operation_that_is_too_large_is_refused_wherever_its_bytes_are(
    monkeypatch: pytest.MonkeyPatch, code: int, op: Any
):
    monkeypatch.setattr(thence.client.replica, "BATCH_BYTES_MAX", 5000)

    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = members = replicas(groups)
            with pytest.raises(LimitError, match="at most 5000"):
                a.update(b"x", code, op)
            await settled(members)
            assert state(a) == state(b) == {}

    run(main())
