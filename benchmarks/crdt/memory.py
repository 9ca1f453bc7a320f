"""What a million keys keep of their past: resident memory of fresh processes.

    python -m benchmarks.crdt.memory KIND KEYS       one process; prints bytes

- ``once``: every key is set by one message;
- ``often``: every key is set, overwritten, deleted, then set to the same value as above, each by
  its own message of one of three replicas, and all of it becomes stable.

The keys are those of a keyspace, as a store has them.  Messages become stable a thousand at a time,
about as in a busy group.  Measured after ``gc.collect()`` and ``malloc_trim(0)``: what the process
needs, not what the allocator keeps for later.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from thence.crdt.base import Op
from thence.crdt.keyspace import KEYS, REMOVE, Keyspace
from thence.crdt.register_counter import SET, RegisterCounter

NODES = ("a", "b", "c")
STABLE_AT_A_TIME = 1000


class OrderedStamp:
    """A stamp of an execution in which everybody had seen everything."""

    __slots__ = ("clock_ms", "node", "seq")

    def __init__(self, seq: int) -> None:
        self.node = NODES[seq % len(NODES)]
        self.seq = seq
        self.clock_ms = seq

    def sees(self, stored: Any) -> bool:
        """Whether it was before."""
        return bool(stored.seq <= self.seq)


def name(at: int) -> bytes:
    """Of a key."""
    return b"key:%07d" % at


def final(at: int) -> bytes:
    """The value of a key in the end."""
    return b"value:%09d" % at


def fill(keys: int, is_often: bool) -> Keyspace:
    """The keyspace in which all is stable."""
    whole = Keyspace()
    code = RegisterCounter.CODE
    unstable: set[Any] = set()
    seq = 0

    def apply(at: int, code: int, op: Op) -> None:
        nonlocal seq
        seq += 1
        stamp = OrderedStamp(seq)
        whole.apply(name(at), code, op, stamp)
        unstable.add(stamp)
        if len(unstable) == STABLE_AT_A_TIME:
            whole.stabilise(unstable)
            unstable.clear()

    if is_often:
        for at in range(keys):
            apply(at, code, (SET, b"first"))
        for at in range(keys):
            apply(at, code, (SET, b"second value, and longer"))
        for at in range(keys):
            apply(at, KEYS, (REMOVE,))
    for at in range(keys):
        apply(at, code, (SET, final(at)))
    whole.stabilise(unstable)
    assert len(whole) == keys
    assert not whole.stamps()
    assert whole.get(name(keys // 2)) == final(keys // 2)
    return whole


def resident() -> int:
    """Bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(kind: str, keys: int) -> int:
    """What the keyspace takes, in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.crdt.memory", kind, str(keys)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


def main() -> None:
    """Print what one keyspace takes."""
    kind, keys = sys.argv[1], int(sys.argv[2])
    before = resident()
    whole = fill(keys, kind == "often")
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    print(resident() - before)
    del whole


if __name__ == "__main__":
    main()
