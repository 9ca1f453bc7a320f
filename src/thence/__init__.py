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
    from thence.client.events import (
        Blocked,
        Connected,
        Delivered,
        Disconnected,
        Event,
        Evicted,
        Joined,
        Known,
        Left,
        Majority,
        Minority,
        Stable,
        Suspected,
        Trusted,
    )
    from thence.client.group import Group
    from thence.client.node import Node
    from thence.client.rsm import StateMachine
    from thence.config.node import NodeConfig
    from thence.engine.base import EngineOptions, EngineSpec
    from thence.engine.effects import Effects
    from thence.engine.registry import ENGINES, make_node
    from thence.engine.reject import Reject, Waiting
    from thence.engine.tag import Tag, read_tag
    from thence.errors import (
        ForgottenTagError,
        Full,
        JournalError,
        LimitError,
        LocalProtocolError,
        Removed,
        ThenceError,
        TraceError,
        UnknownTagError,
        UnreachableError,
        UnusableInputError,
    )
    from thence.message import Message, Phantom, VectorMessage

_HOMES = {
    "Blocked": "thence.client.events",
    "Connected": "thence.client.events",
    "Delivered": "thence.client.events",
    "Disconnected": "thence.client.events",
    "Dot": "thence.causal.dot",
    "ENGINES": "thence.engine.registry",
    "Effects": "thence.engine.effects",
    "EngineOptions": "thence.engine.base",
    "EngineSpec": "thence.engine.base",
    "Event": "thence.client.events",
    "Evicted": "thence.client.events",
    "ForgottenTagError": "thence.errors",
    "Full": "thence.errors",
    "Group": "thence.client.group",
    "Joined": "thence.client.events",
    "JournalError": "thence.errors",
    "Known": "thence.client.events",
    "Left": "thence.client.events",
    "LimitError": "thence.errors",
    "LocalProtocolError": "thence.errors",
    "Majority": "thence.client.events",
    "MemberId": "thence.causal.members",
    "Members": "thence.causal.members",
    "Message": "thence.message",
    "Minority": "thence.client.events",
    "Node": "thence.client.node",
    "NodeConfig": "thence.config.node",
    "Phantom": "thence.message",
    "Reject": "thence.engine.reject",
    "Removed": "thence.errors",
    "Stable": "thence.client.events",
    "StateMachine": "thence.client.rsm",
    "Suspected": "thence.client.events",
    "Tag": "thence.engine.tag",
    "ThenceError": "thence.errors",
    "TraceError": "thence.errors",
    "Trusted": "thence.client.events",
    "UnknownTagError": "thence.errors",
    "UnreachableError": "thence.errors",
    "UnusableInputError": "thence.errors",
    "VectorMessage": "thence.message",
    "Waiting": "thence.engine.reject",
    "make_node": "thence.engine.registry",
    "read_tag": "thence.engine.tag",
}

__version__ = "0.1.0"
__all__ = [
    "ENGINES",
    "Blocked",
    "Connected",
    "Delivered",
    "Disconnected",
    "Dot",
    "Effects",
    "EngineOptions",
    "EngineSpec",
    "Event",
    "Evicted",
    "ForgottenTagError",
    "Full",
    "Group",
    "Joined",
    "JournalError",
    "Known",
    "Left",
    "LimitError",
    "LocalProtocolError",
    "Majority",
    "MemberId",
    "Members",
    "Message",
    "Minority",
    "Node",
    "NodeConfig",
    "Phantom",
    "Reject",
    "Removed",
    "Stable",
    "StateMachine",
    "Suspected",
    "Tag",
    "ThenceError",
    "TraceError",
    "Trusted",
    "UnknownTagError",
    "UnreachableError",
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
