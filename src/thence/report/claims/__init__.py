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
from thence.report.claims.base import Claim

CLAIMS: Final[dict[str, Claim]] = {
    claim.name: claim
    for module in (metadata, memory, stability_latency, delivery_latency, slow_link)
    for claim in module.CLAIMS
}
"""By name, in the order of the page."""
