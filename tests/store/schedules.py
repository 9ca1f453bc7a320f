"""Schedules of two replicas: what Redis documents for Active-Active, and what happens here.

A line is the replica, a command and, behind ``=>``, its reply; ``sync`` joins the replicas, lets
each get what the other has done, and cuts them off again.  Replies are as documented, unless the
schedule says how they differ.
"""

from __future__ import annotations

from typing import NamedTuple

_DEVELOP = "https://redis.io/docs/latest/operate/rs/databases/active-active/develop/"
STRINGS = f"{_DEVELOP}data-types/strings/"
SETS = f"{_DEVELOP}data-types/sets/"
HASHES = f"{_DEVELOP}data-types/hashes/"
SORTED_SETS = f"{_DEVELOP}data-types/sorted-sets/"
LISTS = f"{_DEVELOP}data-types/lists/"
HLL = f"{_DEVELOP}data-types/hyperloglog/"
OVERVIEW = f"{_DEVELOP}develop-for-aa/"
OURS = ""
"""Not in that documentation: it follows from what is there, and holds here."""


class Schedule(NamedTuple):
    """One of them."""

    name: str
    source: str
    text: str
    differs: str = ""
    """How it differs from what is documented; empty: it does not."""


SCHEDULES = (
    Schedule(
        "a later SET wins over a concurrent earlier one",
        STRINGS,
        """
        1 SET text a
        2 SET text b
        sync
        1 GET text => b
        2 GET text => b
        1 SET text c
        sync
        2 GET text => c
        2 SET text d
        sync
        1 GET text => d
        2 GET text => d
        """,
    ),
    Schedule(
        "concurrent increments and decrements add up",
        STRINGS,
        """
        1 INCRBY counter 7
        2 INCRBY counter 3
        1 GET counter => 7
        2 GET counter => 3
        sync
        1 GET counter => 10
        2 GET counter => 10
        1 DECRBY counter 3
        2 INCRBY counter 6
        sync
        1 GET counter => 13
        2 GET counter => 13
        """,
    ),
    Schedule(
        "DEL of a counter takes back what it saw, not a concurrent INCRBY",
        OURS,
        """
        1 INCRBY counter 10
        sync
        1 DEL counter
        2 INCRBY counter 5
        1 EXISTS counter => 0
        2 GET counter => 15
        sync
        1 GET counter => 5
        2 GET counter => 5
        """,
    ),
    Schedule(
        "INCR after DEL begins anew",
        OURS,
        """
        1 INCRBY counter 10
        sync
        1 DEL counter
        1 INCR counter => 1
        2 INCR counter => 11
        sync
        1 GET counter => 2
        2 GET counter => 2
        """,
    ),
    Schedule(
        "a concurrent SET and INCRBY both count",
        OURS,
        """
        1 INCRBY counter 10
        sync
        1 SET counter 100
        2 INCRBY counter 5
        sync
        1 GET counter => 105
        2 GET counter => 105
        """,
    ),
    Schedule(
        "DEL of a string loses against a concurrent SET",
        OURS,
        """
        1 SET text a
        sync
        1 DEL text
        2 SET text b
        sync
        1 GET text => b
        2 GET text => b
        """,
    ),
    Schedule(
        "DEL on both sides deletes",
        OURS,
        """
        1 SET text a
        sync
        1 DEL text => 1
        2 DEL text => 1
        sync
        1 EXISTS text => 0
        2 EXISTS text => 0
        """,
    ),
    Schedule(
        "concurrent SADD of two elements: both are there",
        SETS,
        """
        1 SADD key1 a
        2 SADD key1 b
        1 SMEMBERS key1 => a
        2 SMEMBERS key1 => b
        sync
        1 SMEMBERS key1 => a b
        2 SMEMBERS key1 => a b
        """,
    ),
    Schedule(
        "SREM removes what it saw: a concurrent SADD wins",
        SETS,
        """
        1 SADD key1 a b
        sync
        1 SMEMBERS key1 => a b
        2 SMEMBERS key1 => a b
        1 SREM key1 a
        2 SADD key1 c
        1 SREM key1 c => 0
        sync
        1 SMEMBERS key1 => b c
        2 SMEMBERS key1 => b c
        """,
    ),
    Schedule(
        "SADD of an element that is there wins over its concurrent SREM",
        SETS,
        """
        1 SADD key1 a
        sync
        1 SREM key1 a => 1
        2 SADD key1 a => 0
        sync
        1 SMEMBERS key1 => a
        2 SMEMBERS key1 => a
        """,
    ),
    Schedule(
        "DEL of a set removes what it saw",
        HLL,
        """
        1 SADD s e1
        sync
        1 SCARD s => 1
        2 SCARD s => 1
        1 SADD s e2
        2 DEL s
        1 SCARD s => 2
        2 SCARD s => 0
        sync
        1 SCARD s => 1
        2 SCARD s => 1
        1 EXISTS s => 1
        2 EXISTS s => 1
        1 SMEMBERS s => e2
        2 SMEMBERS s => e2
        """,
    ),
    Schedule(
        "concurrent HSET of two fields: both are there",
        HASHES,
        """
        1 HSET key1 field1 a
        2 HSET key1 field2 b
        sync
        1 HGETALL key1 => field1 a field2 b
        2 HGETALL key1 => field1 a field2 b
        """,
    ),
    Schedule(
        "HSET wins over a concurrent HDEL of the field",
        HASHES,
        """
        1 HSET key1 f a g b
        sync
        1 HDEL key1 f g
        2 HSET key1 f c
        1 EXISTS key1 => 0
        sync
        1 HGETALL key1 => f c
        2 HGETALL key1 => f c
        """,
    ),
    Schedule(
        "concurrent HSET of a field: the later wins, as with strings",
        HASHES,
        """
        1 HSET key1 f a
        2 HSET key1 f b
        sync
        1 HGET key1 f => b
        2 HGET key1 f => b
        """,
    ),
    Schedule(
        "concurrent HINCRBY add up, as with counters",
        HASHES,
        """
        1 HINCRBY key1 n 7
        2 HINCRBY key1 n 3
        sync
        1 HGET key1 n => 10
        2 HGET key1 n => 10
        1 HDEL key1 n
        2 HINCRBY key1 n 2
        sync
        1 HGET key1 n => 2
        2 HGET key1 n => 2
        """,
    ),
    Schedule(
        "ZADD of two elements, one after the other",
        SORTED_SETS,
        """
        1 ZADD Z 1.1 x
        sync
        2 ZADD Z 1.2 y
        sync
        1 ZRANGE Z 0 -1 => x y
        2 ZRANGE Z 0 -1 => x y
        """,
    ),
    Schedule(
        "concurrent ZADD of an element: the later wins",
        SORTED_SETS,
        """
        1 ZADD Z 1.1 x
        2 ZADD Z 2.1 x
        1 ZSCORE Z x => 1.1
        2 ZSCORE Z x => 2.1
        sync
        1 ZSCORE Z x => 2.1
        2 ZSCORE Z x => 2.1
        """,
    ),
    Schedule(
        "concurrent ZADD of an element in the same millisecond: all agree on one",
        SORTED_SETS,
        """
        same time
        1 ZADD Z 1.1 x
        2 ZADD Z 2.1 x
        1 ZSCORE Z x => 1.1
        2 ZSCORE Z x => 2.1
        sync
        1 ZSCORE Z x => 2.1
        2 ZSCORE Z x => 2.1
        """,
        "the documentation gives it to instance 1, and calls that arbitrary: here the node whose "
        "name comes last wins",
    ),
    Schedule(
        "concurrent ZINCRBY add up",
        SORTED_SETS,
        """
        1 ZADD Z 1.1 x
        sync
        1 ZINCRBY Z 1.0 x
        2 ZINCRBY Z 1.0 x
        sync
        1 ZSCORE Z x => 3.1
        2 ZSCORE Z x => 3.1
        """,
    ),
    Schedule(
        "ZREM against ZINCRBY: what was added since is left",
        SORTED_SETS,
        """
        1 ZADD Z 4.1 x
        sync
        1 ZSCORE Z x => 4.1
        2 ZSCORE Z x => 4.1
        1 ZREM Z x
        2 ZINCRBY Z 2.0 x
        1 ZSCORE Z x => nil
        2 ZSCORE Z x => 6.1
        sync
        1 ZSCORE Z x => 2.0
        2 ZSCORE Z x => 2.0
        """,
    ),
    Schedule(
        "LPUSH one after the other",
        LISTS,
        """
        1 LPUSH mylist hello
        sync
        2 LPUSH mylist world
        sync
        1 LRANGE mylist 0 -1 => world hello
        2 LRANGE mylist 0 -1 => world hello
        """,
    ),
    Schedule(
        "concurrent LINSERT at one place: both, in an order that all agree on",
        LISTS,
        """
        1 LPUSH L x
        sync
        1 LINSERT L AFTER x y1
        2 LINSERT L AFTER x y2
        1 LRANGE L 0 -1 => x y1
        2 LRANGE L 0 -1 => x y2
        sync
        1 LRANGE L 0 -1 => x y1 y2
        2 LRANGE L 0 -1 => x y1 y2
        """,
    ),
    Schedule(
        "DEL of a list removes what it saw, not a concurrent LPUSH",
        LISTS,
        """
        1 LPUSH L x
        sync
        1 LRANGE L 0 -1 => x
        2 LRANGE L 0 -1 => x
        1 LPUSH L y
        2 DEL L
        sync
        1 LRANGE L 0 -1 => y
        2 LRANGE L 0 -1 => y
        """,
    ),
    Schedule(
        "concurrent RPOP may give the same element twice",
        LISTS,
        """
        1 LPUSH L x y z
        sync
        2 RPOP L => x
        sync
        1 RPOP L => y
        sync
        1 RPOP L => z
        2 RPOP L => z
        sync
        1 LLEN L => 0
        2 EXISTS L => 0
        """,
    ),
    Schedule(
        "of concurrent EXPIREs the longer one stays",
        OVERVIEW,
        """
        1 SET key1 v
        sync
        1 EXPIRE key1 10
        2 EXPIRE key1 50
        sync
        1 TTL key1 => 50
        2 TTL key1 => 50
        """,
    ),
    Schedule(
        "PERSIST wins over a concurrent EXPIRE",
        OVERVIEW,
        """
        1 SET key1 v EX 10
        sync
        1 EXPIRE key1 50
        2 PERSIST key1 => 1
        sync
        1 TTL key1 => -1
        2 TTL key1 => -1
        """,
    ),
    Schedule(
        "a key that expired, written to on the other side meanwhile, lives with what was written",
        OVERVIEW,
        """
        1 SADD s old
        1 PEXPIRE s 500
        sync
        2 PERSIST s => 1
        2 SADD s new
        wait 600
        1 EXISTS s => 0
        sync
        2 SMEMBERS s => new
        1 SMEMBERS s => new
        """,
    ),
    Schedule(
        "a key of two types: both stay, all agree on the one that shows",
        OURS,
        """
        1 SET k text
        2 SADD k e
        1 TYPE k => string
        2 TYPE k => set
        sync
        1 TYPE k => string
        2 TYPE k => string
        1 DEL k
        sync
        1 EXISTS k => 0
        2 EXISTS k => 0
        """,
    ),
)
