"""``thence engines``."""

from __future__ import annotations

import json

import pytest

from thence.cli.main import main
from thence.engine.registry import ENGINES


def test_one_line_per_engine(capsys: pytest.CaptureFixture[str]):
    assert main(["engines"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == [
        "name",
        "guarantee",
        "reach",
        "tags",
        "stability",
        "phantoms",
        "k_stability",
        "streams",
        "own",
        "survives",
        "summary",
    ]
    assert [line.split()[0] for line in lines] == list(ENGINES)
    for line, spec in zip(lines, ENGINES.values(), strict=True):
        assert line.endswith(spec.summary)


def test_json_holds_the_same_facts(capsys: pytest.CaptureFixture[str]):
    assert main(["engines", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(ENGINES)
    for row in rows:
        spec = ENGINES[row["name"]]
        assert row == {name: getattr(spec, name) for name in row} | {"reach": list(spec.reach)}
