"""Who may ask, and what is answered to what makes no sense."""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

import thence.web
from tests.trace.dynamic_text import group, records_in
from tests.trace.faults import info, records
from tests.web.traces import served, write

RUN = records(a="send a:1; deliver b:1; end", b="deliver a:1; send b:1 < a:1; end")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("app")
    with served(write(folder, RUN, info("a", "b", stability=False))) as (address, _):
        yield address


def ask(address: str, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, Any]:
    """Status, headers and body."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, response.headers, body


def asked(address: str, path: str) -> Any:
    status, _, body = ask(address, path)
    assert status == 200, body
    return msgspec.json.decode(body)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.0.2.1"])
def test_a_request_by_another_name_is_refused(address: str, host: str):
    status, _, body = ask(address, "/api/run?run=0", Host=host)
    assert status == 400
    assert b"nodes" not in body


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1234"])
def test_names_of_this_machine_are_answered(address: str, host: str):
    assert ask(address, "/api/run?run=0", Host=host)[0] == 200


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/runs", "/api/event", "/nowhere"])
def test_every_answer_says_that_nothing_foreign_may_run(address: str, path: str):
    headers = ask(address, path)[1]
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


def test_it_listens_on_this_machine_only(address: str):
    port = urlsplit(address).port
    others = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None)}
    for other in sorted(others - {"127.0.0.1", "::1"}):
        with socket.socket(socket.AF_INET6 if ":" in other else socket.AF_INET) as tried:
            tried.settimeout(2)
            if not other.startswith("127."):
                assert tried.connect_ex((other, port)) != 0


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"],
)
def test_nothing_outside_its_folder_is_given_out(address: str, path: str):
    assert ask(address, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(address: str, method: str):
    assert ask(address, "/api/run?run=0", method)[0] == 405


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("event?run=0&at=a@99", "no position 99"),
        ("event?run=0&at=z@0", "no log of z"),
        ("event?run=0&at=nonsense", "expected NODE@POSITION"),
        ("event?run=7&at=a@0", "no run number 7"),
        ("window?run=x", "expected a number"),
        ("window?run=0&from=nan", "expected a number"),
        ("window?run=0&axis=sideways", "no axis"),
        ("explain?run=0&number=5", "no violation"),
        ("cut?run=0&cut=q@1", "no log of q"),
        ("cut?run=0&cut=a@x", "expected NODE@POSITION"),
        ("export?run=0&what=everything", "expected past, future"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(address: str, path: str, sentence: str):
    status, _, body = ask(address, f"/api/{path}")
    assert status == 400
    assert sentence in msgspec.json.decode(body)["error"]


def test_past_and_future_are_a_position_for_each_node(address: str):
    assert asked(address, "/api/past?run=0&at=b@1") == {"a": 0, "b": 1}
    assert asked(address, "/api/future?run=0&at=b@1") == {"a": 1, "b": 1}
    assert asked(address, "/api/future?run=0&at=a@0") == {"a": 0, "b": 0}


def test_the_news_say_when_a_run_was_checked(address: str):
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as stream:
        asked(address, "/api/run?run=0")
        stream.sendall(b"GET /api/news HTTP/1.1\r\nHost: localhost\r\n\r\n")
        seen = b""
        while b'"checked":true' not in seen:
            more = stream.recv(4096)
            assert more
            seen += more
    assert b"text/event-stream" in seen


def test_a_selection_is_exported_as_lines(address: str):
    status, headers, body = ask(address, "/api/export?run=0&what=past&at=b@1")
    assert status == 200
    assert "attachment" in headers["content-disposition"]
    found = [msgspec.json.decode(line) for line in body.splitlines()]
    assert {(one["node"], one["pos"]) for one in found} == {("a", 0), ("b", 0), ("b", 1)}


def test_the_page_names_every_module_at_once_and_nothing_that_is_elsewhere(address: str):
    text = ask(address, "/")[2].decode()
    static = Path(thence.web.__file__).parent / "static"
    assert {f"static/{path.name}" for path in static.iterdir()} - {"static/index.html"} == set(
        re.findall(r'(?:href|src)="([^"]+)"', text)
    )
    assert "//" not in text.replace("<!doctype html>", "")
    for path in static.glob("*.js"):
        sources = re.findall(r'https?://[^"\s]+', path.read_text())
        assert set(sources) <= {"http://www.w3.org/2000/svg"}
        assert "innerHTML" not in path.read_text()


@pytest.mark.parametrize("axis", ["order", "time", "graph"])
def test_a_window_beyond_everything_is_empty_and_answered_at_once(address: str, axis: str):
    for far in ("1e17", "1e30", "-1e300"):
        found = asked(address, f"/api/window?run=0&axis={axis}&from={far}&to={far}")
        assert found["count"] == 0
        assert len(found["ticks"]) <= 25


def test_the_next_record_is_found_also_from_one_that_is_not_shown(address: str):
    def after(query: str) -> Any:
        found = asked(address, f"/api/next?run=0&{query}")
        return found and (found["node"], found["pos"])

    assert after("at=a@1&hide=deliver&by=1") == ("a", 2)
    assert after("at=a@1&hide=deliver&by=-1") == ("a", 0)
    assert after("at=b@2&axis=graph&lanes=-1") == ("a", 0)
    assert after("at=b@2&axis=graph&by=-1") == ("b", 1)
    assert after("at=b@2&axis=graph&by=1") is None


@pytest.mark.parametrize("path", ["/api/export?run=0", "/api/news"])
def test_streams_are_answers_to_get_only_too(address: str, path: str):
    assert ask(address, path, "POST")[0] == 405


def test_the_stable_line_is_that_of_the_group_of_the_moment(tmp_path: Path):
    made = records_in(
        {
            "a": "send a:1; stable a:1; join ^c; send a:2; evict ^b; stable a:2; end",
            "b": "deliver a:1; stable a:1",
            "c": "snapshot ^a < a:1 @ a b c ! a:1; deliver a:2; evict ^b; stable a:2; end",
        }
    )
    with served(write(tmp_path, made, group("a b"))) as (address, _):
        for moment, expected in (("", "a:2"), ("&u=1", "a:1"), ("&u=4", "a:1"), ("&u=6", "a:2")):
            answer = asked(address, f"/api/stability?run=0&axis=time{moment}")
            assert answer["places"][0]["dot"] == expected, moment


def test_a_cut_in_the_causal_graph_is_after_the_last_message_inside(address: str):
    cut = asked(address, "/api/cut?run=0&axis=graph&cut=a@2&cut=b@0")["cut"]
    assert [(place["pos"], place["x"]) for place in cut] == [(2, 1.0), (0, None)]
