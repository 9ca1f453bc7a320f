"""The simulated network: when does each copy of a message arrive?

Links are reliable but late: a lost attempt is sent again after a time-out, a message across a
partition waits until it heals.  Each copy draws its own delay, so messages overtake each other
unless links are FIFO.  ``weibull`` is how delays vary in the thesis (link/spread.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from thence.errors import UnusableInputError
from thence.link.spread import weibull_delays
from thence.sim.clock import TIME_MS_MAX

FACTOR_MAX = 1e3

ATTEMPTS_MAX: Final = 50

Distribution = Literal["fixed", "uniform", "exponential", "weibull"]


class SlowLink(msgspec.Struct, frozen=True, omit_defaults=True):
    """Delays between two nodes, both ways, are multiplied."""

    a: str
    b: str
    factor: float
    fixed: bool = False
    """The delay is always the link's mean times the factor (thesis 8.1.3)."""

    def __str__(self) -> str:
        return f"{self.a}:{self.b}:{self.factor:g}" + (":fixed" if self.fixed else "")

    @staticmethod
    def parse(text: str) -> SlowLink:
        """``A:B:FACTOR``, as in ``a:c:20``, or ``A:B:FACTOR:fixed``."""
        fixed = text.endswith(":fixed")
        parts = text.removesuffix(":fixed").split(":")
        try:
            a, b, factor = parts[0], parts[1], float(parts[2])
            if len(parts) != 3 or not 0 < factor <= FACTOR_MAX:
                raise ValueError
        except (ValueError, IndexError):
            raise UnusableInputError(
                f"slow link {text!r}: expected A:B:FACTOR with two nodes and a factor above 0, "
                "as in a:c:20, or A:B:FACTOR:fixed for a delay that does not vary"
            ) from None
        return SlowLink(a, b, factor, fixed)


class Partition(msgspec.Struct, frozen=True):
    """From start to end the groups cannot reach each other; nodes in no group form one more."""

    start_ms: float
    end_ms: float
    groups: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        groups = "|".join(",".join(group) for group in self.groups)
        return f"{self.start_ms:g}:{self.end_ms:g}:{groups}"

    @staticmethod
    def parse(text: str) -> Partition:
        """``START_MS:END_MS:GROUP|GROUP``, as in ``100:500:a,b|c``."""
        try:
            start, end, groups = text.split(":")
            found = Partition(
                float(start),
                float(end),
                tuple(tuple(group.split(",")) for group in groups.split("|")),
            )
            if not 0 <= found.start_ms < found.end_ms <= TIME_MS_MAX:
                raise ValueError
        except ValueError:
            raise UnusableInputError(
                f"partition {text!r}: expected START_MS:END_MS:GROUP|GROUP, as in 100:500:a,b|c"
            ) from None
        return found


class NetworkOptions(msgspec.Struct, frozen=True):
    """Everything about the network.  Times in milliseconds; chances between 0 and 1."""

    latency_ms: float = 10.0
    """Mean delay of one attempt."""
    distribution: Distribution = "weibull"
    loss: float = 0.0
    """Chance that an attempt is lost; it is sent again after ``resend_ms``."""
    resend_ms: float = 0.0
    """0 means four times the latency."""
    duplicate: float = 0.0
    """Chance that a message arrives twice."""
    fifo: bool = False
    """Messages of one link arrive in the order in which they were sent."""
    slow_links: tuple[SlowLink, ...] = ()
    partitions: tuple[Partition, ...] = ()
    matrix_ms: tuple[tuple[float, ...], ...] = ()
    """[sender][receiver]: the mean delay of each link, instead of one for all."""

    def check(self, names: list[str]) -> None:
        """UnusableInputError says what cannot be."""
        if not 0 <= self.latency_ms <= TIME_MS_MAX:
            raise UnusableInputError(f"latency {self.latency_ms} ms: expected 0 to {TIME_MS_MAX:g}")
        if not 0 <= self.loss < 1:
            raise UnusableInputError(f"loss {self.loss}: expected a chance from 0 to below 1")
        if not 0 <= self.duplicate <= 1:
            raise UnusableInputError(f"duplicate {self.duplicate}: expected a chance from 0 to 1")
        if self.matrix_ms and not is_square(self.matrix_ms, len(names)):
            raise UnusableInputError(
                f"latency matrix: expected {len(names)} rows of {len(names)} times in ms, each "
                f"from 0 to {TIME_MS_MAX:g}"
            )
        named = [name for link in self.slow_links for name in (link.a, link.b)]
        named += [name for cut in self.partitions for group in cut.groups for name in group]
        for name in named:
            if name not in names:
                raise UnusableInputError(
                    f"there is no node {name!r}; nodes are {names[0]} to {names[-1]}"
                )


def matrix_text(matrix_ms: Sequence[Sequence[float]]) -> str:
    """As the command line takes it: numbers with commas, rows with semicolons between them."""
    return ";".join(",".join(f"{each:g}" for each in row) for row in matrix_ms)


def parse_matrix(text: str) -> tuple[tuple[float, ...], ...]:
    """The other way round; nothing for no text."""
    try:
        return tuple(
            tuple(float(each) for each in row.split(",")) for row in text.split(";") if row.strip()
        )
    except ValueError:
        raise UnusableInputError(
            f"latency matrix {text[:40]!r}: expected ROW;ROW;... of numbers, as in 0,5;7,0"
        ) from None


