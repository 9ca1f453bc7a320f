"""Sets of sequence numbers that are nearly always a few unbroken ranges.

A set is a flat sorted list ``[first, last, first, last, ...]`` of disjoint ranges that do not
touch.  What a node has taken of one origin is one range in an execution without faults, however
long it is, and a list of integers is what a checkpoint can hold as it stands.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

Ranges = list[int]


def has(ranges: Ranges, seq: int) -> bool:
    """Whether ``seq`` is in the set."""
    at = bisect_left(ranges, seq)
    # An odd index: seq is above the first of its range and not above the last.
    return bool(at & 1) or (at < len(ranges) and ranges[at] == seq)


def top(ranges: Ranges) -> int:
    """The greatest number, or 0."""
    return ranges[-1] if ranges else 0


def add(ranges: Ranges, seq: int) -> None:
    """Put one number in."""
    if ranges and ranges[-1] + 1 == seq:
        ranges[-1] = seq  # the common case: the next one
    else:
        add_range(ranges, seq, seq)


def add_range(ranges: Ranges, first: int, last: int) -> None:
    """Put ``first`` to ``last`` in; nothing when ``last`` is smaller."""
    if last < first:
        return
    low = bisect_left(ranges, first - 1)
    low -= low & 1  # the range that reaches to first - 1 or further, or the next one
    if low < len(ranges):
        first = min(first, ranges[low])
    high = bisect_right(ranges, last + 1)
    high += high & 1
    if high > low:
        last = max(last, ranges[high - 1])
    ranges[low:high] = [first, last]


def first_gap(ranges: Ranges, first: int, last: int) -> int:
    """The smallest number from ``first`` to ``last`` that is not in the set, or 0."""
    if first > last:
        return 0
    at = bisect_left(ranges, first)
    if at & 1:
        first = ranges[at] + 1
    elif at < len(ranges) and ranges[at] == first:
        first = ranges[at + 1] + 1
    return first if first <= last else 0


def above(ranges: Ranges, seq: int) -> int:
    """The smallest number in the set that is greater than ``seq``, or 0."""
    at = bisect_right(ranges, seq)
    if at == len(ranges):
        return 0
    return seq + 1 if at & 1 else ranges[at]


def up_to(ranges: Ranges, last: int) -> Ranges:
    """The part of the set that is not greater than ``last``."""
    at = bisect_right(ranges, last)
    if at & 1:
        return [*ranges[:at], last]
    return ranges[:at]


def minus(ranges: Ranges, other: Ranges) -> Ranges:
    """What is in ``ranges`` and not in ``other``."""
    left: Ranges = []
    for at in range(0, len(ranges), 2):
        first, last = ranges[at], ranges[at + 1]
        while first and first <= last:
            first = first_gap(other, first, last)
            if first:
                end = above(other, first)
                end = last if not end or end > last else end - 1
                left += (first, end)
                first = end + 1
    return left


def common(ranges: Ranges, other: Ranges) -> Ranges:
    """What is in both."""
    return minus(ranges, minus(ranges, other))


def size(ranges: Ranges) -> int:
    """How many numbers there are."""
    return sum(ranges[1::2]) - sum(ranges[::2]) + len(ranges) // 2


def numbers(ranges: Ranges) -> Iterator[int]:
    """Every number, ascending.  A log may name any number: look at ``size`` before taking all."""
    for at in range(0, len(ranges), 2):
        yield from range(ranges[at], ranges[at + 1] + 1)
