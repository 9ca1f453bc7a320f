"""What applications were told over all their lives, from the files that app.py writes."""

from __future__ import annotations

from pathlib import Path


class Life:
    """One start of an application."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        """Deliveries (``d TEXT``) and stable messages (``s DOT``), in order."""
        self.confirmed = 0
        """So many of them are confirmed for certain."""


def lives(path: Path) -> list[Life]:
    """The lives of an application; a line that its end cut short counts as not written."""
    found: list[Life] = []
    if not path.exists():
        return found
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        if line.startswith("life "):
            found.append(Life())
        elif line == "c":
            found[-1].confirmed = len(found[-1].seen)
        elif line != "q":
            found[-1].seen.append(line)
    return found


def whole(found: list[Life]) -> list[str]:
    """Everything that was told, as the application counts it: what it had not confirmed when a life
    ended comes again in the next, and only then counts.

    AssertionError if something that was confirmed came again, or something that was not did not.
    """
    after: list[str] = []
    for life in reversed(found):
        assert len(set(life.seen)) == len(life.seen), "told twice in one life"
        again = set(after)
        # The journal has confirmed at least what the application knows of, and then came the end.
        first = next((at for at, each in enumerate(life.seen) if each in again), len(life.seen))
        assert first >= life.confirmed, f"confirmed, and told again: {life.seen[first]}"
        lost = [each for each in life.seen[first:] if each not in again]
        assert not lost, f"not confirmed, and not told again: {lost[:3]}"
        after = life.seen[:first] + after
    return after


def lines(path: Path) -> list[str]:
    """The whole lines of a file, which need not exist."""
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


def delivered(told: list[str]) -> list[str]:
    return [each[2:] for each in told if each.startswith("d ")]


def stable(told: list[str]) -> list[str]:
    return [each[2:] for each in told if each.startswith("s ")]
