"""Filters between an application and its group: chains, the kinds there are, causal order."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.client.meshes import mesh, run
from tests.seeds import seeds
from thence.client.filter_kinds import Compress, Decompress, Delay, Record, Transform, encryption
from thence.client.filter_order import STEPS, CausalityManager
from thence.client.filtered import FilteredGroup
from thence.client.filters import Chain, Factories, Filter, Passing, Pipes
from thence.errors import LocalProtocolError, WireError

NAMES = ["alice", "bob", "cathy"]


class Holds(Filter):
    """Keeps every message until it is taken out."""

    name = "holds"

    def __init__(self) -> None:
        self.kept: list[Passing] = []

    def feed(self, message: Passing, now: float) -> list[Passing]:
        self.kept.append(message)
        return []

    def drain(self) -> list[Passing]:
        return self.kept


def upper(name: str = "upper") -> Filter:
    return Transform(name, bytes.upper)


def text(messages: list[Passing]) -> list[bytes]:
    return [message.payload for message in messages]


def message(payload: bytes, origin: str = "alice") -> Passing:
    return Passing(payload, origin)


# ---- chains --------------------------------------------------------------------------------------


def test_an_empty_chain_passes_everything_on():
    assert text(Chain().feed(message(b"x"), 0.0)) == [b"x"]


def test_filters_work_in_their_order_and_one_may_be_put_before_another():
    chain = Chain([Transform("b", lambda payload: payload + b"b")])
    chain.insert(Transform("a", lambda payload: payload + b"a"), before="b")
    assert chain.names == ["a", "b"]
    assert text(chain.feed(message(b"-"), 0.0)) == [b"-ab"]


def test_what_a_filter_holds_passes_those_behind_it_when_it_is_taken_out_or_replaced():
    chain = Chain([Holds(), upper()])
    assert chain.feed(message(b"x"), 0.0) == []
    assert text(chain.remove("holds", 0.0)) == [b"X"]
    chain.insert(Holds(), before="upper")
    assert chain.feed(message(b"y"), 0.0) == []
    assert text(chain.replace("holds", Filter(), 0.0)) == [b"Y"]
    assert chain.names == ["forward", "upper"]


def test_names_in_a_chain_are_there_once():
    chain = Chain([upper()])
    with pytest.raises(LocalProtocolError, match="already"):
        chain.insert(upper())
    with pytest.raises(LocalProtocolError, match=r"no filter 'lower'.*upper"):
        chain.remove("lower", 0.0)


def test_factories_are_those_of_a_group_or_the_default():
    factories = Factories()
    factories.register("loud", lambda member, members: Pipes([upper()]))
    assert factories.make("quiet", "alice", NAMES) == Pipes()
    assert [each.name for each in factories.make("loud", "alice", NAMES).send] == ["upper"]


# ---- kinds ---------------------------------------------------------------------------------------


def test_a_delay_holds_back_what_is_for_one_peer_only():
    chain = Chain([Delay({"cathy": 20_000}, ["bob", "cathy"])])
    (now,) = chain.feed(message(b"Done?"), 1.0)
    assert now.to == ("bob",)
    assert chain.due() == 21.0
    assert chain.tick(20.9) == []
    (later,) = chain.tick(21.0)
    assert (later.to, later.payload, chain.due()) == (("cathy",), b"Done?", None)


def test_a_delay_that_is_taken_out_lets_everything_go_in_order():
    chain = Chain([Delay({"bob": 500, "cathy": 100}, ["bob", "cathy"])])
    for payload in (b"1", b"2"):
        assert chain.feed(message(payload), 0.0) == []
    held = chain.remove("delay", 0.0)
    assert [(each.payload, each.to) for each in held] == [
        (b"1", ("bob",)), (b"1", ("cathy",)), (b"2", ("bob",)), (b"2", ("cathy",)),
    ]  # fmt: skip


@pytest.mark.parametrize("payload", [b"", b"x", b"x" * 1000, bytes(range(256))])
def test_compression_and_back(payload: bytes):
    (packed,) = Compress().feed(message(payload), 0.0)
    assert len(packed.payload) <= len(payload) + 1
    assert text(list(Decompress().feed(packed, 0.0))) == [payload]


@pytest.mark.parametrize("payload", [b"", b"\1no", b"\2x"])
def test_what_was_not_compressed_is_an_error_with_its_sender(payload: bytes):
    with pytest.raises(WireError, match="alice sent"):
        Decompress().feed(message(payload), 0.0)


def test_encryption_and_back_and_another_key():
    send, receive = encryption(b"k" * 16)
    (secret,) = send.feed(message(b"hello"), 0.0)
    assert b"hello" not in secret.payload
    assert text(list(receive.feed(secret, 0.0))) == [b"hello"]
    _, other = encryption(b"o" * 16)
    with pytest.raises(WireError, match="not encrypted with this key"):
        other.feed(secret, 0.0)


# ---- causal order as filters ---------------------------------------------------------------------


class Site:
    """A member with the causality filters, on a network that orders nothing."""

    def __init__(self, name: str, **how: object) -> None:
        self.name = name
        self.steps: list[str] = []
        manager = CausalityManager(
            name, NAMES, steps=lambda step, about: self.steps.append(step), **how
        )
        pipes = manager.pipes()
        self.send, self.receive = Chain(pipes.send), Chain(pipes.receive)
        self.seen: list[bytes] = []
        self.flags: list[str] = []

    def say(self, payload: bytes) -> Passing:
        (sent,) = self.send.feed(Passing(payload, self.name), 0.0)
        self.seen.append(payload)
        return sent

    def hear(self, sent: Passing) -> list[bytes]:
        got = self.receive.feed(sent, 0.0)
        self.seen += text(got)
        self.flags += [each.flag for each in got]
        return text(got)


def test_the_lunch_of_the_slides():
    alice, bob, cathy = (Site(name) for name in NAMES)
    done = alice.say(b"Done?")
    assert bob.hear(done) == [b"Done?"]
    lunch = bob.say(b"Lunch?")
    assert cathy.hear(lunch) == []
    assert cathy.hear(done) == [b"Done?", b"Lunch?"]
    assert cathy.hear(done) == []
    assert set(alice.steps) | set(cathy.steps) <= set(STEPS)
    assert cathy.steps.count("VectorTimeStampedMessageDelivered") == 2


def test_random_conversations_are_delivered_after_their_causes():
    for seed in seeds(150):
        rng = random.Random(seed)
        sites = {name: Site(name) for name in NAMES}
        before: dict[bytes, set[bytes]] = {}
        flights: list[tuple[str, Passing]] = []
        for number in range(30):
            name = rng.choice(NAMES)
            payload = b"%d" % number
            before[payload] = set(sites[name].seen)
            sent = sites[name].say(payload)
            flights += [(other, sent) for other in NAMES if other != name]
            for _ in range(rng.randrange(4)):
                if flights:
                    other, sent = flights.pop(rng.randrange(len(flights)))
                    sites[other].hear(sent)
        rng.shuffle(flights)
        for other, sent in flights:
            sites[other].hear(sent)
        for site in sites.values():
            assert sorted(site.seen) == sorted(before)
            for place, payload in enumerate(site.seen):
                assert before[payload] <= set(site.seen[:place]), f"seed {seed}"


@pytest.mark.parametrize(
    ("policy", "flags"),
    [
        ("deliver", ["", "", ""]),
        ("flag", ["", "concurrent", ""]),
        ("refuse", ["", "refused", ""]),
        ("branch", ["1", "2", "1"]),
    ],
)
def test_what_happens_to_concurrent_messages_is_a_policy(policy: str, flags: list[str]):
    alice, bob, cathy = Site("alice"), Site("bob"), Site("cathy", concurrent=policy)
    one, other = alice.say(b"1"), bob.say(b"2")
    alice.hear(other)
    third = alice.say(b"3")  # after both: the two paths are one again
    for each in (one, other, third):
        cathy.hear(each)
    assert cathy.flags == flags
    assert ("ConcurrentVectorTimeStampedMessageDetected" in cathy.steps) is True
    assert ("VectorTimeStampCopiedAndNewBufferCreated" in cathy.steps) is (policy == "branch")


@pytest.mark.parametrize("payload", [b"", b"\x92\x91\x01\xc4\x00", b"nonsense"])
def test_what_has_no_vector_of_these_members_is_an_error_with_its_sender(payload: bytes):
    with pytest.raises(WireError, match="bob sent"):
        Site("alice").hear(Passing(payload, "bob"))


# ---- on real groups ------------------------------------------------------------------------------


def causal(delays: dict[str, dict[str, float]]) -> Factories:
    def make(member: str, members: list[str]) -> Pipes:
        pipes = CausalityManager(member, members).pipes()
        peers = [name for name in members if name != member]
        return Pipes([*pipes.send, Delay(delays.get(member, {}), peers)], pipes.receive)

    return Factories(make)


@pytest.mark.parametrize("is_filtered", [True, False])
def test_filters_make_a_group_causal_that_is_not(is_filtered: bool):
    delays = {"alice": {"cathy": 150.0}}

    async def main() -> None:
        async with mesh(NAMES, engine="fifo") as groups:
            alice, bob, cathy = (FilteredGroup(group, causal(delays)) for group in groups)
            if not is_filtered:
                for each in (alice, bob, cathy):
                    await each.remove("causal")
            await alice.broadcast(b"Done?")
            sending = asyncio.create_task(alice.drain())
            assert (await bob.next()).payload == b"Done?"
            await bob.broadcast(b"Lunch?")
            heard = [(await cathy.next()).payload for _ in range(2)]
            assert heard == ([b"Done?", b"Lunch?"] if is_filtered else [b"Lunch?", b"Done?"])
            await sending

    run(main())


def test_filters_are_put_in_and_replaced_while_messages_flow():
    async def main() -> None:
        async with mesh(["a", "b"]) as groups:
            a, b = map(FilteredGroup, groups)
            passed: list[bytes] = []
            await a.broadcast(b"plain")
            assert (await b.next()).payload == b"plain"
            a.insert(Compress(), None)
            b.insert(None, Decompress())
            b.insert(None, Record("record", lambda now, each: passed.append(each.payload)))
            await a.broadcast(b"z" * 100)
            assert (await b.next()).payload == b"z" * 100
            send, receive = encryption(b"k" * 32)
            await a.replace("compress", send, None)
            await b.replace("compress", None, receive)
            await a.broadcast(b"secret")
            assert (await b.next()).payload == b"secret"
            assert passed == [b"z" * 100, b"secret"]
            assert (a.send_filters, b.receive_filters) == (["encrypt"], ["encrypt", "record"])

    run(main())
