"""Groups for threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.client.meshes import QUICK
from thence import Connected, Delivered, Disconnected, Full, LocalProtocolError, Stable
from thence.blocking import Group, Node, Session
from thence.blocking.background import BACKGROUND
from thence.blocking.group import EVENTS_AHEAD
from thence.config import FlowConfig
from thence.trace.check import check_paths

PATIENCE_S = 30.0


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert BACKGROUND._users == 0
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


@contextmanager
def groups(names: str, **settings: Any) -> Iterator[list[Group]]:
    peers = {name: f"mem://{name}" for name in names}
    settings = {"peers": peers, "timing": QUICK, **settings}
    with ExitStack() as stack:
        made = [stack.enter_context(Group(name, **settings)) for name in names]
        for group in made:
            group.until_connected(timeout=PATIENCE_S)
        yield made


def delivered(source: Group | Session, count: int) -> list[Any]:
    found = []
    while len(found) < count:
        event = source.next(PATIENCE_S)
        if isinstance(event, Delivered):
            found.append(event)
    return found


def payloads(source: Group | Session, count: int) -> list[bytes]:
    """Read as they are taken: they go when a message is stable."""
    found: list[bytes] = []
    while len(found) < count:
        event = source.next(PATIENCE_S)
        if isinstance(event, Delivered):
            found.append(event.payload)
    return found


@contextmanager
def thread(work: Callable[[], None]) -> Iterator[threading.Thread]:
    """Runs it beside the block; what it raises is the test's failure."""
    failed: list[BaseException] = []

    def watched() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    started = threading.Thread(target=watched)
    started.start()
    yield started
    started.join(PATIENCE_S)
    assert not started.is_alive()
    if failed:
        raise failed[0]


# ---- one context for all threads ----------------------------------------------------------------


def test_threads_talk_through_groups_and_wait_for_stability():
    with groups("abc") as (a, b, c):
        stop = threading.Event()

        def taker(group: Group) -> Callable[[], None]:
            def work() -> None:
                while not stop.is_set():
                    try:
                        group.next(0.05)
                    except TimeoutError:
                        pass

            return work

        with thread(taker(a)), thread(taker(b)), thread(taker(c)):
            tag = a.broadcast(b"hello", timeout=5)
            a.until_stable(tag, timeout=PATIENCE_S)
            a.until(tag, 3, timeout=PATIENCE_S)
            stop.set()
        assert (a.name, a.node, a.members, a.connected) == ("main", "a", tuple("abc"), ("b", "c"))
        assert a.addresses == ["mem://a"]


def test_many_threads_broadcast_through_one_group_and_nothing_is_lost_or_twice():
    with groups("ab") as (a, b):
        per_thread, count = 50, 4

        def worker(number: int) -> Callable[[], None]:
            def work() -> None:
                for i in range(per_thread):
                    a.broadcast(b"%d %d" % (number, i))

            return work

        with ExitStack() as stack:
            for number in range(count):
                stack.enter_context(thread(worker(number)))
            found = payloads(b, per_thread * count)
        assert len(set(found)) == per_thread * count
        for number in range(count):
            mine = [int(text.split()[1]) for text in found if text.startswith(b"%d " % number)]
            assert mine == list(range(per_thread))


def test_what_waits_in_the_group_is_not_before_a_message_and_what_any_thread_took_is():
    with groups("ab") as (a, b):
        first = a.broadcast(b"1")
        while not b._caller.call(lambda: bool(b.group._driver.queue)):
            time.sleep(0.005)
        assert b.broadcast(b"nobody has read it").context == ()
        with thread(lambda: delivered(b, 1) and None):
            pass
        assert first.dot in b.broadcast(b"another thread has read it").context


def test_events_end_when_another_thread_closes_the_group():
    with groups("ab") as (a, b):
        seen: list[Any] = []

        def work() -> None:
            seen.extend(b.events())

        with thread(work):
            a.broadcast(b"x")
            while not any(isinstance(event, Delivered) for event in seen):
                time.sleep(0.005)
            b.close()
        kinds = {type(event) for event in seen}
        assert Delivered in kinds
        assert kinds <= {Delivered, Stable, Connected, Disconnected}
        with pytest.raises(LocalProtocolError, match="closed"):
            b.broadcast(b"y")
        with pytest.raises(LocalProtocolError, match="closed"):
            b.next(1)
        assert list(b.events()) == []
        b.close()


