"""Numbers of things in the text that commands print."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """``1 run``, ``2,000 runs``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
