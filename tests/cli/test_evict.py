"""``thence evict`` against a real group, and against what else may answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping

import msgspec
import pytest

from tests.cli.test_status import http, stranger
from thence import Delivered, blocking
from thence.cli.main import main
from thence.config import MembershipConfig
from thence.telemetry.http import Response, StatusServer
from thence.telemetry.snapshot import (
    Evicting,
    GroupNumbers,
    MemberNumbers,
    MembershipNumbers,
    Readiness,
    Snapshot,
)

Capture = pytest.CaptureFixture[str]
QUICK = MembershipConfig(elastic=True, beat_ms=50, suspect_s=1, evict_s=0, join_s=20)


@pytest.fixture(autouse=True)
def no_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the node is in the process of the command, whose words are what counts."""
    monkeypatch.setattr(logging.getLogger("thence"), "handlers", [logging.NullHandler()])


@contextlib.contextmanager
def node(*views: MembershipNumbers | None) -> Iterator[str]:
    """HOST:PORT of a server that takes orders, and shows these views one after the other."""
    left = list(views)

    def collect() -> Snapshot:
        membership = left.pop(0) if len(left) > 1 else left[0]
        return Snapshot(node="a", groups=(GroupNumbers(name="main", membership=membership),))

    def evict(asked: Mapping[str, str]) -> Response:
        if asked["name"] == "rude":
            return Response(404, b"\x1b[2Jno\n")
        names = () if views[0] is None else tuple(each.name for each in views[0].members)
        return Response(200, msgspec.json.encode(Evicting(True, names)))

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = StatusServer(collect, lambda: Readiness(True), orders={"evict": evict})
    try:
        started = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop)
        host, port = started.result(10)
        yield f"{host}:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(server.aclose(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def view(number: int, *states: tuple[str, str], **more: bool) -> MembershipNumbers:
    members = tuple(MemberNumbers(name=name, state=state) for name, state in states)
    return MembershipNumbers(view=number, members=members, **more)


@contextlib.contextmanager
def taking(group: blocking.Group) -> Iterator[None]:
    """An application that takes its events, and is gone with its group."""
    taker = threading.Thread(target=lambda: [None for _ in group.events()])
    taker.start()
    yield
    group.close(drain_s=0)
    taker.join(10)
    assert not taker.is_alive()


@contextlib.contextmanager
def group_of(names: str) -> Iterator[tuple[list[blocking.Group], str]]:
    """A real group whose events are taken, and the status page of its second member."""
    with contextlib.ExitStack() as stack:
        made: list[blocking.Group] = []
        for name in names:
            join = (made[0].addresses[0],) if made else ()
            membership = msgspec.structs.replace(QUICK, join=join)
            made.append(
                blocking.Group(
                    name, listen="tcp://127.0.0.1:0", membership=membership, status="127.0.0.1:0"
                ).start()
            )
            stack.enter_context(taking(made[-1]))
        page = made[1].group._station.status
        assert page is not None
        yield made, page.address


def test_a_member_is_evicted_by_way_of_any_other(capsys: Capture):
    with group_of("abc") as (groups, where):
        assert main(["evict", "c", "--status", where]) == 0
        shown = capsys.readouterr().out.splitlines()
        assert shown[0] == f"{where} was asked to evict c from main"
        assert shown[-1] == "done: c is out; view 3 has a, b"
        assert groups[2].is_out
        for words, sentence in (
            (["c"], "c is no member of main; members are"),
            (["b"], "b is this node itself: stop it, and it leaves"),
            (["b", "--group", "x"], "takes part in no group 'x'; it is in: main"),
        ):
            capsys.readouterr()
            assert main(["evict", *words, "--status", where]) == 2
            assert sentence in capsys.readouterr().err


def test_without_most_members_it_is_not_done_and_says_what_dead_means(capsys: Capture):
    with group_of("ab") as (groups, where):
        groups[0].close(drain_s=0)  # the senior of two is gone without a word
        assert main(["evict", "a", "--status", where, "--wait-s", "0.5"]) == 1
        shown = capsys.readouterr().out
        assert "not done in 0.5 s: most members cannot be reached, and they must agree" in shown
        assert "thence evict NAME --dead, and it is not counted.\nIf it runs after all" in shown
        assert main(["evict", "a", "--status", where, "--dead"]) == 0
        assert "done: a is out; view 2 has b" in capsys.readouterr().out