def test_a_full_group_waits_for_so_long_and_then_nothing_was_sent():
    with groups("ab", flow=FlowConfig(outbox_messages_max=2, credit_messages=1)) as (a, b):
        sent = 0
        start = time.monotonic()
        while True:
            try:
                a.broadcast(b"%d" % sent, timeout=0.3)
            except TimeoutError:
                break
            sent += 1
        assert time.monotonic() - start >= 0.3
        with pytest.raises(Full):
            a.try_broadcast(b"no")
        with thread(lambda: a.broadcast(b"last") and None):
            expected = [b"%d" % number for number in range(sent)] + [b"last"]
            assert payloads(b, sent + 1) == expected


def test_waiting_for_an_event_has_an_end():
    with groups("a") as (a,):
        with pytest.raises(TimeoutError):
            a.next(0.05)
        tag = a.broadcast(b"x")
        a.until_stable(tag, timeout=PATIENCE_S)
        assert isinstance(a.next(PATIENCE_S), Stable)


def test_before_the_start_and_for_groups_of_a_node_there_are_clear_errors():
    group = Group("a", listen="mem://a")
    with pytest.raises(LocalProtocolError, match="not started"):
        group.broadcast(b"x")
    group.close()
    with Node("a", listen="mem://a") as node:
        with pytest.raises(LocalProtocolError, match="started before"):
            node.start()
        with pytest.raises(LocalProtocolError, match="closes it"):
            node.group(members=["a"]).close()
        with pytest.raises(LocalProtocolError, match="wait for itself"):
            node._caller.call(lambda: node.groups["main"].broadcast(b"x"))


def test_a_node_has_several_groups():
    first, second = (Node(name, listen="tcp://127.0.0.1:0", timing=QUICK) for name in "ab")
    with first as a, second as b:
        a.know("b", b.addresses[0])
        b.know("a", a.addresses[0])
        for name in ("one", "two"):
            here, there = (node.group(name, members=["a", "b"]) for node in (a, b))
            here.broadcast(name.encode())
            assert payloads(there, 1) == [name.encode()]
        assert list(a.groups) == ["one", "two"]


def test_a_journal_keeps_what_was_broadcast(tmp_path: Path):
    with Group("a", listen="mem://a", data=tmp_path) as a:
        assert str(a.broadcast(b"x")) == "a:1"
        with pytest.raises(LocalProtocolError, match="journal"):
            a.session()
    with Group("a", listen="mem://a", data=tmp_path) as a:
        assert str(a.broadcast(b"y")) == "a:2"


# ---- a context for each thread ------------------------------------------------------------------


def test_a_session_comes_after_what_it_took_and_not_after_what_others_took():
    with groups("ab") as (a, b):
        one, two = b.session(), b.session("mine")
        first = a.broadcast(b"1")
        assert payloads(one, 1) == [b"1"]
        answer = one.broadcast(b"after 1")
        beside = two.broadcast(b"has not read 1")
        assert [str(dot) for dot in answer.context] == [str(first)]
        assert beside.context == ()
        assert (str(answer), str(beside)) == ("b/session1:1", "b/mine:1")
        found = {event.payload: event.tag for event in delivered(a, 2)}
        assert first < found[b"after 1"]
        assert found[b"has not read 1"].concurrent(found[b"after 1"])
        assert found[b"has not read 1"].concurrent(first)


def test_two_threads_that_share_a_context_do_order_each_others_messages():
    """What sessions are for: without them, what one thread says comes after what another read."""
    with groups("ab") as (a, b):
        first = a.broadcast(b"1")
        with thread(lambda: delivered(b, 1) and None):
            pass
        assert first.dot in b.broadcast(b"of a thread that has not read 1").context


