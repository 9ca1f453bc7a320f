"""What the server says about itself: COMMAND, INFO, CONFIG, CLIENT; the tables of commands."""

from __future__ import annotations

import asyncio
import importlib
import os
import pkgutil
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.store.commands.redis_server import needs_redis, redis_server
from tests.store.raw import run, served, until
from tests.store.stores import client_of
from thence.config import JournalConfig, NodeConfig
from thence.store import commands
from thence.store.commands import registry
from thence.store.commands.configuration import PARAMETERS
from thence.store.commands.refused import REFUSED
from thence.store.commands.registry import COMMANDS
from thence.store.dispatch import Dispatch
from thence.store.errors import CommandError
from thence.store.node import Store
from thence.store.settings import Settings


def test_every_module_of_commands_is_in_the_registry():
    found = []
    for module in pkgutil.iter_modules(commands.__path__):
        table = getattr(importlib.import_module(f"{commands.__name__}.{module.name}"), "TABLE", ())
        found += [each for each in table if each not in registry.TABLES]
        found = [each for each in found if COMMANDS.get(each.name) is not each]
    assert not found


def test_a_command_is_there_or_refused_with_a_reason():
    assert not COMMANDS.keys() & REFUSED.keys()
    assert list(REFUSED) == sorted(REFUSED)
    for name, reason in REFUSED.items():
        assert name == name.upper()
        assert len(reason) > 15
        assert not reason.endswith(".")


@needs_redis
def test_every_command_of_redis_is_in_one_of_the_tables(tmp_path: Path):
    containers = {name.partition("|")[0] for name in COMMANDS if "|" in name}
    with redis_server(tmp_path) as client:
        names = [name.decode().upper() for name in client.run(b"COMMAND", b"LIST")]
    assert len(names) > 350
    assert [
        name
        for name in names
        if name not in COMMANDS
        and name not in REFUSED
        and name.partition("|")[0] not in REFUSED
        and name not in containers
    ] == []


NEWER_ARITY = {"ZRANK": -3, "ZREVRANK": -3}
"""WITHSCORE is of Redis 7.2."""


@needs_redis
def test_arity_keys_and_writing_are_those_of_redis(tmp_path: Path):
    ours = [name for name in COMMANDS if not name.startswith(("CAUSAL.", "CRDT."))]
    with redis_server(tmp_path) as client:
        theirs = dict(
            zip(ours, client.run(b"COMMAND", b"INFO", *map(str.encode, ours)), strict=True)
        )
    assert [name for name, info in theirs.items() if info is None] == [
        "CLIENT|SETINFO",
        "CLIENT|NO-TOUCH",
    ]
    for name, info in theirs.items():
        if info is None:
            continue
        each = COMMANDS[name]
        flags = {flag.decode() for flag in info[2]}
        assert each.arity == NEWER_ARITY.get(name, info[1]), name
        if each.keys_of is None:
            assert each.keys == tuple(info[3:6]), name
        assert each.write == ("write" in flags) or name == "PUBLISH", name
        assert ("no_auth" in each.flags) == ("no_auth" in flags), name


def test_a_refused_command_says_why():
    dispatch = Dispatch(COMMANDS, REFUSED)
    for name in REFUSED:
        first, _, second = name.partition("|")
        args = [second.encode()] if second else [b"x"]
        with pytest.raises(CommandError) as caught:
            dispatch.find(first.lower().encode(), args)
        assert REFUSED[name] in str(caught.value)
        assert str(caught.value).startswith(f"ERR {name.replace('|', ' ')} is not supported: ")


def test_commands_describe_themselves():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            names = {name.decode() for name in await client.do("COMMAND", "LIST")}
            assert {name.lower() for name in COMMANDS} <= names
            every = await client.do("COMMAND")
            assert len(every) == await client.do("COMMAND", "COUNT")
            get, nothing, config = await client.do("COMMAND", "INFO", "get", "nothing", "config")
            assert get[:6] == [b"get", 2, [b"fast", b"readonly"], 1, 1, 1]
            assert nothing is None
            assert b"config|get" in [each[0] for each in config[9]]
            found = await client.do("COMMAND", "LIST", "FILTERBY", "PATTERN", "hm*")
            assert sorted(found) == [b"hmget", b"hmset"]
            assert b"get" in await client.do("COMMAND", "LIST", "FILTERBY", "ACLCAT", "read")
            await client.do("HELLO", "3")
            docs = await client.do("COMMAND", "DOCS", "GET", "CONFIG")
            assert docs[b"get"][b"summary"] == b"The value of a string."
            assert b"config|get" in docs[b"config"][b"subcommands"]

    run(main())


def test_help_of_each_container():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            for name in [name for name in COMMANDS if name.endswith("|HELP")]:
                lines = await client.do(*name.split("|"))
                assert lines[0].startswith(name.partition("|")[0].encode() + b" <subcommand>")
                assert len(lines) > 3

    run(main())


