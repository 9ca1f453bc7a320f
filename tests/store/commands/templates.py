"""Templates of random requests, by what they are about; requests.py says how they are written."""

from __future__ import annotations

from typing import Final

TEMPLATES: Final = {
    "strings": """
        GET s | SET s v | SET s v NX|XX|GET | SET s v [ NX|XX ] [ GET ] [ EX|PX e ] [ KEEPTTL ]
        SET s v EXAT 9999999999 | SETNX s v | SETEX s e v | PSETEX s e v | GETSET s v | GETDEL s
        GETEX s | GETEX s PERSIST | GETEX s EX|PX|EXAT|PXAT e | MGET { k } | MSET { s v } | STRLEN s
        GETRANGE s x x | SUBSTR s x x | SETRANGE s x v | APPEND s v | INCR s | DECR s | INCRBY s j
        DECRBY s j | INCRBYFLOAT s d
    """,
    "counters": """
        GET s | SET s i | INCR s | DECR s | INCRBY s i | DECRBY s i | APPEND s j | GETSET s i
        DEL s
        HSET h f i | HINCRBY h f i | HGET h f | HDEL h f | RENAME k n | COPY k n REPLACE
    """,
    "bits": """
        SETBIT s o 0|1|x | GETBIT s o | BITCOUNT s | BITCOUNT s x x | BITCOUNT s x x BIT|BYTE|x
        BITPOS s 0|1 | BITPOS s 0|1 x | BITPOS s 0|1 x x | BITPOS s 0|1|x x x BIT|BYTE
        BITOP AND|OR|XOR|NOT s s | BITOP AND|OR|XOR s { s } | SET s v | GET s | DEL s | SETBIT s o 1
        SET s \xff\xff | SETRANGE s x v | STRLEN s
    """,
    "lists": """
        LPUSH l { v } | RPUSH l { v } | LPUSHX l v | RPUSHX l { v } | LPOP l | RPOP l | LPOP l x
        RPOP l x | LLEN l | LRANGE l x x | LTRIM l x x | LINDEX l x | LSET l x v | LREM l x v
        LINSERT l BEFORE|AFTER v v | LPOS l v | LPOS l v [ RANK x ] [ COUNT x ] [ MAXLEN x ]
        LMOVE l l LEFT|RIGHT LEFT|RIGHT | RPOPLPUSH l l | LMPOP 2 l l LEFT|RIGHT [ COUNT x ]
        LMPOP x l l LEFT|RIGHT | RPUSH l { m } | RPUSH l { i }
    """,
    "sets": """
        SADD t { m } | SREM t { m } | SMOVE t t m | SMEMBERS t | SISMEMBER t m | SMISMEMBER t { m }
        SCARD t | SPOP t | SPOP t x | SRANDMEMBER t | SRANDMEMBER t x | SINTER { t } | SUNION { t }
        SDIFF { t } | SINTERSTORE t { t } | SUNIONSTORE t { t } | SDIFFSTORE t { t }
        SINTERCARD 2 t t [ LIMIT x ] | SINTERCARD x t t | SADD t { i } | SSCAN t 0 COUNT 1000
        SSCAN t 0 MATCH g COUNT 1000 | SSCAN t x COUNT x
    """,
    "hashes": """
        HSET h { f v } | HMSET h { f v } | HSETNX h f v | HGET h f | HMGET h { f } | HGETALL h
        HDEL h { f } | HEXISTS h f | HLEN h | HKEYS h | HVALS h | HSTRLEN h f | HINCRBY h f j
        HINCRBYFLOAT h f d | HSCAN h 0 COUNT 1000 | HSCAN h 0 MATCH g
        HRANDFIELD h | HRANDFIELD h x | HRANDFIELD h x WITHVALUES
    """,
    "sorted sets": """
        ZADD z { d m } | ZADD z { d m } | ZADD z [ NX|XX ] [ GT|LT ] [ CH ] { d m }
        ZADD z [ NX|XX ] [ GT|LT ] [ CH ] INCR d m | ZREM z { m } | ZINCRBY z d m | ZSCORE z m
        ZMSCORE z { m } | ZCARD z | ZRANK z m | ZREVRANK z m | ZPOPMIN z | ZPOPMAX z | ZPOPMIN z x
        ZPOPMAX z x | ZMPOP 2 z z MIN|MAX [ COUNT x ] | ZMPOP x z z MIN | ZRANDMEMBER z
        ZRANDMEMBER z x | ZRANDMEMBER z x WITHSCORES | ZSCAN z 0 COUNT 1000 | ZSCAN z 0 MATCH g
    """,
    "ranges": """
        ZADD z { d m } | ZADD z { d m } | ZADD z1 0 a 0 aa 0 ab 0 b 0 c | ZCOUNT z b b | ZREM z m
        ZLEXCOUNT z1 y y | ZRANGE z x x | ZRANGE z x x [ REV ] [ WITHSCORES ]
        ZRANGE z b b BYSCORE [ REV ] [ LIMIT x x ] [ WITHSCORES ] | ZREMRANGEBYLEX z1 y y | DEL z1
        ZRANGE z1 y y BYLEX [ REV ] [ LIMIT x x ] | ZRANGE z x x [ LIMIT x x ] [ BYLEX ] [ REV ]
        ZREVRANGE z x x [ WITHSCORES ] | ZRANGEBYSCORE z b b [ WITHSCORES ] [ LIMIT x x ]
        ZREVRANGEBYSCORE z b b [ WITHSCORES ] [ LIMIT x x ] | ZRANGEBYLEX z1 y y [ LIMIT x x ]
        ZREVRANGEBYLEX z1 y y [ LIMIT x x ] | ZRANGESTORE z z x x [ REV ] | ZREMRANGEBYRANK z x x
        ZRANGESTORE z z b b BYSCORE [ LIMIT x x ] | ZREMRANGEBYSCORE z b b | ZINCRBY z d m
    """,
    "algebra": """
        ZADD z { d m } | SADD t { m } | ZUNION 2 z z|t [ WEIGHTS d d ] [ AGGREGATE SUM|MIN|MAX ]
        ZINTER 2 z z|t [ WEIGHTS d d ] [ AGGREGATE SUM|MIN|MAX ] [ WITHSCORES ]
        ZUNION 3 z z z [ WITHSCORES ] | ZDIFF 2 z z|t [ WITHSCORES ]
        ZINTERCARD 2 z z|t [ LIMIT x ]
        ZUNIONSTORE z 2 z z|t [ WEIGHTS d d ] [ AGGREGATE SUM|MIN|MAX ] | ZDIFFSTORE z 2 z z|t
        ZINTERSTORE z 2 z z|t [ WEIGHTS d d ] | ZUNION x z z | ZREM z { m } | ZREMRANGEBYRANK z x x
    """,
    "keys": """
        DEL { k } | UNLINK { k } | EXISTS { k } | TOUCH { k } | TYPE k | KEYS g | SCAN 0 COUNT 1000
        SCAN 0 COUNT 1000 MATCH g | SCAN 0 COUNT 1000 TYPE string|list|set|zset|hash|x | SCAN i
        RENAME k n | RENAMENX k n | COPY k n [ REPLACE ] | COPY k n DB x | OBJECT REFCOUNT n
        SET s v | HSET h f v | LPUSH l v v | SADD t m m | ZADD z d m | EXPIRE k e | DEL k
        EXPIRE k 1000|5000 | PEXPIRE k 1000000 | EXPIREAT k 9999999999 | TTL k | PTTL k | PERSIST k
        EXPIREAT k 9999999999|9999990000 NX|XX|GT|LT | EXPIRE k 100 NX|XX | EXPIRETIME k
        EXPIREAT k 9999990000|9999999999 NX|XX|GT|LT NX|XX|GT|LT|x
        PEXPIREAT k 9999999999999 | PEXPIRETIME k | OBJECT x k | PEXPIRE k e
    """,
    "sort": """
        RPUSH l { i } | RPUSH l { m } | SADD t { m } | SADD t { x } | ZADD z { d m } | DEL k
        SORT l | SORT l|t|z ALPHA | SORT l|t ALPHA DESC|ASC [ LIMIT x x ] | SORT l|t|z DESC
        SORT l|t|z BY s* ALPHA|DESC GET # | SORT l|z BY nosort [ LIMIT x x ] [ DESC ]
        SORT l|t ALPHA GET s* GET # GET h*->f1 | SORT_RO l|t ALPHA | SORT l|t ALPHA STORE l
        SORT t BY nosort STORE l | SET s v | HSET h f1 v | SORT l|t|z LIMIT x x | LRANGE l 0 -1
        SORT l|t BY h*->f1 ALPHA GET h*->f1 | RPUSH l 1 2 3 | SORT l BY s* | SET s x | LTRIM l -3 -1
        SORT l STORE l
    """,
}


def templates_of(text: str) -> list[str]:
    return [part.strip() for line in text.splitlines() for part in _alternatives(line)]


def _alternatives(line: str) -> list[str]:
    return [part for part in line.split(" | ") if part.strip()]
