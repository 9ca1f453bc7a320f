"""One member of an elastic group: what it may send, whom it hears, how it ends."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.client.companies import (
    MEMBERSHIP,
    Company,
    council,
    elastic_of,
    founders,
    heard,
    texts,
)
from tests.client.fakes import TIMING, hub_of, taken, turn
from tests.client.greetings import greeted, refusal
from thence.client.elastic import Elastic
from thence.client.events import Evicted, Joined, Left
from thence.client.recovery import last_checkpoint
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.engine.tag import SHELVED
from thence.errors import LocalProtocolError, Removed
from thence.journal.base import Identity
from thence.journal.memory import MemoryDisk, MemoryJournal
from thence.wire import membership as said
from thence.wire import talk

CALM = replace(MEMBERSHIP, evict_s=0)
"""Nobody is evicted for being silent."""


# ---- what an application may do


@pytest.mark.parametrize("how", [{"stream": "s"}, {"to": ["b"]}, {"ordered": False}, {"after": []}])
def test_every_message_is_for_everyone_and_after_everything(how: dict[str, Any]):
    with pytest.raises(LocalProtocolError, match="every message is for everyone"):
        elastic_of().broadcast(b"x", 0.0, **how)


def test_only_one_engine_has_members_that_change():
    with pytest.raises(LocalProtocolError, match="engine graph has no members that change"):
        Elastic("g", ENGINES["graph"], founders(), 0, 0.0, MEMBERSHIP, timing=TIMING)


def test_members_do_not_change_without_stability():
    with pytest.raises(LocalProtocolError, match="members cannot change without stability"):
        elastic_of(options=EngineOptions(stability=False))


def test_one_who_is_leaving_sends_no_more_and_one_who_is_out_neither():
    company = Company("ab")
    b = company.drivers["b"]
    b.leave(company.now)
    with pytest.raises(Removed, match="b is leaving g"):
        b.broadcast(b"x", company.now)
    company.go(1.0)
    assert b.is_out
    with pytest.raises(Removed, match="b is no member of g any more: join again"):
        b.broadcast(b"x", company.now)
    with pytest.raises(Removed):
        b.broadcast_many([b"x"], company.now)


def test_who_is_out_evicts_nobody():
    company = Company("abc")
    b = company.drivers["b"]
    b.leave(company.now)
    company.go(1.0)
    with pytest.raises(Removed):
        b.evict("a", False, company.now)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("x", "x is no member of g; members are a, b, c"), ("a", "a is this node itself")],
)
def test_only_other_members_can_be_evicted(name: str, sentence: str):
    with pytest.raises(LocalProtocolError, match=sentence):
        elastic_of().evict(name, False, 0.0)


def test_a_member_can_be_evicted_though_it_answers_and_is_told_what_was_not_accepted():
    company = Company("abc")
    c = company.drivers["c"]
    company.break_off("a", "c")
    company.break_off("b", "c")
    late = c.broadcast(b"nobody has it", company.now)
    company.drivers["b"].evict("c", False, company.now)
    company.go(1.0, takes=False)
    assert company.members("a") == company.members("b") == ["a", "b"]
    company.connect("c", "a", company.now)
    company.go(0.5, takes=False)
    events = [event for event in taken(c, company.now) if isinstance(event, Evicted)]
    assert [(event.member, event.rejected) for event in events] == [("c", (late,))]


# ---- coming and going


def test_changes_reach_the_application_among_the_messages():
    company = Company("ab")
    a, b = company.drivers["a"], company.drivers["b"]
    company.knock("j", "a")
    company.go(0.3, takes=False)
    b.broadcast(b"x", company.now)
    company.go(0.3, takes=False)
    assert [type(event) for event in taken(a, company.now)][:1] == [Joined]
    company.go(0.5)
    company.enter("j")
    company.connect("j", "b", company.now)
    company.go(0.5)
    b.leave(company.now)
    company.go(0.1, takes=False)
    company.go(0.9, takes=False)
    assert [event.member for event in taken(a, company.now) if isinstance(event, Left)] == ["b"]


def test_one_has_left_only_when_enough_of_the_others_know():
    e = elastic_of("e", "abcde")
    e.leave(0.0)
    left = e.council.view.next({4: (0, False)})
    e.hear("a", said.Installed(left), 0.0, False)
    assert e.is_out
    assert not e.has_left
    e.hear("b", said.Beat(0), 0.1, False)
    assert not e.has_left, "b does not know it"
    e.hear("b", said.Installed(left), 0.2, False)
    assert e.has_left, "half with the first of them"


def test_nobody_waits_for_a_former_member_to_have_something():
    company = Company("abc")
    company.crash("c")
    tag = company.drivers["a"].broadcast(b"x", company.now)
    company.go(0.5)
    assert not company.drivers["a"].is_stable(tag)
    company.go(4.0)
    assert company.members("a") == ["a", "b"]
    assert company.drivers["a"].is_stable(tag)


def test_a_group_of_one_goes_on_after_everybody_left():
    company = Company("ab")
    company.drivers["b"].leave(company.now)
    company.go(1.0)
    a = company.drivers["a"]
    tag = a.broadcast(b"x", company.now)
    company.go(0.5)
    assert a.is_stable(tag)
    assert not len(a.exchange.outbox)


# ---- a frozen member


def freeze(company: Company, name: str, *, who: str) -> None:
    """A coordinator that the others will not follow freezes a member at ``who``."""
    driver = company.drivers[who]
    slot = driver.council.view.named(name)
    assert slot is not None
    driver.council.receive(0, said.Prepare(driver.council.view.num, (5, 0), (slot.slot,)), 0.0)


def test_data_of_a_frozen_member_is_ignored_and_comes_again_when_it_is_called_off():
    company = Company("abc", membership=CALM)
    b, c = company.drivers["b"], company.drivers["c"]
    freeze(company, "c", who="b")
    assert b.council.frozen == {2}
    c.broadcast(b"while frozen", company.now)
    company.run(company.now)
    assert texts(b, company.now) == []
    company.go(2.0, takes=False)
    assert b.council.frozen == set(), "a view without a change calls it off"
    assert company.members("b") == ["a", "b", "c"]
    company.connect("b", "c", company.now)  # it began anew
    company.go(1.0, takes=False)
    assert texts(b, company.now) == [b"while frozen"]


# ---- connections


def opening(hub: Any, **changed: Any) -> tuple[int, bytes]:
    fields = {
        "channel": 0, "group": "g", "engine": "tagged", "members": (), "have": 0, "limit": 100,
        "limit_bytes": 1 << 20, "stability": True, "member": "b", "peer": "a",
    }  # fmt: skip
    made = talk.open_group(talk.Open(**(fields | changed)))
    return talk.OPEN, made[5:]


def test_an_opening_of_a_member_is_live():
    driver = elastic_of()
    hub = hub_of("a", driver)
    hub.received(greeted(hub), [opening(hub)], 0.0)
    assert driver.connected == ["b"]


@pytest.mark.parametrize("changed", [{"member": "b#2"}, {"peer": "a#2"}, {"member": "x"}])
def test_an_opening_of_or_for_another_incarnation_is_not_live_and_told_the_view(
    changed: dict[str, Any],
):
    driver = elastic_of()
    hub = hub_of("a", driver)
    connection = greeted(hub)
    connection.said()
    hub.received(connection, [opening(hub, **changed)], 0.0)
    turn(hub)
    assert driver.connected == []
    assert connection.closed is None
    assert said.Installed(driver.council.view) in heard(connection)


@pytest.mark.parametrize("changed", [{"engine": "graph"}, {"stability": False}])
def test_another_engine_or_stability_is_refused(changed: dict[str, Any]):
    hub = hub_of("a", elastic_of())
    connection = greeted(hub)
    hub.received(connection, [opening(hub, **changed)], 0.0)
    assert refusal(connection)[0] == talk.DIFFERENT_GROUP


def test_founders_that_were_told_other_members_refuse_each_other_with_a_clear_sentence():
    driver = elastic_of()
    hub = hub_of("a", driver)
    connection = greeted(hub)
    theirs = said.Installed(founders("abd"))
    hub.received(connection, [opening(hub), council(theirs)], 0.0)
    code, sentence = refusal(connection)
    assert code == talk.NONSENSE
    assert sentence == (
        "a view of another group, or one that cannot be: another view 0: a, b, d there, a, b, c "
        "here"
    )


def test_founders_tell_each_other_their_members():
    driver = elastic_of()
    hub = hub_of("a", driver)
    connection = greeted(hub)
    hub.received(connection, [opening(hub)], 0.0)
    turn(hub)
    assert said.Installed(founders()) in heard(connection)


# ---- coming back


@pytest.mark.parametrize("checkpoint_bytes", [0, 1 << 30])
def test_what_was_promised_is_known_after_a_crash(checkpoint_bytes: int):
    """However it was written down: as a record, or as part of a checkpoint."""
    disk = MemoryDisk()
    identity = Identity("g", "b")
    driver = elastic_of(
        "b", journal=MemoryJournal(disk, identity), checkpoint_bytes=checkpoint_bytes
    )
    view = driver.council.view.next({2: (0, True)}, ())
    prepare = said.Prepare(0, (3, 0), (2,))
    driver.hear("a", prepare, 0.1, False)
    driver.hear("a", said.Accept(0, (3, 0), view), 0.1, False)
    driver.commit(0.1)
    before = driver.council.state()
    assert before.accepted == view
    disk.crash()
    journal = MemoryJournal(disk, identity)
    made = last_checkpoint(journal)
    assert made is not None
    assert made.view is not None
    again = elastic_of(
        "b", view=made.view, checkpoint=made, journal=journal, checkpoint_bytes=checkpoint_bytes
    )
    assert again.council.state() == before


def test_one_who_slept_blames_nobody_for_it():
    """A laptop that was closed: the senior of a pair would otherwise go on alone."""
    company = Company("ab")
    a = company.drivers["a"]
    company.go(1.0)
    company.break_off("a", "b")
    company.now += 60.0
    turn(company.hubs["a"], company.now)
    turn(company.hubs["a"], company.now + 0.1)
    assert not a.council.suspects
    assert company.members("a") == ["a", "b"]
    company.connect("a", "b", company.now)
    company.go(1.0)
    assert company.members("a") == company.members("b") == ["a", "b"]


@pytest.mark.parametrize("evict_s", [0.0, 6.0])
def test_a_founder_that_is_late_has_the_time_of_every_member(evict_s: float):
    patient = replace(MEMBERSHIP, join_s=2.0, evict_s=evict_s)
    company = Company("ab", view=founders("abc"), membership=patient)
    company.go(5.0)
    assert company.members("a") == ["a", "b", "c"]
    company.go(2.0)
    assert company.members("a") == (["a", "b"] if evict_s else ["a", "b", "c"])


def test_a_newcomer_that_does_not_come_for_its_state_is_evicted_though_nobody_else_is():
    patient = replace(MEMBERSHIP, join_s=2.0, evict_s=0.0)
    company = Company("ab", membership=patient)
    company.knock("j", "a")
    company.go(0.2, takes=False)
    company.break_off("j", "a")
    company.hubs.pop("j")
    company.go(1.0)
    assert company.members("a") == ["a", "b", "j"]
    company.go(2.0)
    assert company.members("a") == ["a", "b"]


def test_one_whose_end_nobody_remembers_counts_on_nothing_but_what_all_had():
    """Views remember so many former members, and the last life of each name."""
    company = Company("abc")
    b = company.drivers["b"]
    b.broadcast(b"all have it", company.now)
    company.go(1.0)
    unsure = b.broadcast(b"who knows", company.now)
    later = replace(founders().next({1: (2, True)}), gone=())
    b.hear("a", said.Installed(later), company.now, False)
    assert b.rejected == (unsure,)


def test_a_founder_that_began_anew_without_its_journal_is_not_the_member_that_it_was():
    """It has promised things that it does not know any more, though it has sent nothing."""
    company = Company("abc")
    company.break_off("a", "b")
    company.drivers["b"] = elastic_of("b", now=company.now)
    company.hubs["b"] = hub_of("b", company.drivers["b"])
    company.connect("a", "b", company.now)
    company.go(0.3)
    assert "b was started again without its journal" in company.refusals[0][2]
    assert company.drivers["a"].connected == ["c"]


def test_a_founder_that_comes_back_with_its_journal_is():
    disk, identity = MemoryDisk(), Identity("g", "b")
    journal = MemoryJournal(disk, identity)
    lives = [elastic_of("b", journal=journal, now=1.0)]
    disk.crash()
    journal = MemoryJournal(disk, identity)
    lives.append(elastic_of("b", journal=journal, checkpoint=last_checkpoint(journal), now=9.0))
    assert lives[0].life == lives[1].life == 1_000_000


def test_a_payload_that_the_journal_lost_is_said_and_nothing_is_sent():
    """It ends this group at this node; it must not break out of the hub."""
    driver = elastic_of("a", "ab", journal=MemoryJournal(MemoryDisk(), Identity("g", "a")))
    tag = driver.broadcast(b"x", 0.0)
    driver.commit(0.0)
    driver.exchange.unsettle(1)
    driver.exchange.release()  # nobody is there, so the outbox keeps nothing
    driver.shelf.look()
    tag.body = SHELVED
    said = talk.Open(0, "g", "tagged", (), 0, 100, 1 << 30, True, "b", "a", 5)
    assert driver.opened(1, said, 0.0) is None
    assert driver.frames(1, 0, False, 0.0) == []
    assert "on its shelf" in driver.failed