def is_square(matrix_ms: Sequence[Sequence[float]], size: int) -> bool:
    """Whether it has the delays between so many nodes."""
    return len(matrix_ms) == size and all(
        len(row) == size and all(0 <= each <= TIME_MS_MAX for each in row) for row in matrix_ms
    )


class Network:
    """Draws arrival times.  ``arrivals`` is all there is to ask."""

    def __init__(self, options: NetworkOptions, names: list[str], seed: str) -> None:
        options.check(names)
        self._rng = random.Random(seed)
        self._delay_us = _delays(options.distribution, options.latency_ms, self._rng)
        self._loss = options.loss
        self._resend_us = int(1000 * (options.resend_ms or 4 * options.latency_ms))
        self._duplicate = options.duplicate
        self._last: list[list[int]] | None = None
        if options.fifo:
            self._last = [[0] * len(names) for _ in names]
        self._factors = _factors(options, names)
        self._own_us = _own_delays(options, names, self._rng)
        """Of links that do not draw like the others."""
        self._cuts = _cuts(options, names)
        plain = not (options.loss or options.duplicate or options.fifo or self._cuts)
        special = {i for i, _ in (*self._factors, *self._own_us)}
        self._plain = [plain and i not in special for i in range(len(names))]
        """By sender: whether nothing can befall what it sends but the usual delay."""
        self.attempts_lost = 0
        self.duplicates = 0

    @property
    def retry_us(self) -> int:
        """How long a link waits before it offers a refused message again."""
        return max(1, self._resend_us)

    def arrivals(self, i: int, now_us: int, size: int) -> list[tuple[int, int]]:
        """A message of ``i`` to all others: (time, receiver) of every copy."""
        delay_us = self._delay_us
        if self._plain[i]:
            return [(now_us + delay_us(), j) for j in range(size) if j != i]
        found: list[tuple[int, int]] = []
        for j in range(size):
            if j == i:
                continue
            found.append((self._arrival(i, j, now_us), j))
            if self._duplicate and self._rng.random() < self._duplicate:
                self.duplicates += 1
                found.append((self._arrival(i, j, now_us), j))
        return found

    def _arrival(self, i: int, j: int, now_us: int) -> int:
        leaves = self._leaves(i, j, now_us)
        if self._loss:
            for _ in range(ATTEMPTS_MAX):
                if self._rng.random() >= self._loss:
                    break
                self.attempts_lost += 1
                leaves = self._leaves(i, j, leaves + self._resend_us)
        delay_us = self._own_us.get((i, j), self._delay_us)
        arrives = leaves + int(delay_us() * self._factors.get((i, j), 1.0))
        if self._last is not None:
            arrives = max(arrives, self._last[i][j])
            self._last[i][j] = arrives
        return arrives

    def _leaves(self, i: int, j: int, t_us: int) -> int:
        """When the link between two nodes is next open."""
        for start, end, group in self._cuts:  # in order of their start
            if start <= t_us < end and group[i] != group[j]:
                t_us = end
        return t_us


def _delays(distribution: Distribution, latency_ms: float, rng: random.Random) -> Callable[[], int]:
    mean = latency_ms * 1000
    if distribution == "fixed":
        return lambda: int(mean)
    if distribution == "uniform":
        return lambda: int(2 * mean * rng.random())
    if distribution == "exponential":
        return lambda: int(mean * rng.expovariate(1.0))
    draw = weibull_delays(mean, rng.weibullvariate)
    return lambda: int(draw())


def _factors(options: NetworkOptions, names: list[str]) -> dict[tuple[int, int], float]:
    found: dict[tuple[int, int], float] = {}
    for link in options.slow_links:
        if not link.fixed:
            a, b = names.index(link.a), names.index(link.b)
            found[a, b] = found[b, a] = link.factor
    return found


def _own_delays(
    options: NetworkOptions, names: list[str], rng: random.Random
) -> dict[tuple[int, int], Callable[[], int]]:
    found: dict[tuple[int, int], Callable[[], int]] = {}
    for i, row in enumerate(options.matrix_ms):
        for j, mean_ms in enumerate(row):
            found[i, j] = _delays(options.distribution, mean_ms, rng)
    for link in options.slow_links:
        if link.fixed:
            a, b = names.index(link.a), names.index(link.b)
            for i, j in ((a, b), (b, a)):
                mean_ms = options.matrix_ms[i][j] if options.matrix_ms else options.latency_ms
                found[i, j] = _delays("fixed", mean_ms * link.factor, rng)
    return found


def _cuts(options: NetworkOptions, names: list[str]) -> list[tuple[int, int, list[int]]]:
    cuts: list[tuple[int, int, list[int]]] = []
    for cut in sorted(options.partitions, key=lambda cut: (cut.start_ms, cut.end_ms)):
        group = [0] * len(names)
        for number, members in enumerate(cut.groups, 1):
            for name in members:
                group[names.index(name)] = number
        cuts.append((int(cut.start_ms * 1000), int(cut.end_ms * 1000), group))
    return cuts
