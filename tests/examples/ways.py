"""The ways to play an example, for tests that play it both ways."""

from __future__ import annotations

import pytest
from world import real, simulated

ways = {"simulated": simulated, "real": real}
each_way = pytest.mark.parametrize("way", list(ways))
