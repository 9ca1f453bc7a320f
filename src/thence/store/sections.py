"""What INFO says of replication, causality and keys; the rest of it is the server's."""

from __future__ import annotations

from typing import Any

from thence.client.group import Group
from thence.client.replica import Replica


def sections(replica: Replica, group: Group) -> dict[str, dict[str, object]]:
    """Sections with their fields, in order."""
    return {
        "Persistence": _persistence(replica, group),
        "Replication": _replication(replica, group),
        "Causality": _causality(replica, group),
        "Keyspace": _keyspace(replica),
    }


def _persistence(replica: Replica, group: Group) -> dict[str, object]:
    driver = group.driver
    return {
        "loading": 0,
        "journal": int(driver.is_journaled),
        "journal_durability": driver.durability or "none",
        "journal_bytes": driver.journal_bytes,
        "journal_last_write_status": "err" if replica.failure else "ok",
        "aof_enabled": int(driver.is_journaled),
        "rdb_changes_since_last_save": 0,
    }


def _replication(replica: Replica, group: Group) -> dict[str, object]:
    driver = group.driver
    others = [name for name in group.members if name != driver.name]
    connected = set(group.connected)
    found: dict[str, object] = {
        "role": "master",  # every node is one
        "connected_slaves": 0,
        "node": driver.name,
        "group": group.name,
        "members": len(others) + 1,
        "peers_connected": len([name for name in others if name.partition("#")[0] in connected
                                or name in connected]),
    }  # fmt: skip
    behind = set(group.behind())
    for number, name in enumerate(others):
        is_up = name in connected or name.partition("#")[0] in connected
        state = ("online" if name not in behind else "behind") if is_up else "away"
        found[f"peer{number}"] = f"name={name},state={state}"
    outbox, flow = driver.exchange.outbox, driver.flow
    found["writes_waiting"] = int(not group.has_room)
    found["unsent_batches"], found["unsent_batches_max"] = outbox.waiting, flow.outbox_messages_max
    found["unsent_bytes"], found["unsent_bytes_max"] = outbox.waiting_bytes, flow.outbox_bytes_max
    if group.is_elastic:
        found["view"] = group.view.num
        found["minority"] = int(group.is_minority)
        found["suspects"] = ",".join(group.suspects)
    found["master_failover_state"] = "no-failover"
    found["failure"] = replica.failure
    return found


def _causality(replica: Replica, group: Group) -> dict[str, object]:
    driver = group.driver
    waiting: list[Any] = group.waiting()
    return {
        "batches_sent": replica.counts["sent"],
        "batches_applied": replica.counts["applied"],
        "batches_ignored": replica.counts["ignored"],
        "messages_waiting": len(waiting),
        "first_missing": str(waiting[0][1]) if waiting else "",
        "unstable_messages": driver.unstable,
        "unstable_batches": replica.unstable,
        "stable_messages": driver.counts["stable"],
        "seen": ",".join([f"{node}:{number}" for node, number in sorted(replica.seen().items())]),
    }


def _keyspace(replica: Replica) -> dict[str, object]:
    keyspace = replica.keyspace
    count = len(keyspace)
    if not count:
        return {}
    return {"db0": f"keys={count},expires={keyspace.expiry_count},avg_ttl=0"}
