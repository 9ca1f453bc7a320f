"""``ENGINES``: the table and the folder agree; making a node of any of them."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import thence.engine
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.registry import DEFAULT_ENGINE, ENGINES, make_node
from thence.errors import LocalProtocolError


def specs_in_the_folder() -> dict[str, EngineSpec]:
    """Every EngineSpec at the top of a module of the folder, by name."""
    found: dict[str, EngineSpec] = {}
    for module in pkgutil.iter_modules(thence.engine.__path__):
        if module.name == "registry":
            continue
        for value in vars(importlib.import_module(f"thence.engine.{module.name}")).values():
            if isinstance(value, EngineSpec):
                found[value.name] = value
    return found


def test_the_table_and_the_folder_agree():
    assert specs_in_the_folder() == ENGINES


def test_each_engine_is_listed_under_its_name_and_the_default_comes_first():
    assert [spec.name for spec in ENGINES.values()] == list(ENGINES)
    assert next(iter(ENGINES)) == DEFAULT_ENGINE == "tagged"


@pytest.mark.parametrize("name", ENGINES)
def test_a_node_of_each_engine_sends_and_receives(name: str):
    options = EngineOptions(clock=lambda slot: 1)
    nodes = [make_node(["a", "b"], node, name, options) for node in ("a", "b")]
    (client, engine), (_, peer) = nodes
    here, there = Effects(), Effects()
    engine.broadcast(client.broadcast(b"hello"), here)
    while here.send or there.send:  # some answer before they deliver
        for slot, out, to, node in ((0, here, there, peer), (1, there, here, engine)):
            messages, out.send = out.send, []
            for message in messages:
                node.receive(slot, getattr(message, "message", message), to)
    assert [(tag.origin, tag.seq, tag.payload) for tag in there.deliver] == [(0, 1, b"hello")]


def test_a_node_is_of_the_default_engine_with_the_options_given():
    client, engine = make_node(["a", "b"], "b", options=EngineOptions(pending_per_origin_max=7))
    assert type(engine).__name__ == "Tagged"
    assert (client.slot, engine.slot, engine.pending_max) == (1, 1, 7)


def test_an_unknown_engine_is_an_error_that_lists_them():
    with pytest.raises(LocalProtocolError, match="no engine 'nope'; there are tagged, vector"):
        make_node(["a"], "a", "nope")


def test_a_node_is_a_member_of_its_group():
    with pytest.raises(LocalProtocolError, match="'c' is not a member; members are a, b"):
        make_node(["a", "b"], "c")
    with pytest.raises(LocalProtocolError, match="unique"):
        make_node(["a", "a"], "a")
    with pytest.raises(LocalProtocolError, match="name"):
        make_node(["a/b"], "a/b")
