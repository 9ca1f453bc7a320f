"""Engines with a mistake put back: the source with one passage replaced, run as a module.

A passage must occur exactly once, so that a test cannot silently mutate nothing when the source
moves on.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from thence.engine.base import EngineSpec
from thence.sim.checkers import OracleFailure
from thence.sim.walk import WalkOptions, random_walk

Change = tuple[str, str]
"""(passage of the source, what stands there instead)"""


class NotOnceError(Exception):
    """The passage to replace is not in the source exactly once."""


def source_of(module: str) -> str:
    """The text of an installed module."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def mutate(
    module: str, *changes: Change, instead: dict[str, ModuleType] | None = None
) -> ModuleType:
    """The module with its source changed; ``instead`` are modules it gets when it imports them."""
    text = source_of(module)
    for old, new in changes:
        if text.count(old) != 1:
            raise NotOnceError(f"{text.count(old)} times in {module}:\n{old}")
        text = text.replace(old, new)
    mutated = ModuleType(f"{module}_mutant")
    replaced = {name: sys.modules.get(name) for name in instead or {}}
    sys.modules.update(instead or {})
    try:
        exec(compile(text, f"<mutant of {module}>", "exec"), mutated.__dict__)
    finally:
        for name, original in replaced.items():
            if original is None:
                del sys.modules[name]
            else:
                sys.modules[name] = original
    return mutated


def first_failure(spec: EngineSpec, walks: range) -> tuple[int, OracleFailure] | None:
    """The first of these walks that the oracle objects to, and why."""
    for seed in walks:
        try:
            random_walk(spec, walk_of(seed))
        except OracleFailure as failure:
            return seed, failure
    return None


def walk_of(seed: int) -> WalkOptions:
    """Walks that most mistakes show in: eager applications, a network that reorders, phantoms.

    Nothing is refused for now (the bounds are wide), or a mutant that stops delivering would be
    offered the same message for ever.
    """
    return WalkOptions(
        seed=seed,
        nodes=(4, 5, 3, 2)[seed % 4],
        messages=(10, 20)[seed // 4 % 2],
        phantoms=8,
        duplicate=0.1,
        eagerness=0.9,
    )
