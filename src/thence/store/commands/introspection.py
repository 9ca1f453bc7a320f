"""COMMAND: what commands there are, for clients that look it up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from thence.store.commands.base import Command, Database, Table, command
from thence.store.commands.glob import matcher
from thence.store.commands.help import help_of
from thence.store.errors import SYNTAX, CommandError
from thence.store.replies import Members, Reply, Simple
from thence.store.session import Session

_GROUP_CATEGORIES: Final = {"sorted-set": "sortedset", "transactions": "transaction"}
_NO_CATEGORY: Final = frozenset({"server"})
_NO_GROUP: Final = frozenset({"admin", "readonly", "write", "fast"})
_BAD_COMMAND: Final = "ERR Invalid command specified"
_NO_KEYS: Final = "ERR The command has no key arguments"
_BAD_COUNT: Final = "ERR Invalid number of arguments specified for command"
_BAD_ARGUMENTS: Final = "ERR Invalid arguments specified for command"


def categories(each: Command) -> list[str]:
    """Of access control lists, which some clients look at."""
    flags = each.flags
    found = []
    if each.write:
        found.append("write")
    if "readonly" in flags:
        found.append("read")
    if "admin" in flags:
        found += ["admin", "dangerous"]
    if each.group == "generic":
        found.append("keyspace")
    elif each.group not in _NO_CATEGORY:
        found.append(_GROUP_CATEGORIES.get(each.group, each.group))
    found.append("fast" if "fast" in flags else "slow")
    return found


def table(commands: Mapping[str, Command]) -> Table:
    """The commands about commands.  ``commands`` may be filled later."""

    def containers() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in commands:
            container, bar, _ = name.partition("|")
            if bar:
                found.setdefault(container, []).append(name)
        return found

    def described(name: str) -> Reply:
        """As COMMAND INFO shows it; None: there is none."""
        each = commands.get(name)
        inner = containers().get(name, [])
        if each is None:
            if not inner:
                return None
            return [name.lower(), -2, Members([]), 0, 0, 0, Members([Simple(b"@slow")]), [], []] + [
                [described(sub) for sub in inner]
            ]
        return [
            name.lower(),
            each.arity,
            Members([Simple(flag.encode()) for flag in sorted(each.flags)]),
            *each.keys,
            Members([Simple(b"@" + word.encode()) for word in categories(each)]),
            [],
            [],
            [described(sub) for sub in inner],
        ]

    def names() -> list[str]:
        """Without subcommands."""
        return list(dict.fromkeys([name.partition("|")[0] for name in commands]))

    def all_(db: Database, session: Session, args: list[bytes]) -> Reply:
        return [described(name) for name in names()]

    def count(db: Database, session: Session, args: list[bytes]) -> Reply:
        return len(names())

    def info(db: Database, session: Session, args: list[bytes]) -> Reply:
        wanted = [_name(arg) for arg in args[1:]] or names()
        return [described(name) for name in wanted]

    def documented(name: str) -> dict[str, Any]:
        each = commands.get(name)
        found: dict[str, Any] = {
            "summary": each.summary if each is not None else "A container of commands.",
            "since": "7.0.0",
            "group": each.group if each is not None else "server",
            "complexity": "",
        }
        inner = containers().get(name, [])
        if inner:
            found["subcommands"] = {sub.lower(): documented(sub) for sub in inner}
        elif each is not None and (each.arguments_min or each.arity < 0):
            found["arguments"] = _arguments(each)
        return found

    def docs(db: Database, session: Session, args: list[bytes]) -> Reply:
        wanted = [_name(arg) for arg in args[1:]] or names()
        every = containers()
        return {
            name.lower(): documented(name) for name in wanted if name in commands or name in every
        }

    def list_(db: Database, session: Session, args: list[bytes]) -> Reply:
        found = [name.lower() for name in dict.fromkeys([*names(), *commands])]
        if len(args) == 1:
            return list(found)
        if len(args) != 4 or args[1].upper() != b"FILTERBY":
            raise CommandError(SYNTAX)
        kind = args[2].upper()
        if kind == b"PATTERN":
            matches = matcher(args[3].lower())
            return [name for name in found if matches(name.encode())]
        if kind == b"ACLCAT":
            wanted = args[3].lower().decode("ascii", "replace")
            known = [name for name in found if name.upper() in commands]
            return [name for name in known if wanted in categories(commands[name.upper()])]
        if kind == b"MODULE":
            return []
        raise CommandError(SYNTAX)

    def get_keys(db: Database, session: Session, args: list[bytes]) -> Reply:
        name = _name(args[1])
        each = commands.get(name)
        given = args[2:]
        if each is None:
            each = commands.get(f"{name}|{_name(args[2])}")
        if each is None:
            raise CommandError(_BAD_COMMAND)
        if not each.keys[0] and each.keys_of is None:
            raise CommandError(_NO_KEYS)
        if not each.arguments_min <= len(given) <= each.arguments_max:
            raise CommandError(_BAD_COUNT)
        found = each.keys_in(given)
        if not found:
            raise CommandError(_BAD_ARGUMENTS)
        return list(found)

    return tuple(
        command(name, function, arity, "loading stale", group="server", summary=summary)
        for name, function, arity, summary in (
            ("COMMAND", all_, -1, "All commands, in detail."),
            ("COMMAND|COUNT", count, 2, "How many commands there are."),
            ("COMMAND|INFO", info, -2, "Commands in detail."),
            ("COMMAND|DOCS", docs, -2, "What commands are for."),
            ("COMMAND|LIST", list_, -2, "The names of commands."),
            ("COMMAND|GETKEYS", get_keys, -4, "The keys in a call of a command."),
        )
    ) + (_HELP,)


def _name(argument: bytes) -> str:
    return argument.decode("utf-8", "surrogateescape").upper()


def _arguments(each: Command) -> list[dict[str, Any]]:
    """As far as the table knows them: the key, and how many more there are."""
    found: list[dict[str, Any]] = []
    if each.keys[0]:
        found.append({"name": "key", "type": "key", "key_spec_index": 0})
    for number in range(len(found) + 1, each.arguments_min + 1):
        found.append({"name": f"argument{number}", "type": "string"})
    if each.arity < 0:
        flags = [Simple(b"optional"), Simple(b"multiple")]
        found.append({"name": "more", "type": "string", "flags": Members(list(flags))})
    return found


_HELP: Final = help_of(
    "COMMAND",
    "server",
    "(no subcommand)",
    "    All commands, in detail.",
    "COUNT",
    "    How many commands there are.",
    "DOCS [<command-name> ...]",
    "    What commands are for.",
    "GETKEYS <full-command>",
    "    The keys in a call of a command.",
    "INFO [<command-name> ...]",
    "    Commands in detail.",
    "LIST [FILTERBY (MODULE <name> | ACLCAT <category> | PATTERN <pattern>)]",
    "    The names of commands.",
)
