"""What the status page says of members that come and go, and the one thing that it takes: evict.

Everything is read off the driver when somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from thence.client.driver import Driver
from thence.client.elastic import Elastic
from thence.client.runtime import Runtime
from thence.errors import LocalProtocolError
from thence.telemetry.http import JSON, Response
from thence.telemetry.snapshot import Evicting, Joining, MemberNumbers, MembershipNumbers
from thence.wire.membership import Member

_SWITCH: Final = {"": False, "0": False, "1": True}


def peer_names(driver: Driver) -> list[str]:
    """The names of the nodes that are members now, this one too; not ``a#2`` but ``a``."""
    if isinstance(driver, Elastic):
        return [each.name for each in driver.council.view.members]
    return driver.member_names


def membership_numbers(driver: Driver, now: float) -> MembershipNumbers | None:
    """Who is in the group as its members agreed on it, and how it came to be; None if that never
    changes."""
    if not isinstance(driver, Elastic):
        return None
    council, reception = driver.council, driver.reception
    return MembershipNumbers(
        view=council.view.num,
        members=tuple(_member(driver, each, now) for each in council.view.members),
        minority=council.is_minority,
        leaving=driver.is_leaving,
        out=driver.is_out,
        changes=council.changes,
        handovers=reception.handed,
        newcomers=len(reception.guests.keys() | council.joins.keys()),
        kept_bytes=driver.shelf.bytes,
        shelved_bytes=driver.shelf.shelved_bytes,
    )


def _member(driver: Elastic, member: Member, now: float) -> MemberNumbers:
    council, slot = driver.council, member.slot
    if slot == driver.slot:
        return MemberNumbers(name=member.id, state="self", address=member.address)
    state = "up" if slot in council.up else "coming"
    if slot in council.condemned | council.vouched:
        state = "condemned"
    elif slot in council.suspects:
        state = "suspected"
    silence_s = driver.detector.silence(slot, now)
    return MemberNumbers(name=member.id, state=state, silence_s=silence_s, address=member.address)


def joining(runtime: Runtime) -> tuple[Joining, ...]:
    """The groups that this node is on its way into."""
    return tuple(
        Joining(name, newcomer.waiting_for, newcomer.received_bytes)
        for name, newcomer in runtime.hub.newcomers.items()
    )


def unready(driver: Driver) -> str:
    """Why a group whose members change cannot be used as it should; empty if it can.

    In a minority messages travel still.  But the others may go on without this side, and then what
    it sends is not accepted: who can choose should talk to another node.
    """
    if not isinstance(driver, Elastic):
        return ""
    if driver.is_out:
        return f"{driver.name} is no member of {driver.group} any more"
    if driver.is_leaving:
        return f"{driver.name} is leaving {driver.group}"
    council = driver.council
    if council.is_minority:
        members = council.view.members
        there = [each.id for each in members if each.slot not in council.suspects]
        return (
            f"only a minority of {driver.group} can be reached ({', '.join(there)} of "
            f"{len(members)}): what is sent here may not be accepted"
        )
    return ""


def evict(runtime: Runtime, asked: Mapping[str, str]) -> Response:
    """Have a member evicted, as ``POST /evict?group=&name=&dead=`` asks."""
    group, name, dead = (asked.get(each, "") for each in ("group", "name", "dead"))
    if not name or dead not in _SWITCH:
        return _sentence(400, "expected ?group=GROUP&name=MEMBER&dead=0 or 1")
    driver = runtime.hub.drivers.get(group)
    if driver is None:
        known = ", ".join(runtime.hub.drivers) or "none"
        return _sentence(404, f"this node takes part in no group {group!r}; it is in: {known}")
    if not isinstance(driver, Elastic):
        return _lose(runtime, driver, name, _SWITCH[dead])
    if driver.is_out:
        return _sentence(409, f"{driver.name} is no member of {group} any more")
    members = driver.council.view.members
    ids = tuple(each.id for each in members)
    member = next((each for each in members if name in (each.id, each.name)), None)
    if member is None:
        return _sentence(404, f"{name} is no member of {group}; members are {', '.join(ids)}")
    if member.slot == driver.slot:
        return _sentence(409, f"{name} is this node itself: stop it, and it leaves")
    try:
        driver.evict(member.name, _SWITCH[dead], runtime.now)
    except LocalProtocolError as error:
        return _sentence(409, str(error))
    runtime.turn()
    return Response(200, msgspec.json.encode(Evicting(True, ids)) + b"\n", JSON)


def _lose(runtime: Runtime, driver: Driver, name: str, is_dead: bool) -> Response:
    """A group whose members do not change goes on without one that crashed, if its engine can."""
    if not driver.spec.survives:
        return _sentence(409, f"the members of {driver.group} do not change: it is not elastic")
    if not is_dead:
        return _sentence(
            409, f"{driver.group} goes on without {name} only if it has crashed: vouch for that "
            "with --dead, at every member that is left",
        )  # fmt: skip
    try:
        driver.crashed(name, runtime.now)
    except LocalProtocolError as error:
        return _sentence(404, str(error))
    runtime.turn()
    return Response(
        200, msgspec.json.encode(Evicting(True, tuple(driver.member_names))) + b"\n", JSON
    )


def _sentence(status: int, sentence: str) -> Response:
    return Response(status, f"{sentence}\n".encode())
