"""Groups for threads whose members come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from thence import Delivered, Evicted, Joined, Left, LocalProtocolError, Removed
from thence.blocking import Group, Node
from thence.config import MembershipConfig

PATIENCE_S = 30.0
QUICK = MembershipConfig(elastic=True, beat_ms=50, suspect_s=1, evict_s=0, join_s=20)


class Keeper:
    """An application: it keeps what it is told, takes it in a thread, and hands it to newcomers."""

    def __init__(self, name: str, join: str = "") -> None:
        self.kept: list[bytes] = []
        self.events: list[object] = []
        self.threads: list[str] = []
        self.lock = threading.Lock()
        self.group = Group(
            name, listen="mem://" + name, snapshot=self.snapshot, restore=self.restore,
            membership=msgspec.structs.replace(QUICK, join=(join,) if join else ()),
        )  # fmt: skip
        self._taker = threading.Thread(target=self._take)

    def snapshot(self) -> list[bytes]:
        self.threads.append(threading.current_thread().name)
        with self.lock:
            return list(self.kept)

    def restore(self, chunks: Iterator[bytes]) -> None:
        self.threads.append(threading.current_thread().name)
        with self.lock:
            self.kept = list(chunks)

    def _take(self) -> None:
        for event in self.group.events():
            with self.lock:
                self.events.append(event)
                if isinstance(event, Delivered):
                    self.kept.append(event.payload)

    def say(self, payload: bytes) -> None:
        with self.lock:
            self.kept.append(payload)
        self.group.broadcast(payload)

    @contextmanager
    def running(self) -> Iterator[Keeper]:
        with self.group:
            self._taker.start()
            yield self
        self._taker.join(PATIENCE_S)
        assert not self._taker.is_alive()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def happened(keeper: Keeper, kind: type, member: str) -> bool:
    with keeper.lock:
        return any(type(each) is kind and each.member == member for each in keeper.events)


def test_state_is_handed_over_and_members_leave():
    with Keeper("a").running() as a:
        a.say(b"1")
        with Keeper("b", "mem://a").running() as b:
            assert b.kept == [b"1"]
            assert {*a.threads, *b.threads} == {"thence"}  # the background thread
            until(lambda: happened(a, Joined, "b"))
            assert a.group.members == b.group.members == ("a", "b")
            assert (a.group.is_elastic, a.group.view.num, a.group.suspects) == (True, 1, ())
            assert not a.group.is_minority
            b.say(b"2")
            until(lambda: a.kept == [b"1", b"2"])
            assert b.group.leave(PATIENCE_S)
            assert (b.group.is_out, b.group.rejected) == (True, ())
            with pytest.raises(Removed):
                b.group.broadcast(b"3")
            until(lambda: happened(b, Left, "b"))
            with pytest.raises(Removed, match="b is no member of main any more"):
                b.group.next(PATIENCE_S)
        until(lambda: happened(a, Left, "b"))
        assert a.group.members == ("a",)


def test_a_member_is_evicted():
    with Keeper("a").running() as a, Keeper("b", "mem://a").running() as b:
        with pytest.raises(LocalProtocolError, match="z is no member"):
            a.group.evict("z")
        a.group.evict("b")
        until(lambda: happened(a, Evicted, "b") and happened(b, Evicted, "b"))
        assert b.group.is_out


def test_a_node_that_was_evicted_joins_again():
    with Keeper("a").running() as a, Node("b", listen="mem://b", join="mem://a") as node:
        group = node.group()
        ended: list[object] = []
        taker = threading.Thread(target=lambda: ended.extend(group.events()))
        taker.start()
        a.group.evict("b")
        until(lambda: group.is_out)
        a.say(b"meanwhile")
        found: list[bytes] = []
        again = node.rejoin(restore=found.extend)
        assert (again.node, found) == ("b#2", [b"meanwhile"])
        assert node.groups["main"] is again
        taker.join(PATIENCE_S)
        assert not taker.is_alive()
        assert isinstance(ended[-1], Evicted)
        again.broadcast(b"back")
        until(lambda: a.kept == [b"meanwhile", b"back"])


def test_what_restore_raises_ends_the_start():
    def refuse(chunks: Iterator[bytes]) -> None:
        raise ValueError("not my format")

    with Keeper("a").running() as a:
        group = Group("b", listen="mem://b", join="mem://a", restore=refuse)
        with pytest.raises(ValueError, match="not my format"):
            group.start()
        a.group.close(drain_s=0)  # nobody leaves while one who was let in has no state


def test_groups_of_a_node_have_hooks_too():
    with Keeper("a").running() as a:
        a.say(b"1")
        found: list[bytes] = []
        with Node("b", listen="mem://b", join="mem://a") as node:
            group = node.group(restore=found.extend)
            assert found == [b"1"]
            assert group.members == ("a", "b")


def test_a_group_whose_members_stay_says_so():
    with Group("a", peers={"a": "mem://a", "b": "mem://b"}) as group:
        assert (group.is_elastic, group.is_out, group.members) == (False, False, ("a", "b"))
        with pytest.raises(LocalProtocolError, match="the members of main do not change"):
            _ = group.view
        group.close(drain_s=0)
