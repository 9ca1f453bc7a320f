"""``thence crdts``."""

from __future__ import annotations

import json

import pytest

from thence.cli.crdts import SAID
from thence.cli.main import main
from thence.crdt.children import UNREMOVABLE
from thence.crdt.registry import CRDTS


def test_something_is_said_of_every_data_type():
    assert list(SAID) == list(CRDTS)


def test_one_line_per_data_type(capsys: pytest.CaptureFixture[str]):
    assert main(["crdts"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "code", "in_maps", "operations", "wins", "summary"]
    assert [line.split()[0] for line in lines] == list(CRDTS)
    for line, kind in zip(lines, CRDTS.values(), strict=True):
        assert line.split()[1] == str(kind.CODE)
        assert line.endswith(SAID[kind.NAME].summary)


def test_json_holds_the_same_facts(capsys: pytest.CaptureFixture[str]):
    assert main(["crdts", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(CRDTS)
    for row in rows:
        kind = CRDTS[row["name"]]
        assert row == {
            "name": kind.NAME,
            "code": kind.CODE,
            "in_maps": kind.NAME not in UNREMOVABLE,
            "operations": list(kind.OPS),
            "wins": SAID[kind.NAME].wins,
            "summary": SAID[kind.NAME].summary,
        }
