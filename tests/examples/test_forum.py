"""Topics as groups (thesis 3.8): a topic waits for its own posts, not for those of others."""

from __future__ import annotations

import pytest
from forum import ANSWER, NAMES, OTHER, QUESTION, in_one_group, script

from tests.examples.ways import each_way, ways


@each_way
@pytest.mark.parametrize("engine", ["tagged", "cbcast"])
def test_a_topic_does_not_wait_for_another(way: str, engine: str):
    early, late = ways[way](script, NAMES, engine)
    assert early == [OTHER]
    assert late == [QUESTION, ANSWER]


@each_way
def test_in_one_group_everything_waits(way: str):
    early, late = ways[way](in_one_group, NAMES, "tagged")
    assert early == []
    assert late == [QUESTION, ANSWER, OTHER]


@each_way
def test_under_fifo_the_answer_comes_before_the_question(way: str):
    early, late = ways[way](script, NAMES, "fifo")
    assert sorted(early) == [OTHER, ANSWER]
    assert late == [QUESTION]
