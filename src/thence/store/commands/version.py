"""Which Redis this is like."""

from __future__ import annotations

from typing import Final

COMPATIBLE: Final = "7.0.15"
"""Clients look at it to know which commands and options there are."""
