"""A node of the store: a member of a group, its copy of the data, the server for its clients.

``async with Store("a", listen="tcp://127.0.0.1:7001", peers={...}) as store:`` is all of it in one
object; ``thence serve`` puts a ``Site`` on the node that it runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

from msgspec.structs import replace

from thence.client.group import Group
from thence.client.node import Node
from thence.client.replica import Replica
from thence.client.station import node_config
from thence.config import (
    PASSWORD_VARIABLE,
    JournalConfig,
    NodeConfig,
    RespConfig,
    split_address,
)
from thence.errors import UnusableInputError
from thence.store.database import Database
from thence.store.server import STOP_S, Server
from thence.store.settings import Settings

PASSWORD_BYTES_MAX: Final = 4096
CHECKPOINT_BYTES: Final = 1024 * 1024
"""Of the journal, unless the settings say otherwise: nobody is served during a checkpoint, which
takes time for each key that changed since the last one: all of them after FLUSHALL."""


def settings_from(config: RespConfig, environ: Mapping[str, str]) -> Settings:
    """The settings of the server; the password is that of the file, or of the environment."""
    found = split_address(config.address)
    assert found is not None, "the configuration was checked"
    password = environ.get(PASSWORD_VARIABLE, "")
    if config.password_file is not None:
        password = _read_password(config.password_file)
    made = Settings(
        host=found[0], port=found[1], password=password, protected=config.protected,
        tls_certificate=config.cert or "", tls_key=config.key or "",
        tls_authority=config.ca or "", clients_max=config.clients_max,
        value_bytes_max=config.value_bytes_max, request_bytes_max=config.request_bytes_max,
        output_bytes_pause=config.output_bytes_pause,
        subscriber_bytes_max=config.subscriber_bytes_max, idle_timeout_s=config.idle_timeout_s,
    )  # fmt: skip
    made.check()
    return made


def _read_password(path: str) -> str:
    try:
        with open(path, "rb") as opened:
            data = opened.read(PASSWORD_BYTES_MAX + 1)
        password = data.decode().strip("\r\n")
    except OSError as error:
        raise UnusableInputError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UnusableInputError(f"{path}: a password is UTF-8 text") from None
    if not password or len(data) > PASSWORD_BYTES_MAX or not password.isprintable():
        raise UnusableInputError(
            f"{path}: expected a password, one line of at most {PASSWORD_BYTES_MAX:,} bytes"
        )
    return password


class Site:
    """The data of one node and the server that clients connect to; the node is made elsewhere.

    Its life: ``hooks`` go to the group when that is made, then ``open`` and ``start``; ``stop``
    before the node drains, ``close`` once no more can come.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings: Final = settings
        self.replica: Final = Replica()
        self.database: Final = Database(self.replica)
        self.server: Final = Server(self.database, settings)
        self.on_event: Callable[[Any], None] | None = None
        """Told of members that come and go."""

    @property
    def hooks(self) -> dict[str, Any]:
        """What the group has to know: ``Group(name, **site.hooks)``."""
        return {
            "snapshot": self.replica.snapshot,
            "restore": self.replica.restore,
            "kept": self.replica,
        }

    def open(self, group: Group) -> None:
        """Begin with a group that was started with the hooks; or again, with another one."""
        self.database.on_event = self.on_event
        self.database.open(group)

    async def start(self) -> None:
        """Let clients in."""
        await self.server.start()

    async def stop(self, grace_s: float = STOP_S) -> None:
        """Let no more clients in, and let those that are there finish what they asked for."""
        await self.server.stop(grace_s)
        self.replica.flush()

    def close(self) -> None:
        """Let go of the group."""
        self.database.close()

    @property
    def address(self) -> str:
        """HOST:PORT of the server, with the port that was chosen."""
        host = self.settings.host
        return f"[{host}]:{self.server.port}" if ":" in host else f"{host}:{self.server.port}"


class Store:
    """A node of the store in this process: ``async with Store(...) as store``.

    Reading and writing goes through ``store.database``, or through a client of Redis that connects
    to ``store.address``.
    """

    def __init__(
        self,
        name: str = "",
        *,
        config: NodeConfig | None = None,
        settings: Settings | None = None,
        **more: Any,
    ) -> None:
        """``more`` are fields of ``NodeConfig`` as ``Node`` takes them, or give a ``config``.
        ``settings`` are those of the server; by default what the configuration says."""
        self._config = with_short_checkpoints(node_config(name, config, more))
        group = require_one_group(self._config)
        self._group_name = group
        self._node = Node(config=self._config)
        self._site = Site(settings or settings_from(self._config.resp, os.environ))

    @property
    def name(self) -> str:
        """Of the node."""
        return self._config.name

    @property
    def node(self) -> Node:
        """What it runs on."""
        return self._node

    @property
    def group(self) -> Group:
        """Its group; there once it is started."""
        return self._node.groups[self._group_name]

    @property
    def database(self) -> Database:
        """Its data."""
        return self._site.database

    @property
    def replica(self) -> Replica:
        """What its data is a view of."""
        return self._site.replica

    @property
    def address(self) -> str:
        """HOST:PORT for clients of Redis."""
        return self._site.address

    async def start(self) -> Store:
        """Take part in the group, and let clients in."""
        try:
            await self._node.start()
            self._site.open(await self._node.group(self._group_name, **self._site.hooks))
            await self._site.start()
        except BaseException:
            await self.aclose(drain_s=0.0)
            raise
        return self

    async def rejoin(self) -> None:
        """After an eviction: take part again, with what the others have."""
        self._site.close()
        self._site.open(await self._node.rejoin(self._group_name, **self._site.hooks))

    async def aclose(self, ended: bool = False, drain_s: float | None = None) -> None:
        """Let clients finish, let the others have what they wrote, let go; may be called again."""
        await self._site.stop()
        await self._node.aclose(ended, drain_s)
        self._site.close()

    async def __aenter__(self) -> Store:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose(drain_s=None if kind is None else 0.0)


def with_short_checkpoints(config: NodeConfig) -> NodeConfig:
    """The same, with checkpoints that a client hardly notices."""
    if config.journal.checkpoint_bytes != JournalConfig().checkpoint_bytes:
        return config
    return replace(config, journal=replace(config.journal, checkpoint_bytes=CHECKPOINT_BYTES))


def require_one_group(config: NodeConfig) -> str:
    """The group of a node of the store; UnusableInputError if it cannot be one."""
    if len(config.groups) != 1:
        raise UnusableInputError("the store is in one group: give --group once")
    if config.engine != "tagged" or not config.stability.on:
        raise UnusableInputError(
            "the store needs the engine tagged, and stability: its data types are built on them"
        )
    return config.groups[0]
