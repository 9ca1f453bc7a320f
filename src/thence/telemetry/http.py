"""A small HTTP/1.1 server for ``/metrics``, ``/health``, ``/ready`` and ``/status``.

It answers GET and HEAD and runs in the node's event loop, so what a stranger can do to it is
bounded: REQUEST_BYTES_MAX for a request, REQUEST_S for all of it to arrive, WRITE_S for the answer
to be taken, CONNECTIONS_MAX at once (a new one replaces the one that has been silent longest), one
answer in a turn of the loop.  It listens on loopback unless told otherwise; there is no secret in
what it says.

*Orders* are what changes something: POST with the header ``X-Thence`` that names the order, which
no web page can send without asking first, and without ``Origin``, which every web page sends; only
from this machine, also where others may read.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qsl

import msgspec

from thence.config import is_loopback
from thence.errors import UnusableInputError
from thence.telemetry.logs import event
from thence.telemetry.metrics import Exposition
from thence.telemetry.snapshot import Readiness, Snapshot, Status

REQUEST_BYTES_MAX: Final = 8 * 1024
CONNECTIONS_MAX: Final = 32
PARAMETERS_MAX: Final = 16
"""Of an order."""
REQUEST_S: Final = 5.0
WRITE_S: Final = 5.0
LINGER_S: Final = 1.0
"""After a refusal, what still arrives is read and dropped, so that the refusal is seen."""

REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
ORDER_HEADER: Final = "X-Thence"
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"

_END: Final = b"\r\n\r\n"
_REQUEST: Final = re.compile(rb"([A-Z]{1,20}) (\S+) HTTP/(\d)\.(\d)")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00\r\n]*)")
_log: Final = logging.getLogger("thence.http")


class HttpLimits(msgspec.Struct, frozen=True):
    """What a stranger may use."""

    request_bytes_max: int = REQUEST_BYTES_MAX
    connections_max: int = CONNECTIONS_MAX
    request_s: float = REQUEST_S
    write_s: float = WRITE_S
    linger_s: float = LINGER_S


class Response(NamedTuple):
    """An answer without its headers."""

    status: int
    body: bytes
    content_type: str = TEXT


Order = Callable[[Mapping[str, str]], Response]
"""Does what the parameters ask for."""


class _Request(NamedTuple):
    method: str
    path: str
    keep: bool
    """Whether the connection serves another request after this one."""
    query: str = ""
    order: str = ""
    """What its header says is to be done."""
    is_page: bool = False
    """A web page asks."""


class _Refused(Exception):
    """The request cannot be answered, and nothing after it can be understood."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(status, why)
        self.status = status
        self.why = why


