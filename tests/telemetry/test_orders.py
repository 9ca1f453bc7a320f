"""What changes something through the status server, and who may not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.telemetry.test_http import Serve, ask, serve, split, talk
from thence.telemetry import http
from thence.telemetry.http import HttpLimits, Response, StatusServer

__all__ = ["serve"]  # the fixture

FOR_REAL = "X-Thence: evict\r\n"


def noting(asked: list[dict[str, str]]) -> dict[str, http.Order]:
    def evict(given: Mapping[str, str]) -> Response:
        asked.append(dict(given))
        return Response(409 if given.get("name") == "a" else 200, b"{}\n", http.JSON)

    return {"evict": evict}


def test_an_order_is_carried_out_with_its_parameters(serve: Serve):
    asked: list[dict[str, str]] = []

    async def scenario(server: StatusServer, port: int) -> None:
        data = ask("/evict?group=main&name=b%23%202&dead=1", "POST", more=FOR_REAL)
        assert split(await talk(port, data))[0] == 200
        assert asked == [{"group": "main", "name": "b# 2", "dead": "1"}]
        empty = ask("/evict?name=a", "POST", more=FOR_REAL + "Content-Length: 0\r\n")
        assert split(await talk(port, empty))[0] == 409
        assert server.refused == {}

    serve(scenario, orders=noting(asked))


@pytest.mark.parametrize(
    ("method", "path", "more", "status"),
    [
        ("POST", "/evict?name=b", "", 403),
        ("POST", "/evict?name=b", "X-Thence: status\r\n", 403),
        ("POST", "/evict?name=b", "X-Thence: \xff\r\n", 403),
        ("POST", "/evict?name=b", FOR_REAL + "Origin: http://evil.example\r\n", 403),
        ("GET", "/evict?name=b", FOR_REAL, 405),
        ("HEAD", "/evict?name=b", FOR_REAL, 405),
        ("OPTIONS", "/evict?name=b", FOR_REAL, 405),
        ("PUT", "/evict?name=b", FOR_REAL, 405),
        ("POST", "/status", FOR_REAL, 405),
        ("POST", "/nosuch", FOR_REAL, 405),
        ("POST", "/evict?name=b", FOR_REAL + "Content-Length: 1000000000\r\n", 413),
        ("POST", "/evict?name=b", FOR_REAL + "Transfer-Encoding: chunked\r\n", 413),
        ("POST", "/evict?name=" + "b" * 9000, FOR_REAL, 431),
        ("POST", "/evict?" + "a=1&" * 100, FOR_REAL, 400),
    ],
)
def test_what_is_no_proper_order_changes_nothing(
    serve: Serve, method: str, path: str, more: str, status: int
):
    asked: list[dict[str, str]] = []

    async def scenario(_: StatusServer, port: int) -> None:
        data = ask(path, method, more=more)
        found, headers, _ = split(await talk(port, data + b"x" * 100_000))
        assert found == status
        if status == 405:
            assert headers["Allow"] == ("POST" if path.startswith("/evict") else "GET, HEAD")
        assert asked == []

    serve(scenario, HttpLimits(linger_s=0.3), orders=noting(asked))


def test_orders_are_taken_from_this_machine_only(serve: Serve, monkeypatch: pytest.MonkeyPatch):
    asked: list[dict[str, str]] = []

    async def scenario(server: StatusServer, port: int) -> None:
        monkeypatch.setattr(http, "is_loopback", lambda host: False)
        status, _, body = split(await talk(port, ask("/evict?name=b", "POST", more=FOR_REAL)))
        assert (status, body) == (403, b"orders are taken from the machine of the node only\n")
        assert (asked, server.refused) == ([], {"http-403": 1})

    serve(scenario, orders=noting(asked))


def test_a_failing_order_is_a_500(serve: Serve):
    def fail(given: Mapping[str, str]) -> Response:
        raise RuntimeError("secret")

    async def scenario(_: StatusServer, port: int) -> None:
        status, _, body = split(await talk(port, ask("/evict?name=b", "POST", more=FOR_REAL)))
        assert (status, body) == (500, b"/evict failed: RuntimeError\n")

    serve(scenario, orders={"evict": fail})
