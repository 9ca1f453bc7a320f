"""Logs: one line an event whatever is in it, switches, limits."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thence.telemetry.logs import (
    BURST,
    FIELD_CHARS_MAX,
    KINDS_MAX,
    RATE_PER_S,
    RateLimit,
    event,
    start_logs,
)

NODE = logging.getLogger("thence.node")
LINK = logging.getLogger("thence.link")
ORDER = logging.getLogger("thence.order")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger("thence")
    before = (root.level, root.propagate, list(root.handlers), LINK.level, ORDER.level)
    yield
    level, root.propagate, root.handlers, link, order = before
    root.setLevel(level)
    LINK.setLevel(link)
    ORDER.setLevel(order)


class Clock:
    """Seconds that pass only when told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_a_line_of_text():
    stream = io.StringIO()
    start_logs(stream=stream)
    event(
        NODE, logging.WARNING, "peer lost", peer="b", tries=5, rtt_s=0.25, up=True, why="no answer"
    )
    (line,) = lines(stream)
    when, rest = line.split(" ", 1)
    assert len(when) == len("2026-11-16T16:30:00.123Z")
    assert when.endswith("Z")
    assert rest == (
        'warning thence.node "peer lost" peer=b tries=5 rtt_s=0.25 up=true why="no answer"'
    )


def test_a_line_of_json():
    stream = io.StringIO()
    start_logs(form="json", stream=stream)
    event(NODE, logging.INFO, "listening", url="tcp://h:1", port=1, none=None, big=1 << 90)
    found = json.loads(stream.getvalue())
    assert found.pop("t").endswith("Z")
    assert found == {
        "level": "info",
        "logger": "thence.node",
        "event": "listening",
        "url": "tcp://h:1",
        "port": 1,
        "none": None,
        "big": str(1 << 90),
    }


def test_plain_logging_calls_are_lines_too():
    stream = io.StringIO()
    start_logs(stream=stream)
    NODE.info("took %d", 7)
    try:
        raise ValueError("x\ny")
    except ValueError:
        NODE.exception("failed")
    first, second = lines(stream)
    assert first.endswith('info thence.node "took 7"')
    assert second.endswith(r'error thence.node failed error="ValueError: x\ny"')


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(st.characters(), max_size=30) | st.binary(max_size=30) | st.floats(),
    st.sampled_from(["text", "json"]),
)
def test_a_field_never_leaves_its_line_or_moves_the_terminal(value: object, form: str):
    stream = io.StringIO()
    start_logs(form=form, stream=stream)
    event(NODE, logging.INFO, "rejected", detail=value, after=1)
    (line,) = stream.getvalue().split("\n")[:-1]
    assert line.isprintable()
    line.encode()
    if form == "json":
        found = json.loads(line, parse_constant=pytest.fail)
        assert found["after"] == 1
        assert type(value) is not str or found["detail"] == value
    else:
        assert line.endswith(" after=1")


def test_a_field_cannot_pass_for_another():
    stream = io.StringIO()
    start_logs(stream=stream)
    event(NODE, logging.INFO, "rejected", peer='b" level=error x="')
    assert lines(stream)[0].endswith(r'peer="b\" level=error x=\""')
    stream = io.StringIO()
    start_logs(form="json", stream=stream)
    event(NODE, logging.INFO, "rejected", **{"level": "fake"})
    assert json.loads(stream.getvalue())["level"] == "info"


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_huge_field_is_cut(form: str):
    stream = io.StringIO()
    start_logs(form=form, stream=stream)
    event(NODE, logging.INFO, "rejected", detail="x" * 1_000_000)
    assert FIELD_CHARS_MAX < len(stream.getvalue()) < FIELD_CHARS_MAX + 200


@pytest.mark.parametrize(
    ("level", "debug", "heard"),
    [
        ("info", (), {"node info", "link info", "order info"}),
        ("warning", (), set()),
        ("debug", (), {"node info", "link info", "order info", "node debug"}),
        ("info", ("link",), {"node info", "link info", "order info", "link debug"}),
        ("warning", ("order",), {"order info", "order debug"}),
        ("info", ("link", "order"),
         {"node info", "link info", "order info", "link debug", "order debug"}),
    ],
)  # fmt: skip
def test_levels_and_switches(level: str, debug: tuple[str, ...], heard: set[str]):
    stream = io.StringIO()
    start_logs(level, form="json", debug=debug, stream=stream)
    for logger in (NODE, LINK, ORDER):
        event(logger, logging.INFO, f"{logger.name[7:]} info")
        event(logger, logging.DEBUG, f"{logger.name[7:]} debug")
    assert {json.loads(line)["event"] for line in lines(stream)} == heard


def test_starting_again_replaces_what_was_set():
    first, second = io.StringIO(), io.StringIO()
    start_logs(debug=("link",), stream=first)
    start_logs(stream=second)
    event(LINK, logging.INFO, "once")
    event(LINK, logging.DEBUG, "never")
    assert (len(lines(first)), len(lines(second))) == (0, 1)


def test_a_flood_is_cut_and_counted():
    stream = io.StringIO()
    clock = Clock()
    start_logs(form="json", stream=stream, clock=clock)
    for n in range(5_000):
        event(NODE, logging.WARNING, "rejected", detail=n)
    assert len(lines(stream)) == BURST
    event(NODE, logging.WARNING, "something else")
    assert json.loads(lines(stream)[-1])["event"] == "something else"
    clock.now = 1.0
    for n in range(1000):
        event(NODE, logging.WARNING, "rejected", detail=n)
    later = [json.loads(line) for line in lines(stream)[int(BURST) + 1 :]]
    assert len(later) == RATE_PER_S
    assert later[0]["omitted"] == 5_000 - BURST
    assert not any("omitted" in line for line in later[1:])


def test_what_a_switch_asked_for_is_not_cut():
    stream = io.StringIO()
    start_logs(debug=("order",), stream=stream, clock=Clock())
    for n in range(500):
        event(ORDER, logging.DEBUG, "held back", dot=n)
    assert len(lines(stream)) == 500


def test_many_kinds_share_a_limit_in_the_end():
    limit = RateLimit(Clock())
    passed = sum(
        limit.filter(logging.LogRecord("thence", logging.INFO, "", 0, f"kind {n}", None, None))
        for n in range(10 * KINDS_MAX)
    )
    assert passed == KINDS_MAX + BURST
