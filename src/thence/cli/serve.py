"""``thence serve``: a node of the store, as a process, that clients of Redis talk to."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Annotated, Any, Final

from cyclopts import Parameter

from thence.cli.members import enter, fate, log_change, log_full, say, tell_connected
from thence.cli.process import Stop, comes_first, run, settings_of, with_store_settings
from thence.client.events import Blocked, Event, Evicted
from thence.client.node import Node
from thence.errors import Removed, UnusableInputError
from thence.store.node import Site, require_one_group, settings_from, with_short_checkpoints
from thence.store.server import STOP_S
from thence.store.settings import Settings

ALONE: Final = "store"
"""The name of a node that was given none and has no others."""


@with_store_settings
def command(
    *,
    end: Annotated[bool | None, Parameter(negative="--no-end")] = None,
    **settings: Any,
) -> int:
    """Run a node of the store until SIGTERM or SIGINT; clients of Redis connect to --resp.

    Alone it is a server for this machine that keeps nothing when it stops, unless --data says
    where. With --peer for every other node, or with --elastic and --join, all nodes take writes and
    agree: redis-cli and every client library work unchanged with any of them.

    The password of clients is in a file (--resp-password-file) or in THENCE_RESP_PASSWORD. A signal
    lets clients finish and the other nodes get what was written; a second one stops it at once.
    Exit code 0 in order, 1 the node could not go on, was not let in or was evicted, 2 unusable
    settings, 130 and 143 a second signal, or one before it was first let in.

    Parameters
    ----------
    end
        Write at the end that the trace is complete: this node will not go on. The default without
        a journal.
    """
    config = with_short_checkpoints(settings_of(settings, alone=ALONE))
    name = require_one_group(config)
    served = settings_from(config.resp, os.environ)
    _require_free(served, config.resp.address)
    site = Site(served)

    async def main(node: Node, stop: Stop) -> int:
        return await _Serving(node, name, site).serve(stop)

    return run(config, main, end, hooks=site.hooks)


def _require_free(settings: Settings, address: str) -> None:
    """Say at once that the port is taken, not only when the node has come into its group."""
    if settings.port:
        place = (settings.host, settings.port)
        try:
            family = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)[0][0]  # IPv6 perhaps
            socket.create_server(place, family=family).close()
        except OSError as error:
            raise UnusableInputError(
                f"cannot serve clients on {address}: {error.strerror or error}; "
                "choose another place with --resp"
            ) from None


class _Serving:
    """One node that serves clients, and that comes back after an eviction."""

    def __init__(self, node: Node, name: str, site: Site) -> None:
        self._node = node
        self._name = name
        self._site = site
        self._out = asyncio.Event()

    async def serve(self, stop: Stop) -> int:
        """Until a signal or a client tells it to stop; ``Removed`` if it is evicted and not to come
        back."""
        site, node = self._site, self._node
        site.on_event = self._happen
        told = asyncio.ensure_future(self._tell())
        try:
            site.open(node.groups[self._name])
            await site.start()
            say(self._greeting())
            await comes_first(self._live(), stop.asked.wait(), site.server.until_stopped())
        finally:
            told.cancel()
            try:
                await site.stop(0.0 if stop.at_once.is_set() else STOP_S)
            finally:
                site.close()
        return 0

    async def _live(self) -> None:
        """Be a member, and come back after each eviction; until it is cancelled."""
        while True:
            # Who runs this node looks only whether the first of its groups breaks.
            group = self._node.groups[self._name]
            await comes_first(self._out.wait(), group.until_broken())
            await self._out.wait()
            await self._return()

    async def _return(self) -> None:
        """Join again, with the data of the others; clients that write get an error meanwhile."""
        node, group = self._node, self._node.groups[self._name]
        sentence = fate(group)
        if not node.config.membership.rejoin:
            raise Removed(sentence)
        say(f"node {node.name}: {sentence}; it joins again")
        self._site.close()
        group = await enter(node, self._name, say, is_again=True, hooks=self._site.hooks)
        self._out.clear()
        self._site.open(group)
        say(f"node {node.name} is in {group.name} again, as {group.node}")

    def _happen(self, event: Event) -> None:
        log_change(self._name, event)
        if isinstance(event, Blocked):
            log_full(self._node.groups[self._name], event)
        if isinstance(event, Evicted) and event.is_self:
            self._out.set()

    async def _tell(self) -> None:
        config = self._node.config
        if config.peers or config.membership.is_elastic:
            await tell_connected(self._node)

    def _greeting(self) -> str:
        config, (host, _, port) = self._node.config, self._site.address.rpartition(":")
        where = "" if host in ("127.0.0.1", "0.0.0.0", "[::]") else f" -h {host.strip('[]')}"
        where += " --tls" if config.resp.cert else ""
        kept = f"data in {config.journal.folder}"
        if config.journal.folder is None:
            kept = "data in memory only, gone when it stops (--data DIR keeps it)"
        at = f"; nodes reach it on {', '.join(self._node.addresses)}" if config.listen else ""
        return (
            f"node {self._node.name} is ready for clients on {self._site.address}: "
            f"redis-cli{where} -p {port}{at}; {kept}"
        )
