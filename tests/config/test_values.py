"""Values of settings: what fits, what text becomes, what a Struct made by hand refuses."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thence.causal.members import check_name
from thence.config import (
    FaultConfig,
    LinkConfig,
    LogConfig,
    MembershipConfig,
    NodeConfig,
    TimingConfig,
    TlsConfig,
)
from thence.config.settings import SETTINGS
from thence.config.values import Unfit, check, from_text, is_name, split_address
from thence.errors import LocalProtocolError, UnusableInputError
from thence.link.options import LinkOptions

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


@given(st.sampled_from(sorted(SETTINGS)), ANYTHING)
def test_check_gives_a_value_or_unfit_whatever_it_is_given(key: str, found: Any):
    value = SETTINGS[key].value
    try:
        clean = check(value, found)
    except Unfit as unfit:
        assert unfit.expected in unfit.sentence("x")
        return
    again = check(value, clean)
    assert (again, type(again)) == (clean, type(clean))
    if value.kind in ("whole", "number"):
        assert value.about.low <= clean <= value.about.high  # type: ignore[operator]


@given(st.sampled_from(sorted(SETTINGS)), st.text(max_size=20))
def test_text_gives_a_value_or_unfit(key: str, text: str):
    value = SETTINGS[key].value
    with contextlib.suppress(Unfit):
        check(value, from_text(value, text))


@example("a/b")
@example("a:b")
@example("a#2")
@example("x" * 128)
@example("x" * 129)
@given(st.text(max_size=200))
def test_names_are_those_of_members(text: str):
    try:
        check_name(text)
        fits = True
    except LocalProtocolError:
        fits = False
    assert is_name(text) == fits


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, True, "5", None, 10**30])
def test_a_number_is_finite_and_within_its_limits(bad: object):
    with pytest.raises(UnusableInputError, match=r"TimingConfig.drain_s is .*; expected a number"):
        TimingConfig(drain_s=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-1, 101, 5.0, True, "5"])
def test_a_whole_number_is_one_and_within_its_limits(bad: object):
    with pytest.raises(UnusableInputError, match="a whole number from 0 to 100"):
        LinkConfig(retries=bad)  # type: ignore[arg-type]


def test_limits_belong_to_the_range():
    assert LinkConfig(retries=0).retries == 0
    assert LinkConfig(retries=100).retries == 100
    assert FaultConfig(drop=1).drop == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:65535", ("localhost", 65535)),
        ("localhost:65536", None),
        ("::1:80", None),
        (":80", None),
        ("host", None),
        ("host:", None),
        ("host:+1", None),
        ("host:٣", None),
        ("a b:1", None),
        ("", None),
    ],
)
def test_addresses(text: str, expected: tuple[str, int] | None):
    assert split_address(text) == expected


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: TimingConfig(phantom_ms_min=50, phantom_ms_max=20),
            "timing.phantom_ms_min is 50, above timing.phantom_ms_max, which is 20",
        ),
        (
            lambda: TimingConfig(reconnect_ms_min=60_000),
            "timing.reconnect_ms_min is 60000, above timing.reconnect_ms_max, which is 5000",
        ),
        (
            lambda: LinkConfig(keep_alive_s=20),
            "link.ack_delay_ms, link.keep_alive_s and link.silence_s must rise in this order, "
            "and are 5 ms, 20 s, 15 s",
        ),
        (
            lambda: TlsConfig(ca="ca.pem"),
            "tls.ca, tls.cert and tls.key go together: give all or none",
        ),
        (
            lambda: NodeConfig("a", peers={"a": "tcp://h:1"}),
            "peers.a is this node itself; leave it out",
        ),
        (lambda: NodeConfig("a", groups=()), "groups is empty; a node takes part in at least one"),
        (
            lambda: NodeConfig("a", faults=FaultConfig(delay_to={"b": 5})),
            "faults.delay_to names 'b', which is none of the peers",
        ),
        (
            lambda: MembershipConfig(beat_ms=5000),
            "membership.beat_ms is 5000 ms, which must be shorter than membership.suspect_s, 5 s",
        ),
        (
            lambda: MembershipConfig(evict_s=4),
            "membership.evict_s is 4, below membership.suspect_s, which is 5; "
            "0 leaves evictions to people",
        ),
        (
            lambda: NodeConfig("a", engine="cbcast", membership=MembershipConfig(elastic=True)),
            "engine is 'cbcast', whose members cannot change; membership.elastic and "
            "membership.join need tagged",
        ),
        (
            lambda: NodeConfig(
                "a", engine="cbcast", membership=MembershipConfig(join=("mem://b",))
            ),
            "engine is 'cbcast', whose members cannot change; membership.elastic and "
            "membership.join need tagged",
        ),
        (
            lambda: NodeConfig(
                "a", peers={"b": "mem://b"}, membership=MembershipConfig(join=("mem://b",))
            ),
            "membership.join and peers do not go together: a newcomer learns the members from "
            "the group",
        ),
        (
            lambda: NodeConfig("a", peers={"b": "nowhere"}),
            "NodeConfig.peers.b is 'nowhere'; expected an address such as tcp://host:port",
        ),
        (
            lambda: LogConfig(debug=("link", "wire")),  # type: ignore[arg-type]
            "LogConfig.debug[1] is 'wire'; expected one of link, order",
        ),
    ],
)
def test_what_does_not_go_together_is_one_sentence(make: Any, sentence: str):
    with pytest.raises(UnusableInputError) as raised:
        make()
    assert str(raised.value) == sentence


def test_a_struct_made_by_hand_holds_what_a_loaded_one_holds():
    peers = {"c": "mem://c", "a": "mem://a"}
    config = NodeConfig("b", listen=["mem://b"], peers=peers)  # type: ignore[arg-type]
    assert config.listen == ("mem://b",)
    assert config.member_names == ("a", "b", "c")
    assert type(FaultConfig(drop=0).drop) is float
    assert not FaultConfig().active
    assert FaultConfig(drop=0.5).active


def test_the_link_takes_what_its_settings_allow():
    config = LinkConfig()
    options = LinkOptions(
        config.retries,
        config.ack_delay_ms / 1000,
        keepalive_s=config.keep_alive_s,
        silence_s=config.silence_s,
    )
    for window in (16, 256):
        taken = LinkConfig(window_packets=window).window_packets
        msgspec.structs.replace(options, window_packets=taken).check()
    for window in (15, 257):
        with pytest.raises(UnusableInputError):
            LinkConfig(window_packets=window)
        with pytest.raises(UnusableInputError):
            msgspec.structs.replace(options, window_packets=window).check()


def test_members_change_only_if_asked_for():
    assert not NodeConfig("a").membership.is_elastic
    assert MembershipConfig(elastic=True).is_elastic
    assert MembershipConfig(join=("mem://b",)).is_elastic


def test_evictions_may_be_left_to_people_and_come_with_the_suspicion_at_the_earliest():
    assert MembershipConfig(evict_s=0).evict_s == 0.0
    assert MembershipConfig(suspect_s=30).evict_s == 30.0


def test_configs_are_frozen():
    with pytest.raises(AttributeError):
        NodeConfig("a").name = "b"  # type: ignore[misc]
    assert msgspec.structs.replace(NodeConfig("a"), name="b").name == "b"


def test_a_long_wrong_value_is_cut_short():
    with pytest.raises(UnusableInputError) as raised:
        NodeConfig("x" * 100_000)
    assert len(str(raised.value)) < 250
