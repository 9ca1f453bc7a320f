"""Connections of a node: greeting, who stays of two, groups, dialling, silence, nonsense."""

from __future__ import annotations

import pytest

from tests.client.fakes import (
    TIMING,
    FakeConnection,
    Wire,
    driver_of,
    hub_of,
    payloads,
)
from tests.client.greetings import array, greeted, hello, refusal
from thence import __version__
from thence.client.hub import Hub
from thence.wire import talk


@pytest.fixture
def hub() -> Hub:
    return hub_of("a", driver_of())


# ---- the greeting


def test_both_sides_say_hello_first_and_open_their_groups_then(hub: Hub):
    connection = FakeConnection()
    hub.connected(connection, "", 0.0)
    ((kind, body),) = connection.said()
    assert kind == talk.HELLO
    said = talk.read(body, talk.Hello)
    assert (said.magic, said.node, said.boot) == ("thence", "a", 1)
    assert not connection.trusted
    hub.received(connection, [hello()], 0.0)
    ((kind, body),) = connection.said()
    assert kind == talk.OPEN
    assert talk.read(body, talk.Open).members == ("a", "b", "c")
    assert connection.trusted
    assert hub.by_peer["b"].version == 1


def test_another_protocol_is_refused(hub: Hub):
    connection = FakeConnection()
    hub.connected(connection, "", 0.0)
    hub.received(connection, [(talk.HELLO, array("http", 1, 1, "b", 1))], 0.0)
    assert refusal(connection) == (talk.NONSENSE, "the other side does not speak this protocol")


@pytest.mark.parametrize("kind", [talk.OPEN, talk.DATA, talk.ACK, talk.PING, 200])
def test_anything_before_hello_is_refused(hub: Hub, kind: int):
    connection = FakeConnection()
    hub.connected(connection, "", 0.0)
    hub.received(connection, [(kind, bytes(40))], 0.0)
    assert refusal(connection) == (talk.NONSENSE, f"a frame of kind {kind} before HELLO")


def test_who_takes_too_long_to_say_who_it_is_is_refused(hub: Hub):
    connection = FakeConnection()
    hub.connected(connection, "", 1.0)
    assert hub.deadline() == 1.0 + TIMING.greeting_s
    hub.tick(1.0 + TIMING.greeting_s - 0.01)
    assert connection.closed is None
    hub.tick(1.0 + TIMING.greeting_s)
    assert refusal(connection)[0] == talk.NONSENSE
    assert not hub.links


def test_a_stranger_is_refused(hub: Hub):
    connection = greeted(hub, "mallory")
    assert refusal(connection) == (talk.NOT_A_MEMBER, "mallory is no member of a group here (g)")
    assert hub.refused


def test_who_was_refused_is_not_dialled_again_at_once(hub: Hub):
    """It greets in order, so the tries before it do not count; its refusal does."""
    hub.know("b", "fake://b", 0.0)
    connection = greeted(hub, "b")
    hub.received(connection, [(talk.OPEN, array(0, "g", "tagged", ["a", "b"], 0, 9, 9999))], 0.0)
    assert refusal(connection)[0] == talk.DIFFERENT_GROUP
    assert hub.addresses["b"].due >= TIMING.reconnect_ms_max / 2000


def test_who_has_an_address_is_no_stranger(hub: Hub):
    hub.know("d", "fake://d", 0.0)
    assert greeted(hub, "d").closed is None


def test_another_node_than_was_dialled_is_refused(hub: Hub):
    connection = FakeConnection(dialled=True)
    hub.connected(connection, "b", 0.0)
    hub.received(connection, [hello("c")], 0.0)
    code, sentence = refusal(connection)
    assert code == talk.WRONG_NAME
    assert sentence == "dialled b at fake://somewhere, found c"


def test_a_name_that_the_certificate_does_not_say_is_refused(hub: Hub):
    connection = FakeConnection(peer_name="c")
    hub.connected(connection, "", 0.0)
    hub.received(connection, [hello("b")], 0.0)
    assert refusal(connection) == (
        talk.WRONG_NAME, "the certificate says c, the greeting says b",
    )  # fmt: skip


def test_the_own_name_is_refused(hub: Hub):
    assert refusal(greeted(hub, "a"))[0] == talk.WRONG_NAME


