"""When two replies are the same: what has no order may come in any, what is random is counted."""

from __future__ import annotations

from typing import Any, Final

import hiredis

from thence.store.replies import Reply
from thence.store.resp import encode

UNORDERED: Final = {"SMEMBERS", "SINTER", "SUNION", "SDIFF", "KEYS", "HKEYS", "HVALS", "SPOP"}
"""Arrays without a meaningful order."""
UNORDERED_PAIRS: Final = {"HGETALL"}
SORTS: Final = {"SORT", "SORT_RO"}
SCANS: Final = {"SCAN", "SSCAN", "HSCAN", "ZSCAN"}
RANDOM: Final = {"SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER", "RANDOMKEY"}
REMAINING: Final = {"TTL": 1.0, "PTTL": 1000.0, "EXPIRETIME": 1.0, "PEXPIRETIME": 1000.0}
"""How far apart two clocks may be."""


def ours_as_client(reply: Reply) -> Any:
    """A reply as a client reads it."""
    out: list[bytes] = []
    encode(reply, 2, out)
    reader = hiredis.Reader()
    reader.feed(b"".join(out))
    return reader.gets()


def fault(value: Any) -> str | None:
    return str(value) if isinstance(value, hiredis.ReplyError) else None


def as_number(value: Any) -> Any:
    """Numbers compare as numbers: Redis 7.0 writes them with 17 digits, 7.2 as few as will do."""
    if isinstance(value, list):
        return [as_number(item) for item in value]
    if isinstance(value, bytes):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def comparable(name: str, reply: Any) -> Any:
    """What has to be equal of two replies."""
    if fault(reply) is not None:
        return fault(reply)
    if isinstance(reply, dict):
        return sorted(reply.items())
    if isinstance(reply, set):
        return sorted(reply)
    if not isinstance(reply, list):
        return as_number(reply) if name in ("ZSCORE", "ZINCRBY", "ZADD") else reply
    if name in UNORDERED:
        return sorted(reply)
    if name in UNORDERED_PAIRS:
        return sorted(zip(reply[::2], reply[1::2], strict=True))
    if name in SCANS:
        found = reply[1]
        if name in ("HSCAN", "ZSCAN"):
            found = list(zip(found[::2], found[1::2], strict=True))
            found = [(one, as_number(two) if name == "ZSCAN" else two) for one, two in found]
        return [reply[0], sorted(found)]
    if name in RANDOM:
        return len(reply)
    return as_number(reply) if name.startswith("Z") else reply


def matches(words: list[bytes], ours: Any, theirs: Any) -> bool:
    name = words[0].decode().upper()
    if name in RANDOM and isinstance(ours, bytes) and isinstance(theirs, bytes):
        return True
    if name in REMAINING and isinstance(ours, int) and isinstance(theirs, int):
        return ours == theirs or (min(ours, theirs) > 0 and abs(ours - theirs) <= REMAINING[name])
    if name in SCANS and isinstance(ours, list) and isinstance(theirs, list):
        # Cursors are each server's own: portions are compared where they are everything.
        cursor = words[1 if name == "SCAN" else 2]
        if cursor != b"0" or b"1000" not in words[2:]:
            return True
    if name in SORTS and isinstance(ours, list) and isinstance(theirs, list):
        options = [word.upper() for word in words]
        if b"BY" in options and b"ALPHA" in options:
            # What has the same weight may come in any order.
            return sorted(map(str, ours)) == sorted(map(str, theirs)) or b"LIMIT" in options
    return bool(comparable(name, ours) == comparable(name, theirs))
