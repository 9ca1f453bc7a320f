"""What is done to the data types: the same calls for every contestant, drawn from a seed.

Maps and sets: ``FIELDS`` fields or elements of three characters, values of eight; four calls in
five set or add, one removes.  Counters: one call in four counts down.

Text: an author who behaves as those of published traces do (Kleppmann's of a paper written in
Automerge has 182,315 inserts and 77,463 deletes of single characters): runs of typing of about a
dozen characters, runs of deletes by backspace that mostly remove what was typed just now, and in
between jumps of the cursor, most of them short.
"""

from __future__ import annotations

import random
from typing import Any

Call = tuple[Any, ...]
"""(name, argument, ...)."""

FIELDS = 100
VALUE_BYTES = 8
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
DELETES_SHARE = 0.3
"""Of the edits of a text."""
TYPED_MEAN = 12
DELETED_MEAN = 5
NEAR = 0.8
"""How many of the jumps stay within ``NEAR_ELEMENTS``."""
NEAR_ELEMENTS = 60


def names(count: int = FIELDS) -> list[str]:
    """Fields of maps, elements of sets."""
    return [f"f{at:02}" for at in range(count)]


def value(rng: random.Random) -> str:
    """What is written into a field."""
    return "".join(rng.choices(LETTERS, k=VALUE_BYTES))


def counts(calls: int, seed: int) -> list[Call]:
    """Calls of a counter."""
    rng = random.Random(seed)
    return [("inc" if rng.random() < 0.75 else "dec", rng.randint(1, 9)) for _ in range(calls)]


def updates(calls: int, seed: int, removes: float = 0.2) -> list[Call]:
    """Calls of a map: set (field, value) or remove (field)."""
    rng = random.Random(seed)
    fields = names()
    return [
        ("remove", rng.choice(fields))
        if rng.random() < removes
        else ("set", rng.choice(fields), value(rng))
        for _ in range(calls)
    ]


def members(calls: int, seed: int, removes: float = 0.2) -> list[Call]:
    """Calls of a set: add (element) or remove (element)."""
    rng = random.Random(seed)
    elements = names()
    return [
        ("remove" if rng.random() < removes else "add", rng.choice(elements)) for _ in range(calls)
    ]


def edits(calls: int, seed: int) -> list[Call]:
    """Calls of a text by one author, each of one character: insert (index, text) or
    delete (index, 1)."""
    rng = random.Random(seed)
    found: list[Call] = []
    length = cursor = 0
    while len(found) < calls:
        deletes = length > 0 and rng.random() < DELETES_SHARE * TYPED_MEAN / (
            DELETES_SHARE * TYPED_MEAN + (1 - DELETES_SHARE) * DELETED_MEAN
        )
        run = int(rng.expovariate(1 / (DELETED_MEAN if deletes else TYPED_MEAN))) + 1
        if not deletes or rng.random() < 0.3:  # a delete mostly goes on where the cursor is
            if rng.random() < NEAR:
                cursor += rng.randint(-NEAR_ELEMENTS, NEAR_ELEMENTS)
            else:
                cursor = rng.randint(0, length)
        cursor = min(max(cursor, 0), length)
        for _ in range(run):
            if not deletes:
                found.append(("insert", cursor, rng.choice(LETTERS + "      ")))
                cursor += 1
                length += 1
            elif cursor > 0:
                cursor -= 1
                length -= 1
                found.append(("delete", cursor, 1))
    return found[:calls]


def written(calls: list[Call]) -> str:
    """The text that edits lead to: plain Python, to judge the contestants by."""
    text: list[str] = []
    for name, at, what in calls:
        if name == "insert":
            text[at:at] = what
        else:
            del text[at : at + what]
    return "".join(text)
