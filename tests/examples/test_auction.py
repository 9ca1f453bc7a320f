"""The auction (thesis 3.1): by tags all agree which bids count, by order of arrival they do not."""

from __future__ import annotations

from auction import NAMES, by_arrival, script

from tests.examples.ways import each_way, ways


@each_way
def test_all_agree_on_who_won_and_why_others_did_not(way: str):
    bidders = ways[way](script, NAMES, "tagged")
    for bidder in bidders:
        assert bidder.sold == ("cat", 130)
        assert bidder.why == {
            ("bob", 120): "outbid: it crossed 130",
            ("bob", 125): "refused: its bidder had seen 130",
            ("ann", 150): "too late: it crossed the hammer",
        }


@each_way
def test_by_order_of_arrival_the_auctioneer_is_contradicted(way: str):
    bidders = ways[way](by_arrival, NAMES, "tagged")
    assert [bidder.sold for bidder in bidders] == [("ann", 150)] * 3 + [("cat", 130)]
