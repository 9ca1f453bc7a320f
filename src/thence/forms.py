"""The flagship and the data types of stores have two forms of one source: compiled by mypyc, and
plain Python.

The compiled one is what an import finds when it was built.  ``THENCE_PURE=1`` in the environment
makes this process import the source instead; ``interpreted_engine`` loads the source beside the
compiled form, for benchmarks that compare the two in one run.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final

# In order of import; setup.py compiles these.
COMPILED = (
    "thence.engine.effects",
    "thence.engine.checks",
    "thence.engine.held",
    "thence.engine.streams",
    "thence.engine.aside",
    "thence.engine.tag",
    "thence.engine.chains",
    "thence.engine.outgoing",
    "thence.engine.frontier",
    "thence.engine.stability",
    "thence.engine.at_once",
    "thence.engine.delivery",
    "thence.engine.tagger",
    "thence.engine.tagged",
    "thence.engine.bursts",
    "thence.crdt.base",
    "thence.crdt.scalars",
    "thence.crdt.register_counter",
    "thence.crdt.children",
    "thence.crdt.map_uw",
    "thence.crdt.zset_uw",
    "thence.crdt.set_aw",
    "thence.crdt.counter_pn",
    "thence.crdt.expiry",
    "thence.crdt.sequence_blocks",
    "thence.crdt.sequence_list",
    "thence.crdt.sequence_seen",
    "thence.crdt.sequence_effect",
    "thence.crdt.sequence_stable",
    "thence.crdt.sequence_snapshot",
    "thence.crdt.sequence",
    "thence.crdt.keyspace",
    "thence.crdt.batch",
    "thence.client.replica_stamps",
    "thence.store.resp",
    "thence.store.dispatch",
    "thence.store.holding",
    "thence.store.connection",
)
FLAGSHIP: Final = "thence.engine.tagged"


class _SourceFinder(MetaPathFinder):
    """Finds the .py of a module that also has a compiled form."""

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in COMPILED:
            return None
        for folder in path or ():
            source = f"{folder}/{fullname.rpartition('.')[2]}.py"
            found = PathFinder.find_spec(fullname, [folder])
            if found is not None:
                return importlib.util.spec_from_file_location(fullname, source)
        return None


def choose() -> None:
    """Called once when thence is imported: prefer the source if the environment says so."""
    if os.environ.get("THENCE_PURE", "") not in ("", "0"):
        sys.meta_path.insert(0, _SourceFinder())


def is_compiled() -> bool:
    """Does this process run the compiled flagship?"""
    module = importlib.import_module(FLAGSHIP)
    return not (module.__file__ or "").endswith(".py")


def interpreted_engine() -> ModuleType:
    """The flagship's module in its interpreted form, whatever form an import gives."""
    normal = {name: importlib.import_module(name) for name in COMPILED}
    finder = _SourceFinder()
    sys.meta_path.insert(0, finder)
    try:
        for name in COMPILED:
            del sys.modules[name]
        return importlib.import_module(FLAGSHIP)
    finally:
        sys.meta_path.remove(finder)
        for name, module in normal.items():
            # An import also becomes an attribute of its package: both must be put back.
            sys.modules[name] = module
            package, _, child = name.rpartition(".")
            setattr(sys.modules[package], child, module)
