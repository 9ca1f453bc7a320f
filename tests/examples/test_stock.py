"""The stock-trading anomaly (thesis 3.4.1): order does not prevent it, tags tell it."""

from __future__ import annotations

import pytest
from stock import NAMES, script, without_tags

from tests.examples.ways import each_way, ways

PRICES = ["option 25.50", "theoretical 26.75", "option 26.00", "option 26.50"]


@each_way
def test_the_tag_of_a_stale_price_tells(way: str):
    shown = ways[way](script, NAMES, "tagged")
    late = "theoretical 26.25 is stale: pricing:2 and option:3 are concurrent"
    assert shown == [*PRICES, late]


@each_way
@pytest.mark.parametrize("engine", ["tagged", "cbcast"])
def test_causal_order_alone_shows_a_stale_price_as_current(way: str, engine: str):
    assert ways[way](without_tags, NAMES, engine) == [*PRICES, "theoretical 26.25"]
