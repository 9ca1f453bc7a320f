"""The state of one connection of a client, and what all of a server's connections share.

A session does no input or output.  Commands read and change it; the connection that owns it
(store/server.py) looks at ``closing`` and takes ``push`` to send what answers no request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from thence.store.errors import CommandError
from thence.store.settings import Settings
from thence.store.topics import Topics

WATCHED_MAX: Final = 65_536
"""Keys that one connection watches."""
WATCHED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of them, together."""
QUEUED_MAX: Final = 65_536
"""Commands in one transaction."""
QUEUED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of their arguments, together.  What a group can send in one batch is less."""
ARGUMENT_BYTES: Final = 48
"""What an argument takes besides its own bytes, about."""

Queued = tuple[bytes, Callable[..., Any], list[bytes], bool]
"""A command of a transaction: its name, its function, its arguments."""


class Session:
    """What a server knows about one connection."""

    __slots__ = (
        "address",
        "attributes",
        "authenticated",
        "closing",
        "created",
        "dirty",
        "id",
        "kill",
        "last_active",
        "last_command",
        "last_write",
        "local_address",
        "name",
        "plain",
        "protocol",
        "push",
        "queue",
        "queue_writes",
        "queued_bytes",
        "replies_off",
        "shared",
        "skip_reply",
        "subscriptions",
        "watched",
        "watched_bytes",
    )

    def __init__(self, shared: Shared, number: int, address: str = "", local: str = "") -> None:
        self.shared: Final = shared
        self.id: Final = number
        self.address: Final = address
        """Of the client, ``host:port``."""
        self.local_address: Final = local
        self.created: Final = time.monotonic()
        self.last_active: float = self.created
        """Monotonic, in seconds, as is ``created``."""
        self.last_command: bytes = b""
        """A name that there is, in capitals or small letters; empty: there was none such."""
        self.name: bytes = b""
        self.attributes: dict[str, bytes] = {}
        """``lib-name`` and ``lib-ver``, as CLIENT SETINFO gave them."""
        self.protocol: int = 2
        """Of RESP: 2 or 3."""
        self.authenticated: bool = not shared.settings.password
        self.queue: list[Queued] | None = None
        """Commands since MULTI; None outside a transaction."""
        self.queued_bytes: int = 0
        self.queue_writes: bool = False
        """One of the commands in the queue is a write."""
        self.dirty: bool = False
        """A command could not be queued: EXEC is going to refuse."""
        self.watched: dict[bytes, int] = {}
        """Keys with the versions they had when WATCH came."""
        self.watched_bytes: int = 0
        self.subscriptions: int = 0
        """Channels and patterns subscribed to."""
        self.last_write: object = None
        """What the database calls the last write of this client; None before the first."""
        self.closing: bool = False
        """The connection closes once the replies so far are sent; no command runs any more."""
        self.replies_off: bool = False
        self.skip_reply: int = 0
        """2: CLIENT REPLY SKIP has just come; 1: the next reply is skipped."""
        self.plain: bool = self.authenticated
        """Nothing about this connection needs a look before a command runs: the fast way."""
        self.push: Callable[[bytes], None] = _nowhere
        """Sends bytes that answer no request; set by the
        connection, as is ``kill``, which drops it."""
        self.kill: Callable[[], None] = _nobody

    def look_again(self) -> None:
        """Decide ``plain`` anew, after any of the things it depends on changed."""
        self.plain = (
            self.authenticated
            and self.queue is None
            and not (self.subscriptions and self.protocol == 2)
            and not self.replies_off
            and not self.skip_reply
        )

    def begin_queue(self) -> None:
        """From MULTI on."""
        self.queue = []
        self.queued_bytes = 0
        self.queue_writes = False
        self.dirty = False
        self.plain = False

    def enqueue(
        self, name: bytes, function: Callable[..., Any], args: list[bytes], write: bool
    ) -> None:
        """Keep a command for EXEC."""
        queue = self.queue
        assert queue is not None
        self.queued_bytes += sum(map(len, args)) + ARGUMENT_BYTES * len(args)
        if len(queue) >= QUEUED_MAX or self.queued_bytes > QUEUED_BYTES_MAX:
            raise CommandError(
                f"ERR a transaction has at most {QUEUED_MAX} commands "
                f"and {QUEUED_BYTES_MAX} bytes of arguments"
            )
        queue.append((name, function, args, write))
        self.queue_writes = self.queue_writes or write

    def end_queue(self) -> None:
        """At EXEC or DISCARD; watched keys are forgotten with it."""
        self.queue = None
        self.queued_bytes = 0
        self.queue_writes = False
        self.dirty = False
        self.unwatch()
        self.look_again()

    def watch(self, keys: Iterable[bytes], version: Callable[[bytes], int]) -> None:
        """Remember how the keys are; the first WATCH of a key counts.  CommandError, with none of
        them watched, if they are too many."""
        new = [key for key in dict.fromkeys(keys) if key not in self.watched]
        size = self.watched_bytes + sum(map(len, new))
        if len(self.watched) + len(new) > WATCHED_MAX or size > WATCHED_BYTES_MAX:
            raise CommandError(
                f"ERR a connection watches at most {WATCHED_MAX} keys of {WATCHED_BYTES_MAX} bytes"
            )
        self.watched_bytes = size
        for key in new:
            self.watched[key] = version(key)

    def unwatch(self) -> None:
        """Watch nothing any more."""
        if self.watched:
            self.shared.unwatched(self.watched)
            self.watched.clear()
            self.watched_bytes = 0

    def reset(self) -> None:
        """RESET: as if the connection were new."""
        self.end_queue()
        self.shared.topics.drop(self)
        self.subscriptions = 0
        self.protocol = 2
        self.name = b""
        self.replies_off = False
        self.skip_reply = 0
        self.authenticated = not self.shared.settings.password
        self.look_again()


def _nowhere(data: bytes) -> None:
    """A session without a connection: nobody listens."""


def _nobody() -> None:
    """A session without a connection: there is nothing to drop."""


class Shared:
    """What all connections of a server share."""

    def __init__(self, settings: Settings, topics: Topics[Session]) -> None:
        self.settings: Settings = settings
        """CONFIG SET replaces it."""
        self.topics: Final = topics
        self.sessions: dict[int, Session] = {}
        """The live ones by their numbers, the oldest first."""
        self.started: Final = time.monotonic()
        self.port: int = settings.port
        """Where the server listens, also when the system chose."""
        self.connections: int = 0
        """Ever accepted; the next session has this number plus one."""
        self.rejected: int = 0
        """Connections refused because there were too many."""
        self.commands: int = 0
        """Run since the server started."""
        self.dropped: int = 0
        """Clients dropped because they did not read, or sent what is no request."""
        self.blocked: Callable[[], int] = _nobody_waits
        """How many clients wait for a command; set by the server."""
        self.stop: Callable[[], None] = _never
        """Stops the server in good order (SHUTDOWN); set by whoever allows it."""
        self.unwatched: Callable[[Iterable[bytes]], None] = _nobody_watches
        """Told the keys that a session watches no more; set by the server."""

    def open(self, address: str, local: str) -> Session:
        """The session of a connection that has just been made."""
        self.connections += 1
        session = Session(self, self.connections, address, local)
        self.sessions[session.id] = session
        return session

    def close(self, session: Session) -> None:
        """The connection is gone; doing it twice does no harm."""
        self.sessions.pop(session.id, None)
        self.topics.drop(session)
        session.unwatch()
        session.subscriptions = 0
        session.closing = True


def _nobody_waits() -> int:
    return 0


def _nobody_watches(keys: Iterable[bytes]) -> None:
    """Without a server there is nobody to tell."""


def _never() -> None:
    raise CommandError(
        "ERR SHUTDOWN is not allowed on this server: stop its process with a signal instead"
    )
