"""Messages for some members only: walks, their traces, and bugs that oracle and checker find."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.seeds import seeds
from tests.thesis.test_flagship_errata import Mistake
from thence.engine.base import EngineSpec
from thence.engine.registry import ENGINES
from thence.sim.checkers import OracleFailure
from thence.sim.clock import Clock
from thence.sim.names import node_names
from thence.sim.recorder import Recorder
from thence.sim.restarts import restart_walk
from thence.sim.walk import Walk, WalkOptions, plan, random_walk
from thence.trace.check import check_paths
from thence.trace.record import RunInfo
from thence.trace.writer import RunWriter

SPEC = ENGINES["tagged"]


def options_of(seed: int, spec: EngineSpec = SPEC) -> WalkOptions:
    """A varied walk in which many messages are for some members only."""
    rng = random.Random(f"multicast {seed}")
    drawn = plan(spec, seed, stability=True)
    return msgspec.structs.replace(
        drawn,
        nodes=rng.choice((3, 3, 4, 5)),
        messages=rng.randint(4, 24),
        phantoms=rng.choice((0, 4, 12)),
        multicast=rng.choice((0.3, 0.6, 0.9)),
        # Nothing is refused for now, or a mutant that stops delivering would be asked for ever.
        engine=msgspec.structs.replace(drawn.engine, pending_per_origin_max=65_536),
    )


@pytest.mark.parametrize("part", range(4))
def test_multicasts_keep_every_promise(part: int):
    for seed in seeds(1200)[part::4]:
        random_walk(SPEC, options_of(seed))


@pytest.mark.parametrize("part", range(2))
def test_multicasts_and_restarts_keep_every_promise(part: int):
    for seed in seeds(600)[part::2]:
        restart_walk(SPEC, seed, options_of(seed))


def test_walks_reach_what_they_are_for():
    """Contexts that are right only because somebody saw through a hollow message, forgotten or not,
    streams beside multicasts, and multicasts told stable."""
    through = streams = stable = 0
    for seed in range(80):
        walk = random_walk(SPEC, options_of(seed))
        histories, expected = walk.histories, walk.truth.expected
        streams += any(key[1] for key in histories.keys)
        multicasts = sum(1 << n for n in range(len(histories)) if expected[n].to)
        stable += any(told & multicasts for told in walk.told)
        for number, (slot, stream, _) in enumerate(histories.keys):
            if not stream and expected[number].past & histories.not_for[slot]:
                through += 1
    assert min(through, streams, stable) > 20


# ---- traces --------------------------------------------------------------------------------------


class BlindWalk(Walk):
    """Asks nothing of an oracle that sees nothing."""

    def _ask(self, node: int) -> None:
        pass


def traced(folder: Path, spec: EngineSpec, options: WalkOptions, watched: bool = True) -> None:
    """Walk and log; the oracle watches or not."""
    names = node_names(options.nodes)
    info = RunInfo(run=folder.name, members=tuple(names), complete=False)
    walk = (Walk if watched else BlindWalk)(spec, options, "")
    with RunWriter(folder, info, "jsonl") as writer:
        recorder = Recorder(spec, names, writer)
        recorder.clock = Clock()
        recorder.clients = walk.cluster.clients
        walk.cluster._hook([walk.oracle, recorder] if watched else [recorder])
        if watched:
            walk.go()
        else:
            walk.wander()
        recorder.end()


def rules_of(folder: Path) -> set[str]:
    return {violation.rule for violation in check_paths([str(folder)]).violations}


def test_traces_with_multicasts_are_clean(tmp_path: Path):
    recipients = 0
    for seed in seeds(60):
        folder = tmp_path / f"run{seed}"
        traced(folder, SPEC, options_of(seed))
        recipients += sum(b'"to"' in path.read_bytes() for path in folder.glob("*.jsonl"))
        assert rules_of(folder) == set(), seed
    assert recipients > 60


Line = dict[str, Any]


def forget_recipients(lines: list[Line]) -> None:
    for line in lines:
        line.pop("to", None)


def lose_a_delivery_of_one(lines: list[Line]) -> None:
    del lines[next(at for at, line in enumerate(lines) if line["kind"] == "deliver")]


def name_what_is_behind(lines: list[Line]) -> None:
    for line in lines:
        if line["kind"] == "send" and line["dot"][1] > 2 and "/" not in line["dot"][0]:
            line["context"] = [*line.get("context", []), [line["dot"][0], 1]]


def tell_at_once(lines: list[Line]) -> None:
    stable = [line for line in lines if line["kind"] == "stable"]
    sent = [line for line in lines if line["kind"] == "send"]
    told = [line["dot"] for line in stable]
    for line in sent:
        if line["dot"] in told:
            lines.remove(next(each for each in stable if each["dot"] == line["dot"]))
            lines.insert(lines.index(line) + 1, {**line, "kind": "stable"})
            return


FAULTS: dict[str, tuple[Callable[[list[Line]], None], str]] = {
    "recipients are forgotten": (forget_recipients, "deliver-missing"),
    "a delivery is lost": (lose_a_delivery_of_one, "deliver-missing"),
    "a context names what is behind it": (name_what_is_behind, "context-wrong"),
    "stable is told at once": (tell_at_once, "stable-early"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_checker_finds_a_fault_in_a_trace(fault: str, tmp_path: Path):
    spoil, rule = FAULTS[fault]
    for seed in range(20):
        folder = tmp_path / f"run{seed}"
        traced(folder, SPEC, options_of(seed))
        path = min(folder.glob("*.jsonl"))
        lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
        try:
            spoil(lines)
        except StopIteration:
            continue
        for pos, line in enumerate(lines):
            line["pos"] = pos
        path.write_bytes(b"\n".join(msgspec.json.encode(line) for line in lines) + b"\n")
        if rule in rules_of(folder):
            return
    raise AssertionError(f"{rule} was not found")


# ---- bugs ----------------------------------------------------------------------------------------

TAKE_HOLLOW = ("frontier", "        if aside.hollow:\n            return\n", "")

MISTAKES = (
    (
        Mistake(
            "nobody sees through hollow messages",
            (("tagger", "self.frontier.see_through(tag)", "pass"),),
        ),
        "context-wrong",
    ),
    (
        Mistake(
            "one hollow message deep, no further",
            (("frontier", "work.extend(named)", "pass"),),
        ),
        "context-wrong",
    ),
    (
        Mistake(
            "streams behind a hollow message stay in the frontier",
            (("frontier", "found.update(known.predecessors)", "found.update(known.raw_context)"),),
        ),
        "context-wrong",
    ),
    (
        Mistake(
            "a hollow message enters the context",
            (
                ("tagger", "            if tag.hollow:\n                return\n", ""),
                TAKE_HOLLOW,
            ),
        ),
        "context-wrong",
    ),
    (
        Mistake(
            "a hollow message tells that its sender knows",
            (("delivery", "        tag.know = tag.know1 = tag.know2 = 0\n", ""),),
        ),
        "stable-early",
    ),
    (
        Mistake(
            "a phantom before a hollow message is thrown away",
            (("tagged", "if phantom.seq > last or self.past.hollows:", "if phantom.seq > last:"),),
        ),
        "stable-missing",
    ),
    (
        Mistake(
            "a kept phantom before a hollow message is thrown away",
            (("stability", "if n <= last and not self.past.hollows:", "if n <= last:"),),
        ),
        "stable-missing",
    ),
    (
        Mistake(
            "a hollow message is handed over",
            (("delivery", "        aside.hollow = True\n", ""),),
        ),
        "",
    ),
    (
        Mistake(
            "k counts those it is not for",
            (("stability", "tag.aside.to:\n            return", "False:\n            return"),),
        ),
        "",
    ),
    (
        Mistake(
            "hollow messages are told k-stable",
            (("stability", "if tag.aside.hollow:\n", "if False:\n"),),
        ),
        "",
    ),
)  # fmt: skip
WALKS = 600


@pytest.mark.parametrize("mistake", [m for m, _ in MISTAKES], ids=lambda mistake: mistake.what)
def test_the_oracle_finds_a_mistake(mistake: Mistake):
    spec = mistake.engine()
    for seed in range(WALKS):
        try:
            random_walk(spec, options_of(seed, SPEC))
        except OracleFailure:
            return
    raise AssertionError(f"{mistake.what}: not found in {WALKS} walks")


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [each for each in MISTAKES if each[1]],
    ids=[mistake.what for mistake, rule in MISTAKES if rule],
)
def test_the_checker_finds_a_mistake_in_the_trace(mistake: Mistake, rule: str, tmp_path: Path):
    spec = mistake.engine()
    for seed in range(WALKS):
        folder = tmp_path / f"run{seed}"
        traced(folder, spec, options_of(seed, SPEC), watched=False)
        if rule in rules_of(folder):
            return
    raise AssertionError(f"{mistake.what}: {rule} was not found in {WALKS} walks")
