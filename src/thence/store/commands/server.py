"""What the server says about itself, and what it is told: INFO, CONFIG, FLUSHALL, SHUTDOWN."""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from typing import Any, Final

import msgspec

from thence.crdt.base import Crdt
from thence.store.commands.arguments import bounded
from thence.store.commands.base import Database, command
from thence.store.commands.configuration import config_get, config_set
from thence.store.commands.help import help_of
from thence.store.commands.version import COMPATIBLE
from thence.store.errors import SYNTAX, CommandError, shown, wrong_subcommand
from thence.store.replies import NOTHING, OK, Reply, Verbatim
from thence.store.session import Session

_DEFAULT: Final = frozenset(
    {"server", "clients", "memory", "persistence", "stats"}
    | {"replication", "cpu", "causality", "cluster", "keyspace"}
)
_EVERYTHING: Final = frozenset({"all", "everything", "default"})


def _section_server(session: Session) -> dict[str, object]:
    up_s = int(time.monotonic() - session.shared.started)
    return {
        "redis_version": COMPATIBLE,
        "redis_mode": "standalone",
        "thence": "multi-master",
        "python_version": platform.python_version(),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "arch_bits": 64 if sys.maxsize > 2**32 else 32,
        "process_id": os.getpid(),
        "tcp_port": session.shared.port,
        "server_time_usec": time.time_ns() // 1000,
        "uptime_in_seconds": up_s,
        "uptime_in_days": up_s // 86_400,
    }


def _section_clients(session: Session) -> dict[str, object]:
    shared = session.shared
    return {
        "connected_clients": len(shared.sessions),
        "maxclients": shared.settings.clients_max,
        "blocked_clients": shared.blocked(),
        "pubsub_clients": sum([each.subscriptions > 0 for each in shared.sessions.values()]),
    }


def _section_memory() -> dict[str, object]:
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "used_memory": _resident_bytes(),
        "used_memory_rss": _resident_bytes(),
        "used_memory_peak": peak_bytes,
        "maxmemory": 0,
        "maxmemory_policy": "noeviction",
    }


def _resident_bytes() -> int:
    """Of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def _section_stats(session: Session) -> dict[str, object]:
    shared = session.shared
    return {
        "total_connections_received": shared.connections,
        "total_commands_processed": shared.commands,
        "rejected_connections": shared.rejected,
        "dropped_connections": shared.dropped,
        "pubsub_channels": len(shared.topics.channels()),
        "pubsub_patterns": shared.topics.pattern_count,
    }


def _section_cpu() -> dict[str, object]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"used_cpu_sys": f"{used.ru_stime:.6f}", "used_cpu_user": f"{used.ru_utime:.6f}"}


def _sections(db: Database, session: Session) -> dict[str, dict[str, object]]:
    """All of them, in Redis' order."""
    of_database = db.info()
    found: dict[str, dict[str, object]] = {
        "Server": _section_server(session),
        "Clients": _section_clients(session),
        "Memory": _section_memory(),
        "Persistence": of_database.pop("Persistence", {}),
        "Stats": _section_stats(session),
        "Replication": of_database.pop("Replication", {}),
        "CPU": _section_cpu(),
        "Causality": of_database.pop("Causality", {}),
        "Cluster": {"cluster_enabled": 0},
    }
    return found | of_database


def info(db: Database, session: Session, args: list[bytes]) -> Reply:
    wanted = {arg.decode("ascii", "replace").lower() for arg in args}
    if not wanted or wanted & _EVERYTHING:
        wanted |= _DEFAULT
    parts = []
    for name, fields in _sections(db, session).items():
        if name.lower() in wanted:
            lines = "".join([f"{field}:{value}\r\n" for field, value in fields.items()])
            parts.append(f"# {name}\r\n{lines}")
    return Verbatim("\r\n".join(parts))


def resetstat(db: Database, session: Session, args: list[bytes]) -> Reply:
    shared = session.shared
    shared.commands = shared.rejected = shared.dropped = 0
    return OK


