"""A node: its addresses, its folders, several groups over the same connections."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tests.client.meshes import (
    QUICK,
    deliveries,
    each_scheme,
    listen,
    run,
    started,
    take_all,
    until,
)
from thence import Group, JournalError, LocalProtocolError, Node, UnusableInputError
from thence.config import TlsConfig, TraceConfig
from thence.engine.registry import ENGINES
from thence.trace.check import check_paths
from thence.transport.certificates import issue, make_authority
from thence.transport.tls import TlsFiles


@each_scheme
def test_groups_of_a_node_share_its_connections_and_are_ordered_apart(scheme: str):
    async def main() -> None:
        async with started("ab", scheme) as nodes:
            groups = {
                (name, node.name): await node.group(name, members="ab")
                for name in ("one", "two")
                for node in nodes.values()
            }
            for group in groups.values():
                await group.until_connected()
            assert [len(node.runtime.hub.by_peer) for node in nodes.values()] == [1, 1]
            assert [len(node.runtime.hub.links) for node in nodes.values()] == [1, 1]
            first = await groups["one", "a"].broadcast(b"in one")
            second = await groups["two", "a"].broadcast(b"in two")
            assert (str(first), str(second), second.context) == ("a:1", "a:1", ())
            assert await deliveries(groups["two", "b"], 1) == [b"in two"]
            assert await deliveries(groups["one", "b"], 1) == [b"in one"]

    run(main())


@each_scheme
def test_a_node_may_hold_some_of_the_groups_only(scheme: str):
    """Partial replication: b is in both groups, a and c in one each, and never meet there."""

    async def main() -> None:
        async with started("abc", scheme) as nodes:
            left = [await nodes[name].group("left", members="ab") for name in "ab"]
            right = [await nodes[name].group("right", members="bc") for name in "bc"]
            for group in (*left, *right):
                await group.until_connected()
            await left[0].broadcast(b"for left")
            await right[1].broadcast(b"for right")
            assert await deliveries(left[1], 1) == [b"for left"]
            assert await deliveries(right[0], 1) == [b"for right"]
            takers = [asyncio.create_task(take_all(group, [])) for group in (*left, *right)]
            await left[0].until_stable(await left[0].broadcast(b"stable without c"))
            assert nodes["a"].groups.keys() == {"left"}
        await asyncio.gather(*takers)

    run(main())


def test_a_group_that_a_peer_has_not_yet_is_joined_up_when_it_has():
    async def main() -> None:
        async with started("ab") as nodes:
            early = await nodes["a"].group("late", members="ab")
            await early.broadcast(b"waits")
            await (await nodes["a"].group(members="ab")).broadcast(b"x")
            main_b = await nodes["b"].group(members="ab")
            assert await deliveries(main_b, 1) == [b"x"]
            assert early.connected == ()
            late = await nodes["b"].group("late", members="ab")
            assert await deliveries(late, 1) == [b"waits"]

    run(main())


def test_a_node_started_before_its_groups_refuses_no_member():
    async def main() -> None:
        async with started("ab") as nodes:
            await asyncio.sleep(0.1)  # they meet, and have nothing to talk about
            assert not nodes["a"].runtime.hub.refused
            groups = [await node.group(members="ab") for node in nodes.values()]
            await asyncio.wait_for(groups[0].until_connected(), 20)

    run(main())


def test_the_same_group_twice_a_group_without_this_node_and_unknown_engines_are_refused():
    async def main() -> None:
        async with Node("a", listen="mem://a") as node:
            await node.group()
            with pytest.raises(LocalProtocolError, match="already"):
                await node.group()
            with pytest.raises(UnusableInputError, match="a is not among the members of x"):
                await node.group("x", members=["b"])
            with pytest.raises(UnusableInputError, match="no engine 'nope'; there are tagged"):
                await node.group("x", engine="nope")
            with pytest.raises(LocalProtocolError, match="closes it"):
                await node.groups["main"].aclose()

    run(main())


def test_its_own_line_among_the_peers_says_where_it_listens():
    async def main() -> None:
        async with Node("a", peers={"a": "mem://here", "b": "mem://there"}) as node:
            assert node.addresses == ["mem://here"]
            assert node.config.member_names == ("a", "b")

    run(main())


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
def test_an_address_that_is_taken_is_one_clear_sentence(scheme: str):
    async def main() -> None:
        async with Node("a", listen=listen(scheme, "a")) as node:
            with pytest.raises(UnusableInputError, match="cannot listen on"):
                await Node("b", listen=node.addresses[0]).start()
            with pytest.raises(LocalProtocolError, match="started before"):
                await node.start()

    run(main())


def test_a_node_that_is_not_started_says_so_and_can_be_closed():
    async def main() -> None:
        node = Node("a", listen="mem://a")
        with pytest.raises(LocalProtocolError, match="not started"):
            _ = node.addresses
        await node.aclose()

    run(main())


def test_differing_members_are_refused_with_the_reason():
    async def main() -> None:
        async with started("ab") as nodes:
            await nodes["a"].group(members="ab")
            await nodes["b"].group(members="abc")
            hub = nodes["a"].runtime.hub
            while not hub.refused and not nodes["b"].runtime.hub.refused:
                await asyncio.sleep(0.005)
            assert "different-group" in {**hub.refused, **nodes["b"].runtime.hub.refused}

    run(main())


# ---- folders ------------------------------------------------------------------------------------


def test_a_node_moves_to_another_address_with_its_journal(tmp_path: Path):
    def node(name: str, at: str, peers: dict[str, str]) -> Group:
        return Group(name, listen=at, peers=peers, data=tmp_path, timing=QUICK)

    async def main() -> None:
        home = node("a", "mem://a", {"b": "mem://b"})
        async with home as a, node("b", "mem://b", {"a": "mem://a"}):
            await a.broadcast(b"1")
            await a.drain()
        away = node("a", "mem://other", {"b": "mem://b"})
        async with away as a, node("b", "mem://b", {"a": "mem://other"}) as b:
            assert str(await a.broadcast(b"2")) == "a:2"
            assert await deliveries(b, 2) == [b"1", b"2"]

    run(main())


def test_a_journal_is_not_begun_where_its_folder_is_gone(tmp_path: Path):
    async def main() -> None:
        async with Node("a", listen="mem://a", data=tmp_path / "unmounted" / "data") as node:
            with pytest.raises(FileNotFoundError):
                await node.group()

    run(main())


def test_a_journal_in_use_is_refused(tmp_path: Path):
    async def main() -> None:
        async with Group("a", listen="mem://a", data=tmp_path):
            with pytest.raises(JournalError, match="use"):
                await Group("a", listen="mem://a2", data=tmp_path).start()

    run(main())


def test_a_node_whose_journal_was_lost_is_told_what_to_do(tmp_path: Path):
    async def main() -> None:
        def a(data: str) -> Group:
            peers = {"b": "mem://b"}
            return Group("a", listen="mem://a", peers=peers, data=tmp_path / data, timing=QUICK)

        async with Group("b", listen="mem://b", peers={"a": "mem://a"}, timing=QUICK) as b:
            async with a("first") as group:
                await group.broadcast(b"x")
                assert await deliveries(b, 1) == [b"x"]
            async with a("second") as group:
                with pytest.raises(JournalError, match="lost or is too old"):
                    await asyncio.wait_for(group.until_broken(), 10)

    run(main())


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_traces_of_real_nodes_keep_the_rules(form: str, tmp_path: Path):
    async def main() -> None:
        trace = TraceConfig(folder=str(tmp_path), form=form)  # type: ignore[arg-type]
        async with started("abc", trace=trace) as nodes:
            groups = [await node.group(members="abc") for node in nodes.values()]
            takers = [asyncio.create_task(take_all(group, [])) for group in groups]
            for number in range(20):
                tags = [await group.broadcast(b"%d" % number) for group in groups]
            await asyncio.gather(*(g.until_stable(t) for g, t in zip(groups, tags, strict=True)))
        await asyncio.gather(*takers)

    run(main())
    report = check_paths([tmp_path])
    assert report.ok
    assert report.events > 3 * 20 * 3 * 2


def test_a_log_that_a_killed_node_left_is_not_overwritten(tmp_path: Path):
    """It is all that is known of what the node had sent."""
    left = b'{"v":1,"run":"main","node":"a","pos":0,"kind":"send","dot":["a",1]}\n'
    folder = tmp_path / "main"
    folder.mkdir()
    log = folder / ".a-000000.jsonl.open"
    (folder / ".a-b-000000.jsonl.open").write_bytes(left)  # of another node

    async def main() -> None:
        async with Node("a", listen="mem://a", trace=tmp_path) as node:
            log.write_bytes(left)
            with pytest.raises(UnusableInputError, match="earlier start of a, which was killed"):
                await node.group(members=["a"])
            assert log.read_bytes() == left
            log.write_bytes(b"")
            await node.group(members=["a"])

    run(main())


def test_a_folder_with_the_trace_of_another_group_is_refused(tmp_path: Path):
    async def main() -> None:
        async with Node("a", listen="mem://a", trace=tmp_path) as node:
            await node.group(members=["a"])
        async with Node("a", listen="mem://a", trace=tmp_path) as node:
            with pytest.raises(UnusableInputError, match="choose another folder"):
                await node.group(members=["a", "b"])
            with pytest.raises(UnusableInputError, match="another folder"):
                await node.group(members=["a"])  # without a journal it cannot go on with a log
        (tmp_path / "main" / "run.closed").touch()
        async with Node("a", listen="mem://a", trace=tmp_path) as node:
            with pytest.raises(UnusableInputError, match="complete"):
                await node.group(members=["a"])

    run(main())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_phantom_of_any_engine_is_traced(engine: str, tmp_path: Path):
    async def main() -> None:
        async with started("ab", trace=TraceConfig(folder=str(tmp_path))) as nodes:
            groups = [await node.group(members="ab", engine=engine) for node in nodes.values()]
            groups[0].phantom()
            await groups[0].broadcast(b"x")
            assert await deliveries(groups[1], 1) == [b"x"]
            groups[1].take()
            groups[1].phantom()
            await asyncio.sleep(0.1)

    run(main())
    assert check_paths([tmp_path]).ok


def test_a_mistake_inside_breaks_the_node_with_a_sentence_and_not_silently(
    monkeypatch: pytest.MonkeyPatch,
):
    async def main() -> None:
        loop = asyncio.get_running_loop()
        before, reported = loop.get_exception_handler(), []
        loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
        async with Group("a", listen="mem://a") as group:
            taker = asyncio.create_task(take_all(group, []))
            await asyncio.sleep(0.05)
            monkeypatch.setattr(group._runtime.hub, "tick", lambda now: 1 / 0)
            with pytest.raises(JournalError, match="unexpected ZeroDivisionError"):
                await asyncio.gather(group.until_broken(), group.broadcast(b"x"))
            with pytest.raises(JournalError, match="unexpected"):
                await taker
        loop.set_exception_handler(before)
        assert reported

    run(main())


# ---- peers that cannot be reached ---------------------------------------------------------------


def certified(folder: Path, name: str) -> TlsConfig:
    """Certificates of an authority of its own."""
    make_authority(folder)
    issue(name, folder, folder)
    files = TlsFiles.of(folder, name)
    return TlsConfig(ca=files.ca, cert=files.certificate, key=files.key)


def logged(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    """What the log says, with its fields."""
    return [
        f"{record.getMessage()} {vars(record).get('thence_fields')}"
        for record in caplog.records
        if record.levelno == level and record.name == "thence.node"
    ]


@pytest.mark.parametrize(
    ("address", "level", "why"),
    [
        ("tcp://192.0.2.1:7000", logging.WARNING, "set allow_remote"),
        ("tcp://127.0.0.1:1", logging.INFO, "nobody listens there"),
    ],
)
def test_why_a_peer_cannot_be_reached_is_logged_once(
    address: str, level: int, why: str, caplog: pytest.LogCaptureFixture
):
    async def main() -> None:
        async with Group("a", peers={"b": address}, timing=QUICK) as group:
            hub = group._runtime.hub
            await until(lambda: hub.addresses["b"].tries > 2)

    with caplog.at_level(logging.INFO, "thence"):
        run(main())
    (line,) = logged(caplog, level)
    assert line.startswith("unreachable")
    assert why in line


def test_a_peer_that_can_never_be_dialled_is_refused_at_the_start():
    async def main() -> None:
        for address, why in (("foo://b:1", "no transport 'foo'"), ("tls://b:1", "tls.cert")):
            with pytest.raises(UnusableInputError, match=why):
                await Group("a", listen="mem://a", peers={"b": address}).start()

    run(main())


def test_a_certificate_of_another_node_is_refused_at_the_start(tmp_path: Path):
    async def main() -> None:
        node = Node("b", listen="tls://127.0.0.1:0", tls=certified(tmp_path, "a"))
        with pytest.raises(UnusableInputError, match=r"a\.pem names node a, and this is b"):
            await node.start()

    run(main())


def test_a_peer_of_another_authority_is_refused_and_both_logs_say_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    async def main() -> None:
        nodes = []
        for name in "ab":
            (tmp_path / name).mkdir()
            settings = certified(tmp_path / name, name)
            nodes.append(Node(name, listen="tls://127.0.0.1:0", tls=settings, timing=QUICK))
        a, b = [await node.start() for node in nodes]
        a.know("b", b.addresses[0])
        refused = a.runtime.hub.refused, b.runtime.hub.refused
        await until(lambda: "bad-certificate" in refused[0] and "refused-by-peer" in refused[1])
        await asyncio.gather(a.aclose(), b.aclose())

    with caplog.at_level(logging.INFO, "thence"):
        run(main())
    said = "\n".join(logged(caplog, logging.WARNING))
    assert "the peer's certificate is refused" in said
    assert "does not know the authority" in said
