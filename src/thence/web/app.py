"""The routes of the page, and who may ask.

The page shows payloads, which are users' data, to whoever can connect: so the server listens on
this machine only, answers only requests that call it by a name of this machine (another site may
have its own name resolve to 127.0.0.1), changes nothing, and its pages load nothing from anywhere
else and run no script that is not a file of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from importlib.resources import files
from typing import Any, Final

import msgspec
import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thence.errors import LimitError, UnusableInputError
from thence.web.answers import ANSWERS, Query, answer_runs, ask_of, row_of, run_of
from thence.web.order import CONCURRENT, FUTURE, PAST, SELF
from thence.web.runs import Viewer

HOSTS: Final = ("127.0.0.1", "localhost")
HEADERS: Final = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data: blob:; "
     b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)  # fmt: skip
NEWS_S: Final = 0.15
ALIVE_S: Final = 10.0
RETRY_MS: Final = 500
"""So soon does a page ask again that has lost its server."""
RELATIONS: Final = {"past": PAST, "future": FUTURE, "concurrent": CONCURRENT}


def make_app(viewer: Viewer) -> Starlette:
    """The application for these runs."""
    endpoints: dict[str, ASGIApp] = {
        "runs": _Answer(viewer, answer_runs),
        **{name: _Answer(viewer, answer) for name, answer in ANSWERS.items()},
        "export": _Export(viewer),
        "news": _News(viewer),
    }
    routes = [
        Route("/", _page),
        *(Route(f"/api/{name}", endpoint, methods=["GET"]) for name, endpoint in endpoints.items()),
        Mount("/static", StaticFiles(directory=_static())),
    ]
    middleware = [
        Middleware(_Headers),
        Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS), www_redirect=False),
    ]
    return Starlette(routes=routes, middleware=middleware)


def _static() -> str:
    return str(files("thence.web").joinpath("static"))


def _page(request: Request) -> Response:
    return FileResponse(f"{_static()}/index.html")


class _Headers:
    """Puts the same headers on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        await self._app(scope, receive, send_with_headers)


class _Answer:
    """An endpoint whose answer is a value; a question that makes no sense is 400 and a sentence."""

    def __init__(self, viewer: Viewer, answer: Query) -> None:
        self._viewer, self._answer = viewer, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        response = await run_in_threadpool(self._respond, request)
        await response(scope, receive, send)

    def _respond(self, request: Request) -> Response:
        try:
            body = msgspec.json.encode(self._answer(self._viewer, request))
        except (UnusableInputError, LimitError) as error:
            return _refused(str(error))
        return Response(body, media_type="application/json")


def _refused(sentence: str) -> Response:
    body = msgspec.json.encode({"error": sentence})
    return Response(body, 400, media_type="application/json")


class _Export:
    """A selection of records as JSON Lines."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            lines = await run_in_threadpool(self._lines, request)
        except (UnusableInputError, LimitError) as error:
            await _refused(str(error))(scope, receive, send)
            return
        headers = {"content-disposition": 'attachment; filename="selection.jsonl"'}
        response = StreamingResponse(lines, media_type="application/jsonl", headers=headers)
        await response(scope, receive, send)

    def _lines(self, request: Request) -> Iterator[bytes]:
        """``what``: past, future or concurrent of a record (with it), or window."""
        found, execution = run_of(self._viewer, request)
        ask, what = ask_of(execution, request), request.query_params.get("what", "window")
        rows = np.arange(len(execution.layout))
        if what in RELATIONS:
            relation = execution.order.relation(row_of(execution, request), rows)
            chosen = (relation == RELATIONS[what]) | (relation == SELF)
        elif what == "window":
            chosen = np.zeros(len(rows), np.bool_)
            view = found.windows.view(ask)
            for first, last in view.inside(view.fold.to_x(ask.low), view.fold.to_x(ask.high)):
                chosen[view.rows[first:last]] = True
        else:
            raise UnusableInputError("what: expected past, future, concurrent or window")
        return found.texts.lines(chosen)


class _News:
    """Server-sent events: which process answers, whether there are other runs to choose from, and
    of the runs in memory which reading it is, and whether it was checked."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = StreamingResponse(self._events(), media_type="text/event-stream")
        await response(scope, receive, send)

    async def _events(self) -> AsyncIterator[bytes]:
        last, silent = None, 0.0
        yield f"retry: {RETRY_MS}\n\n".encode()
        while not self._viewer.closing.is_set():
            news = self._news()
            if news != last:
                last, silent = news, 0.0
                data = msgspec.json.encode(news)
                yield b"data: " + data + b"\n\n"
            elif silent >= ALIVE_S:
                silent = 0.0
                yield b": still here\n\n"
            await asyncio.sleep(NEWS_S)
            silent += NEWS_S

    def _news(self) -> dict[str, Any]:
        runs = [
            {"run": number, "version": version, "checked": checked}
            for number, (version, checked) in self._viewer.states().items()
        ]
        return {"start": self._viewer.start, "listed": self._viewer.listed, "runs": runs}
