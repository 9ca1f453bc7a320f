"""Loading: who comes first, and one sentence for everything that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thence.config import SETTINGS, NodeConfig, load_config
from thence.config.settings import Setting
from thence.config.values import Value
from thence.errors import UnusableInputError


def toml(folder: Path, text: str) -> Path:
    file = folder / "node.toml"
    file.write_text(text, encoding="utf-8")
    return file


def read(config: NodeConfig, key: str) -> Any:
    held: Any = config
    for part in key.split("."):
        held = getattr(held, part)
    return held


def refusal(**given: Any) -> str:
    with pytest.raises(UnusableInputError) as raised:
        load_config(**given)
    sentence = str(raised.value)
    assert "\n" not in sentence
    return sentence.replace(str(given.get("file")), "FILE")


def test_defaults_are_those_of_the_structs():
    assert load_config(flags={"name": "a"}) == NodeConfig("a")


def test_flags_come_before_environment_before_file(tmp_path: Path):
    file = toml(tmp_path, 'name = "a"\n[link]\nretries = 1\nack_delay_ms = 1\nkeep_alive_s = 1\n')
    environ = {"THENCE_LINK_RETRIES": "2", "THENCE_LINK_ACK_DELAY_MS": "2", "HOME": "x"}
    link = load_config(file, environ, {"retries": "3", "drop": None}).link
    assert (link.retries, link.ack_delay_ms, link.keep_alive_s) == (3, 2.0, 1.0)
    assert link.silence_s == 15.0


def test_a_higher_source_replaces_a_whole_map(tmp_path: Path):
    file = toml(tmp_path, 'name = "a"\n[peers]\nb = "mem://b"\nc = "mem://c"\n')
    assert load_config(file).peers == {"b": "mem://b", "c": "mem://c"}
    assert load_config(file, {"THENCE_PEERS": "d=mem://d"}).peers == {"d": "mem://d"}
    assert load_config(file, {}, {"peer": ["e=mem://e"]}).peers == {"e": "mem://e"}


def test_the_file_is_named_by_flag_or_environment(tmp_path: Path):
    file = str(toml(tmp_path, 'name = "a"'))
    assert load_config(environ={"THENCE_CONFIG": file}).name == "a"
    assert load_config(environ={"THENCE_CONFIG": "nosuch"}, flags={"config": file}).name == "a"
    assert load_config(file, flags={"config": "nosuch"}).name == "a"


def test_an_empty_variable_is_not_set_and_an_empty_flag_is_nothing(tmp_path: Path):
    file = toml(tmp_path, 'name = "a"\nstatus = "127.0.0.1:1"\n')
    assert load_config(file, {"THENCE_STATUS": ""}).status == "127.0.0.1:1"
    assert load_config(file, {}, {"status": ""}).status is None


@pytest.mark.parametrize(("text", "held"), [("Yes", True), ("on", True), ("0", False)])
def test_switches_have_several_words(text: str, held: bool):
    assert (
        load_config(environ={"THENCE_NAME": "a", "THENCE_ALLOW_REMOTE": text}).allow_remote is held
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[link]\nretries = 'five'",
            "FILE: link.retries is 'five'; expected a whole number from 0 to 100",
        ),
        (
            "[link]\nretries = 5.0",
            "FILE: link.retries is 5.0; expected a whole number from 0 to 100",
        ),
        (
            "[timing]\ndrain_s = nan",
            "FILE: timing.drain_s is nan; expected a number from 0 to 86,400",
        ),
        (
            "[link]\nretrys = 5",
            "FILE: there is no setting 'link.retrys'; did you mean 'link.retries'?",
        ),
        ("retries = 5", "FILE: there is no setting 'retries'; did you mean 'link.retries'?"),
        ("[lnk]\nretries = 5", "FILE: there is no setting 'lnk'; did you mean 'link'?"),
        ("zzzzzz = 5", "FILE: there is no setting 'zzzzzz'; see docs/reference/config.md"),
        ("link = 5", "FILE: link is 5; expected a table [link]"),
        ("allow_remote = 1", "FILE: allow_remote is 1; expected true or false"),
        ("status = 'x'", "FILE: status is 'x'; expected HOST:PORT"),
        (
            "listen = 'tcp://h:1'",
            "FILE: listen is 'tcp://h:1'; expected a list, each an address such as tcp://host:port",
        ),
        (
            "[peers]\nb = 'h:1'",
            "FILE: peers.b is 'h:1'; expected an address such as tcp://host:port",
        ),
        (
            "[peers]\n'b#2' = 'tcp://h:1'",
            "FILE: peers, a name in it, is 'b#2'; expected a name of 1 to 128 characters without "
            "':', '#', '/'",
        ),
        (
            "[log]\nlevel = 'loud'",
            "FILE: log.level is 'loud'; expected one of debug, info, warning, error",
        ),
        ("name = ", "FILE: not TOML: Invalid value (at end of document)"),
        ("", "this node has no name; give --name, THENCE_NAME, or name in a TOML file"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, sentence: str):
    assert refusal(file=toml(tmp_path, text)) == sentence


@pytest.mark.parametrize(
    ("variable", "text", "sentence"),
    [
        (
            "THENCE_LINK_RETRIES",
            "five",
            "THENCE_LINK_RETRIES is 'five'; expected a whole number from 0 to 100",
        ),
        (
            "THENCE_LINK_RETRYS",
            "5",
            "the environment has THENCE_LINK_RETRYS, which is no setting; "
            "did you mean THENCE_LINK_RETRIES?",
        ),
        (
            "THENCE_PEERS",
            "b",
            "THENCE_PEERS is 'b'; expected NAME=an address such as tcp://host:port",
        ),
        (
            "THENCE_PEERS",
            "b=mem://b,b=mem://c",
            "THENCE_PEERS is 'b=mem://b,b=mem://c'; expected b once",
        ),
        (
            "THENCE_TIMING_DRAIN_S",
            "inf",
            "THENCE_TIMING_DRAIN_S is 'inf'; expected a number from 0 to 86,400",
        ),
        (
            "THENCE_LOG_DEBUG",
            "link,wire",
            "THENCE_LOG_DEBUG[1] is 'wire'; expected one of link, order",
        ),
    ],
)
def test_what_is_wrong_in_the_environment_is_named(variable: str, text: str, sentence: str):
    assert refusal(environ={variable: text}, flags={"name": "a"}) == sentence


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("THENCE_RESP_PASSWRD", "THENCE_RESP_PASSWORD"),
        ("THENCE_RESP_PASSWD", "THENCE_RESP_PASSWORD"),
        ("THENCE_RESP_PASS", "THENCE_RESP_PASSWORD"),
        ("THENCE_RESP_PWD", "THENCE_RESP_PASSWORD"),
        ("THENCE_PASSWORD", "THENCE_RESP_PASSWORD"),
        ("THENCE_RESP_PASSWORDFILE", "THENCE_RESP_PASSWORD_FILE"),
        ("THENCE_CONFG", "THENCE_CONFIG"),
    ],
)
def test_a_mistyped_variable_never_leaves_a_server_open(variable: str, meant: str):
    assert refusal(environ={variable: "secret", "THENCE_NAME": "a"}) == (
        f"the environment has {variable}, which is no setting; did you mean {meant}?"
    )


@pytest.mark.parametrize("variable", ["THENCE_SERVICE_HOST", "THENCE_PORT", "THENCE_PURE"])
def test_variables_of_others_are_left_alone(variable: str):
    assert load_config(environ={variable: "1", "THENCE_NAME": "a"}) == NodeConfig("a")


def test_what_is_wrong_in_a_flag_is_named():
    assert (
        refusal(flags={"name": "a", "drop": "2"}) == "--drop is 2.0; expected a number from 0 to 1"
    )
    assert refusal(flags={"name": "a", "retry": "2"}) == (
        "there is no flag --retry; did you mean --retries?"
    )
    assert refusal(flags={"name": "a", "delay_to": ["b=x"]}) == (
        "--delay-to.b is 'x'; expected a number from 0 to 3,600,000"
    )


def test_a_members_file_says_who_and_where(tmp_path: Path):
    members = tmp_path / "members"
    members.write_text("a tcp://h:1\nb tcp://h:2\nc tcp://h:3\n", encoding="utf-8")
    flags = {"name": "b", "members": str(members)}
    config = load_config(flags=flags)
    assert config.peers == {"a": "tcp://h:1", "c": "tcp://h:3"}
    assert config.listen == ("tcp://h:2",)
    assert config.member_names == ("a", "b", "c")
    config = load_config(flags={**flags, "listen": "tcp://0:9", "peer": ["c=mem://c", "d=mem://d"]})
    assert config.listen == ("tcp://0:9",)
    assert config.peers == {"a": "tcp://h:1", "c": "mem://c", "d": "mem://d"}
    assert refusal(flags={**flags, "name": "x"}) == f"{members}: does not list this node, 'x'"


def test_one_file_serves_all_members(tmp_path: Path):
    file = toml(tmp_path, '[peers]\na = "mem://a"\nb = "mem://b"\n')
    for name, other in (("a", "b"), ("b", "a")):
        config = load_config(file, flags={"name": name})
        assert config.listen == (f"mem://{name}",)
        assert config.peers == {other: f"mem://{other}"}


def test_a_newcomer_asks_several_members_and_needs_no_list_of_them(tmp_path: Path):
    urls = ("tcp://h:1", "tcp://h:2")
    config = load_config(flags={"name": "d", "join": list(urls), "delay_to": ["b=5"]})
    assert config.membership.join == urls
    assert config.membership.is_elastic
    assert config.peers == {}
    assert load_config(flags={"name": "d"}, environ={"THENCE_MEMBERSHIP_JOIN": ",".join(urls)})
    file = toml(tmp_path, 'name = "d"\n[membership]\njoin = ["h:1"]\n')
    assert refusal(file=file) == (
        "FILE: membership.join[0] is 'h:1'; expected an address such as tcp://host:port"
    )


def test_a_newcomer_does_not_bring_a_members_file(tmp_path: Path):
    members = tmp_path / "members"
    members.write_text("a tcp://h:1\nb tcp://h:2\n", encoding="utf-8")
    flags = {"name": "b", "members": str(members), "elastic": True}
    assert load_config(flags=flags).membership.is_elastic
    assert refusal(flags={**flags, "join": ["tcp://h:1"]}) == (
        "membership.join and peers do not go together: a newcomer learns the members from the group"
    )


# ---- every setting, from every source ---------------------------------------------------------

NAMES = st.text(st.sampled_from("abcxyz-_09"), min_size=1, max_size=8)
TEXTS = {
    "word": NAMES,
    "name": NAMES,
    "url": NAMES.map(lambda name: f"tcp://{name}:1"),
    "address": st.integers(0, 65535).map(lambda port: f"localhost:{port}"),
    "file": NAMES,
    "folder": NAMES,
}


def values(value: Value) -> st.SearchStrategy[Any]:
    about = value.about
    if value.item is not None:
        if value.kind == "list":
            return st.lists(values(value.item), min_size=1, max_size=3).map(tuple)
        return st.dictionaries(NAMES, values(value.item), min_size=1, max_size=3)
    if value.kind == "whole":
        return st.integers(int(about.low or 0), int(about.high or 0))
    if value.kind == "number":
        return st.floats(about.low, about.high)
    if value.kind == "switch":
        return st.booleans()
    return st.sampled_from(value.choices) if value.choices else TEXTS[about.shape]


def as_text(held: Any) -> str:
    if isinstance(held, dict):
        return ",".join(f"{name}={as_text(entry)}" for name, entry in held.items())
    if isinstance(held, tuple):
        return ", ".join(map(as_text, held))
    return str(held)


def as_toml(setting: Setting, held: Any) -> str:
    section, _, field = setting.key.rpartition(".")
    if isinstance(held, dict):
        lines = [f"{json.dumps(name)} = {json.dumps(entry)}" for name, entry in held.items()]
        return f"[{setting.key}]\n" + "\n".join(lines)
    head = f"[{section}]\n" if section else ""
    return f"{head}{field} = {json.dumps(held)}\n"


# These need company: the two others, the right order, a file that exists, peers.
ALONE = [
    key
    for key in SETTINGS
    if not key.startswith("tls.")
    and not key.endswith(("_ms_min", "_ms_max", "keep_alive_s", "silence_s", "ack_delay_ms"))
    and not key.endswith(("beat_ms", "suspect_s", "evict_s"))
    and key not in ("members", "faults.delay_to", "faults.vary_to", "name", "peers")
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_value_is_the_same_from_file_environment_and_flag(tmp_path: Path, data: st.DataObject):
    setting = SETTINGS[data.draw(st.sampled_from(ALONE))]
    held = data.draw(values(setting.value))
    flags = {"name": "NODE"}
    file = toml(tmp_path, as_toml(setting, held))
    by_file = load_config(file, {}, flags)
    assert read(by_file, setting.key) == held
    assert load_config(None, {setting.variable: as_text(held)}, flags) == by_file
    assert load_config(None, {}, {**flags, setting.parameter: as_text(held)}) == by_file
    assert load_config(None, {}, {**flags, setting.key: held}) == by_file
    if isinstance(held, tuple):
        assert load_config(None, {}, {**flags, setting.parameter: list(held)}) == by_file


@given(st.dictionaries(NAMES, st.floats(0, 1000), min_size=1, max_size=3))
def test_maps_come_from_text(delays: dict[str, float]):
    peers = {name: f"mem://{name}" for name in delays}
    config = load_config(
        environ={"THENCE_PEERS": as_text(peers)},
        flags={"name": "NODE", "delay_to": [f"{name}={ms}" for name, ms in delays.items()]},
    )
    assert config.peers == peers
    assert config.faults.delay_to == delays


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=80))
def test_any_file_is_a_config_or_one_sentence(tmp_path: Path, text: str):
    try:
        config = load_config(toml(tmp_path, text), flags={"name": "a"})
    except UnusableInputError as error:
        assert str(error)
    else:
        assert msgspec.json.decode(msgspec.json.encode(config), type=NodeConfig) == config


def test_deep_nesting_is_refused(tmp_path: Path):
    assert "not TOML" in refusal(file=toml(tmp_path, "a = " + "[" * 100_000))