class StatusServer:
    """Serves what ``collect`` and ``ready`` say; both are called in the event loop."""

    def __init__(
        self,
        collect: Callable[[], Snapshot],
        ready: Callable[[], Readiness],
        limits: HttpLimits = HttpLimits(),  # noqa: B008 - a frozen Struct
        orders: Mapping[str, Order] | None = None,
    ) -> None:
        """``orders`` by name: ``evict`` is ``POST /evict``."""
        self.limits = limits
        self._orders = {f"/{name}": order for name, order in (orders or {}).items()}
        self.refused: dict[str, int] = {}
        """Requests that were no good, and connections cut short, by reason."""
        self._collect = collect
        self._ready = ready
        self._exposition: Exposition | None = None
        self._server: asyncio.Server | None = None
        self._closing = False
        # In the order in which they fell silent; a dict, because it keeps that order.
        self._open: dict[_Conversation, None] = {}
        self._routes: dict[str, Callable[[], Response]] = {
            "/metrics": self._metrics,
            "/health": self._health,
            "/ready": self._readiness,
            "/status": self._status,
        }

    async def start(self, host: str, port: int, allow_remote: bool = False) -> tuple[str, int]:
        """Listen there and say where: port 0 is any free one."""
        if not allow_remote and not is_loopback(host):
            raise UnusableInputError(
                f"status {host}:{port}: others could read it; use 127.0.0.1, or allow_remote"
            )
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: _Conversation(self, loop), host, port)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UnusableInputError(f"status {host}:{port}: cannot listen: {reason}") from None
        address = self._server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def aclose(self) -> None:
        """Stop, and drop all connections.  May be called again."""
        self._closing = True
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for conversation in list(self._open):
            conversation.abort()
        await server.wait_closed()
        while self._open:  # an aborted connection is gone within a few turns of the loop
            await asyncio.sleep(0)

    async def __aenter__(self) -> StatusServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # ---- what the routes say ------------------------------------------------------------------

    def answer(self, path: str) -> Response:
        """The answer to a GET; what goes wrong in the node is a 500, never an exception."""
        route = self._routes.get(path)
        if route is None:
            return Response(404, f"there is {', '.join(self._routes)}\n".encode())
        try:
            return route()
        except Exception as error:
            event(_log, logging.ERROR, "status failed", path=path, error=repr(error))
            return Response(500, f"{path} failed: {type(error).__name__}\n".encode())

    def allowed(self, path: str) -> str:
        """The methods for this path."""
        return "POST" if path in self._orders else "GET, HEAD"

    def obey(self, request: _Request, is_local: bool) -> Response:
        """Carry out an order, if it comes from somebody who may give one."""
        if request.is_page or request.order != request.path[1:]:
            self.count("http-403")
            sentence = f"this needs the header {ORDER_HEADER}: {request.path[1:]}\n"
            return Response(403, sentence.encode())
        if not is_local:
            self.count("http-403")
            return Response(403, b"orders are taken from the machine of the node only\n")
        try:
            given = dict(parse_qsl(request.query, max_num_fields=PARAMETERS_MAX))
        except ValueError:
            return Response(400, f"{PARAMETERS_MAX} parameters at most\n".encode())
        event(_log, logging.WARNING, "ordered", path=request.path, query=request.query)
        try:
            return self._orders[request.path](given)
        except Exception as error:
            event(_log, logging.ERROR, "order failed", path=request.path, error=repr(error))
            return Response(500, f"{request.path} failed: {type(error).__name__}\n".encode())

    def _metrics(self) -> Response:
        if self._exposition is None:
            try:
                self._exposition = Exposition(self._collect)
            except ModuleNotFoundError as error:
                sentence = (
                    f"metrics need {error.name}; install it with: pip install 'thence[metrics]'\n"
                )
                return Response(503, sentence.encode())
        return Response(200, self._exposition.render(), self._exposition.content_type)

    def _health(self) -> Response:
        return Response(200, b"alive\n")

    def _readiness(self) -> Response:
        readiness = self._ready()
        body = msgspec.json.encode(readiness) + b"\n"
        return Response(200 if readiness.ready else 503, body, JSON)

    def _status(self) -> Response:
        readiness = self._ready()
        status = Status(readiness.ready, readiness.why, self._collect())
        return Response(200, msgspec.json.encode(status) + b"\n", JSON)

    # ---- bookkeeping of connections -----------------------------------------------------------

    def count(self, reason: str) -> None:
        """One more request or connection that was refused for this reason."""
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def opened(self, conversation: _Conversation) -> None:
        """A new connection; when there are too many, the one silent longest goes."""
        if len(self._open) >= self.limits.connections_max:
            self.count("http-too-many")
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.abort()
        self._open[conversation] = None
        if self._closing:  # accepted in the turn in which the server was closed
            conversation.abort()

    def heard(self, conversation: _Conversation) -> None:
        """It just asked something."""
        if conversation in self._open:
            del self._open[conversation]
            self._open[conversation] = None

    def closed(self, conversation: _Conversation) -> None:
        """It is gone."""
        self._open.pop(conversation, None)


