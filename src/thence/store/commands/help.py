"""HELP of commands that have subcommands."""

from __future__ import annotations

from thence.store.commands.base import Command, Database, command
from thence.store.replies import Reply, Simple
from thence.store.session import Session


def help_of(name: str, group: str, *lines: str) -> Command:
    """``NAME HELP``, with what Redis writes before and after the lines."""
    texts = [
        f"{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        *lines,
        "HELP",
        "    Print this help.",
    ]
    reply: Reply = [Simple(text.encode()) for text in texts]

    def show(db: Database, session: Session, args: list[bytes]) -> Reply:
        return reply

    flags = "loading stale"
    return command(f"{name}|HELP", show, 2, flags, group=group, summary="What there is.")
