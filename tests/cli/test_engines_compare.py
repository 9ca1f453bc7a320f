"""``thence engines compare``."""

from __future__ import annotations

import msgspec
import pytest

from thence.cli.main import main
from thence.engine.registry import ENGINES


def test_a_line_for_each_engine_and_size(capsys: pytest.CaptureFixture[str]):
    assert main(["engines", "compare", "--nodes", "2,3", "--messages", "2"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["engine", "guarantee", "nodes", "messages", "bytes", "delay", "ms"]
    assert [tuple(line.split())[::2][:2] for line in lines] == [
        (name, str(size)) for size in (2, 3) for name in ENGINES
    ]


def test_some_engines_as_json(capsys: pytest.CaptureFixture[str]):
    words = ["engines", "compare", "--only", "fifo, vector", "--nodes", "3", "--json"]
    assert main(words) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    assert [each["engine"] for each in found] == ["fifo", "vector"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--nodes", "4,x"], "nodes '4,x': expected sizes from 2 to 1024"),
        (["--nodes", "1"], "expected sizes"),
        (["--only", "nothing"], "no engine 'nothing'; there are tagged"),
        (["--interval-ms", "-1"], "interval"),
    ],
)
def test_what_cannot_be_is_said(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["engines", "compare", *words]) == 2
    assert sentence in capsys.readouterr().err
