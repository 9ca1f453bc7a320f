"""Founding an elastic group, and joining one, on real networks."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Any, Final

from thence.client.driver import Driver
from thence.client.elastic import Elastic
from thence.client.membership import Hooks
from thence.client.newcomer import Newcomer
from thence.client.recovery import last_checkpoint
from thence.client.secret import read_secret
from thence.client.station import MakeTracing, Station
from thence.config.node import ELASTIC_ENGINE as ENGINE
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.errors import LocalProtocolError, Removed, UnreachableError, UnusableInputError
from thence.journal.base import Journal
from thence.wire.membership import Request, View

_NO_HOOKS: Final = Hooks()


async def enter(
    station: Station,
    group: str,
    members: Sequence[str] | None = None,
    engine: str | None = None,
    options: EngineOptions | None = None,
    hooks: Hooks = _NO_HOOKS,
) -> Driver:
    """Take part in a group: begin it with its other founders, or join it."""
    config = station.config
    if not config.membership.is_elastic:
        return station.open(group, members, engine, options, hooks.kept)
    chosen = station.check(group, engine)
    if chosen != ENGINE:
        raise UnusableInputError(f"engine {chosen} has no members that change: use {ENGINE}")
    options = options or station.options
    if not options.stability:
        raise UnusableInputError(
            f"{group} is elastic, and stability is off: members cannot change without it"
        )
    resumed = resume(station, group, options, hooks)
    if resumed is not None:
        return resumed
    if config.membership.join:
        return await join(station, group, options, hooks)
    return found(station, group, members, options, hooks)


def resume(station: Station, group: str, options: EngineOptions, hooks: Hooks) -> Elastic | None:
    """Come back as the member that the journal knows; None if there is none, or it is over."""
    journal = station.journal(group)
    if journal is None:
        return None
    try:
        made = last_checkpoint(journal)
        saved = journal.load()
        is_over = made is None and saved.checkpoint is not None
        if (saved.records and saved.checkpoint is None) or (made is not None and not made.view):
            raise UnusableInputError(
                f"the journal of {station.config.name} is from when the members of {group} did not "
                "change: use another folder (--data)"
            )
        if made is None or made.view is None:
            journal.close()
            if is_over and not station.config.membership.join:
                raise UnusableInputError(
                    f"{station.config.name} left {group}, or was evicted from it: let it join "
                    "(--join), as a new incarnation"
                )
            return None
        member = made.view.member(made.state.slot)
        assert member is not None
        names = list(made.state.members)
        trace = station.tracing(
            group, member.id, names, ENGINE, options.stability, is_founder=False
        )
        driver = _elastic(
            station,
            group,
            made.view,
            made.state.slot,
            options,
            journal,
            trace,
            checkpoint=made,
            kept=hooks.kept,
        )
    except BaseException:
        journal.close()
        raise
    for url in station.config.membership.join:  # all whom the journal knows may have gone meanwhile
        station.runtime.hub.ask(url, station.runtime.now)
    return _added(station, driver, hooks)


def _elastic(
    station: Station, group: str, view: View, slot: int, options: EngineOptions,
    journal: Journal | None, trace: MakeTracing | None, **more: Any,
) -> Elastic:  # fmt: skip
    config, runtime = station.config, station.runtime
    return Elastic(
        group, ENGINES[ENGINE], view, slot, runtime.now, config.membership, options=options,
        secret=_secret(station), flow=config.flow, timing=config.timing, trace=trace,
        journal=journal, checkpoint_bytes=config.journal.checkpoint_bytes,
        shelf_bytes_max=config.journal.shelf_bytes_max,
        epoch_us=runtime.epoch_us, **more,
    )  # fmt: skip


def _anew(station: Station, group: str, view: View, slot: int, options: EngineOptions,
          trace: MakeTracing | None, **more: Any) -> Elastic:  # fmt: skip
    """With a journal of its own, if there is to be one."""
    journal = station.journal(group, is_anew=True)
    try:
        return _elastic(station, group, view, slot, options, journal, trace, **more)
    except BaseException:
        if journal is not None:
            journal.close()
        raise


def _added(station: Station, driver: Elastic, hooks: Hooks) -> Elastic:
    driver.reception.snapshot = hooks.snapshot
    station.runtime.add(driver)
    return driver


def found(
    station: Station, group: str, members: Sequence[str] | None, options: EngineOptions,
    hooks: Hooks,
) -> Elastic:  # fmt: skip
    """Begin a group with its other founders, who must be told the same members."""
    config = station.config
    names = sorted(config.member_names if members is None else members)
    if config.name not in names:
        raise UnusableInputError(f"{config.name} is not among the members of {group}")
    addresses = {name: config.peers.get(name, "") for name in names}
    addresses[config.name] = _own_address(station) or ""
    view = View.first(addresses, secrets.randbits(62) | 1 if len(names) == 1 else 0)
    member = view.named(config.name)
    assert member is not None
    trace = station.tracing(group, member.id, names, ENGINE, options.stability)
    driver = _anew(station, group, view, member.slot, options, trace, kept=hooks.kept)
    return _added(station, driver, hooks)


async def join(
    station: Station, group: str, options: EngineOptions, hooks: Hooks,
    contacts: Sequence[str] | None = None,
) -> Elastic:  # fmt: skip
    """Ask the members at these addresses, by default those of ``membership.join``, until the state
    is here."""
    config, runtime = station.config, station.runtime
    address = _own_address(station)
    if address is None:
        raise UnusableInputError(
            f"{config.name} wants to join {group} and listens nowhere: the others must reach it"
        )
    request = Request(config.name, secrets.randbits(62) | 1, address)
    most = config.membership.state_bytes_max
    newcomer = Newcomer(group, request, runtime.now, _secret(station), state_bytes_max=most)
    try:
        await _ask(station, group, newcomer, contacts)
        return _begin(station, group, options, hooks, newcomer)
    except BaseException:
        runtime.hub.withdraw(newcomer)
        raise
    finally:
        newcomer.close()


async def _ask(
    station: Station, group: str, newcomer: Newcomer, contacts: Sequence[str] | None
) -> None:
    config, runtime = station.config, station.runtime
    hub = runtime.hub
    if group in hub.newcomers:
        raise LocalProtocolError(f"{config.name} is about to join {group} already")
    hub.newcomers[group] = newcomer
    for url in config.membership.join if contacts is None else contacts:
        hub.ask(url, runtime.now)
    turned = asyncio.Event()
    runtime.watch(turned.set)
    runtime.turn()
    try:
        async with asyncio.timeout(config.membership.join_s) as limit:
            is_let_in = False
            while not newcomer.is_done and not newcomer.failed:
                turned.clear()
                await turned.wait()
                if newcomer.head is not None and not is_let_in:
                    # It may have waited until a former life of it was evicted: the others give it
                    # all the time from now on, so this node does too.
                    is_let_in = True
                    limit.reschedule(runtime.loop.time() + config.membership.join_s)
    except TimeoutError:
        raise UnreachableError(
            f"{config.name} was not let into {group} within {config.membership.join_s:g} s: "
            f"{newcomer.waiting_for}"
        ) from None
    finally:
        runtime.unwatch(turned.set)
        hub.end_asking(group)
    if newcomer.failed:
        raise Removed(f"{config.name} cannot join {group}: {newcomer.failed}")


async def join_again(station: Station, old: Driver, hooks: Hooks) -> Elastic:
    """Join a group that this node is out of, by way of those that were members with it.

    As a new incarnation, with nothing but what the group gives it.
    """
    runtime = station.runtime
    if not isinstance(old, Elastic) or not old.is_out:
        raise LocalProtocolError(f"{old.name} is a member of {old.group}: it cannot join again")
    contacts = [url for url in old.addresses().values() if url]
    contacts += [url for url in station.config.membership.join if url not in contacts]
    if not contacts:
        raise UnreachableError(f"nobody is left in {old.group} to let {old.node} in again")
    if runtime.hub.drivers.get(old.group) is old:  # it is gone when this was tried before
        runtime.hub.remove(old.group)
    if station.status is not None:
        station.status.meters.pop(old.group, None)  # it counts by the clock of the old one
    return await join(station, old.group, old.options, hooks, contacts)


def _begin(
    station: Station, group: str, options: EngineOptions, hooks: Hooks, newcomer: Newcomer
) -> Elastic:
    head, state = newcomer.head, newcomer.state
    assert head is not None
    assert state is not None
    if head.engine != ENGINE or head.stability != options.stability:
        raise UnusableInputError(
            f"{group} runs {head.engine} with stability {head.stability}, not "
            f"{ENGINE} with stability {options.stability}"
        )
    if hooks.restore is not None:
        hooks.restore(newcomer.spool.chunks())
    member = head.view.member(head.slot)
    assert member is not None
    names = [each.id for each in head.view.members]
    trace = station.tracing(group, member.id, names, ENGINE, options.stability, is_founder=False)
    handed = (head, state, newcomer.payloads.chunks())
    driver = _anew(
        station, group, head.view, head.slot, options, trace, newcomer=handed, kept=hooks.kept
    )
    return _added(station, driver, hooks)


def _secret(station: Station) -> bytes | None:
    path = station.config.membership.secret_file
    return None if path is None else read_secret(path)


def _own_address(station: Station) -> str | None:
    listeners = station.runtime.listeners
    return str(listeners[0].url) if listeners else None