@contextlib.contextmanager
def fixed(engine: str, names: str) -> Iterator[tuple[list[blocking.Group], list[str]]]:
    """A group whose members do not change, and where each of them is asked."""
    peers = {name: f"mem://{name}" for name in names}
    with contextlib.ExitStack() as stack:
        made = [
            blocking.Group(name, engine=engine, peers=peers, status="127.0.0.1:0") for name in names
        ]
        for group in made:
            group.start()
            stack.callback(group.close, drain_s=0)
        pages = [group.group._station.status for group in made]
        yield made, [page.address for page in pages if page is not None]


def test_a_total_order_goes_on_without_a_coordinator_that_crashed(capsys: Capture):
    with fixed("sequencer", "abc") as (groups, pages):
        for group in groups:
            group.until_connected()
        groups[0].close(drain_s=0)  # the coordinator is gone without a word
        groups[1].broadcast(b"after")
        assert main(["evict", "a", "--status", pages[1]]) == 2
        assert "main goes on without a only if it has crashed: vouch" in capsys.readouterr().err
        assert main(["evict", "z", "--dead", "--status", pages[1]]) == 2
        assert "z is not one of the other members of main" in capsys.readouterr().err
        for page in pages[1:]:
            assert main(["evict", "a", "--dead", "--status", page]) == 0
            assert f"done: {page} goes on without a; say the same" in capsys.readouterr().out
        for group in groups[1:]:
            assert _next_payload(group) == b"after"
        assert groups[1].members == ("b", "c")


def _next_payload(group: blocking.Group) -> bytes:
    while not isinstance(event := group.next(20.0), Delivered):
        pass
    return event.payload


def test_a_group_that_is_not_elastic_is_refused(capsys: Capture):
    peers = {"a": "mem://a", "b": "mem://b"}
    with blocking.Group("a", peers=peers, status="127.0.0.1:0") as group:
        page = group.group._station.status
        assert page is not None
        assert main(["evict", "b", "--status", page.address]) == 2
        assert "the members of main do not change: it is not elastic" in capsys.readouterr().err
        group.close(drain_s=0)


def test_one_that_is_back_already_was_evicted_all_the_same(capsys: Capture):
    before = view(4, ("a", "self"), ("c", "up"))
    with node(before, view(6, ("a", "self"), ("c#2", "coming"))) as where:
        assert main(["evict", "c", "--status", where]) == 0
    assert "done: c is out; view 6 has a, c#2" in capsys.readouterr().out


@pytest.mark.parametrize("last", [None, view(5, ("c", "up"), out=True)])
def test_a_node_that_is_out_itself_cannot_tell(capsys: Capture, last: MembershipNumbers | None):
    with node(view(4, ("a", "self"), ("c", "up")), last) as where:
        assert main(["evict", "c", "--status", where]) == 1
    assert "is itself no member of main any more" in capsys.readouterr().out


def failure(capsys: Capture, *words: str) -> str:
    assert main(["evict", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    return captured.err


def test_what_a_stranger_says_does_not_move_the_terminal(capsys: Capture):
    with node(None) as where:
        assert failure(capsys, "rude", "--status", where).removesuffix("\n").isprintable()


@pytest.mark.parametrize("answer", [http(b"<html>"), http(b"[" * 100_000), b"SSH-2.0\r\n", b""])
def test_another_program_is_exit_2(capsys: Capture, answer: bytes):
    with stranger(answer) as where:
        failure(capsys, "b", "--status", where)


WRONG: list[tuple[list[str], Callable[[str], bool]]] = [
    (["b", "--status", "nowhere"], lambda said: "expected HOST:PORT" in said),
    (["b", "--status", "127.0.0.1:1"], lambda said: "was the node started with" in said),
    (["b", "--wait-s", "-1"], lambda said: "--wait-s -1" in said),
    (["b", "--wait-s", "nan"], lambda said: "--wait-s nan" in said),
    ([], lambda said: "See: thence evict --help" in said),
]


@pytest.mark.parametrize(("words", "is_right"), WRONG)
def test_unusable_input_is_exit_2(
    capsys: Capture, words: list[str], is_right: Callable[[str], bool]
):
    assert is_right(failure(capsys, *words))
