"""Whole nodes, hub to journal, under everything that can befall them; bugs put in are found."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from tests.seeds import seeds
from tests.sim.node_classes import CLASSES, NARROW, TIGHT, options_of
from tests.sim.node_mutants import MUTANTS, Mutant, NotOnceError, first_failure, plant
from thence.config.node import FlowConfig
from thence.sim import nodes
from thence.sim.datagrams import Weather
from thence.sim.node import NodesOptions
from thence.sim.node_view import Broken, Payloads, View
from thence.sim.nodes import World, replay, run_nodes

PLAIN_SEEDS = 3
SOAK_SEEDS = range(1000, 1150)
MUTANT_SEEDS = range(60)
SMALL = NodesOptions(nodes=2, messages=3, checkpoint_bytes=200, confirms=True)


@pytest.mark.parametrize("name", CLASSES)
def test_nothing_is_lost_repeated_or_misordered(name: str):
    for seed in seeds(PLAIN_SEEDS):
        run_nodes(options_of(name, seed))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", CLASSES)
def test_nothing_is_lost_repeated_or_misordered_for_long(
    name: str, capsys: pytest.CaptureFixture[str]
):
    for seed in SOAK_SEEDS:
        run_nodes(options_of(name, seed))
    with capsys.disabled():
        print(f"\n{name}: {len(SOAK_SEEDS)} runs")


# ---- a crash at every operation of a journal


def operations(options: NodesOptions, node: str) -> int:
    return run_nodes(options).nodes[node].parts["group0"].disk.operations


def crash_everywhere(options: NodesOptions, node: str) -> int:
    """Crash it at each operation, before and after; how many runs that were."""
    count = operations(options, node)
    for at in range(1, count + 1):
        for when in ("before", "after"):
            run_nodes(msgspec.structs.replace(options, crash_at=(node, at, when)))
    return 2 * count


@pytest.mark.parametrize("kept", [False, True])
def test_a_crash_at_every_operation_of_a_journal(kept: bool):
    assert crash_everywhere(msgspec.structs.replace(SMALL, kept=kept), "a") > 40


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_crash_at_every_operation_of_any_journal(capsys: pytest.CaptureFixture[str]):
    runs = 0
    for seed in seeds(1):
        for changes in (
            {},
            {"streams": True, "eager": True},
            {"kept": True},
            {"flow": NARROW, "turn_s": 0.004},
        ):
            options = msgspec.structs.replace(SMALL, seed=seed, nodes=3, messages=5, **changes)
            runs += sum(crash_everywhere(options, node) for node in "abc")
    with capsys.disabled():
        print(f"\na crash at every operation: {runs} runs")


# ---- the runs reach what they are for


def whole(name: str, count: int = 6) -> list[World]:
    return [run_nodes(options_of(name, seed)) for seed in range(count)]


def test_nodes_come_back_and_are_told_again():
    worlds = whole("confirms")
    parts = [part for world in worlds for part in world.parts]
    assert sum(part.restarts for part in parts) > 20
    assert sum(len(part.view.maybe) for part in parts) > 0
    # What was taken in some life and not confirmed was taken again.
    assert sum(part.took for part in parts) > sum(len(part.view.sure) for part in parts) + 50


def test_journals_fail_and_their_nodes_stop():
    assert sum(node.failures for world in whole("fails") for node in world.nodes.values()) > 10


def test_limits_are_reached():
    assert sum(part.refusals for world in whole("late, tight", 4) for part in world.parts) > 10


def test_groups_overlap_and_share_connections():
    worlds = whole("groups", 8)
    smaller = [
        group
        for world in worlds
        for group, names in world.groups.items()
        if len(names) < len(world.names)
    ]
    assert smaller
    for world in worlds:
        for node in world.nodes.values():
            assert len(node.hub.links) <= len(world.names) - 1


def test_datagrams_are_lost_and_sent_again():
    world = run_nodes(options_of("datagrams", 1))
    resent = [
        link.connection.link.stats.resent  # type: ignore[attr-defined]
        for node in world.nodes.values()
        for link in node.hub.links.values()
    ]
    assert sum(resent) > 0


# ---- the same again


def test_a_failing_run_prints_the_call_that_replays_it(monkeypatch: pytest.MonkeyPatch):
    options = NodesOptions(seed=3, kills=2, flow=TIGHT, weather=Weather(loss=0.1))
    monkeypatch.setattr(World, "judge", lambda self: (_ for _ in ()).throw(Broken("as planned")))
    with pytest.raises(Broken, match="as planned") as caught:
        run_nodes(options)
    call = str(caught.value).partition("replay: ")[2]
    assert call == replay(options)
    names = {**vars(nodes), "FlowConfig": FlowConfig, "Weather": Weather}
    asked: list[NodesOptions] = []
    eval(call, {**names, "run_nodes": asked.append})
    assert asked == [options]


DIGEST = """
from tests.sim.node_classes import options_of
from thence.sim.nodes import run_nodes
for name in ("everything", "datagrams"):
    print(run_nodes(options_of(name, 5)).digest())
