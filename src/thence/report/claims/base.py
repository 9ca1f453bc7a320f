"""What a claim is, how verdicts are made, and the few forms that claims of the thesis have.

A claim is about 128 nodes unless it says otherwise: the thesis states numbers for the largest
group.  Where that was not run the verdict is "not measured", never silence, and the reason tells
what the largest group that was run shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from thence.report.evidence import Evidence
from thence.report.panels import FEW, Point, Setting, order
from thence.report.thesis import SIZE
from thence.report.units import Unit, every, listed, number, shown

Status = Literal["reproduced", "in part", "not reproduced", "not measured"]
REPRODUCED: Final = "reproduced"
IN_PART: Final = "in part"
NOT_REPRODUCED: Final = "not reproduced"
NOT_MEASURED: Final = "not measured"
Kind = Literal["metadata", "memory", "latency"]
AROUND: Final = 2.0
"""A value that the thesis calls around something is no more than this much larger or smaller."""


class Part(msgspec.Struct, frozen=True):
    """One setting that was looked at."""

    where: str
    holds: bool
    text: str
    """The numbers, in words."""
    numbers: tuple[float, ...]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a claim."""

    status: Status
    parts: tuple[Part, ...] = ()
    reason: str
    """What the numbers do not say themselves; may be empty."""
    smaller: tuple[Part, ...] = ()
    """Of a claim that was not measured: what the largest group that was run shows."""

    @property
    def tendency(self) -> str:
        """Of the same, in a sentence; empty where there is nothing to say."""
        if not self.smaller:
            return ""
        held = sum(part.holds for part in self.smaller)
        how = "holds" if held == len(self.smaller) else "holds in part" if held else "does not hold"
        return f"It {how} in the largest group of these runs."


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the thesis says of its experiments."""

    name: str
    kind: Kind
    section: str
    panel: str
    says: str
    """In our words."""
    is_shape: bool = False
    """A shape of metadata or memory: what ``--strict`` insists on."""
    judge: Callable[[Evidence], Verdict]
    because: Callable[[Evidence], str] | None = None
    """Why it may be otherwise here, from the tables."""

    def verdict(self, evidence: Evidence) -> Verdict:
        """What our tables say to it."""
        found = self.judge(evidence)
        if self.because is None or found.status in (REPRODUCED, NOT_MEASURED):
            return found
        why = self.because(evidence)
        return msgspec.structs.replace(found, reason=f"{found.reason} {why}".strip())


Judge = Callable[[Evidence], Verdict]
Test = Callable[[dict[str, Point], Unit], tuple[bool, str]]
"""Of the points of some engines at one setting: whether it holds, and the numbers in words."""


def judged(panel: str, engines: Sequence[str], test: Test, is_value: bool = False) -> Judge:
    """A claim about every send interval at 128 nodes.

    ``is_value``: it states values, to which smaller groups say nothing.
    """

    def judge(evidence: Evidence) -> Verdict:
        return _judge(evidence, {engine: (panel, engine) for engine in engines}, test, is_value)

    return judge


def judged_across(places: dict[str, tuple[str, str]], test: Test) -> Judge:
    """The same of several panels; ``places``: by the test's own name, panel and engine."""

    def judge(evidence: Evidence) -> Verdict:
        return _judge(evidence, places, test, is_value=False)

    return judge


def _judge(
    evidence: Evidence, places: dict[str, tuple[str, str]], test: Test, is_value: bool
) -> Verdict:
    points = {key: evidence.by_engine(*place) for key, place in places.items()}
    unit = evidence.panel(next(iter(places.values()))[0]).panel.quantity.unit
    common = set.intersection(*(set(each) for each in points.values()))
    here = sorted((setting for setting in common if setting[0] == SIZE), key=order)
    if here:
        return _concluded([_part(setting, points, test, unit) for setting in here])
    missing = _missing(evidence, places, points, SIZE)
    sizes = [setting[0] for setting in common]
    if not sizes:
        return Verdict(status=NOT_MEASURED, reason=f"{missing}.")
    largest = max(sizes)
    there = sorted((setting for setting in common if setting[0] == largest), key=order)
    parts = [_part(setting, points, test, unit) for setting in there]
    told = "; ".join(f"{part.where}: {part.text}" for part in parts)
    if is_value:
        reason = f"{missing}. With {largest} nodes, the largest group: {told}."
        return Verdict(status=NOT_MEASURED, reason=reason)
    # That a claim does not hold is not yet its opposite: less, but not by as much as is claimed.
    held = sum(part.holds for part in parts)
    some = "it holds at some intervals and not at others"
    found = "it holds" if held == len(parts) else some if held else "it does not hold"
    reason = f"{missing}. With {largest} nodes, the largest group, {found} ({told})."
    return Verdict(status=NOT_MEASURED, reason=reason, smaller=tuple(parts))


def _part(
    setting: Setting, points: dict[str, dict[Setting, Point]], test: Test, unit: Unit
) -> Part:
    at = {key: each[setting] for key, each in points.items()}
    holds, text = test(at, unit)
    few = [point.variant for point in at.values() if point.count < FEW]
    if few:
        text += f" (fewer than {FEW} observations of {listed(sorted(set(few)))})"
    values = tuple(point.p50 or 0.0 for point in at.values())
    return Part(every(setting[1]), holds, text, values)