def test_sessions_of_a_node_hear_each_other_in_causal_order():
    with groups("ab") as (a, b):
        one, two = b.session(), b.session()
        a.broadcast(b"question")
        delivered(one, 1)
        one.broadcast(b"answer")
        assert payloads(two, 2) == [b"question", b"answer"]
        last = two.broadcast(b"thanks")
        assert [str(dot) for dot in last.context] == ["b/session1:1"]
        assert payloads(one, 1) == [b"thanks"]
        assert payloads(a, 2) == [b"answer", b"thanks"]


def test_threads_with_sessions_work_at_the_same_time(tmp_path: Path):
    with groups("ab", trace=tmp_path) as (a, b):
        count = 30

        def worker(session: Session) -> Callable[[], None]:
            def work() -> None:
                for number in range(count):
                    session.broadcast(b"%d" % number)
                got = payloads(session, 3 * count)
                assert len(got) == 3 * count

            return work

        sessions = [group.session() for group in (a, b) for _ in range(2)]
        with ExitStack() as stack:
            for session in sessions:
                stack.enter_context(thread(worker(session)))
    assert check_paths([tmp_path]).ok


def test_a_slow_session_holds_up_senders_and_loses_nothing():
    with groups("ab", flow=FlowConfig(credit_messages=16, outbox_messages_max=16)) as (a, b):
        slow, quick = b.session(), b.session()
        total = EVENTS_AHEAD + 200

        def send() -> None:
            for number in range(total):
                a.broadcast(b"%d" % number)

        with thread(send), thread(lambda: payloads(quick, total) and None):
            time.sleep(0.3)
            assert a._caller.call(lambda: a.group.sent) < total
            assert payloads(slow, total) == [b"%d" % number for number in range(total)]


def test_a_session_that_is_full_of_what_others_said_makes_them_wait():
    with groups("ab") as (_, b):
        speaker, listener = b.session(listens=False), b.session()
        for number in range(EVENTS_AHEAD + 10):
            try:
                speaker.try_broadcast(b"%d" % number)
            except Full:
                break
        assert number >= EVENTS_AHEAD - 10
        with pytest.raises(TimeoutError):
            speaker.broadcast(b"x", timeout=0.05)
        listener.close()
        speaker.broadcast(b"y", timeout=5)


def test_when_the_last_session_is_closed_threads_share_again():
    with groups("ab") as (a, b):
        with b.session() as session:
            with pytest.raises(LocalProtocolError, match="use theirs"):
                b.broadcast(b"x")
            with pytest.raises(LocalProtocolError, match="use theirs"):
                b.next(1)
            with pytest.raises(LocalProtocolError, match="already"):
                b.session("session1")
            a.broadcast(b"1")
            assert payloads(session, 1) == [b"1"]
        with pytest.raises(LocalProtocolError, match="closed"):
            session.broadcast(b"late")
        a.broadcast(b"2")
        assert payloads(b, 1) == [b"2"]


def test_the_events_of_a_session_end_with_the_group():
    with groups("ab") as (a, b):
        session = b.session()
        seen: list[bytes] = []

        def work() -> None:
            for event in session.events():
                seen.extend([event.payload] if isinstance(event, Delivered) else [])

        with thread(work):
            a.broadcast(b"x")
            for _ in range(2000):
                if seen:
                    break
                time.sleep(0.01)
            b.close()
        assert seen == [b"x"]
        session.close()


def test_a_payload_stays_for_a_session_that_is_behind():
    with groups("ab") as (a, b):
        slow, quick = b.session(), b.session()
        tag = a.broadcast(bytes(10))
        stop = threading.Event()

        def taker(source: Group | Session) -> Callable[[], None]:
            def work() -> None:
                while not stop.is_set():
                    try:
                        source.next(0.05)
                    except TimeoutError:
                        pass

            return work

        with thread(taker(a)), thread(taker(quick)):
            a.until_stable(tag, timeout=PATIENCE_S)
            time.sleep(0.3)
            stop.set()
        (event,) = delivered(slow, 1)
        assert event.payload == bytes(10)
        event.confirm()