"""


def test_the_same_options_give_the_same_run_under_any_hash_seed():
    found = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        done = subprocess.run(
            [sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        found.add(done.stdout)
    assert len(found) == 1
    assert len(next(iter(found)).split()) == 2


def test_another_seed_gives_another_run():
    assert len({run_nodes(options_of("kills", seed)).digest() for seed in range(3)}) == 3


# ---- bugs put in


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_put_in_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch, mutant)
    assert first_failure(mutant, MUTANT_SEEDS) is not None


def test_a_bug_must_change_something(monkeypatch: pytest.MonkeyPatch):
    nowhere = msgspec.structs.replace(MUTANTS[0], old="what is not there")
    with pytest.raises(NotOnceError):
        plant(monkeypatch, nowhere)


# ---- the view of an application


class Told:
    def __init__(self, text: str) -> None:
        self.packed, self.text = 0, text

    def __str__(self) -> str:
        return self.text


def delivery(text: str, payload: bytes = b"p") -> Any:
    from thence.client.events import Delivered

    tag: Any = Told(text)
    tag.payload = payload
    return Delivered(None, 1, tag)  # type: ignore[arg-type]


def stable(text: str) -> Any:
    from thence.client.events import Stable

    return Stable(None, 1, Told(text))  # type: ignore[arg-type]


@pytest.fixture
def view() -> View:
    payloads = Payloads()
    for number in range(1, 6):
        payloads.sent(f"b:{number}", b"p", None)
    return View("a", ["a", "b"], payloads)


def take(view: View, *dots: str) -> None:
    for dot in dots:
        view.took(delivery(dot))
    view.turned()


def test_what_was_confirmed_may_not_come_again(view: View):
    take(view, "b:1", "b:2")
    view.done(1)
    view.turned()
    view.crashed()
    with pytest.raises(Broken, match="came again"):
        view.took(delivery("b:1"))


def test_what_was_not_confirmed_comes_again_in_order(view: View):
    take(view, "b:1", "b:2", "b:3")
    view.done(1)
    view.turned()
    view.crashed()
    assert view.left() == ["b:2", "b:3"]
    with pytest.raises(Broken, match="b:2 was to come again before it"):
        view.took(delivery("b:3"))


@pytest.mark.parametrize("comes", [["b:1", "b:2", "b:3"], ["b:3"]])
def test_what_was_confirmed_in_a_turn_that_did_not_end_comes_as_a_whole_or_not(
    view: View, comes: list[str]
):
    take(view, "b:1", "b:2", "b:3")
    view.done(2)
    view.crashed()
    take(view, *comes)
    assert view.left() == []
    view.done()
    view.turned()
    assert all(view.has("deliver", f"b:{number}") for number in (1, 2, 3))


def test_half_of_what_one_turn_confirmed_does_not_come_again(view: View):
    take(view, "b:1", "b:2", "b:3")
    view.done(2)
    view.crashed()
    with pytest.raises(Broken, match="b:3 was to come again"):
        view.took(delivery("b:2"))


def test_what_is_stable_was_delivered_in_this_life_or_confirmed(view: View):
    take(view, "b:1")
    view.crashed()
    with pytest.raises(Broken, match="was not delivered"):
        view.took(stable("b:1"))
    view.took(stable("a:1"))


def test_a_payload_comes_as_it_was_sent(view: View):
    with pytest.raises(Broken, match="was sent with b'p'"):
        view.took(delivery("b:1", b"q"))
    with pytest.raises(Broken, match="nothing that was written down"):
        view.took(delivery("b:6"))


def test_a_dot_has_one_payload_and_its_members():
    payloads = Payloads()
    payloads.sent("a:1", b"x", ["b"])
    with pytest.raises(Broken, match="used twice"):
        payloads.sent("a:1", b"y", ["b"])
    with pytest.raises(Broken, match="is for"):
        payloads.came("a:1", "c", b"x")
    assert payloads.of("b") == payloads.of("a") == ["a:1"]
    assert payloads.of("c") == []


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("joined, confirms", 1023),
        ("tight", 1229),
        ("streams", 1224),
        ("bursts, streams", 1251),
        ("bursts, kills", 1494),
        ("crashes", 1406),
        ("eager", 1365),
        ("datagrams, joined", 1266),
    ],
)
def test_what_waits_comes_in_the_same_order_after_a_crash(name: str, seed: int):
    """A chain that waits comes as a whole; a recovery that took it message by message did not."""
    run_nodes(options_of(name, seed))


def test_a_greeting_that_is_still_on_its_way_at_the_end_is_nothing_left_over():
    run_nodes(options_of("datagrams", 1165))
