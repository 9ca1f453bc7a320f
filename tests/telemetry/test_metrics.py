"""The table of metrics and what Prometheus reads of it.

When docs/reference/telemetry.md is behind, run

    THENCE_UPDATE_SNAPSHOT=1 .venv/bin/python -m pytest tests/telemetry/test_metrics.py
"""

from __future__ import annotations

import os
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tests.telemetry.numbers import example_snapshot
from tests.tracked import ROOT
from thence.telemetry.metrics import METRICS_TABLE, REASONS_MAX, Exposition, metrics_table
from thence.telemetry.snapshot import (
    LAG_BOUNDS_S,
    GroupNumbers,
    Lag,
    LagCounter,
    PeerNumbers,
    Snapshot,
)

PAGE = ROOT / "docs" / "reference" / "telemetry.md"
UPDATE = os.environ.get("THENCE_UPDATE_SNAPSHOT") == "1"
TABLE = re.compile(r"^\| metric \| kind .*?\n(?=\n|\Z)", re.MULTILINE | re.DOTALL)

Samples = dict[tuple[str, tuple[str, ...]], float]


def scraped(snapshot: Snapshot) -> Samples:
    """Value by name and values of labels, read by the reference parser."""
    families = text_string_to_metric_families(Exposition(lambda: snapshot).render().decode())
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("thence_")
    }


def test_the_documentation_holds_exactly_this_table():
    page = PAGE.read_text(encoding="utf-8")
    if UPDATE:
        page = TABLE.sub(lambda _: metrics_table(), page)
        PAGE.write_text(page, encoding="utf-8")
    assert TABLE.findall(page) == [metrics_table()], "see the top of this file"


