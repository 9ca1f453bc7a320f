"""Shorter ways to write tables of commands, which are long, and keys that a number counts."""

from __future__ import annotations

from typing import Final

from thence.store.commands.base import Command, Function, KeysOf, command

ONE_KEY: Final = (1, 1, 1)
TWO_KEYS: Final = (1, 2, 1)
ALL_KEYS: Final = (1, -1, 1)
NO_KEYS: Final = (0, 0, 0)
READ: Final = "readonly"
READ_FAST: Final = "readonly fast"
WRITE: Final = "write"
WRITE_FAST: Final = "write fast"
GROW: Final = "write denyoom"
GROW_FAST: Final = "write denyoom fast"


class Rows:
    """Makes the entries of one group of COMMAND DOCS."""

    __slots__ = ("_group",)

    def __init__(self, group: str) -> None:
        self._group: Final = group

    def __call__(
        self,
        name: str,
        function: Function,
        arity: int,
        flags: str,
        summary: str,
        keys: tuple[int, int, int] = ONE_KEY,
        keys_of: KeysOf | None = None,
    ) -> Command:
        """An entry; most have one key, the first argument."""
        return command(
            name,
            function,
            arity,
            flags,
            keys=keys,
            keys_of=keys_of,
            group=self._group,
            summary=summary,
        )


def counted_keys(at: int, before: int = 0) -> KeysOf:
    """Keys whose number is the argument ``at``; so many arguments ``before`` are keys as well.
    Empty if there are not so many."""

    def keys_of(args: list[bytes]) -> list[bytes]:
        number = args[at]
        count = int(number) if number.isdigit() and len(number) < 10 else 0
        if not 0 < count <= len(args) - at - 1:
            return []
        return args[:before] + args[at + 1 : at + 1 + count]

    return keys_of
