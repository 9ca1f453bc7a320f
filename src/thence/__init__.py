"""Causal delivery with exact tags and causal stability.

Names are loaded when they are first used, so that importing thence costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from thence.forms import choose as _choose

_choose()

if TYPE_CHECKING:
    from thence.causal.dot import Dot
    from thence.causal.members import MemberId, Members
    from thence.engine.base import EngineOptions, EngineSpec
    from thence.engine.effects import Effects
    from thence.engine.registry import ENGINES, make_node
    from thence.engine.reject import Reject, Waiting
    from thence.engine.tag import Tag, read_tag
    from thence.errors import (
        ForgottenTagError,
        LimitError,
        LocalProtocolError,
        ThenceError,
        TraceError,
        UnknownTagError,
        UnusableInputError,
    )
    from thence.message import Message, Phantom, VectorMessage

_HOMES = {
    "Dot": "thence.causal.dot",
    "ENGINES": "thence.engine.registry",
    "Effects": "thence.engine.effects",
    "EngineOptions": "thence.engine.base",
    "EngineSpec": "thence.engine.base",
    "ForgottenTagError": "thence.errors",
    "LimitError": "thence.errors",
    "LocalProtocolError": "thence.errors",
    "MemberId": "thence.causal.members",
    "Members": "thence.causal.members",
    "Message": "thence.message",
    "Phantom": "thence.message",
    "Reject": "thence.engine.reject",
    "Tag": "thence.engine.tag",
    "ThenceError": "thence.errors",
    "TraceError": "thence.errors",
    "UnknownTagError": "thence.errors",
    "UnusableInputError": "thence.errors",
    "VectorMessage": "thence.message",
    "Waiting": "thence.engine.reject",
    "make_node": "thence.engine.registry",
    "read_tag": "thence.engine.tag",
}

__version__ = "0.1.0"
__all__ = [
    "ENGINES",
    "Dot",
    "Effects",
    "EngineOptions",
    "EngineSpec",
    "ForgottenTagError",
    "LimitError",
    "LocalProtocolError",
    "MemberId",
    "Members",
    "Message",
    "Phantom",
    "Reject",
    "Tag",
    "ThenceError",
    "TraceError",
    "UnknownTagError",
    "UnusableInputError",
    "VectorMessage",
    "Waiting",
    "__version__",
    "make_node",
    "read_tag",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'thence' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
