"""How delays vary, by Weibull's distribution as in thesis 8.1.2.

A delay is base x (1 + W(0.15, 2)), cut at base x (1 + 3 x 0.15), with the base for which the mean
is the one that was asked for.  The simulated network and real slow links draw from the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

WEIBULL_SCALE: Final = 0.15
WEIBULL_SHAPE: Final = 2.0
WEIBULL_MEAN: Final = 1.1329  # of 1 + W(0.15, 2)

Weibull = Callable[[float, float], float]
"""Draws a number, given scale and shape."""


def weibull_delays(mean: float, weibull: Weibull) -> Callable[[], float]:
    """What draws one delay, in the unit of the mean."""
    base = mean / WEIBULL_MEAN
    most = 3 * WEIBULL_SCALE
    return lambda: base * (1 + min(weibull(WEIBULL_SCALE, WEIBULL_SHAPE), most))