def test_a_second_hello_is_refused(hub: Hub):
    connection = greeted(hub)
    hub.received(connection, [hello("c")], 0.0)
    assert refusal(connection) == (talk.NONSENSE, "a second greeting from b")
    assert not hub.by_peer


# ---- versions


def test_a_node_of_the_next_release_works_with_one_of_this():
    """A rolling upgrade: one node speaks 1 and 2, the others 1."""
    old, new = driver_of("a", ("a", "b")), driver_of("b", ("a", "b"))
    hubs = hub_of("a", old, versions=(1, 1)), hub_of("b", new, versions=(1, 2))
    wire = Wire(*hubs)
    wire.connect("a", "b")
    wire.run()
    assert [hubs[0].by_peer["b"].version, hubs[1].by_peer["a"].version] == [1, 1]
    old.broadcast(b"from the old", 0.0)
    new.broadcast(b"from the new", 0.0)
    wire.run()
    assert payloads(new) == [b"from the old"]
    assert payloads(old) == [b"from the new"]
    assert not wire.refusals


def test_two_nodes_of_the_next_release_speak_its_version():
    hubs = [hub_of(name, driver_of(name, ("a", "b")), versions=(1, 2)) for name in "ab"]
    wire = Wire(*hubs)
    wire.connect("b", "a")
    wire.run()
    assert hubs[0].by_peer["b"].version == 2


def test_versions_that_do_not_meet_are_refused_on_both_sides():
    drivers = [driver_of(name, ("a", "b")) for name in "ab"]
    hubs = [hub_of("a", drivers[0], versions=(1, 1)), hub_of("b", drivers[1], versions=(2, 3))]
    wire = Wire(*hubs)
    wire.connect("a", "b")
    wire.run()
    upgrade = f"upgrade the older one (thence {__version__})"
    assert sorted(wire.refusals) == [
        (
            "a", talk.BAD_VERSION,
            f"b speaks versions 2 to 3, a speaks 1 to 1: {upgrade}",
        ),
        (
            "b", talk.BAD_VERSION,
            f"a speaks versions 1 to 1, b speaks 2 to 3: {upgrade}",
        ),
    ]  # fmt: skip
    assert not hubs[0].links
    assert not hubs[1].links
    assert drivers[0].connected == drivers[1].connected == []


# ---- two connections at once


@pytest.mark.parametrize("first_is_dialled", [True, False])
def test_of_two_connections_that_stays_which_the_smaller_name_dialled(
    hub: Hub, first_is_dialled: bool
):
    first = greeted(hub, "b", dialled=first_is_dialled)
    second = greeted(hub, "b", dialled=not first_is_dialled)
    stays, goes = (first, second) if first_is_dialled else (second, first)
    assert stays.closed is None
    assert goes.closed is not None
    assert hub.by_peer["b"].connection is stays
    assert list(hub.links) == [stays]


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_both_sides_keep_the_same_of_two_connections(order: str):
    drivers = [driver_of(name, ("a", "b")) for name in "ab"]
    wire = Wire(*[hub_of(driver.name, driver) for driver in drivers])
    for dialler in order:
        wire.connect(dialler, "b" if dialler == "a" else "a")
    drivers[0].broadcast(b"x", 0.0)
    wire.run()
    left = [end for _, end in wire.ends if end.closed is None]
    assert len(left) == 2
    assert left[0].other is left[1]
    assert [end.dialled for hub, end in wire.ends if end in left and hub.node == "a"] == [True]
    assert payloads(drivers[1]) == [b"x"]


def test_a_later_start_of_a_peer_replaces_its_connection(hub: Hub):
    before = greeted(hub, "b", boot=5, dialled=True)
    after = greeted(hub, "b", boot=6)
    assert before.closed == "replaced by a newer connection"
    assert after.closed is None
    assert hub.by_peer["b"].boot == 6


def test_an_earlier_start_of_a_peer_is_refused(hub: Hub):
    after = greeted(hub, "b", boot=6)
    before = greeted(hub, "b", boot=5)
    assert refusal(before) == (talk.REPLACED, "a later start of b is here")
    assert after.closed is None


def test_a_second_connection_of_the_same_kind_replaces_the_first(hub: Hub):
    first = greeted(hub, "b")
    second = greeted(hub, "b")
    assert first.closed == "replaced by a newer connection"
    assert hub.by_peer["b"].connection is second
