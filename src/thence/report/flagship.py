"""The rule for the flagship: in every panel at least as good as the better of its rivals.

At every size and interval, by medians; latencies may be worse by a tolerance that the page states.
What could not be compared is a row too, with its reason.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from thence.report.data import FLAGSHIP, FLAGSHIP_DEFAULT, RIVAL, Variant
from thence.report.evidence import Evidence
from thence.report.panels import FEW, Drawn, Panel, Point, Setting

Outcome = Literal["better", "equal", "within tolerance", "worse", "not compared"]
GOOD: Final = ("better", "equal", "within tolerance")


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The flagship against its rivals at one setting of a panel."""

    panel: str
    group_size: int | None
    interval_ms: float | None
    outcome: Outcome
    flagship: float | None = None
    rival: str | None = None
    """The best of them."""
    best: float | None = None
    default: float | None = None
    """What the flagship with its default options has here."""
    reason: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times the best rival's the flagship's is; None where that says nothing."""
        if self.flagship is None or not self.best:
            return None
        return self.flagship / self.best


def compare(evidence: Evidence, panel: Panel) -> list[Comparison]:
    """The rows of a panel, by interval and size; one at least."""
    drawn = evidence.drawn(panel)
    own = [variant for variant in evidence.variants if variant.role == FLAGSHIP]
    rivals = [
        each
        for each in evidence.variants
        if each.role == RIVAL and each.engine not in panel.leaves_out
    ]
    if not own or not rivals:
        what = "variant of role flagship" if not own else "rival"
        return [_passed_over(panel, f"the lab names no {what}")]
    if not drawn.settings():
        named = " and ".join(panel.experiments)
        kind = "with" if panel.stability else "without"
        return [_passed_over(panel, f"no runs of {named} {kind} stability")]
    return [_at(drawn, setting, own[0], rivals, evidence) for setting in drawn.settings()]


def _passed_over(panel: Panel, reason: str) -> Comparison:
    return Comparison(
        panel=panel.name, group_size=None, interval_ms=None, outcome="not compared", reason=reason
    )


def _at(
    drawn: Drawn, setting: Setting, own: Variant, rivals: list[Variant], evidence: Evidence
) -> Comparison:
    ours = drawn.points.get(own.name, {}).get(setting)
    theirs = {
        rival.name: point
        for rival in rivals
        if (point := drawn.points.get(rival.name, {}).get(setting)) is not None
    }
    default = _default(drawn, setting, evidence)
    nothing = Comparison(
        panel=drawn.panel.name,
        group_size=setting[0],
        interval_ms=setting[1],
        outcome="not compared",
        flagship=None if ours is None else ours.p50,
        default=default,
    )
    if ours is None or ours.p50 is None:
        why = ours.lacks if ours is not None else None
        return msgspec.structs.replace(nothing, reason=why or f"no run of {own.name}")
    usable = {name: point for name, point in theirs.items() if point.p50 is not None}
    if not usable:
        why = next((point.lacks for point in theirs.values() if point.lacks), None)
        return msgspec.structs.replace(nothing, reason=why or "no run of a rival")
    name, best = min(usable.items(), key=lambda item: (item[1].p50 or 0.0, item[0]))
    found = msgspec.structs.replace(nothing, rival=name, best=best.p50)
    if min(ours.count, best.count) < FEW:
        reason = f"fewer than {FEW} observations ({ours.count} and {best.count})"
        return msgspec.structs.replace(found, reason=reason)
    missing = [rival.name for rival in rivals if rival.name not in usable]
    reason = f"{' and '.join(missing)} not run here" if missing else ""
    outcome = _outcome(ours.p50, best.p50 or 0.0, drawn.panel.quantity.tolerance)
    return msgspec.structs.replace(found, outcome=outcome, reason=reason)


def _outcome(own: float, best: float, tolerance: float) -> Outcome:
    if own < best:
        return "better"
    if own == best:
        return "equal"
    return "within tolerance" if own <= best * (1 + tolerance) else "worse"


def _default(drawn: Drawn, setting: Setting, evidence: Evidence) -> float | None:
    for variant in evidence.variants:
        if variant.role == FLAGSHIP_DEFAULT:
            point: Point | None = drawn.points.get(variant.name, {}).get(setting)
            return None if point is None else point.p50
    return None
