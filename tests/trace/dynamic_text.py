"""Small runs as text: how tests/trace/dynamic_examples_*.py spell records and violations."""

from __future__ import annotations

from typing import Any

from tests.trace.brute import Found
from thence.causal.dot import Dot
from thence.trace.record import Record, RunInfo

LISTS = {"<": "context", "@": "to", "!": "stable"}


def group(members: str, **more: Any) -> RunInfo:
    """A complete run of these members, whose engine tells no stability unless said otherwise."""
    plain: dict[str, Any] = {"complete": True, "stability": False}
    return RunInfo(run="r", members=tuple(members.split()), **(plain | more))


def records_in(logs: dict[str, str]) -> list[Record]:
    """Logs as text: ``snapshot ^a < a:2 b:1 @ a b c ! a:1; deliver a:3; evict b:1 ^b; end``.

    ``^`` comes before ``from``; ``<``, ``@`` and ``!`` before context, to and stable, which are
    absent without the sign and empty with nothing behind it.  ``+n`` moves the position by n.
    """
    made = []
    for node, text in logs.items():
        pos = 0
        for event in filter(None, (part.strip() for part in text.split(";"))):
            kind, *words = event.split()
            if kind.startswith("+"):
                pos += int(kind[1:])
                kind, *words = words
            made.append(Record(run="r", node=node, pos=pos, kind=kind, t_us=pos, **fields(words)))
            pos += 1
    return made


def fields(words: list[str]) -> dict[str, Any]:
    """What the words after the kind say."""
    found: dict[str, Any] = {}
    current = None
    for word in words:
        if word in LISTS:
            current = LISTS[word]
            found[current] = ()
        elif word.startswith("^"):
            found["peer"] = word[1:]
        elif current is None:
            found["dot"] = Dot.parse(word)
        else:
            found[current] += (word if current == "to" else Dot.parse(word),)
    return found


def spelt(text: str) -> Found:
    """``a 3 deliver-early b:2 < a:1``: node, position, rule, dot, missing; ``-`` is no dot."""
    node, pos, rule, dot, *missing = text.replace("<", " ").split()
    return node, int(pos), rule, _pair(dot), _pair(missing[0]) if missing else None


def _pair(text: str) -> tuple[str, int] | None:
    if text == "-":
        return None
    dot = Dot.parse(text)
    return dot.node, dot.seq