def _fields(text: bytes) -> dict[str, str]:
    lines = [line for line in text.decode().split("\r\n") if line and line[0] != "#"]
    return dict(line.split(":", 1) for line in lines)


def test_info_has_sections_and_figures():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            await client.do("SET", "k", "v")
            text = await client.do("INFO")
            assert re.findall(r"# (\w+)", text.decode()) == [
                "Server",
                "Clients",
                "Memory",
                "Persistence",
                "Stats",
                "Replication",
                "CPU",
                "Causality",
                "Cluster",
                "Keyspace",
            ]
            fields = _fields(text)
            assert fields["redis_version"].startswith("7.0.")
            assert fields["arch_bits"] == "64"
            assert fields["cluster_enabled"] == "0"
            assert fields["role"] == "master"
            assert fields["connected_clients"] == "1"
            assert fields["tcp_port"] == str(site.server.port)
            assert fields["db0"].startswith("keys=1,")
            assert int(fields["used_memory"]) > 1_000_000
            assert list(_fields(await client.do("INFO", "CLUSTER"))) == ["cluster_enabled"]
            assert _fields(await client.do("INFO", "everything")).keys() == fields.keys()
            assert (await client.do("INFO", "cluster", "cpu")).count(b"# ") == 2

    run(main())


def test_info_counts_the_clients_that_wait():
    async def main() -> None:
        async with served() as site:
            client, other = await site.client(), await site.client()

            async def blocked() -> str:
                return _fields(await client.do("INFO", "clients"))["blocked_clients"]

            assert await blocked() == "0"
            await other.do("SET", "k", "v")
            other.send("WAIT", "1", "0")
            while await blocked() != "1":
                pass
            other.close()
            while await blocked() != "0":
                pass

    run(main())


@pytest.mark.parametrize(
    ("journal", "shown"),
    [({}, "no"), ({"durability": "process"}, "no"), ({"durability": "power"}, "always")],
)
def test_config_says_whether_a_write_is_on_the_disk(
    journal: dict[str, Any], shown: str, tmp_path: Path
):
    async def main() -> None:
        folder = str(tmp_path) if journal else None
        config = NodeConfig("a", journal=JournalConfig(folder=folder, **journal))
        async with Store(config=config, settings=Settings(port=0)) as store:
            client = client_of(store)
            assert await client.config_get("append*") == {
                "appendfsync": shown, "appendonly": "yes" if journal else "no",
            }  # fmt: skip
            said = (await client.info("persistence"))["journal_durability"]
            assert said == journal.get("durability", "none")
            await client.aclose()

    run(main())


def test_config_shows_what_is_in_force_and_changes_what_can_be_changed():
    async def main() -> None:
        async with served(clients_max=100) as site:
            client = await site.client()
            found = await client.do("CONFIG", "GET", "*")
            assert [each.decode() for each in found[::2]] == list(PARAMETERS)
            assert await client.do("CONFIG", "GET", "MAXCLIENTS") == [b"maxclients", b"100"]
            assert await client.do("CONFIG", "SET", "maxclients", "1", "timeout", "7") == b"OK"
            found = await client.do("CONFIG", "GET", "maxclients", "timeout")
            assert found == [b"maxclients", b"1", b"timeout", b"7"]
            assert await (await site.client()).rest() == b"-ERR max number of clients reached\r\n"
            refused = await client.do("CONFIG", "SET", "timeout", "9", "port", "1")
            assert "immutable" in str(refused)
            assert await client.do("CONFIG", "GET", "timeout") == [b"timeout", b"7"]
            await client.do("CONFIG", "RESETSTAT")
            assert site.server.shared.rejected == 0

    run(main())


def _lines(reply: bytes) -> list[dict[str, str]]:
    return [
        dict(field.split("=", 1) for field in line.split(" "))
        for line in reply.decode().splitlines()
    ]


