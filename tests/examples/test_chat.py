"""The friends' conversation (thesis 3.2): wrong under fifo, right under every causal engine."""

from __future__ import annotations

import pytest
from chat import GLAD, NAMES, NO, SORRY, YES, script

from tests.examples.ways import each_way, ways


@each_way
def test_under_fifo_joey_reads_answers_before_what_they_answer(way: str):
    seen = ways[way](script, NAMES, "fifo")
    assert seen == [("ross", NO), ("phoebe", GLAD), ("ross", YES), ("rachel", SORRY)]


@each_way
@pytest.mark.parametrize("engine", ["tagged", "vector", "graph", "cbcast"])
def test_under_causal_order_joey_reads_what_was_said(way: str, engine: str):
    seen = ways[way](script, NAMES, engine)
    assert seen == [("ross", NO), ("rachel", SORRY), ("ross", YES), ("phoebe", GLAD)]
