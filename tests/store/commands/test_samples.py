"""Picking at random: each member as likely as any other, and nothing that has gone."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.store.commands.tables import TABLES
from tests.store.commands.world import World
from thence.store.commands import samples
from thence.store.commands.samples import PICKED_MAX, Picker, random_count
from thence.store.errors import OUT_OF_RANGE, CommandError

LARGE = samples.SMALL_MAX + 100


def filled(count: int) -> World:
    world = World(TABLES)
    world.run("SADD", "t", *[f"m{number}" for number in range(count)])
    return world


@pytest.mark.parametrize("count", [5, LARGE])
def test_every_member_is_picked_about_as_often(count: int):
    world = filled(count)
    world.stabilise()
    picks = Counter([world.run("SRANDMEMBER", "t") for _ in range(20 * count)])
    assert len(picks) == count
    assert max(picks.values()) < 5 * 20


def test_a_list_to_pick_from_is_as_it_was_made():
    # To put a large one into another order would hold up everybody, and picking is random anyway.
    assert samples.Sample(list(range(1000)), 0).members == list(range(1000))


def test_what_has_gone_is_never_picked():
    world = filled(LARGE)
    assert world.run("SRANDMEMBER", "t")  # a list of the members is kept from here on
    for number in range(LARGE - 3):
        world.run("SREM", "t", f"m{number}")
    left = {b"m%d" % number for number in range(LARGE - 3, LARGE)}
    assert {world.run("SRANDMEMBER", "t") for _ in range(200)} == left


def test_popping_a_large_set_gives_each_member_once():
    world = filled(LARGE)
    popped = [world.run("SPOP", "t") for _ in range(LARGE)]
    assert len(set(popped)) == LARGE
    assert world.run("SPOP", "t") is None
    assert world.run("EXISTS", "t") == 0


def test_new_members_are_picked_after_a_while():
    world = filled(LARGE)
    world.run("SRANDMEMBER", "t")
    world.run("SADD", "t", *[f"new{number}" for number in range(10 * LARGE)])
    assert any([str(world.run("SRANDMEMBER", "t")).startswith("b'new") for _ in range(200)])
    world = filled(LARGE)
    world.run("SRANDMEMBER", "t")
    world.run("SADD", "t", *[f"new{number}" for number in range(LARGE // 2)])
    world.now_ms += samples.STALE_MS + 1
    assert any([str(world.run("SRANDMEMBER", "t")).startswith("b'new") for _ in range(200)])


@pytest.mark.parametrize("count", [1, 5, 400, LARGE, 10 * LARGE])
def test_a_positive_count_gives_different_members(count: int):
    found = filled(LARGE).run("SRANDMEMBER", "t", count)
    assert isinstance(found, list)
    assert len(found) == len(set(found)) == min(count, LARGE)


def test_a_negative_count_gives_as_many_as_asked():
    world = filled(3)
    assert len(world.run("SRANDMEMBER", "t", -100)) == 100  # type: ignore[arg-type]
    assert str(world.run("SRANDMEMBER", "t", -PICKED_MAX - 1)) == OUT_OF_RANGE


def test_a_picker_of_nothing_gives_nothing():
    world = World(TABLES)
    node = world.nodes[0]
    picker = Picker(node, node.session, ("set", b"t"), set(), 0, list)
    assert picker.one() is None


def test_random_keys_are_keys():
    world = World(TABLES)
    assert world.run("RANDOMKEY") is None
    names = {b"k%d" % number for number in range(LARGE)}
    for name in names:
        world.run("SET", name, "v")
    assert world.run("RANDOMKEY") in names
    for name in sorted(names)[1:]:
        world.run("DEL", name)
    assert {world.run("RANDOMKEY") for _ in range(20)} == {min(names)}


def test_counts_have_63_bits():
    assert random_count(b"-9223372036854775807") == -(2**63) + 1
    with pytest.raises(CommandError, match="must between"):
        random_count(b"-9223372036854775808")
    with pytest.raises(CommandError, match="out of range"):
        random_count(b"5000000000000000000", doubled=True)
