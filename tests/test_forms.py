"""Two forms of one source: both load, both do the same, and the lists of what is compiled agree."""

from __future__ import annotations

import ast
import importlib
import os
import random
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.seeds import seeds
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.forms import COMPILED, FLAGSHIP, interpreted_engine, is_compiled
from thence.message import Message, Phantom, WireMessage

NAMES = ("a", "b", "c", "d")


def test_the_list_of_compiled_modules_is_that_of_pyproject(root: Path):
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    listed = settings["tool"]["thence"]["compiled"]
    assert [f"src/{name.replace('.', '/')}.py" for name in COMPILED] == listed
    assert all((root / name).is_file() for name in listed)


def test_compiled_modules_are_listed_in_order_of_import(root: Path):
    for at, name in enumerate(COMPILED):
        source = (root / "src" / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
        for later in COMPILED[at + 1 :]:
            assert f"from {later} import" not in source


@pytest.mark.parametrize("name", COMPILED)
def test_what_is_compiled_makes_no_class_with_arguments(name: str, root: Path):
    """mypyc drops them without a word: ``array_like`` of a Struct, so that it is sent otherwise."""
    source = (root / "src" / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    assert not [made.name for made in classes if made.keywords], "give it a module of its own"


def imported() -> ModuleType:
    return importlib.import_module(FLAGSHIP)


def test_the_interpreted_form_is_the_source_and_leaves_the_other_in_place():
    before = {name: sys.modules[name] for name in map(str, COMPILED) if name in sys.modules}
    finders = list(sys.meta_path)
    source = interpreted_engine()
    assert str(source.__file__).endswith("tagged.py")
    assert source is not imported()
    assert source.Tagged is not imported().Tagged
    assert source.Tag is not imported().Tag, "its siblings are interpreted too"
    assert sys.meta_path == finders
    for name, module in before.items():
        assert sys.modules[name] is module
        package, _, child = name.rpartition(".")
        assert getattr(sys.modules[package], child) is module
    assert str(imported().__file__).endswith(".py") != is_compiled()


def test_the_environment_chooses_the_source():
    code = "from thence.forms import is_compiled; print(is_compiled())"
    environment = {**os.environ, "THENCE_PURE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


# ---- both forms, step by step --------------------------------------------------------------------


class Run:
    """A group of one form, driven by indices that mean the same in another form."""

    def __init__(self, module: ModuleType, options: EngineOptions) -> None:
        self.nodes = [module.make(Members(NAMES), slot, options) for slot in range(len(NAMES))]
        self.inbox: list[list[Any]] = [[] for _ in NAMES]
        self.outs = [Effects() for _ in NAMES]
        self.flights: list[tuple[int, int, WireMessage]] = []
        self.log: list[Any] = []

    def step(self, kind: int, slot: int, number: int) -> None:
        client, engine = self.nodes[slot]
        out = self.outs[slot]
        if kind == 0:
            engine.broadcast(self._tagged(slot, number), out)
        elif kind == 1:
            engine.announce(client.phantom(), out)
        elif kind == 2:
            engine.flush(out)
        elif kind == 3 and self.inbox[slot]:
            what, tag = self.inbox[slot].pop(0)
            if what == "stable":
                client.stabilised(tag)
                engine.forget(tag)
            else:
                client.consume(tag)
        elif kind == 4:
            forged = (Message(number % 6 - 1, number, (number,), b""), Phantom(number, number, ()))
            engine.receive(slot, forged[number % 2], out)
        elif self.flights:
            peer, to, message = self.flights.pop(number % len(self.flights))
            slot, out = to, self.outs[to]
            engine = self.nodes[to][1]
            engine.receive(peer, message, out)
        self._note(slot, engine, out)

    def _tagged(self, slot: int, number: int) -> Any:
        client, _ = self.nodes[slot]
        if number % 5 == 0:
            return client.broadcast(b"x", ordered=False)
        if number % 5 == 1:
            return client.broadcast(b"y", stream="s", after=[])
        return client.broadcast(b"z" * (number % 3))

    def _note(self, slot: int, engine: Any, out: Effects) -> None:
        self.flights += [(slot, to, m) for m in out.send for to in range(len(NAMES)) if to != slot]
        self.inbox[slot] += [("deliver", tag) for tag in out.deliver]
        self.inbox[slot] += [("stable", tag) for tag in out.stable]
        self.log.append(
            (
                list(out.send),
                [(repr(tag), tag.payload, tag.packed, bytes(tag)) for tag in out.deliver],
                [repr(tag) for tag in out.stable],
                [repr(tag) for tag in out.k_stable],
                [(r.peer, r.reason, r.detail, r.retry) for r in out.reject],
                [(entry.dot, entry.missing) for entry in engine.waiting()],
                engine.words(),
            )
        )
        out.clear()


@pytest.mark.parametrize("seed", seeds(12))
def test_both_forms_have_the_same_effects(seed: int):
    rng = random.Random(seed)
    options = EngineOptions(
        stability=seed % 6 != 5,
        stability_batch=rng.choice((0, 1, 3)),
        k=rng.choice((0, 2)),
        pending_per_origin_max=rng.choice((8, 64)),
    )
    runs = [Run(imported(), options), Run(interpreted_engine(), options)]
    for _ in range(500):
        step = (
            rng.choice((0, 1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 5, 5)),
            rng.randrange(4),
            rng.randrange(99),
        )
        for run in runs:
            run.step(*step)
    assert runs[0].log == runs[1].log
    assert sum(len(entry[1]) for entry in runs[0].log) > 20, "something was delivered"