def time_(db: Database, session: Session, args: list[bytes]) -> Reply:
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return [b"%d" % seconds, b"%d" % (rest // 1000)]


def dbsize(db: Database, session: Session, args: list[bytes]) -> Reply:
    return db.size()


def flush_all(db: Database, session: Session, args: list[bytes]) -> Reply:
    """The only database there is: FLUSHDB and FLUSHALL are the same.  What another node writes
    meanwhile stays."""
    if len(args) > 1 or (args and args[0].upper() not in (b"SYNC", b"ASYNC")):
        raise CommandError(SYNTAX)
    db.flush_all()
    return OK


def shutdown(db: Database, session: Session, args: list[bytes]) -> Reply:
    """SAVE and its like change nothing: what was answered is written down already."""
    options = [arg.upper() for arg in args]
    if any([each not in (b"NOSAVE", b"SAVE", b"NOW", b"FORCE", b"ABORT") for each in options]):
        raise CommandError(SYNTAX)
    if b"NOSAVE" in options and b"SAVE" in options:
        raise CommandError(SYNTAX)
    if b"ABORT" in options:
        raise CommandError(SYNTAX if len(options) > 1 else "ERR No shutdown in progress.")
    session.shared.stop()
    return NOTHING


def memory_usage(db: Database, session: Session, args: list[bytes]) -> Reply:
    """What the key and its value take when they are written down; in memory it is more."""
    if len(args) not in (2, 4) or (len(args) == 4 and args[2].upper() != b"SAMPLES"):
        raise CommandError(SYNTAX)
    if len(args) == 4:
        bounded(args[3], 0, 2**62)
    found: Any = db.get(args[1])
    if found is None:
        return None
    exported = found.export() if isinstance(found, Crdt) else found
    return len(args[1]) + len(msgspec.msgpack.encode(exported))


def slowlog_get(db: Database, session: Session, args: list[bytes]) -> Reply:
    if len(args) > 2:
        raise CommandError(wrong_subcommand("slowlog", shown(args[0])))
    if len(args) > 1:
        bounded(args[1], -1, 2**62, "ERR count should be greater than or equal to -1")
    return []


def none(db: Database, session: Session, args: list[bytes]) -> Reply:
    """Nothing is measured, so there is nothing to show."""
    return []


def nothing(db: Database, session: Session, args: list[bytes]) -> Reply:
    return 0


def okay(db: Database, session: Session, args: list[bytes]) -> Reply:
    return OK


def role(db: Database, session: Session, args: list[bytes]) -> Reply:
    """Every node takes writes, and none is a replica of another."""
    return [b"master", 0, []]


def lolwut(db: Database, session: Session, args: list[bytes]) -> Reply:
    return Verbatim(f"Redis ver. {COMPATIBLE}, by thence\n")


def whoami(db: Database, session: Session, args: list[bytes]) -> Reply:
    return b"default"


_GROUP: Final = "server"
_ASKING: Final = "loading stale"
_ADMIN: Final = "admin noscript loading stale"
_rows = (
    ("INFO", info, -1, _ASKING, "Facts and figures; sections as arguments."),
    ("CONFIG|GET", config_get, -3, _ADMIN, "Settings that match."),
    ("CONFIG|SET", config_set, -4, _ADMIN, "Change a setting of the running server."),
    ("CONFIG|RESETSTAT", resetstat, 2, _ADMIN, "Count from 0 again."),
    ("TIME", time_, 1, f"{_ASKING} fast", "The wall clock: seconds and microseconds."),
    ("DBSIZE", dbsize, 1, "readonly fast", "How many keys there are."),
    ("FLUSHDB", flush_all, -1, "write", "Remove all keys that are there."),
    ("FLUSHALL", flush_all, -1, "write", "Remove all keys that are there."),
    ("SHUTDOWN", shutdown, -1, f"{_ADMIN} no_multi", "End this node in good order."),
    ("SLOWLOG|GET", slowlog_get, -2, _ADMIN, "Empty: slow commands are not written down."),
    ("SLOWLOG|LEN", nothing, 2, _ADMIN, "0: slow commands are not written down."),
    ("SLOWLOG|RESET", okay, 2, _ADMIN, "Nothing to do."),
    ("LATENCY|LATEST", none, 2, _ADMIN, "Empty: no events are watched."),
    ("LATENCY|HISTORY", none, 3, _ADMIN, "Empty: no events are watched."),
    ("LATENCY|RESET", nothing, -2, _ADMIN, "0: no events are watched."),
    ("ROLE", role, 1, f"noscript {_ASKING} fast", "master, as every node."),
    ("LOLWUT", lolwut, -1, "readonly fast", "The version."),
    ("ACL|WHOAMI", whoami, 2, f"noscript {_ASKING}", "default: there is one user."),
)
TABLE = (
    *(
        command(name, function, arity, flags, group=_GROUP, summary=summary)
        for name, function, arity, flags, summary in _rows
    ),
    command(
        "MEMORY|USAGE",
        memory_usage,
        -3,
        "readonly",
        keys=(2, 2, 1),
        group=_GROUP,
        summary="The bytes of a key and its value, written down.",
    ),
    help_of(
        "CONFIG",
        _GROUP,
        "GET <pattern>",
        "    Settings that match the pattern, and their values.",
        "SET <directive> <value>",
        "    Change a setting while the server runs.",
        "RESETSTAT",
        "    Let the counters of INFO begin at 0 again.",
    ),
    help_of(
        "MEMORY",
        _GROUP,
        "USAGE <key> [SAMPLES <count>]",
        "    The bytes of a key and its value as they are written down.",
    ),
    help_of("SLOWLOG", _GROUP, "GET, LEN, RESET", "    Nothing is written down here."),
    help_of("LATENCY", _GROUP, "LATEST, HISTORY, RESET", "    Nothing is watched here."),
)
