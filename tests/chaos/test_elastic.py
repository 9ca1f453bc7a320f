"""Real processes of a group that grows and shrinks under load, some of them by being killed.

Everybody who stays has the same state, the traces of all are clean, and no broadcast waits for a
change of the membership.  Each test prints how long broadcasts took in each phase (``pytest -s``).
The long one holds these times against undisturbed ones; THENCE_CHAOS_S scales it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.chaos.crowd import Crowd
from tests.chaos.latencies import QUIET, Row, Times, disturbed, rows, show

LONG_S = float(os.environ.get("THENCE_CHAOS_S", "150"))


CALL = "await group.broadcast()"
CPU = "the same, CPU time alone"


def report(crowd: Crowd) -> dict[str, list[Row]]:
    """Print and give the tables."""
    times = Times(crowd.folder)
    sent = times.broadcasts
    tables = {
        CALL: [(each.due, each.call) for each in sent],
        CPU: [(each.due, each.cpu) for each in sent],
        "from when it was due until it returned": [(each.due, each.whole) for each in sent],
        "from when it was due until another took it": times.ages,
        "the same, at newcomers that were not up when it was due": times.caught_up,
    }
    found = {}
    for title, values in tables.items():
        found[title] = rows(crowd.phases, values)
        if found[title]:
            print("\n" + "\n".join(show(title, found[title])))
    waited = sum(each.waits for each in sent)
    print(f"\n{len(sent)} broadcasts, {waited} waited for room")
    assert not waited, "a broadcast had to wait for others"
    return found


def hold(crowd: Crowd, seconds: float) -> None:
    """Change nothing for so long."""
    crowd.phase(f"{QUIET}, {len(crowd.members)} members", lambda: time.sleep(seconds))


def assert_undisturbed(tables: dict[str, list[Row]]) -> None:
    """Broadcasts that take more than twice the undisturbed p99 are as rare while members come and
    go as otherwise.  Some there always are, for processes share processors with others."""
    for title, luck in ((CPU, 0.01), (CALL, 0.03)):
        calm, changing = disturbed(tables[title])
        print(f"{title}: above twice the undisturbed p99: {calm:.3%} quiet, {changing:.3%} else")
        assert changing <= calm + luck, f"{title}: {changing:.2%}, and {calm:.2%} when quiet"


def evict(crowd: Crowd, *names: str) -> None:
    """Kill members at once; wait until they are evicted, and a little."""
    crowd.phase("time-outs of evictions", lambda: _kill(crowd, *names))
    crowd.phase("evictions after the time-out", lambda: _see_evicted(crowd, *names))


def _kill(crowd: Crowd, *names: str) -> None:
    crowd.kill(*names)
    # Silence is counted from the last sign of life, and those come every 200 ms.
    time.sleep(crowd.evict_s - 0.2)


def _see_evicted(crowd: Crowd, *names: str) -> None:
    took = crowd.wait_evicted(*names)
    print(f"{', '.join(names)} evicted {took:.2f} s after the kill")
    time.sleep(0.5)


def join(crowd: Crowd, name: str, contact: str) -> None:
    took = crowd.join(name, contact)
    print(f"{name} joined by way of {contact} in {took:.2f} s")


def join_by_doomed(crowd: Crowd, name: str, contact: str) -> None:
    """The contact is killed while it hands over the state."""
    took = crowd.doom(contact, name)
    print(f"{name} joined {took:.2f} s after {contact} died while handing it the state")


@pytest.mark.timeout(120)
def test_a_group_of_processes_grows_and_shrinks_and_agrees(tmp_path: Path):
    with Crowd(tmp_path, "abc", "de", evict_s=2.0, interval_s=0.02, ballast=40) as crowd:
        crowd.found()
        hold(crowd, 1.5)
        crowd.phase("joins", lambda: join(crowd, "d", "a"))
        crowd.phase("joins", lambda: join_by_doomed(crowd, "e", "b"))
        crowd.phase("time-outs of evictions", lambda: _see_evicted(crowd, "b"))
        crowd.phase("leaves", lambda: crowd.leave("c"))
        hold(crowd, 1.0)
        state = crowd.settle()
        report(crowd)
        print(state, crowd.check())


@pytest.mark.soak
def test_twelve_processes_come_go_and_die_under_load(tmp_path: Path):
    quiet_s = LONG_S / 10
    with Crowd(tmp_path, "abcde", "fghijklm", evict_s=5.0, interval_s=0.04, ballast=40) as crowd:
        crowd.found()
        time.sleep(1.0)
        hold(crowd, quiet_s)
        for name, contact in zip("fghi", "abcd", strict=True):
            crowd.phase("joins", lambda n=name, c=contact: join(crowd, n, c))
        crowd.phase("joins", lambda: join_by_doomed(crowd, "j", "e"))
        crowd.phase("time-outs of evictions", lambda: _see_evicted(crowd, "e"))
        for name in "klm":
            crowd.phase("joins", lambda n=name: join(crowd, n, "f"))
        assert len(crowd.members) == 12
        hold(crowd, quiet_s)
        for name in "bgk":
            crowd.phase("leaves", lambda n=name: crowd.leave(n))
        evict(crowd, "a")  # the coordinator
        hold(crowd, quiet_s / 2)
        evict(crowd, "h", "i")
        for name in "jl":
            crowd.phase("leaves", lambda n=name: crowd.leave(n))
        assert crowd.members == list("cdfm")
        hold(crowd, quiet_s)
        state = crowd.settle()
        tables = report(crowd)
        print(state, crowd.check(), crowd.check("--spark"))
        assert_undisturbed(tables)
