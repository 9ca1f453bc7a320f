"""The table of all commands in the documentation is what the server has, and has all of Redis."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.store.commands.redis_server import needs_redis, redis_server
from tests.tracked import ROOT
from thence.store.commands.refused import REFUSED
from thence.store.commands.registry import COMMANDS

PAGE = ROOT / "docs" / "reference" / "store_commands.md"
OWN = ("CAUSAL.", "CRDT.")


def rows(section: str) -> list[tuple[list[str], list[str]]]:
    """Names and the other cells of each row of a section's table."""
    text = PAGE.read_text(encoding="utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    found = []
    for line in text.splitlines():
        if line.startswith("| `"):
            first, *others = re.split(r"(?<!\\)\|", line.strip("|"))
            names = [name.replace(" ", "|") for name in re.findall(r"`([^`]+)`", first)]
            found.append((names, [cell.strip() for cell in others]))
    return found


def supported() -> dict[str, tuple[str, str]]:
    page = PAGE.read_text(encoding="utf-8")
    sections = list(re.findall(r"^## (.+)$", page, re.MULTILINE))
    found: dict[str, tuple[str, str]] = {}
    for section in sections:
        if section not in ("Not of Redis", "Refused"):
            for names, (status, text) in rows(section):
                for name in names:
                    assert name not in found, f"{name} is there twice"
                    found[name] = (status, text)
    return found


def test_the_page_has_the_commands_that_there_are():
    assert set(supported()) == {name for name in COMMANDS if not name.startswith(OWN)}


def test_each_row_says_whether_it_is_as_in_redis_and_if_not_how_it_differs():
    for name, (status, text) in supported().items():
        assert status in ("as Redis", "differs"), name
        assert text or status == "as Redis", name


def test_the_page_has_what_redis_does_not_have():
    listed = {names[0].partition("|")[0] for names, _ in rows("Not of Redis")}
    assert listed == {name for name in COMMANDS if name.startswith(OWN)}


def test_the_page_has_what_is_refused_with_its_reason():
    listed = {name: cells[0] for names, cells in rows("Refused") for name in names}
    assert listed == REFUSED


@needs_redis
def test_the_page_has_every_command_of_redis(tmp_path: Path):
    with redis_server(tmp_path) as client:
        names = {name.decode().upper() for name in client.run(b"COMMAND", b"LIST")}
    known = {*supported(), *REFUSED}
    containers = {name.partition("|")[0] for name in known if "|" in name}
    missing = {
        name
        for name in names
        if name not in known and name not in containers and name.partition("|")[0] not in REFUSED
    }
    assert not missing
    assert len(names) > 300


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_nothing_is_both_there_and_refused(name: str):
    assert name not in COMMANDS
