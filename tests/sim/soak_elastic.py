"""Runs of nodes whose members change, for long: every class with one seed after the other.

    python -m tests.sim.soak_elastic [--seeds 10000:20000] [--jobs 2] [--state FILE] [--seconds N]
        [--classes joins "joins, leaves"] [--digest]

A seed counts when all classes ran with it, so each class has the same number of runs whenever it is
stopped: by Ctrl-C, SIGTERM, or after ``--seconds``.  With ``--state`` it goes on where it was
stopped.  A run that fails stops nothing; it is listed.  Exit code 1 when there is one.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from multiprocessing import TimeoutError as NothingYet
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

import thence
from tests.sim.elastic_classes import CLASSES, options_of
from thence.client import hub
from thence.sim.elastic import ElasticWorld, run_elastic
from thence.sim.node_view import Broken

COLUMNS = (
    "runs", "failures", "killed", "evicted", "left", "let in", "restarts", "views", "lost",
    "forked",
)  # fmt: skip
PROGRESS_S = 15.0
STUCK_S = 600.0
"""A seed takes seconds."""
SEEDS_PER_PROCESS = 8
"""Then there is a new one, instead of collecting what runs leave behind: the compiled form
(soak_build.py) keeps one to three thousand objects of every run for ever."""
LINE_CHARS_MAX = 160
"""Of a failure, in the list."""


class Failure(msgspec.Struct, frozen=True):
    """A run that went wrong."""

    name: str
    seed: int
    line: str
    """The first of the error."""


class Outcome(msgspec.Struct, frozen=True):
    """All classes with one seed."""

    tally: dict[str, dict[str, int]]
    digests: dict[str, str]
    failures: list[Failure]


class State(msgspec.Struct):
    """What was found so far; what a file keeps."""

    first: int
    after: int
    """The next seed."""
    sources: str
    """Which code it was found with."""
    tally: dict[str, dict[str, int]]
    digests: dict[str, str]
    """By class, of all traces in the order of their seeds; empty if nobody asked for it."""
    failures: list[Failure] = []
    cpu_s: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """One more seed is done."""
        self.after += 1
        for name, found in outcome.tally.items():
            sums = self.tally[name]
            for what, count in found.items():
                sums[what] = sums.get(what, 0) + count
        for name, digest in outcome.digests.items():
            self.digests[name] = _hash([self.digests[name].encode(), digest.encode()])
        self.failures += outcome.failures


def _hash(parts: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()


def sources() -> str:
    """Tells this code from any other."""
    assert thence.__file__ is not None
    package = Path(thence.__file__).parent
    here = Path(__file__).with_name("elastic_classes.py")
    return _hash(path.read_bytes() for path in [*sorted(package.rglob("*.py")), here])


def count(world: ElasticWorld) -> dict[str, int]:
    """What happened in a run."""
    found = {name: world.counts.get(name, 0) for name in COLUMNS}
    lives = [life for node in world.nodes.values() for life in node.lives]
    found.update(runs=1, views=len(world.views), restarts=sum(life.restarts for life in lives))
    found["let in"] = sum(life.newcomer is not None and life.driver is not None for life in lives)
    return found


def run_seed(seed: int, names: Sequence[str], with_digest: bool = False) -> Outcome:
    """Every one of these classes with this seed."""
    tally: dict[str, dict[str, int]] = {}
    digests: dict[str, str] = {}
    failures: list[Failure] = []
    for name in names:
        try:
            world = run_elastic(options_of(name, seed))
        except Broken as error:
            line = str(error).partition("\n")[0]
            traceback.print_exc()  # it may be the only trace of what does not come again
            failures.append(Failure(name, seed, line))
            tally[name], digest = {"runs": 1, "failures": 1}, line
        else:
            tally[name], digest = count(world), world.digest() if with_digest else ""
        if with_digest:
            digests[name] = digest
    return Outcome(tally, digests, failures)


_task: tuple[Sequence[str], bool] = ((), False)


def _start(names: Sequence[str], with_digest: bool) -> None:
    global _task  # noqa: PLW0603  # a worker does one thing
    _task = (names, with_digest)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who prints the table
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()  # a process is over before what runs leave behind is much


def _work(seed: int) -> tuple[Outcome, float]:
    began = time.process_time()
    outcome = run_seed(seed, *_task)
    return outcome, time.process_time() - began


def soak(
    state: State, end: int, jobs: int, seconds: float, with_digest: bool, file: Path | None
) -> bool:
    """Run until the seed ``end`` or until the time is over; whether a signal ended it."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    began = said = time.monotonic()
    first = state.after
    task = (list(state.tally), with_digest)
    with get_context("fork").Pool(jobs, _start, task, SEEDS_PER_PROCESS) as pool:
        try:
            # In order of seeds: what is done is always all up to one.
            found = pool.imap(_work, range(first, end))
            while state.after < end:
                left = max(0.0, began + seconds - time.monotonic())
                try:
                    outcome, cpu_s = found.next(min(left, STUCK_S))
                except NothingYet:
                    if left > STUCK_S:  # it runs for ever, or its process died
                        raise SystemExit(f"nothing is heard of seed {state.after}") from None
                    break
                state.add(outcome)
                state.cpu_s += cpu_s
                for each in outcome.failures:
                    print(f"FAILED {_told(each)}", flush=True)
                now = time.monotonic()
                if now >= said + PROGRESS_S:
                    said = now
                    _progress(state, first, end, now - began, seconds)
                    _save(state, file)
        except KeyboardInterrupt:
            return True
        finally:
            pool.terminate()
            _save(state, file)
    return False