def test_clients_are_listed_and_dropped():
    async def main() -> None:
        async with served() as site:
            client, other, third = [await site.client() for _ in range(3)]
            await client.do("CLIENT", "SETNAME", "me")
            await client.do("CLIENT", "SETINFO", "LIB-NAME", "tests")
            assert "Unrecognized" in str(await client.do("CLIENT", "SETINFO", "x", "y"))
            assert "cannot contain" in str(await client.do("CLIENT", "SETINFO", "lib-ver", "a b"))
            await other.do("SUBSCRIBE", "c")
            await third.do("MULTI")
            ids = [await client.do("CLIENT", "ID"), 2, 3]
            listed = _lines(await client.do("CLIENT", "LIST"))
            assert [int(each["id"]) for each in listed] == ids
            assert [each["name"] for each in listed] == ["me", "", ""]
            assert listed[0]["lib-name"] == "tests"
            assert [each["flags"] for each in listed] == ["N", "P", "x"]
            assert [each["multi"] for each in listed] == ["-1", "-1", "0"]
            assert [each["sub"] for each in listed] == ["0", "1", "0"]
            assert [each["cmd"] for each in listed][1:] == ["subscribe", "multi"]
            (own,) = _lines(await client.do("CLIENT", "INFO"))
            assert own["addr"] == "127.0.0.1:{}".format(client.writer.get_extra_info("sockname")[1])
            (found,) = _lines(await client.do("CLIENT", "LIST", "TYPE", "pubsub"))
            assert found["id"] == "2"
            found, *rest = _lines(await client.do("CLIENT", "LIST", "ID", "3", "77"))
            assert found["id"] == "3"
            assert not rest
            assert await client.do("CLIENT", "KILL", "TYPE", "pubsub") == 1
            assert await other.is_closed()
            assert await client.do("CLIENT", "KILL", listed[2]["addr"]) == b"OK"
            assert await third.is_closed()
            await until(lambda: site.server.clients == 1)
            assert await client.do("CLIENT", "KILL", "USER", "default") == 0
            assert await client.do("CLIENT", "KILL", "ID", "1", "SKIPME", "no") == 1
            assert await client.rest() == b""

    run(main())


def test_time_size_memory():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            seconds, micros = await client.do("TIME")
            assert abs(int(seconds) + int(micros) / 1e6 - time.time()) < 5
            await client.do("MSET", "a", "1", "b", "x" * 1000)
            await client.do("SADD", "s", *map(str, range(1000)))
            assert await client.do("DBSIZE") == 3
            small, large = await client.do("MEMORY", "USAGE", "a"), 0
            large = await client.do("MEMORY", "USAGE", "b", "SAMPLES", "0")
            assert small < 100 < 1000 < large < 1100
            assert await client.do("MEMORY", "USAGE", "s") > 3000
            assert await client.do("FLUSHALL", "ASYNC") == b"OK"
            assert await client.do("DBSIZE") == 0
            assert (await client.do("LOLWUT")).startswith(b"Redis ver.")

    run(main())


def test_shutdown_tells_the_one_who_waits():
    async def main() -> None:
        async with served() as site:
            client = await site.client()
            client.send("SHUTDOWN", "NOSAVE")
            await site.server.until_stopped()
            await site.server.stop()
            assert await client.rest() == b""

    run(main())


needs_cli = pytest.mark.skipif(
    shutil.which("redis-cli") is None, reason="redis-cli is not installed"
)


@needs_cli
def test_redis_cli_on_a_terminal_knows_the_commands():
    """It asks for COMMAND DOCS when it starts, and shows hints and help from that."""

    def talk(port: int) -> str:
        terminal, end = pty.openpty()
        process = subprocess.Popen(
            ["redis-cli", "-3", "-p", str(port)],
            stdin=end,
            stdout=end,
            stderr=end,
            env={**os.environ, "TERM": "dumb", "HOME": "/nonexistent"},
        )
        os.close(end)
        os.write(terminal, b"SET k v\nhelp CAUSAL.TOKEN\nHGETALL nothing\nquit\n")
        said = ""
        until_s = time.monotonic() + 15
        while time.monotonic() < until_s:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    said += os.read(terminal, 1 << 16).decode()
                except OSError:  # redis-cli has let go of the terminal
                    break
        process.kill()
        process.wait()
        os.close(terminal)
        return said

    async def main() -> None:
        async with served() as site:
            said: Any = await asyncio.to_thread(talk, site.server.port)
            assert "OK" in said
            assert COMMANDS["CAUSAL.TOKEN"].summary in said
            assert "(empty hash)" in said

    run(main())


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["GET", "k"], "get"),
        (["set", "k", "v"], "set"),
        (["GeT", "k"], "get"),
        (["GET"], "get"),
        (["INCR", "n"], "incr"),
        (["Client", "Id"], "client|id"),
        (["CLIENT", "nope"], "NULL"),
        (["q\nid=7 addr=1.2.3.4:5", "x"], "NULL"),
        (["q" * 100_000], "NULL"),
    ],
)
def test_the_list_of_clients_names_commands_that_there_are(words: list[str], shown: str):
    async def main() -> None:
        async with served() as site:
            client, other = await site.client(), await site.client()
            for before in (["GET", "k"], ["PING"], ["MULTI"]):
                await client.do(*before)
                await client.do(*words)
                lines = (await other.do("CLIENT", "LIST")).decode().splitlines()
                assert [line.partition(" cmd=")[2].split()[0] for line in lines] == [
                    shown,
                    "client|list",
                ]

    run(main())


def test_nobody_shows_anything_before_the_password():
    async def main() -> None:
        async with served(password="secret") as site:
            client, other = await site.client(), await site.client()
            assert await other.do("AUTH", "secret") == b"OK"
            await client.do("forged addr=1.2.3.4:5")
            first = (await other.do("CLIENT", "LIST")).decode().splitlines()[0]
            assert " cmd=NULL " in first

    run(main())
