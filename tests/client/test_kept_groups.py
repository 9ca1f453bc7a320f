"""Applications whose state is kept: groups in one process, and processes that are killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.client.meshes import QUICK, run
from tests.client.tally import Tally, expected, word
from tests.seeds import seeds
from thence import Group, Node
from thence.config import FlowConfig
from thence.errors import Full, LocalProtocolError
from thence.journal.base import Identity
from thence.journal.sqlite import SqliteJournal

KILLS = 6
WAIT_S = 30.0


def take_all(group: Group, tally: Tally) -> Group:
    group.on_deliver(tally.delivered)
    group.on_stable(tally.stable)
    return group


def send(group: Group, tally: Tally) -> None:
    seq = tally.last.get(group.node, 0) + 1
    tally.sent(group.try_broadcast(word(group.node, seq).encode()))


async def until_equal(*tallies: Tally) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            first = tallies[0]
            same = all(each.last == first.last for each in tallies)
            if same and not any(any(each.unstable.values()) for each in tallies):
                break
            await asyncio.sleep(0.01)
    for each in tallies:
        assert each.counts == expected(each.last)


def hooks(tally: Tally) -> dict[str, Any]:
    return {"snapshot": tally.snapshot, "restore": tally.restore, "kept": tally}


def test_a_group_that_is_closed_and_opened_again_goes_on(tmp_path: Path):
    async def main() -> None:
        rows = 0
        for life in range(3):
            tally = Tally()
            async with Group("a", data=tmp_path / "a", kept=tally) as group:
                take_all(group, tally)
                assert (tally.begun, tally.last.get("a", 0)) == (1, 20 * life)
                for _ in range(20):
                    send(group, tally)
                await until_equal(tally)
            rows = tally.rows_found
        assert rows == 0  # so few records are told again

    run(main())


def test_a_group_of_a_node_without_a_journal_begins_with_nothing():
    async def main() -> None:
        tally = Tally()
        async with Node("a", listen="mem://a") as node:
            take_all(await node.group(kept=tally), tally)
            assert tally.begun == 1

    run(main())


def stored(path: Path, node: str) -> Tally:
    """What the journal of a closed node has as rows."""
    tally = Tally()
    with contextlib.closing(SqliteJournal(path, Identity("main", node))) as journal:
        tally._load((key.decode(), json.loads(value)) for key, value in journal.rows())
    return tally


def test_a_newcomer_begins_after_it_was_restored_and_its_first_checkpoint_has_all(tmp_path: Path):
    async def main() -> None:
        first, second = Tally(), Tally()
        a = Group("a", listen="mem://a", elastic=True, timing=QUICK, **hooks(first))
        async with a:
            take_all(a, first)
            for _ in range(50):
                send(a, first)
            await asyncio.sleep(0.05)
            b = Group(
                "b", listen="mem://b", join="mem://a", timing=QUICK, data=tmp_path / "b",
                **hooks(second),
            )  # fmt: skip
            await b.start()
            assert (second.begun, second.rows_found) == (1, 0)
            handed = dict(second.last)
            assert handed == {"a": 50}
            await b.aclose()  # it stays a member
            found = stored(tmp_path / "b" / "main-b.journal", "b")
            assert (found.last, found.counts) == (handed, expected(handed))
            for _ in range(10):
                send(a, first)
            again = Tally()
            async with Group(
                "b", listen="mem://b", join="mem://a", timing=QUICK, data=tmp_path / "b",
                **hooks(again),
            ) as b:  # fmt: skip
                assert again.rows_found > 0
                take_all(b, again)
                send(b, again)
                await until_equal(first, again)
                assert again.last == {"a": 60, "b": 1}
                await a.aclose(drain_s=0)  # it would wait for b

    run(main())


def test_a_node_that_was_evicted_begins_again_with_what_the_group_gives_it():
    async def main() -> None:
        tallies = {name: Tally() for name in "abc"}
        nodes: dict[str, Node] = {}
        for name in "abc":
            join = {} if name == "a" else {"join": "mem://a"}
            nodes[name] = Node(name, listen=f"mem://{name}", elastic=True, timing=QUICK, **join)
            await nodes[name].start()
            take_all(await nodes[name].group(**hooks(tallies[name])), tallies[name])
        groups = {name: node.groups["main"] for name, node in nodes.items()}
        for name in "abc":
            send(groups[name], tallies[name])
        await until_equal(*tallies.values())
        groups["a"].evict("c")
        async with asyncio.timeout(WAIT_S):
            while not groups["c"].is_out:
                await asyncio.sleep(0.01)
        send(groups["a"], tallies["a"])
        again = Tally()
        c = take_all(await nodes["c"].rejoin(**hooks(again)), again)
        assert again.begun == 1
        assert c.node == "c#2"
        send(c, again)
        await until_equal(tallies["a"], tallies["b"], again)
        assert again.last == {"a": 2, "b": 1, "c": 1, "c#2": 1}
        for node in nodes.values():
            await node.aclose()

    run(main())


def test_a_group_says_whether_it_has_room_and_takes_more_when_told_to():
    async def main() -> None:
        flow = FlowConfig(outbox_messages_max=3)
        async with Group("a", peers={"b": "mem://nobody"}, timing=QUICK, flow=flow) as group:
            assert group.has_room
            assert len(group.try_broadcast_many([b"x"] * 5)) == 3
            assert not group.has_room
            with pytest.raises(Full):
                group.try_broadcast_many([b"x"])
            tags = group.try_broadcast_many([b"x"] * 5, overdraw=True)
            assert [tag.seq for tag in tags] == [4, 5, 6, 7, 8]
            await group.aclose(drain_s=0)
            assert not group.has_room

    run(main())


def test_a_journal_is_not_opened_without_its_application(tmp_path: Path):
    async def main() -> None:
        tally = Tally()
        settings: dict[str, Any] = {"elastic": True, "listen": "mem://a", "data": tmp_path / "a"}
        async with Group("a", kept=tally, **settings):
            pass
        with pytest.raises(LocalProtocolError, match="give it kept="):
            await Group("a", **settings).start()
        async with Group("a", kept=Tally(), **settings):  # it is none the worse for it
            pass

    run(main())


# ---- kill -9


def ports() -> list[int]:
    """Two that are free."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Pair:
    """Two processes that count each other's words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.urls = [f"tcp://127.0.0.1:{port}" for port in ports()]
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Pair:
        for name in "ab":
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "tests.client.tally", name, str(self.folder), *self.urls]
        path = os.pathsep.join(filter(None, sys.path))
        with self._errors(name).open("ab") as errors:
            self.running[name] = subprocess.Popen(
                command, env={**os.environ, "PYTHONPATH": path}, stderr=errors
            )

    def _errors(self, name: str) -> Path:
        return self.folder / f"{name}.errors"

    def check(self, name: str) -> None:
        """It runs still."""
        assert self.running[name].poll() is None, self._errors(name).read_text()

    def kill(self, name: str) -> None:
        process = self.running[name]
        self.check(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def acked(self, name: str) -> list[int]:
        path = self.folder / f"{name}.acked"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def until_acked(self, name: str, count: int) -> None:
        """So many more messages of it are safe."""
        end = time.monotonic() + WAIT_S
        wanted = len(self.acked(name)) + count
        while len(self.acked(name)) < wanted:
            self.check(name)
            assert time.monotonic() < end
            time.sleep(0.01)

    def said(self) -> dict[str, Any]:
        """What both say at last, which is the same."""
        end = time.monotonic() + WAIT_S
        for process in self.running.values():
            process.send_signal(signal.SIGUSR1)
        while time.monotonic() < end:
            time.sleep(0.1)
            try:
                found = [json.loads((self.folder / f"{name}.counts").read_text()) for name in "ab"]
            except FileNotFoundError:
                continue
            same = all(found[0][what] == found[1][what] for what in ("last", "counts"))
            if same and not any(any(each["unstable"].values()) for each in found):
                return {**found[0], "rows": min(each["rows"] for each in found)}
        raise AssertionError(f"they never say the same: {found}")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", seeds(1))
def test_a_count_loses_and_repeats_nothing_whenever_its_process_is_killed(
    tmp_path: Path, seed: int
):
    draw = random.Random(seed)
    for name in "ab":
        (tmp_path / name).mkdir()
    with Pair(tmp_path) as pair:
        for number in range(KILLS):
            name = "ab"[number % 2]
            # Enough for a checkpoint at first.
            pair.until_acked(name, 150 if number < 2 else draw.choice((1, 20, 150)))
            pair.kill(name)
            pair.start(name)
        for name in "ab":
            pair.until_acked(name, 20)
        said = pair.said()
    assert said["counts"] == expected(said["last"])
    for name in "ab":
        acked = pair.acked(name)
        assert acked == sorted(set(acked))
        assert acked[-1] <= said["last"][name]
        # What was written down and never said so: at most the one under way at each kill.
        assert said["last"][name] - len(acked) <= KILLS
    assert said["rows"] > 0, "checkpoints were made, and come back"
