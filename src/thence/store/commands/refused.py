"""Commands of Redis 7.0 that the store does not have, each with its reason, which clients are told.

A name stands for its subcommands, too, as far as COMMANDS does not have them.  No command of Redis
is in neither table; a test asks a real one.
"""

from __future__ import annotations

from typing import Final

_SCRIPTS: Final = "scripts would run anew at every node; use MULTI, or do it in the application"
_ONE_WINNER: Final = (
    "two nodes could give the same element to two waiting clients; ask again with the command "
    "that does not wait"
)
_NO_CLUSTER: Final = "every node has all keys, there are no slots"
_NO_REPLICAS: Final = "every node takes writes; members of the group are those of thence serve"
_JOURNAL: Final = "the journal has everything that was answered"
_STREAMS: Final = "streams and their numbers need one order of all writes"
_GEO: Final = "there is no type for places; keep them in a hash or a sorted set"
_SKETCH: Final = "there is no type for estimates; count members of a set"
_BITS: Final = "single bits are not merged, a string is one register; use a set of positions"
_ONE_USER: Final = "there is one user, and its password is a setting of the server"
_ONE_DATABASE: Final = "there is one database, number 0"
_TRACKING: Final = "the server does not remember what clients have read"
_NO_MODULES: Final = "there are no modules"
_SERIALISED: Final = "values are replicated as operations, and have no other form"
_SHARDED: Final = "there are no shards; use SUBSCRIBE and PUBLISH"
_INTERNAL: Final = "it is for use within Redis"
_UNWATCHED: Final = "nothing is measured for it"

REFUSED: Final[dict[str, str]] = {
    "ACL": _ONE_USER,
    "ASKING": _NO_CLUSTER,
    "BGREWRITEAOF": _JOURNAL,
    "BGSAVE": _JOURNAL,
    "BITFIELD": _BITS,
    "BITFIELD_RO": _BITS,
    "BLMOVE": _ONE_WINNER,
    "BLMPOP": _ONE_WINNER,
    "BLPOP": _ONE_WINNER,
    "BRPOP": _ONE_WINNER,
    "BRPOPLPUSH": _ONE_WINNER,
    "BZMPOP": _ONE_WINNER,
    "BZPOPMAX": _ONE_WINNER,
    "BZPOPMIN": _ONE_WINNER,
    "CLIENT|CACHING": _TRACKING,
    "CLIENT|PAUSE": "clients are not stopped; stop the server, or its members' writes, instead",
    "CLIENT|TRACKING": _TRACKING,
    "CLIENT|TRACKINGINFO": _TRACKING,
    "CLIENT|UNBLOCK": "commands that wait have a timeout",
    "CLIENT|UNPAUSE": "clients are not stopped",
    "CLUSTER": _NO_CLUSTER,
    "COMMAND|GETKEYSANDFLAGS": "what is done with keys is not recorded; COMMAND GETKEYS has them",
    "CONFIG|REWRITE": "settings come from flags, environment and a file that the server only reads",
    "DEBUG": _INTERNAL,
    "DUMP": _SERIALISED,
    "EVAL": _SCRIPTS,
    "EVALSHA": _SCRIPTS,
    "EVALSHA_RO": _SCRIPTS,
    "EVAL_RO": _SCRIPTS,
    "FAILOVER": _NO_REPLICAS,
    "FCALL": _SCRIPTS,
    "FCALL_RO": _SCRIPTS,
    "FUNCTION": _SCRIPTS,
    "GEOADD": _GEO,
    "GEODIST": _GEO,
    "GEOHASH": _GEO,
    "GEOPOS": _GEO,
    "GEORADIUS": _GEO,
    "GEORADIUSBYMEMBER": _GEO,
    "GEORADIUSBYMEMBER_RO": _GEO,
    "GEORADIUS_RO": _GEO,
    "GEOSEARCH": _GEO,
    "GEOSEARCHSTORE": _GEO,
    "LASTSAVE": _JOURNAL,
    "LATENCY|DOCTOR": _UNWATCHED,
    "LATENCY|GRAPH": _UNWATCHED,
    "LATENCY|HISTOGRAM": _UNWATCHED,
    "LCS": "it compares two long strings in time that grows with their product",
    "MEMORY|DOCTOR": _UNWATCHED,
    "MEMORY|MALLOC-STATS": _UNWATCHED,
    "MEMORY|PURGE": "memory is Python's to give back",
    "MEMORY|STATS": _UNWATCHED,
    "MIGRATE": _SERIALISED,
    "MODULE": _NO_MODULES,
    "MONITOR": "it would show every client's data to one; look at the trace of the node",
    "MOVE": _ONE_DATABASE,
    "MSETNX": "that none of the keys is there cannot be promised while other nodes write",
    "PFADD": _SKETCH,
    "PFCOUNT": _SKETCH,
    "PFDEBUG": _INTERNAL,
    "PFMERGE": _SKETCH,
    "PFSELFTEST": _INTERNAL,
    "PSYNC": _NO_REPLICAS,
    "PUBSUB|SHARDCHANNELS": _SHARDED,
    "PUBSUB|SHARDNUMSUB": _SHARDED,
    "READONLY": _NO_CLUSTER,
    "READWRITE": _NO_CLUSTER,
    "REPLCONF": _NO_REPLICAS,
    "REPLICAOF": _NO_REPLICAS,
    "RESTORE": _SERIALISED,
    "RESTORE-ASKING": _NO_CLUSTER,
    "SAVE": _JOURNAL,
    "SCRIPT": _SCRIPTS,
    "SLAVEOF": _NO_REPLICAS,
    "SPUBLISH": _SHARDED,
    "SSUBSCRIBE": _SHARDED,
    "SUNSUBSCRIBE": _SHARDED,
    "SWAPDB": _ONE_DATABASE,
    "SYNC": _NO_REPLICAS,
    "XACK": _STREAMS,
    "XADD": _STREAMS,
    "XAUTOCLAIM": _STREAMS,
    "XCLAIM": _STREAMS,
    "XDEL": _STREAMS,
    "XGROUP": _STREAMS,
    "XINFO": _STREAMS,
    "XLEN": _STREAMS,
    "XPENDING": _STREAMS,
    "XRANGE": _STREAMS,
    "XREAD": _STREAMS,
    "XREADGROUP": _STREAMS,
    "XREVRANGE": _STREAMS,
    "XSETID": _STREAMS,
    "XTRIM": _STREAMS,
}
