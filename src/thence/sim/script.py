"""Scripts: a space-time diagram as text, one event a line, with what is expected of it.

    engine unordered, fifo, tagged
    nodes a b c

    a sends question "Lunch?"
    network brings question to b
    b takes question
    b sends answer "Yes"
    network brings answer to c             # before the question
    [tagged] expect c holds back answer
    c takes all
    [unordered, fifo] expect order at c: answer
    [unordered, fifo] expect violation causal

A line that begins with engines in brackets is for these only.  ``FORMS`` has every kind of line,
docs/reference/simulator.md what each means.  This module reads; scene.py plays.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from thence.engine.base import EngineSpec
from thence.engine.registry import ENGINES
from thence.errors import UnusableInputError
from thence.sim import unordered

SCRIPT_ENGINES: dict[str, EngineSpec] = {unordered.SPEC.name: unordered.SPEC, **ENGINES}
"""What a script may name: every engine, and none at all."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.'-]*"
_LINE = re.compile(r"(?:\[(?P<only>[^\]]*)\]\s*)?(?P<event>.*)")
_PLACES = {
    "NODE": rf"(?P<node>{_NAME})",
    "NODES": rf"(?P<nodes>{_NAME}(?: {_NAME})*)",
    "MESSAGE": rf"(?P<message>{_NAME})",
    "OTHER": rf"(?P<other>{_NAME})",
    "NEW": rf"(?P<new>{_NAME})",
    "LIST": rf"(?P<list>{_NAME}(?: {_NAME})*)",
    "NUMBERS": r"(?P<numbers>\d+(?: \d+)*)",
    "TEXT": r'"(?P<text>[^"]*)"',
    "ORDER": r"(?P<order>fifo|causal|total|causal-total)",
}

FORMS: dict[str, str] = {
    "send": "NODE sends NEW[ to NODES][ TEXT]",
    "call": "NODE calls NEW[ to NODES][ TEXT]",
    "pass_on": "NODE passes on MESSAGE",
    "announce": "NODE announces",
    "idle": "NODE idles",
    "bring_phantom": "network brings the phantom of NODE to NODES",
    "bring_rest": "network brings the rest",
    "bring": "network brings MESSAGE to NODES",
    "take_all": "NODE takes all",
    "take": "NODE takes LIST",
    "expect_held": "expect NODE holds back MESSAGE[ for OTHER]",
    "expect_order": "expect order at NODE: LIST",
    "expect_stable": "expect stable at NODE: LIST",
    "expect_before": "expect MESSAGE before OTHER",
    "expect_concurrent": "expect MESSAGE concurrent OTHER",
    "expect_sees_before": "expect NODE sees MESSAGE before OTHER",
    "expect_sees_concurrent": "expect NODE sees MESSAGE concurrent OTHER",
    "expect_context": "expect context of MESSAGE: LIST",
    "expect_vector": "expect vector of MESSAGE: NUMBERS",
    "expect_no_violation": "expect no violation ORDER",
    "expect_violation": "expect violation ORDER",
}
"""Every kind of line after the first two.  What is in brackets may be left out; a LIST of none is
``nothing``."""

RESERVED = {"all", "nothing", "network", "expect", "engine", "nodes"}


def _pattern(form: str) -> re.Pattern[str]:
    """Of a form: its places become groups, its brackets become optional."""
    parts = re.split(r"([\[\]]|[A-Z]+)", form)
    marks = {"[": "(?:", "]": ")?", **_PLACES}
    return re.compile("".join(marks.get(part) or re.escape(part) for part in parts))


_PATTERNS = {kind: _pattern(form) for kind, form in FORMS.items()}


class Line(msgspec.Struct, frozen=True):
    """One event or expectation."""

    number: int
    text: str
    kind: str
    """A key of ``FORMS``."""
    only: tuple[str, ...] = ()
    """The engines it is for; empty: all."""
    node: str = ""
    nodes: tuple[str, ...] = ()
    message: str = ""
    other: str = ""
    names: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    order: str = ""
    said: str = ""
    """The text that a message carries."""


class Script(msgspec.Struct, frozen=True):
    """A diagram: who is there, what happens, what is expected, under which engines."""

    name: str
    engines: tuple[str, ...]
    nodes: tuple[str, ...]
    lines: tuple[Line, ...]


