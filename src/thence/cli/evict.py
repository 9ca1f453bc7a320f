"""``thence evict``: have a member removed that does not go by itself."""

from __future__ import annotations

import time
from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec
from cyclopts import Parameter

from thence.cli.status import where_of
from thence.errors import UnreachableError, UnusableInputError
from thence.telemetry.asking import decode, fetch, request
from thence.telemetry.http import ORDER_HEADER
from thence.telemetry.snapshot import Evicting, MembershipNumbers

POLL_S: Final = 0.2
ANSWER_S: Final = 5.0
"""For the answer to each question."""
WAIT_S_MAX: Final = 3600.0
EXIT_NOT_DONE: Final = 1
ADVICE: Final = """\
If one of them certainly does not run any more: thence evict NAME --dead, and it is not counted.
If it runs after all, the group falls into two that never come together again."""


def command(
    name: str,
    /,
    *,
    group: str = "main",
    status: str | None = None,
    dead: Annotated[bool, Parameter(negative=())] = False,
    wait_s: float = 30.0,
) -> int:
    """Have the others go on without a member: one that is gone, or one that is not wanted.

    Asks a running node, on its own machine, and waits until the member is gone from its view. Most
    members must agree, or half of them with the most senior. The member can join again, as a new
    incarnation; it learns which of its messages were not accepted.

    Where members do not change but the engine goes on when one crashes (`thence engines`:
    survives), nobody is asked: vouch for the crash with `--dead`, at every member that is left.

    Exit code 0 done, 1 not done, 2 unusable input.

    Parameters
    ----------
    name
        The member, as `thence status` shows it.
    group
        The group.
    status
        HOST:PORT that the node which is asked was given as `--status`. Default: THENCE_STATUS, or
        127.0.0.1:9464.
    dead
        Vouch that the member does not run any more, so that it need not be counted: for groups that
        lost most members at once, and pairs that lost the senior one. If it does run, for instance
        on the other side of a partition, the group falls into two that never come together again.
    wait_s
        How long to wait until it is gone, in seconds.
    """
    where, host_port = where_of(status)
    if not 0 <= wait_s <= WAIT_S_MAX:
        raise UnusableInputError(f"--wait-s {wait_s:g}: expected 0 to {WAIT_S_MAX:g} s")
    query = urlencode({"group": group, "name": name, "dead": int(dead)})
    headers = {ORDER_HEADER: "evict"}
    code, body = request("POST", *host_port, f"/evict?{query}", ANSWER_S, headers)
    if code != 200:
        answer = body.decode("utf-8", "replace").strip().partition("\n")[0]
        sentence = answer if answer.isprintable() else ascii(answer)
        raise UnusableInputError(f"{where}: {sentence or f'/evict answers {code}'}")
    member = _identity(where, body, name)
    if member is None:
        print(f"done: {where} goes on without {name}; say the same to every member that is left")
        return 0
    print(f"{where} was asked to evict {member} from {group}", flush=True)
    return _watch(where, host_port, group, member, wait_s)


def _identity(where: str, body: bytes, name: str) -> str | None:
    """Which life of it is meant: it may be back as another before this command looks again.  None:
    it is gone already."""
    try:
        members = msgspec.json.decode(body, type=Evicting).members
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise UnreachableError(f"{where}: what answers there is no thence node") from None
    return next((each for each in members if name in (each, each.partition("#")[0])), None)


def _watch(where: str, host_port: tuple[str, int], group: str, name: str, wait_s: float) -> int:
    """Until the member is gone from the view of that node; tells what is in the way, once each."""
    deadline = time.monotonic() + wait_s
    said = ""
    while True:
        found = _membership(where, host_port, group)
        if found is None or found.out:
            print(f"not done: {where} is itself no member of {group} any more")
            return EXIT_NOT_DONE
        members = [each.name for each in found.members]
        if name not in members:
            print(f"done: {name} is out; view {found.view} has {', '.join(members)}")
            return 0
        hindrance = _hindrance(found, name)
        if time.monotonic() >= deadline:
            print(f"not done in {wait_s:g} s: {hindrance}; it will be once they agree")
            if found.minority:
                print(ADVICE)
            return EXIT_NOT_DONE
        if hindrance != said:
            said = hindrance
            print(f"waiting: {hindrance}", flush=True)
        time.sleep(POLL_S)


def _membership(where: str, host_port: tuple[str, int], group: str) -> MembershipNumbers | None:
    try:
        status = decode(where, fetch(*host_port, ANSWER_S))
    except UnreachableError as error:
        raise UnreachableError(f"{error}; the eviction may go on") from None
    return next((each.membership for each in status.snapshot.groups if each.name == group), None)


def _hindrance(found: MembershipNumbers, name: str) -> str:
    """What the eviction waits for."""
    if not found.minority:
        return f"the members agree on a view without {name}"
    states = ("suspected", "condemned")
    away = [each.name for each in found.members if each.state in states]
    return (
        "most members cannot be reached, and they must agree (silent or to be evicted: "
        f"{', '.join(away)} of {len(found.members)})"
    )
