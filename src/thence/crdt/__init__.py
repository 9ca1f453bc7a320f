"""Replicated data types: pure operation-based, compacted by causal stability.

``CRDTS`` (registry.py) has them all; ``thence.crdt.bind(group)`` replicates objects over a group.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

# ``bind`` needs a group, which is above data types: it is looked for when it is asked for.
_HOMES: Final = {
    "CRDTS": "thence.crdt.registry",
    "Objects": "thence.client.objects",
    "bind": "thence.client.objects",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'thence.crdt' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
