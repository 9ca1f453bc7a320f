"""ShiViz logs: text in which each event carries the vector clock of its host.

An expression with the groups host, clock and event finds the events in the text; other groups are
kept with them.  A delimiter expression, if there is one, separates executions, which become runs;
its group ``trace`` names them.  Both are as in ShiViz (shiviz_expression.py).  What the clocks
amount to is in shiviz_clocks.py.

The event of host h with own entry n becomes a ``send`` of the dot (h, n), after a ``deliver`` of
every event that the clock names and that h had not named before.  So "happens before" is the same
in the trace as in the clocks, and the rules of ``thence check`` say whether the clocks make sense.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from thence.causal.dot import SEQ_MAX
from thence.errors import UnusableInputError
from thence.pipeline.importers import Output
from thence.pipeline.importers.shiviz_clocks import Event, Logs, arrange, records_of
from thence.pipeline.importers.shiviz_expression import GROUPS, compile_expression
from thence.trace.record import NAME_CHARS_MAX, RunInfo

SETTINGS: Final = ("expression", "delimiter")
_decode_clock: Final = msgspec.json.Decoder(dict[str, int]).decode


class Execution(msgspec.Struct, frozen=True):
    """A stretch of the text that is one run."""

    run: str
    start: int
    end: int


def check(settings: Mapping[str, str]) -> None:
    """UnusableInputError when the expressions cannot be used."""
    if unknown := [name for name in settings if name not in SETTINGS]:
        expected = ", ".join(SETTINGS)
        raise UnusableInputError(f"shiviz has no setting {unknown[0]!r}: expected {expected}")
    if "expression" not in settings:
        raise UnusableInputError("shiviz needs an expression with the groups host, clock, event")
    compile_expression(settings["expression"], "ShiViz expression", GROUPS)
    if "delimiter" in settings:
        compile_expression(settings["delimiter"], "delimiter")


def translate(text: str, name: str, settings: Mapping[str, str], out: Output) -> None:
    """The runs of a text with plain newlines; UnusableInputError when there is no event in it."""
    expression = compile_expression(settings["expression"], "ShiViz expression", GROUPS)
    delimiter = None
    if "delimiter" in settings:
        delimiter = compile_expression(settings["delimiter"], "delimiter")
    lines = _Lines(text)
    executions = list(_executions(text, name, delimiter, lines))
    for execution in executions:
        events = list(_events(text, execution, expression, lines, out))
        logs = arrange(events, out)
        if logs:
            out.run(_info(execution.run, logs, name, settings))
            for record in records_of(execution.run, logs, out):
                out.record(record)
    if not lines.events:
        raise UnusableInputError(
            f"the ShiViz expression finds no event; the text begins with {text.strip()[:60]!r}"
        )
    for line, content in lines.untouched():
        out.found(line)
        out.set_aside(line, "no match of the expression covers this line", content)


def _info(run: str, logs: Logs, name: str, settings: Mapping[str, str]) -> RunInfo:
    return RunInfo(
        run=run,
        members=tuple(sorted(logs)),
        stability=False,
        scenario={"importer": "shiviz", "source": name, **settings},
    )


class _Lines:
    """Line numbers of a text, from 1, which lines no match has touched, and how many matched."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._touched = bytearray(len(self._starts) + 1)
        self.events = 0

    def number(self, at: int) -> int:
        return bisect_right(self._starts, at)

    def touch(self, start: int, end: int) -> None:
        first, last = self.number(start), self.number(max(start, end - 1))
        self._touched[first : last + 1] = b"\x01" * (last + 1 - first)

    def untouched(self) -> Iterator[tuple[int, str]]:
        """(line, its text) of lines that are neither touched nor blank."""
        for number, line in enumerate(self._text.split("\n"), 1):
            if not self._touched[number] and line.strip():
                yield number, line


def _executions(
    text: str, name: str, delimiter: re.Pattern[str] | None, lines: _Lines
) -> Iterator[Execution]:
    """The runs of a text: one without a delimiter, else one for each stretch with something in it.

    Named ``name-label`` where the delimiter before it has a group ``trace``, else ``name-1`` and so
    on; a label that comes again gets a number.
    """
    if delimiter is None:
        yield Execution(name, 0, len(text))
        return
    stretches: list[tuple[str, int, int]] = []
    label, start = "", 0
    for found in delimiter.finditer(text):
        if found.end() == found.start():
            continue
        lines.touch(found.start(), found.end())
        stretches.append((label, start, found.start()))
        label, start = found.groupdict().get("trace") or "", found.end()
    stretches.append((label, start, len(text)))
    used: set[str] = set()
    number = 0
    for label, start, end in stretches:
        if not text[start:end].strip():
            continue
        number += 1
        run = f"{name}-{label or number}"
        run = run if run not in used else f"{run}-{number}"
        used.add(run)
        yield Execution(run, start, end)


def _events(
    text: str, execution: Execution, expression: re.Pattern[str], lines: _Lines, out: Output
) -> Iterator[Event]:
    """The events that the expression finds and whose clocks can be read; the others are aside."""
    # A slice, as in ShiViz: ^ and look-behind must not see the text before the delimiter.
    part = text[execution.start : execution.end]
    for found in expression.finditer(part):
        if found.end() == found.start():
            continue
        start = execution.start + found.start()
        lines.touch(start, execution.start + found.end())
        lines.events += 1
        line = lines.number(start)
        out.found(line)
        groups = {name: value for name, value in found.groupdict().items() if value is not None}
        event = _event(line, groups, found[0])
        if isinstance(event, Event):
            yield event
        else:
            out.set_aside(line, event, found[0], execution.run)


def _event(line: int, groups: dict[str, str], match: str) -> Event | str:
    """One event, or why it is none."""
    host, text, clock = (groups.pop(name, "") for name in ("host", "event", "clock"))
    try:
        entries = _decode_clock(clock)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        return f"clock: expected a JSON object of numbers, got {clock[:80]!r} ({error})"
    if host not in entries:
        return f"clock: no entry of its own host {host!r}"
    for name, value in entries.items():
        if not 0 <= value <= SEQ_MAX:
            return f"clock: expected entries from 0 to 2**40-1, got {value} for {name!r}"
        if not 0 < len(name) <= NAME_CHARS_MAX:
            return f"host: expected a name, got {name[:40]!r}"
    if entries[host] == 0:
        return f"clock: the entry of its own host {host!r} is 0; the first event has 1"
    named = {_node(name): value for name, value in entries.items() if value}
    return Event(
        host=_node(host), seq=entries[host], clock=named, line=line, text=text, groups=groups,
        match=match,
    )  # fmt: skip


def _node(host: str) -> str:
    """The host as the name of a node, in which a slash would begin a stream."""
    return host.replace("%", "%25").replace("/", "%2F") if "/" in host else host
