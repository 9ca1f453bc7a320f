"""A newcomer takes over a large state while the others work."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

import msgspec

from benchmarks.elastic.member import CHUNK_BYTES, digest_of
from benchmarks.mesh.__main__ import Bars
from benchmarks.mesh.fleet import Member

MEMBERS = 3
SECONDS_MAX = 600
WINDOW_S = 1.5
"""Of undisturbed work before and after each join."""
SETTLE_S = 0.5
STATE_MIB = 100
PER_SECOND = 20_000
"""Messages of each member, where they do not send as many as they can."""


class Process(Member):
    """One member, told by lines and answering by lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.elastic.member", name, str(SECONDS_MAX)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout
        self._held = b""

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        self.tell({"do": what, **more})
        return self.answer(time.monotonic() + 120.0)


class Round(msgspec.Struct, frozen=True):
    """One join."""

    seconds: float
    before: float
    """Deliveries a second of all members."""
    ratio: float
    """The same while it lasted, beside the mean of before and after ..."""
    to_before: float
    """... and beside before alone: afterwards the newcomer takes its share of the machine too."""
    cpu: float
    """CPU time of a member that hands over nothing, for a delivery, beside that before."""
    provider_kib: int
    """By how much it grew.  What is sent meanwhile cannot become stable, and is kept, ..."""
    other_kib: int
    """... which this member, that hands over nothing, shows."""
    newcomer_kib: int
    newcomer_cpu_s: float
    pause_s: float
    """The longest that the provider's loop came to nothing else, until a little after, ..."""
    calm_pause_s: float
    """... and the same while nobody joined."""


def rate(samples: list[list[float]], start: float, end: float) -> float:
    """Deliveries a second between these times."""
    inside = [each for each in samples if start <= each[0] <= end]
    if len(inside) < 2:
        return 0.0
    (first, before, _), (last, after, _) = inside[0], inside[-1]
    return (after - before) / (last - first)


def cpu_us(samples: list[list[float]], start: float, end: float) -> float:
    """CPU time for a delivery between these times."""
    inside = [each for each in samples if start <= each[0] <= end]
    (_, before, cpu), (_, after, cpu_after) = inside[0], inside[-1]
    return (cpu_after - cpu) / max(1.0, after - before) * 1e6


def one_round(
    members: list[Process], url: str, number: int, state: tuple[str, int], per_second: int
) -> Round:
    """Work, have somebody join, work on; then it leaves."""
    newcomer = Process(f"new{number}")
    try:
        kib = [each.ask("memory")["kib"] for each in members]
        newcomer.ask("memory")  # it runs, and waits
        for each in members:
            each.ask("report")
            each.ask("work", senders=len(members), per_second=per_second)
        time.sleep(SETTLE_S + WINDOW_S)
        joined = newcomer.ask("join", url=url)
        time.sleep(SETTLE_S + WINDOW_S)
        for each in members:
            each.ask("rest")
        reports = [each.ask("report") for each in members]
        if (joined["digest"], joined["chunks"]) != state:
            raise AssertionError("the newcomer has another state")
        newcomer.ask("leave")
    finally:
        newcomer.end()
    start, end = joined["start"], joined["end"]
    logs = [each["samples"] for each in reports]
    during = sum(rate(each, start, end) for each in logs)
    before = sum(rate(each, start - WINDOW_S, start) for each in logs)
    after = sum(rate(each, end + SETTLE_S, end + SETTLE_S + WINDOW_S) for each in logs)
    pauses = reports[0]["pauses"]
    return Round(
        seconds=end - start,
        before=before,
        ratio=2 * during / (before + after),
        to_before=during / before,
        cpu=cpu_us(logs[1], start, end) / cpu_us(logs[1], start - WINDOW_S, start),
        provider_kib=reports[0]["peak_kib"] - kib[0],
        other_kib=reports[1]["peak_kib"] - kib[1],
        newcomer_kib=joined["grown_kib"],
        newcomer_cpu_s=joined["cpu"],
        pause_s=max(pause for at, pause in pauses if start <= at <= end + SETTLE_S),
        calm_pause_s=max(pause for at, pause in pauses if at < start),
    )


def hand_over(bars: Bars, rounds: int, mib: int = STATE_MIB) -> None:
    """Print what it takes, and whether it is what is promised."""
    chunks = (mib << 20) // CHUNK_BYTES
    state = digest_of(chunks), chunks
    members: list[Process] = []
    found: dict[int, list[Round]] = {}
    try:
        members = [Process(f"m{at}") for at in range(MEMBERS)]
        url = members[0].ask("found", chunks=chunks)["url"]
        for each in members[1:]:
            each.ask("join", url=url)
        number = 0
        for per_second in (PER_SECOND, 0):
            for _ in range(rounds if per_second else 3):
                number += 1
                made = one_round(members, url, number, state, per_second)
                found.setdefault(per_second, []).append(made)
    finally:
        for each in members:
            each.end()
    for per_second, made in found.items():
        pace = f"{per_second:,} messages a second each" if per_second else "as fast as they can"
        print(f"\nA state of {mib} MiB for a newcomer, {MEMBERS} members, {pace}")
        _show(made, mib)
    made = found[PER_SECOND]
    ratio = statistics.median(each.ratio for each in made)
    bars.at_least("deliveries while the state is handed over / otherwise", ratio, 0.7)
    ratio = statistics.median(each.ratio for each in found[0])
    to_before = statistics.median(each.to_before for each in found[0])
    print(f"{'the same at full speed (not promised)':58}{ratio:8.2f}")
    print(f"{'the same beside before alone (not promised)':58}{to_before:8.2f}")
    more = max(each.provider_kib - each.other_kib for each in made)
    bars.at_most("memory of the provider beyond that of others / state", more / 1024 / mib, 0.5)
    grown = max(each.newcomer_kib for each in made)
    bars.at_most("memory of the newcomer / state", grown / 1024 / mib, 0.5)


def _show(found: list[Round], mib: int) -> None:
    print(
        f"{'':>9}{'':>7}{'before':>9}{'/ both':>8}{'/ before':>9}{'CPU':>6}"
        f"{'MiB grown:':>12}{'':>7}{'':>10}{'newcomer':>10}{'pause':>7}{'else':>6}"
    )
    print(
        f"{'seconds':>9}{'MiB/s':>7}{'rate':>9}{'rate':>8}{'rate':>9}{'ratio':>6}"
        f"{'provider':>12}{'other':>7}{'newcomer':>10}{'CPU s':>10}{'ms':>7}{'ms':>6}"
    )
    for each in found:
        print(
            f"{each.seconds:>9.2f}{mib / each.seconds:>7.0f}{each.before:>9,.0f}"
            f"{each.ratio:>8.2f}{each.to_before:>9.2f}{each.cpu:>6.2f}"
            f"{each.provider_kib / 1024:>12.1f}{each.other_kib / 1024:>7.1f}"
            f"{each.newcomer_kib / 1024:>10.1f}{each.newcomer_cpu_s:>10.2f}"
            f"{each.pause_s * 1000:>7.0f}{each.calm_pause_s * 1000:>6.0f}"
        )