def test_names_are_as_prometheus_wants_them():
    names = [metric.name for metric in METRICS_TABLE]
    assert len(set(names)) == len(names)
    for metric in METRICS_TABLE:
        assert re.fullmatch(r"thence_[a-z]+(_[a-z]+)*", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.help.endswith(".")


def test_every_metric_has_the_labels_of_its_line():
    snapshot = example_snapshot()
    for metric in METRICS_TABLE:
        samples = list(metric.read(snapshot))
        assert samples, metric.name
        assert all(len(labels) == len(metric.labels) for labels, _ in samples)


def test_every_number_arrives_under_its_name():
    found = scraped(example_snapshot())
    expected: Samples = {
        ("thence_node_info", ("a", "1.2.3")): 1,
        ("thence_uptime_seconds", ()): 3725.5,
        ("thence_messages_sent_total", ("main",)): 101,
        ("thence_messages_sent_total", ("side",)): 201,
        ("thence_delivered_total", ("main",)): 102,
        ("thence_stable_total", ("main",)): 103,
        ("thence_pending_messages", ("main",)): 104,
        ("thence_blocked_on", ("main", "b")): 44,
        ("thence_blocked_on", ("main", "c")): 60,
        ("thence_unstable_messages", ("main",)): 105,
        ("thence_outbox_messages", ("main",)): 106,
        ("thence_outbox_bytes", ("main",)): 10_700,
        ("thence_events_waiting", ("main",)): 108,
        ("thence_journal_bytes", ("main",)): 10_900,
        ("thence_queue_limit", ("main", "outbox_messages")): 65_536,
        ("thence_queue_limit", ("main", "events_waiting")): 200,
        ("thence_view", ("main",)): 501,
        ("thence_members", ("main",)): 4,
        ("thence_suspects", ("main",)): 2,
        ("thence_member_silence_seconds", ("main", "c#2")): 6.5,
        ("thence_minority", ("main",)): 1,
        ("thence_out", ("main",)): 0,
        ("thence_view_changes_total", ("main",)): 502,
        ("thence_handovers_total", ("main",)): 503,
        ("thence_newcomers", ("main",)): 504,
        ("thence_kept_bytes", ("main",)): 505,
        ("thence_shelved_bytes", ("main",)): 506,
        ("thence_connected", ("b",)): 1,
        ("thence_connected", ("c",)): 0,
        ("thence_bytes_sent_total", ("b",)): 301_000,
        ("thence_bytes_received_total", ("b",)): 302_000,
        ("thence_backlog_bytes", ("b",)): 303,
        ("thence_retransmissions_total", ("b",)): 304,
        ("thence_reconnects_total", ("b",)): 305,
        ("thence_credit", ("b",)): 306,
        ("thence_credit_bytes", ("b",)): 307_000,
        ("thence_rtt_seconds", ("b",)): 0.0125,
        ("thence_rejected_total", ("bad-seq",)): 402,
        ("thence_rejected_total", ("duplicate",)): 401,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert ("thence_rtt_seconds", ("c",)) not in found  # never measured
    assert ("thence_view", ("side",)) not in found  # its members do not change
    assert ("thence_member_silence_seconds", ("main", "a")) not in found  # this node itself


def test_the_histogram_is_cumulative():
    found = scraped(example_snapshot())
    lag = {
        labels[-1]: value
        for (name, labels), value in found.items()
        if name == "thence_stability_lag_seconds_bucket" and labels[0] == "main"
    }
    assert (lag["0.001"], lag["0.0025"], lag["0.005"], lag["0.25"], lag["10.0"]) == (2, 2, 3, 4, 4)
    assert lag["+Inf"] == found["thence_stability_lag_seconds_count", ("main",)] == 5
    assert found["thence_stability_lag_seconds_sum", ("main",)] == pytest.approx(99.2054)


@given(st.lists(st.floats(0, 20), max_size=30), st.floats(0.01, 1))
def test_quantiles_are_the_bounds_of_buckets(lags: list[float], share: float):
    counter = LagCounter()
    for lag_s in lags:
        counter.observe(lag_s)
    found = counter.lag().quantile_s(share)
    assert counter.lag().count == len(lags)
    if not lags:
        assert found is None
        return
    within = sum(lag_s <= found for lag_s in lags)
    assert within >= share * len(lags)
    below = [bound for bound in LAG_BOUNDS_S if bound < found]
    assert not below or sum(lag_s <= below[-1] for lag_s in lags) < share * len(lags)


def test_half_of_two_is_the_first():
    counter = LagCounter()
    for lag_s in (0.001, 5.0):
        counter.observe(lag_s)
    lag = counter.lag()
    assert [lag.quantile_s(share) for share in (0.1, 0.5, 0.51, 1.0)] == [0.001, 0.001, 5.0, 5.0]


def test_no_number_of_reasons_makes_the_page_grow():
    rejected = {f"reason-{n:05}": 1 for n in range(10_000)}
    found = scraped(Snapshot(node="a", rejected=rejected))
    reasons = [labels[0] for name, labels in found if name == "thence_rejected_total"]
    assert len(reasons) == REASONS_MAX + 1
    assert found["thence_rejected_total", ("other",)] == 10_000 - REASONS_MAX


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_name_can_be_a_label(group: str, peer: str):
    snapshot = Snapshot(
        node="a",
        groups=(GroupNumbers(name=group, sent=7),),
        peers=(PeerNumbers(name=peer, connected=True),),
    )
    text = Exposition(lambda: snapshot).render().decode()
    (sample,) = (line for line in text.split("\n") if line.startswith("thence_connected{"))
    assert sample.endswith("} 1.0")


def test_the_process_itself_is_measured():
    assert b"process_resident_memory_bytes" in Exposition(example_snapshot).render()


def test_values_are_pulled_at_each_scrape():
    uptimes = iter([1.0, 2.0])
    exposition = Exposition(lambda: Snapshot(node="a", uptime_s=next(uptimes)))
    assert b"thence_uptime_seconds 1.0" in exposition.render()
    assert b"thence_uptime_seconds 2.0" in exposition.render()


def test_snapshots_travel_as_json():
    snapshot = example_snapshot()
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot) == snapshot
    assert msgspec.json.decode(b'{"node": "a", "new": 1}', type=Snapshot) == Snapshot(node="a")
    assert Lag().quantile_s(0.5) is None
