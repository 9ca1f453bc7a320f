"""Data types over a group, by name."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest

import thence.crdt
from tests.client.meshes import QUICK, mesh, run
from thence import Full, Group, Node
from thence.client.objects import Objects, bind
from thence.crdt.base import Crdt
from thence.crdt.retained import Cut
from thence.errors import LocalProtocolError


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def test_objects_of_a_group_are_the_same_at_all_members():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = bind(groups[0]), thence.crdt.bind(groups[1])
            cart, copy = a.open("cart", "set_aw"), b.open("cart", "set_aw")
            cart.add("milk", "eggs")
            assert cart.value() == {"milk", "eggs"}
            await until(lambda: copy.value() == {"milk", "eggs"})
            copy.remove("eggs")
            cart.add("eggs")  # at the same time: the add wins
            a.open("text", "sequence").insert(0, "hello")
            a.open("who", "register_lww").do("set", "ann")
            await until(lambda: b.open("who", "register_lww").value() == "ann")
            await until(lambda: cart.is_stable and copy.is_stable)
            assert cart.value() == copy.value() == {"milk", "eggs"}
            assert b.open("text", "sequence").value() == "hello"
            assert sorted(map(str, b.names())) == ["cart", "text", "who"]
            assert "set_aw 'cart'" in repr(cart)

    run(main())


def test_a_time_under_a_name_is_an_object_as_others_are():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = bind(groups[0]), bind(groups[1])
            offer, copy = a.open("offer", "expiry"), b.open("offer", "expiry")
            offer.at(5)
            assert offer.value() == 5
            assert not offer.is_stable
            await until(lambda: copy.value() == 5 and copy.is_stable and offer.is_stable)
            with pytest.raises(LocalProtocolError, match="something was done to 'offer' before"):
                b.open("offer", "expiry", retain=True)
            copy.never()
            assert copy.value() is None
            await until(lambda: offer.value() is None)

    run(main())


def test_a_change_is_told_once_a_turn():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = bind(groups[0]), bind(groups[1])
            told: list[Any] = []
            there = b.open("n", "counter_pn")
            b.on_change(there, lambda each: told.append(each.value()))
            with a.batch():
                for _ in range(5):
                    a.open("n", "counter_pn").inc()
            await until(lambda: told)
            assert told == [5]
            there.inc(2)
            await until(lambda: len(told) > 1)
            assert told == [5, 7]

    run(main())


def test_what_is_removed_is_gone_and_what_is_concurrent_stays():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = bind(groups[0]), bind(groups[1])
            a.open("s", "set_aw").add(1)
            await until(lambda: b.open("s", "set_aw").value() == {1})
            b.remove("s")
            a.open("s", "set_aw").add(2)
            await until(lambda: a.open("s", "set_aw").value() == {2})
            await until(lambda: b.open("s", "set_aw").value() == {2})
            a.open("c", "counter_pn").inc()
            with pytest.raises(LocalProtocolError, match="cannot be removed"):
                a.remove("c")

    run(main())


def test_wrong_calls_are_said_and_change_nothing():
    async def main() -> None:
        async with mesh("ab") as groups:
            objects = bind(groups[0])
            with pytest.raises(LocalProtocolError, match="no data type is named bag"):
                objects.open("x", "bag")
            cart = objects.open("cart", "set_aw")
            with pytest.raises(AttributeError, match="has no 'push'"):
                cart.push(1)
            with pytest.raises(LocalProtocolError, match="an element is"):
                cart.add([1])
            assert cart.value() == set()
            assert objects.names() == []

    run(main())


def test_a_full_group_refuses_operations():
    async def main() -> None:
        async with mesh("ab") as groups:
            objects = bind(groups[0])
            groups[0].driver._unstable_max = 0
            with pytest.raises(Full):
                objects.open("cart", "set_aw").add(1)
            assert objects.names() == []

    run(main())


def test_objects_come_back_with_the_journal(tmp_path: Path):
    async def main() -> None:
        for value in (1, 2):
            objects = Objects()
            async with Group(
                "a", listen="mem://a", data=tmp_path, timing=QUICK, **objects.hooks
            ) as group:
                objects.attach(group)
                found = objects.open("s", "set_aw")
                assert found.value() == set(range(1, value))
                found.add(value)
                await group.synced()

    run(main())


@pytest.mark.parametrize("drain_s", [None, 0.0])
def test_what_was_done_just_before_closing_comes_back_with_the_journal(
    tmp_path: Path, drain_s: float | None
):
    async def main() -> None:
        for already in ([], ["milk"]):
            objects = Objects()
            group = Group("a", listen="mem://a", data=tmp_path / "a", timing=QUICK, **objects.hooks)
            await group.start()
            objects.attach(group)
            cart = objects.open("cart", "set_aw")
            assert sorted(cart.value()) == already
            cart.add("milk")
            await group.aclose(drain_s)

    run(main())


def test_what_was_done_just_before_closing_is_sent():
    async def main() -> None:
        first = Group("a", listen="mem://a", peers={"b": "mem://b"}, timing=QUICK)
        second = Group("b", listen="mem://b", peers={"a": "mem://a"}, timing=QUICK)
        async with second:
            there = bind(second).open("cart", "set_aw")
            async with first:
                here = bind(first).open("cart", "set_aw")
                here.add("milk")
                await until(lambda: there.value() == {"milk"} and here.is_stable)
                here.add("eggs")
            await until(lambda: there.value() == {"milk", "eggs"})
            await second.aclose(0)

    run(main())


def test_what_is_retained_can_be_undone_cloned_and_done_again_after_it_is_stable():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = bind(groups[0]), bind(groups[1])
            cart = a.open("cart", "set_aw", retain=True)
            there = b.open("cart", "set_aw")
            cart.add("milk")
            await until(lambda: there.value() == {"milk"})
            cut = Cut(a.replica.seen())
            there.add("eggs")
            cart.remove("milk")  # at the same time
            await until(lambda: cart.value() == there.value() == {"eggs"})
            await until(lambda: cart.is_stable and there.is_stable)
            assert cart.clone(None, cut).value() == {"milk"}
            seen = a.replica.seen()
            assert cart.clone(cut, Cut(seen)).value() == {"eggs"}
            removed = cart.retaining.stamp("a", seen["a"])
            cart.undo(removed)
            assert cart.value() == {"milk", "eggs"}
            assert there.value() == {"eggs"}
            cart.redo(removed)
            assert cart.value() == {"eggs"}
            b.remove("cart")
            await until(lambda: cart.value() == set())
            cart.undo()
            assert cart.value() == {"eggs"}
            with pytest.raises(LocalProtocolError, match="retain=True"):
                there.undo()
            a.open("other", "set_aw").add(1)
            with pytest.raises(LocalProtocolError, match="was done to 'other' before"):
                a.open("other", "set_aw", retain=True)

    run(main())


def test_a_clone_has_what_its_cut_counts_and_nothing_that_is_not_sent():
    async def main() -> None:
        async with mesh("ab") as groups:
            objects = bind(groups[0])
            cart = objects.open("cart", "set_aw", retain=True)
            cart.add("milk")
            assert cart.clone(None, Cut({})).value() == set()
            assert cart.clone(None, Cut({"a": 1})).value() == {"milk"}
            cart.add("eggs")
            assert cart.clone(Cut({"a": 1}), Cut({"a": 2})).value() == {"eggs"}
            with objects.batch():
                cart.add("bread")
                assert cart.clone(None, Cut({"a": 3})).value() == {"milk", "eggs"}
            assert cart.clone(None, Cut({"a": 3})).value() == {"milk", "eggs", "bread"}

    run(main())


def test_a_bounded_counter_is_guarded_at_each_member():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = bind(groups[0]), bind(groups[1])
            here, there = a.open("stock", "counter_bounded"), b.open("stock", "counter_bounded")
            here.inc(5)
            await until(lambda: there.value() == 5)
            with pytest.raises(LocalProtocolError, match="counter_bounded"):
                there.dec(1)
            for nobody in ("bob", 7, None):
                with pytest.raises(LocalProtocolError, match=r"no member, and what .* are a, b"):
                    here.transfer(nobody, 2)
            here.transfer("b", 2)
            await until(lambda: there.crdt.export() == here.crdt.export())
            there.dec(2)
            here.dec(3)
            await until(lambda: here.value() == there.value() == 0)

    run(main())


def test_a_group_is_bound_once():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = bind(groups[0]), bind(groups[1])
            with pytest.raises(LocalProtocolError, match="bind it once"):
                bind(groups[0])
            b.open("s", "set_aw").add(1)
            await until(lambda: a.open("s", "set_aw").value() == {1})

    run(main())


def test_what_is_awaited_in_a_batch_makes_nobody_differ():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = bind(groups[0]), bind(groups[1])
            here, there = a.open("s", "set_aw"), b.open("s", "set_aw")
            there.add(0)
            await until(lambda: here.is_stable and here.value() == {0})

            async def awaiting() -> None:
                with a.batch():
                    here.add(0, 1)
                    there.remove(0)  # at the same time
                    there.add(5)
                    await until(lambda: 5 in here.value())
                    here.add(2)
                    here.remove(5)

            with pytest.raises(LocalProtocolError, match="sent in parts"):
                await awaiting()
            await until(lambda: here.value() == there.value() == {0, 1, 2})
            assert a.replica.failure == b.replica.failure == ""

    run(main())


def test_a_callback_that_raises_leaves_the_node_alone():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = bind(groups[0]), bind(groups[1])
            here, there = a.open("s", "set_aw"), b.open("s", "set_aw")
            raised: list[Any] = []
            told: list[Any] = []
            asyncio.get_running_loop().set_exception_handler(
                lambda loop, context: raised.append(context["exception"])
            )
            there.objects.on_change(there, lambda each: 1 // 0)
            there.objects.on_change(there, told.append)
            here.add(1)
            await until(lambda: there.value() == {1})
            there.add(2)
            await until(lambda: here.value() == {1, 2})
            assert told
            assert {type(error) for error in raised} == {ZeroDivisionError}

    run(main())


def test_objects_without_a_group_say_so():
    async def main() -> None:
        objects = Objects()
        cart = objects.open("cart", "set_aw")
        assert cart.value() == set()
        for call in (lambda: cart.add(1), lambda: objects.remove("cart")):
            with pytest.raises(LocalProtocolError, match="no group"):
                call()
        with pytest.raises(LocalProtocolError, match="no group"):
            objects.open("stock", "counter_bounded").dec()
        with pytest.raises(LocalProtocolError, match="no group"), objects.batch():
            pass
        async with mesh("ab") as groups:
            objects.attach(groups[0])
            cart.add(1)
        assert cart.value() == {1}
        with pytest.raises(LocalProtocolError, match="is closed"):
            cart.add(2)

    run(main())


@pytest.mark.parametrize("kind", [3, int, None, Crdt])
def test_what_is_no_data_type_is_told(kind: Any):
    with pytest.raises(LocalProtocolError, match="no data type is named"):
        Objects().open("x", kind)


def test_a_handle_can_be_copied():
    cart = Objects().open("cart", "set_aw")
    assert copy.copy(cart).value() == set()


def test_what_cannot_be_removed_is_retained_when_others_remove_what_is_beside_it():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = bind(groups[0]), bind(groups[1])
            visits = b.open("page", "counter_pn", retain=True)
            a.open("page", "set_aw").add("x")
            visits.inc(2)
            a.remove("page")  # it has not heard of the counter
            await until(lambda: b.open("page", "set_aw").is_stable)
            a.replica.clear()
            a.open("last", "flag_ew").enable()
            await until(lambda: b.open("last", "flag_ew").value())
            assert visits.value() == visits.crdt.value() == 2
            visits.inc()
            visits.undo()
            assert visits.value() == 2

    run(main())


def test_undoing_goes_back_batch_by_batch_and_what_is_done_next_is_another():
    async def main() -> None:
        async with mesh("ab") as groups:
            a, b = bind(groups[0]), bind(groups[1])
            cart = a.open("cart", "set_aw", retain=True)
            there = b.open("cart", "set_aw")
            cart.add(1)
            await until(lambda: there.value() == {1})
            for element in (2, 3):
                cart.add(element)
                cart.undo()  # in the turn of the event loop in which it was done
            assert cart.value() == {1}
            first = cart.undo()
            assert cart.value() == set()
            with pytest.raises(LocalProtocolError, match="nothing is left to undo"):
                cart.undo()
            cart.redo(first)
            cart.add(4)
            assert cart.value() == {1, 4}
            await until(lambda: there.value() == {1, 2, 3, 4})

    run(main())


def test_what_is_done_in_a_batch_can_be_undone_when_it_is_over():
    async def main() -> None:
        async with mesh("ab") as groups:
            objects = bind(groups[0])
            bind(groups[1])
            cart = objects.open("cart", "set_aw", retain=True)
            cart.add(0)
            await until(lambda: cart.is_stable)
            before = cart.retaining.latest
            with objects.batch():
                cart.add(1)
                for stamp in (None, cart.retaining.latest):
                    with pytest.raises(LocalProtocolError, match="when its batch is over"):
                        cart.undo(stamp)
                assert cart.undo(before) is before  # that is over
                cart.add(2)
                objects.remove("cart")
                cart.add(3)
            assert cart.value() == {3}
            undone = cart.undo()
            assert cart.value() == set()
            cart.redo(before)
            assert cart.value() == {0}
            cart.redo(undone)
            assert cart.value() == {3}

    run(main())


def test_what_is_no_stamp_of_an_object_is_told():
    async def main() -> None:
        async with mesh("ab") as groups:
            objects = bind(groups[0])
            cart = objects.open("cart", "set_aw", retain=True)
            cart.add(1)
            other = objects.open("other", "set_aw", retain=True)
            other.add(1)
            for stamp in ("a", 1, objects.replica.latest, other.undo()):
                with pytest.raises(LocalProtocolError, match="nothing was done here by"):
                    cart.undo(stamp)
                for bounds in ((None, stamp), (stamp, Cut({}))):
                    with pytest.raises(LocalProtocolError, match="a bound is a stamp"):
                        cart.clone(*bounds)
            with pytest.raises(LocalProtocolError, match="a bound is a stamp"):
                cart.clone(None, None)
            with pytest.raises(LocalProtocolError, match="no group"):
                Objects().open("cart", "set_aw", retain=True)

    run(main())


def test_objects_go_on_in_a_group_that_their_node_joins_again():
    async def main() -> None:
        async with Node("a", listen="mem://a", elastic=True, timing=QUICK) as first:
            objects = Objects()
            group = await first.group(**objects.hooks)
            with pytest.raises(LocalProtocolError, match="has members that come and go"):
                bind(group)
            ours = objects.attach(group).open("cart", "set_aw")
            ours.add("milk")
            await evict_and_join_again(group, ours)

    async def evict_and_join_again(group: Group, ours: Any) -> None:
        async with Node(
            "b", listen="mem://b", elastic=True, timing=QUICK, join="mem://a"
        ) as second:
            objects = Objects()
            old = await second.group(**objects.hooks)
            objects.attach(old)
            cart, seen = objects.open("cart", "set_aw"), []
            tags = objects.open("tags", "set_aw", retain=True)
            objects.on_change(cart, lambda of: seen.append(of.value()))
            await until(lambda: len(group.members) == 2)
            group.evict("b")
            tags.add("never sent")
            await until(lambda: old.is_out)
            ours.add("eggs")
            objects.attach(await second.rejoin(**objects.hooks))
            assert cart.value() == {"milk", "eggs"}
            assert tags.value() == tags.crdt.value() == set()
            with pytest.raises(LocalProtocolError, match="keeps no operations"):
                tags.undo()
            await until(lambda: seen == [{"milk", "eggs"}])
            cart.add("bread")
            await until(lambda: ours.value() == {"milk", "eggs", "bread"})

    run(main())
