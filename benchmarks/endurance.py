"""A node that has run for long costs what a young one costs, and holds no more memory."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable, Iterator
from itertools import islice

from benchmarks.drive import Contender, Node, Tick, ticks_of
from benchmarks.workload import LATENCY, Step, execution

NODES = 8
YOUNG_MESSAGES = 10_000
CHUNK_MESSAGES = 20_000
ROUNDS = 9


def arrivals(messages: int, seed: int) -> Iterator[Step]:
    """In order, without end in sight: what node 0 sends goes LATENCY before what reaches it."""
    own: list[float] = []
    waiting: list[tuple[float, Step]] = []
    for time, origin, step in execution(NODES, messages, seed):
        if origin == 0:
            own.append(time)
        waiting.append((time + (LATENCY if origin else 0.0), step))
        if len(waiting) >= 4096:
            waiting.sort(key=lambda entry: entry[0])
            yield from (ready for due, ready in waiting if due <= time)
            waiting = [entry for entry in waiting if entry[0] > time]
    yield from (step for _, step in sorted(waiting, key=lambda entry: entry[0]))


def endurance(
    promise: Callable[[str, float, float, float], None], flagship: Contender, messages: int
) -> None:
    """Compare an old node with young ones, in turns."""
    old = Node(flagship.spec, flagship.effects, NODES)
    steps = arrivals(messages + ROUNDS * CHUNK_MESSAGES, 3)
    memory_kib: list[int] = []
    done = 0
    while done < messages:
        chunk = list(islice(steps, CHUNK_MESSAGES))
        old.run(ticks_of(chunk, False))
        done += len(chunk)
        if done <= 5 * CHUNK_MESSAGES or done >= messages:
            memory_kib.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    words = old.engine.words()
    ratios = []
    for _ in range(ROUNDS):
        young_steps = list(islice(arrivals(YOUNG_MESSAGES + CHUNK_MESSAGES, 4), None))
        young = Node(flagship.spec, flagship.effects, NODES)
        young.run(ticks_of(young_steps[:YOUNG_MESSAGES], False))
        young_ticks = ticks_of(young_steps[YOUNG_MESSAGES:], False)
        old_ticks: list[Tick] = ticks_of(list(islice(steps, CHUNK_MESSAGES)), False)
        young_us = young.cost_us(young_ticks)
        ratios.append(old.cost_us(old_ticks) / young_us)
    print(
        f"\nafter {messages:,} messages: {words} words of metadata; young: {young.engine.words()}"
    )
    print(f"peak memory of the process: {memory_kib[0]} KiB early, {memory_kib[-1]} KiB at the end")
    what = f"N = {NODES}: cost after {messages:,} messages / after {YOUNG_MESSAGES:,}"
    promise(what, statistics.median(ratios), 0.0, 1.1)
    promise(
        "peak memory at the end / after 100,000 messages",
        memory_kib[-1] / memory_kib[min(4, len(memory_kib) - 1)],
        0.0,
        1.1,
    )
