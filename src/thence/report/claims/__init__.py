"""The claims of chapter 8, one module for each kind, and the table of them.

Adding one is an entry of ``CLAIMS`` in its module; adding a module is a line in this table.
"""

from __future__ import annotations

from typing import Final

from thence.report.claims import (
    delivery_latency,
    memory,
    metadata,
    slow_link,
    stability_latency,
)
from thence.report.claims.base import AROUND, Claim
from thence.report.units import number

CLAIMS: Final[dict[str, Claim]] = {
    claim.name: claim
    for module in (metadata, memory, stability_latency, delivery_latency, slow_link)
    for claim in module.CLAIMS
}
"""By name, in the order of the page."""

WORDS: Final[dict[str, str]] = {
    "negligible": f"at most 1/{number(memory.NEGLIGIBLE)}",
    "significantly smaller": f"at most 1/{number(memory.SIGNIFICANT)}",
    "half": f"a ratio of {' to '.join(map(number, memory.HALF))}",
    "close": f"a ratio of {' to '.join(map(number, delivery_latency.CLOSE))}",
    "around": f"within a factor of {number(AROUND)}",
    "in the order of": f"within a factor of {number(delivery_latency.ORDER)}",
    "mostly": f"more than {delivery_latency.MOSTLY:.0%}",
}
"""What words of the thesis are taken to mean where it gives no number."""