def read_script(path: Path) -> Script:
    """Of a file.  UnusableInputError says file, line and what is wrong there."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableInputError(f"{path} cannot be read: {error}") from error
    return parse_script(text, str(path))


def parse_script(text: str, name: str = "script") -> Script:
    """Of a text; ``name`` is for errors."""
    return _Parser(name).parse(text)


class _Parser:
    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.engines: tuple[str, ...] = ()
        self.nodes: tuple[str, ...] = ()
        self.messages: dict[str, Line] = {}
        self.lines: list[Line] = []

    def parse(self, text: str) -> Script:
        for self.number, raw in enumerate(text.splitlines(), 1):
            words = " ".join(_without_comment(raw).split())
            if words:
                self._line(words)
        if not self.lines:
            raise self.wrong("nothing happens in this script")
        return Script(self.name, self.engines, self.nodes, tuple(self.lines))

    def wrong(self, what: str) -> UnusableInputError:
        return UnusableInputError(f"{self.name}:{self.number}: {what}")

    def _line(self, words: str) -> None:
        first, _, rest = words.partition(" ")
        if first == "engine" and not self.nodes:
            self.engines += self._engines(rest)
        elif not self.engines:
            raise self.wrong("a script begins with its engines, as in: engine fifo, tagged")
        elif first == "nodes" and not self.nodes:
            self._set_nodes(tuple(rest.split()))
        elif not self.nodes:
            raise self.wrong("after the engines come the nodes, as in: nodes a b c")
        else:
            self.lines.append(self._event(words))

    def _engines(self, names: str) -> tuple[str, ...]:
        found = tuple(name.strip() for name in names.split(","))
        for name in found:
            if name not in SCRIPT_ENGINES:
                raise self.wrong(f"no engine {name!r}; there are {', '.join(SCRIPT_ENGINES)}")
        return found

    def _set_nodes(self, nodes: tuple[str, ...]) -> None:
        for node in nodes:
            if not re.fullmatch(_NAME, node) or node in RESERVED or nodes.count(node) > 1:
                raise self.wrong(f"{node!r} cannot be the name of one node")
        if len(nodes) < 2:
            raise self.wrong("there are at least two nodes")
        self.nodes = nodes

    def _event(self, words: str) -> Line:
        split = _LINE.fullmatch(words)
        assert split is not None, "it matches anything"
        only = () if split["only"] is None else self._engines(split["only"])
        for engine in only:
            if engine not in self.engines:
                raise self.wrong(f"{engine} is not among the engines of this script")
        for kind, pattern in _PATTERNS.items():
            found = pattern.fullmatch(split["event"])
            if found is not None:
                return self._checked(kind, words, only, found.groupdict())
        raise self.wrong(f"not an event or expectation: {split['event']}")

    def _checked(
        self, kind: str, words: str, only: tuple[str, ...], found: dict[str, str | None]
    ) -> Line:
        names = tuple((found.get("list") or "nothing").split())
        line = Line(
            number=self.number,
            text=words,
            kind=kind,
            only=only,
            node=found.get("node") or "",
            nodes=tuple((found.get("nodes") or "").split()),
            message=found.get("message") or found.get("new") or "",
            other=found.get("other") or "",
            names=() if names == ("nothing",) else names,
            numbers=tuple(int(number) for number in (found.get("numbers") or "").split()),
            order=found.get("order") or "",
            said=found.get("text") or "",
        )
        for node in (line.node, *line.nodes):
            if node and node not in self.nodes:
                raise self.wrong(f"no node {node!r}; there are {' '.join(self.nodes)}")
        if found.get("new"):
            self._add(line)
        for message in (line.message, line.other, *line.names):
            if message and message not in self.messages:
                raise self.wrong(f"nobody has sent {message!r} yet")
        if line.node in line.nodes:
            raise self.wrong(f"{line.node} is sent nothing of its own")
        return line

    def _add(self, line: Line) -> None:
        earlier = self.messages.setdefault(line.message, line)
        if line.message in RESERVED:
            raise self.wrong(f"{line.message!r} cannot be the name of a message")
        if earlier is not line:
            raise self.wrong(f"{line.message!r} is sent in line {earlier.number} already")


def _without_comment(raw: str) -> str:
    """A # begins a comment, but within quotes."""
    quoted = False
    for at, char in enumerate(raw):
        quoted ^= char == '"'
        if char == "#" and not quoted:
            return raw[:at]
    return raw
