"""The friends' conversation (thesis 3.2): wrong under fifo, right under every causal engine."""

from __future__ import annotations

import pytest
from chat import GLAD, NAMES, NO, SORRY, YES, query, script

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


@each_way
def test_an_answer_to_some_overtakes_its_question_under_fifo_only(way: str):
    asked, answered = ("ross", "Where?"), ("rachel", "Central Perk")
    assert ways[way](query, NAMES, "fifo") == [answered, asked]
    assert ways[way](query, NAMES, "tagged") == [asked, answered]