def _save(state: State, file: Path | None) -> None:
    if file is not None:
        fresh = file.with_name(file.name + ".new")
        fresh.write_bytes(msgspec.json.encode(state))
        fresh.replace(file)


def _progress(state: State, first: int, end: int, passed: float, seconds: float) -> None:
    each = passed / (state.after - first)
    left = min((end - state.after) * each, seconds - passed)
    print(
        f"seed {state.after - 1}, {state.after - state.first} of {end - state.first}, "
        f"{len(state.failures)} failures, {each:.2f} s a seed, {left / 60:.0f} min left",
        flush=True,
    )


def _told(failure: Failure) -> str:
    return f"{failure.name!r}, {failure.seed}: {failure.line[:LINE_CHARS_MAX]}"


def table(state: State) -> str:
    """What happened, by class."""
    width = max(len(name) for name in ("all", *state.tally))
    with_digest = any(state.digests.values())
    heads = [*COLUMNS, "digest"] if with_digest else COLUMNS
    lines = [f"{'class':{width}}" + "".join(f"{head:>10}" for head in heads)]
    sums = dict.fromkeys(COLUMNS, 0)
    for name, found in state.tally.items():
        for what in COLUMNS:
            sums[what] += found.get(what, 0)
        line = f"{name:{width}}" + "".join(f"{found.get(what, 0):>10,}" for what in COLUMNS)
        lines.append(line + (f"{state.digests[name][:8]:>10}" if with_digest else ""))
    lines.append(f"{'all':{width}}" + "".join(f"{sums[what]:>10,}" for what in COLUMNS))
    return "\n".join(lines)


def _begin(first: int, names: Sequence[str], file: Path | None) -> State:
    here = sources()
    if file is None or not file.exists():
        return State(first, first, here, {name: {} for name in names}, dict.fromkeys(names, ""))
    state = msgspec.json.decode(file.read_bytes(), type=State)
    if (state.first, list(state.tally)) != (first, list(names)):
        raise SystemExit(f"{file} is of other seeds or classes: from {state.first}, {state.tally}")
    if state.sources != here:
        raise SystemExit(f"{file} is of other sources, up to seed {state.after - 1}: remove it")
    return state


def _seeds(text: str) -> tuple[int, int]:
    first, _, end = text.partition(":")
    return int(first), int(end)


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=_seeds, default=(10_000, 20_000), help="FIRST:END")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--classes", nargs="+", choices=CLASSES, default=list(CLASSES))
    parser.add_argument("--state", type=Path, help="a file: go on where it was stopped")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--digest", action="store_true", help="of all traces, to compare forms")
    given: Any = parser.parse_args(words)
    first, end = given.seeds
    state = _begin(first, given.classes, given.state)
    seconds = min(given.seconds, 1e7)
    is_stopped = soak(state, end, given.jobs, seconds, given.digest, given.state)
    print(table(state))
    runs = sum(each.get("runs", 0) for each in state.tally.values())
    form = "interpreted" if (hub.__file__ or "").endswith(".py") else "compiled"
    print(f"seeds {state.first} to {state.after - 1}, {runs:,} runs, "
          f"{1000 * state.cpu_s / max(1, runs):.1f} ms of CPU time each, {form}")  # fmt: skip
    for each in state.failures:
        print(f"FAILED {_told(each)}")
    if is_stopped:
        print("stopped by a signal")
    return 1 if state.failures else 0


if __name__ == "__main__":
    sys.exit(main())