def status_of(parts: Sequence[Part]) -> Status:
    """Of a claim that was looked at in these settings."""
    held = sum(part.holds for part in parts)
    return REPRODUCED if held == len(parts) else NOT_REPRODUCED if not held else IN_PART


def _concluded(parts: list[Part]) -> Verdict:
    status = status_of(parts)
    reason = ""
    if status == IN_PART:
        good = [part.where for part in parts if part.holds]
        bad = [part.where for part in parts if not part.holds]
        reason = f"It holds with a message {listed(good)}, not {listed(bad)}."
    return Verdict(status=status, parts=tuple(parts), reason=reason)


def _missing(
    evidence: Evidence,
    places: dict[str, tuple[str, str]],
    points: dict[str, dict[Setting, Point]],
    size: int,
) -> str:
    for key, (panel, engine) in places.items():
        if not points[key]:
            why = evidence.lacks(panel, engine)
            told = f" ({why})" if why else ""
            return f"Nothing was measured of {engine} for figure {panel}{told}"
    without = [
        engine
        for key, (_, engine) in places.items()
        if not any(setting[0] == size for setting in points[key])
    ]
    if without:
        return f"No run of {listed(list(dict.fromkeys(without)))} with {size} nodes"
    return f"No interval at which all of them were run with {size} nodes"


# The forms of claims.


def smaller(less: str, more: str, times: float = 1.0) -> Test:
    """The median of one is less than that of the other, and at most that divided by ``times``."""

    def test(at: dict[str, Point], unit: Unit) -> tuple[bool, str]:
        small, large = at[less].p50 or 0.0, at[more].p50 or 0.0
        holds = small * times <= large and small < large  # two zeros show nothing
        told = f"{less} {shown(small, unit)}, {more} {shown(large, unit)}"
        return holds, f"{told}{_ratio(small, large, times)}"

    return test


def within(engine: str, low: float | None, high: float | None) -> Test:
    """The median lies between; None is no bound."""

    def test(at: dict[str, Point], unit: Unit) -> tuple[bool, str]:
        value = at[engine].p50 or 0.0
        holds = (low is None or value >= low) and (high is None or value <= high)
        return holds, f"{engine} {shown(value, unit)}"

    return test


def near(engine: str, value: float, times: float = AROUND) -> Test:
    """The median is no more than ``times`` larger or smaller than the value."""
    return within(engine, value / times, value * times)


def about(top: str, bottom: str, low: float, high: float) -> Test:
    """The ratio of two medians lies between."""

    def test(at: dict[str, Point], unit: Unit) -> tuple[bool, str]:
        upper, lower = at[top].p50 or 0.0, at[bottom].p50 or 0.0
        ratio = upper / lower if lower else 0.0
        told = f"{shown(upper, unit)} against {shown(lower, unit)}"
        return low <= ratio <= high, f"{told}, {number(ratio)} times"

    return test


def both(*tests: Test) -> Test:
    """All of them hold."""

    def test(at: dict[str, Point], unit: Unit) -> tuple[bool, str]:
        found = [each(at, unit) for each in tests]
        texts = list(dict.fromkeys(text for _, text in found))
        return all([holds for holds, _ in found]), "; ".join(texts)

    return test


def _ratio(small: float, large: float, times: float) -> str:
    """In brackets; with the factor that a claim asks for, where it asks for one."""
    if not small or not large:
        return ""
    found = f"{number(large / small)} times" if large >= small else f"1/{number(small / large)}"
    return f" ({found}; it takes {number(times)})" if times > 1 else f" ({found})"


def grows_faster(panel: str, slow: str, fast: str) -> Judge:
    """From the smallest group to the largest, one grows by a larger factor than the other."""

    def judge(evidence: Evidence) -> Verdict:
        points = {engine: evidence.by_engine(panel, engine) for engine in (slow, fast)}
        common = set(points[slow]) & set(points[fast])
        unit = evidence.panel(panel).panel.quantity.unit
        parts = []
        for interval_ms in evidence.panel(panel).intervals() or [None]:
            sizes = sorted(
                size for size, each in common if interval_ms is None or each == interval_ms
            )
            if len(sizes) < 2 or sizes[-1] != SIZE:
                continue
            ends = {
                engine: [_at(points[engine], size, interval_ms) for size in (sizes[0], sizes[-1])]
                for engine in (slow, fast)
            }
            if not all([low > 0 for low, _ in ends.values()]):
                continue
            growth = {engine: high / low for engine, (low, high) in ends.items()}
            told = ", ".join(
                f"{engine} from {shown(low, unit)} to {shown(high, unit)}, "
                f"{number(growth[engine])} times"
                for engine, (low, high) in ends.items()
            )
            where = f"{sizes[0]} to {SIZE} nodes"
            if interval_ms is not None:
                where += f", {every(interval_ms)}"
            holds = growth[fast] > growth[slow]
            parts.append(Part(where, holds, told, (growth[slow], growth[fast])))
        if parts:
            return _concluded(parts)
        places = {engine: (panel, engine) for engine in (slow, fast)}
        missing = _missing(evidence, places, points, SIZE)
        return Verdict(status=NOT_MEASURED, reason=f"{missing}, and a smaller group to begin with.")

    return judge


def _at(points: dict[Setting, Point], size: int, interval_ms: float | None) -> float:
    for (each, ms), point in points.items():
        if each == size and (interval_ms is None or ms == interval_ms):
            return point.p50 or 0.0
    raise AssertionError("a size that both have")
