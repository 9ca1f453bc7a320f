"""Structured logs with the standard library: one line an event, on stderr.

    2026-11-16T16:30:00.123Z warning thence.link "peer lost" peer=b tries=5

An event is a fixed text and fields; ``event(logger, level, text, peer="b")`` makes one.  Whatever a
field holds, it stays on its line and is cut at FIELD_CHARS_MAX: a peer chooses some of them.

Two loggers are silent below info until ``--debug`` switches them on: ``thence.link`` (acks,
retries, back-off) and ``thence.order`` (hold-back queue, stamps).

Events of one kind are limited to RATE_PER_S, so that a peer that sends garbage cannot fill the
disk; the next line of that kind says how many were left out.  What a debug switch asked for is not
limited.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, TextIO

LINK: Final = "thence.link"
ORDER: Final = "thence.order"
DEBUG_TOPICS: Final = {"link": LINK, "order": ORDER}
LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
FIELD_CHARS_MAX: Final = 1000
RATE_PER_S: Final = 10.0
BURST: Final = 50.0
"""Events of one kind that may come at once."""
KINDS_MAX: Final = 1024
"""Kinds that are limited each by itself; further ones share one limit."""

_FIELDS: Final = "thence_fields"
_OMITTED: Final = "thence_omitted"
_PLAIN: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@#+[]<>(),%*~"
)


def event(logger: logging.Logger, level: int, text: str, /, **fields: object) -> None:
    """Log one event.  ``text`` is the same each time; what changes goes into fields."""
    if logger.isEnabledFor(level):
        logger.log(level, "%s", text, extra={_FIELDS: fields})


def start_logs(
    level: str = "info",
    form: str = "text",
    debug: Iterable[str] = (),
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> logging.Handler:
    """Send what thence logs to ``stream`` (stderr); calling again replaces what was set before."""
    handler = _Handler(sys.stderr if stream is None else stream)
    handler.setFormatter(_JsonLines() if form == "json" else _TextLines())
    handler.addFilter(RateLimit(clock))
    root = logging.getLogger("thence")
    for old in [old for old in root.handlers if isinstance(old, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(LEVELS[level])
    root.propagate = False
    switched = set(debug)
    for topic, name in DEBUG_TOPICS.items():
        quiet = max(LEVELS[level], logging.INFO)
        logging.getLogger(name).setLevel(logging.DEBUG if topic in switched else quiet)
    return handler


class _Handler(logging.StreamHandler[TextIO]):
    """Marks the handler as ours."""


class RateLimit(logging.Filter):
    """Lets through BURST events of a kind at once, and RATE_PER_S after that."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        # By kind: how many may come now, when that was so, how many were left out.
        self._kinds: dict[tuple[str, int, str], list[float]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO:
            return True
        now = self._clock()
        bucket = self._bucket(record, now)
        allowed = min(BURST, bucket[0] + (now - bucket[1]) * RATE_PER_S)
        bucket[1] = now
        if allowed < 1:
            bucket[0] = allowed
            bucket[2] += 1
            return False
        bucket[0] = allowed - 1
        if bucket[2]:
            setattr(record, _OMITTED, int(bucket[2]))
            bucket[2] = 0
        return True

    def _bucket(self, record: logging.LogRecord, now: float) -> list[float]:
        text = _text_of(record) if hasattr(record, _FIELDS) else str(record.msg)
        kind = (record.name, record.levelno, text)
        if kind not in self._kinds and len(self._kinds) >= KINDS_MAX:
            kind = ("", 0, "")
        return self._kinds.setdefault(kind, [BURST, now, 0])


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        words = [_when(record), record.levelname.lower(), record.name, _quoted(_text_of(record))]
        words += [f"{name}={_quoted(value)}" for name, value in _fields(record)]
        return " ".join(words)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "t": _when(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _cut(_text_of(record)),
        }
        for name, value in _fields(record):
            line.setdefault(name, _json_value(value))
        return json.dumps(line)


def _json_value(value: object) -> object:
    """Numbers as they are, unless JSON has no way to write them."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int) and abs(value) < 1 << 63:
        return value
    return _cut(str(value))


def _text_of(record: logging.LogRecord) -> str:
    return record.getMessage()


def _fields(record: logging.LogRecord) -> Iterable[tuple[str, object]]:
    yield from getattr(record, _FIELDS, {}).items()
    omitted = getattr(record, _OMITTED, 0)
    if omitted:
        yield "omitted", omitted
    if record.exc_info and record.exc_info[0] is not None:
        yield "error", f"{record.exc_info[0].__name__}: {record.exc_info[1]}"


def _when(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cut(text: str) -> str:
    return text if len(text) <= FIELD_CHARS_MAX else f"{text[:FIELD_CHARS_MAX]}..."


def _quoted(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = _cut(str(value))
    if text and _PLAIN.issuperset(text):
        return text
    # What cannot be printed is written as ASCII: no terminal is moved by what a peer sends.
    return json.dumps(text, ensure_ascii=not text.isprintable())