class _Conversation(asyncio.Protocol):
    """One connection: requests in order, an answer to each."""

    def __init__(self, server: StatusServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._limits = server.limits
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._held = b""
        self._timer: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None  # an answer that is due in the next turn
        self._congested = False
        self._finished = False  # nothing more is answered

    # ---- called by the loop -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by behaviour only
        self._server.opened(self)
        self._arm(self._limits.request_s, self._late)

    def data_received(self, data: bytes) -> None:
        if self._finished:
            return
        self._held += data
        if self._turn is None and not self._congested:
            self._next()
        transport = self._transport
        if transport is not None and not transport.is_closing():
            if self._turn is not None or self._congested:
                transport.pause_reading()  # what is held already comes first

    def pause_writing(self) -> None:
        self._congested = True
        self._arm(self._limits.write_s, self._unread)

    def resume_writing(self) -> None:
        self._congested = False
        if self._finished:
            self._arm(self._limits.linger_s, self.abort)
        else:
            self._arm(self._limits.request_s, self._late)
            if self._turn is None:
                self._turn = self._loop.call_soon(self._next)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._finished = True
        self._server.closed(self)
        for handle in (self._timer, self._turn):
            if handle is not None:
                handle.cancel()

    # ---- requests -----------------------------------------------------------------------------

    def _next(self) -> None:
        """Answer one request, if a whole one is held, and see to the next in another turn."""
        self._turn = None
        if self._transport is None or self._finished:
            return
        try:
            request = self._take()
        except _Refused as refused:
            self._server.count(f"http-{refused.status}")
            self._refuse(refused)
            return
        if request is None:
            if not self._transport.is_closing():
                self._transport.resume_reading()  # and only now see whether the peer has ended
            return
        self._server.heard(self)
        self._respond(request)
        if not self._finished and not self._congested and self._transport is not None:
            self._arm(self._limits.request_s, self._late)  # the time the answer took is ours
            self._turn = self._loop.call_soon(self._next)

    def _take(self) -> _Request | None:
        """The next request, taken off what is held; None while it is not whole."""
        held = self._held.lstrip(b"\r\n")
        self._held = held
        if held and not 65 <= held[0] <= 90:  # A to Z; no need to wait for the rest
            raise _Refused(400, "this is not HTTP")
        end = held.find(_END, 0, self._limits.request_bytes_max)
        if end < 0:
            if len(held) >= self._limits.request_bytes_max:
                raise _Refused(431, f"a request has {self._limits.request_bytes_max} bytes at most")
            return None
        self._held = held[end + len(_END) :]
        return _parse(held[:end])

    def _respond(self, request: _Request) -> None:
        allowed = self._server.allowed(request.path)
        if request.method not in allowed.split(", "):
            self._server.count("http-405")
            sentence = f"{allowed.replace(', ', ' and ')} only\n"
            self._send(Response(405, sentence.encode()), False, f"Allow: {allowed}\r\n")
            self._finish()
            return
        if request.method == "POST":
            response = self._server.obey(request, self._is_local())
        else:
            response = self._server.answer(request.path)
        keep = request.keep
        self._send(response, keep, head_only=request.method == "HEAD")
        if not keep:
            self._finish()

    def _is_local(self) -> bool:
        assert self._transport is not None
        peer: Any = self._transport.get_extra_info("peername")
        return isinstance(peer, tuple) and is_loopback(str(peer[0]).removeprefix("::ffff:"))

    def _refuse(self, refused: _Refused) -> None:
        event(_log, logging.WARNING, "request refused", status=refused.status, why=refused.why)
        self._send(Response(refused.status, f"{refused.why}\n".encode()), False)
        self._finish()

    def _send(
        self, response: Response, keep: bool, more: str = "", head_only: bool = False
    ) -> None:
        head = (
            f"HTTP/1.1 {response.status} {REASONS[response.status]}\r\n"
            f"Content-Type: {response.content_type}\r\n"
            f"Content-Length: {len(response.body)}\r\n"
            f"Cache-Control: no-store\r\n"
            f"X-Content-Type-Options: nosniff\r\n"
            f"Connection: {'keep-alive' if keep else 'close'}\r\n"
            f"{more}\r\n"
        ).encode()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(head if head_only else head + response.body)

    # ---- endings ------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Say no more; drop what still comes, until the peer closes or LINGER_S are over."""
        self._finished = True
        self._held = b""
        transport = self._transport
        if transport is None:
            return
        if not transport.is_closing():
            transport.write_eof()
            transport.resume_reading()
        if not self._congested:
            self._arm(self._limits.linger_s, self.abort)

    def _late(self) -> None:
        """The request did not arrive in time; a connection that never asked just ends."""
        if self._turn is not None:  # what is held was not looked at yet: the loop is late
            self._arm(self._limits.request_s, self._late)
        elif self._held:
            self._server.count("http-408")
            self._refuse(_Refused(408, f"no whole request in {self._limits.request_s:g} s"))
        else:
            self._finish()

    def _unread(self) -> None:
        self._server.count("http-unread")
        self.abort()

    def abort(self) -> None:
        """End it now."""
        if self._transport is not None:
            self._transport.abort()

    def _arm(self, after_s: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(after_s, then)


def _parse(head: bytes) -> _Request:
    """The request in these bytes, which end before the empty line; _Refused if it is none."""
    first, *lines = head.split(b"\r\n")
    found = _REQUEST.fullmatch(first)
    if found is None:
        raise _Refused(400, "the first line is no request")
    method, target, major, minor = found.groups()
    if major != b"1":
        raise _Refused(505, "HTTP/1.0 and HTTP/1.1 only")
    headers: dict[bytes, bytes] = {}
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise _Refused(400, "a header line is none")
        headers[header[1].lower()] = header[2].strip()
    if b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0":
        raise _Refused(413, "a request has no body here")
    options = {option.strip() for option in headers.get(b"connection", b"").lower().split(b",")}
    keep = b"close" not in options if minor != b"0" else b"keep-alive" in options
    order = headers.get(ORDER_HEADER.lower().encode(), b"").decode("ascii", "replace")
    query = target.decode("ascii", "replace").partition("?")[2]
    return _Request(method.decode(), _path(target), keep, query, order, b"origin" in headers)


def _path(target: bytes) -> str:
    """``/status`` of ``/status?x`` and of ``http://host/status``."""
    text = target.decode("ascii", "replace").partition("?")[0]
    scheme, mark, rest = text.partition("://")
    if mark and scheme in ("http", "https"):
        return "/" + rest.partition("/")[2]
    return text
