"""Verdicts follow the tables: each law that is turned round turns its verdicts round."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.report.made_tables import INTERVALS, SIZES, Row, make_lab, usual
from thence.report.claims import CLAIMS, WORDS
from thence.report.claims.base import IN_PART, NOT_MEASURED, NOT_REPRODUCED, REPRODUCED
from thence.report.data import Tables, read_lab
from thence.report.evidence import Evidence
from thence.report.figures import PANELS
from thence.report.lab_page import summary_of
from thence.report.thesis import PUBLISHED


def evidence(folder: Path, **given: object) -> Evidence:
    lab = make_lab(folder, **given)  # type: ignore[arg-type]
    return Evidence(Tables(lab / "metrics"), read_lab(lab).variants)


def status(name: str, found: Evidence) -> str:
    return CLAIMS[name].verdict(found).status


def changed(series: str, change: Callable[[Row, float], float]) -> Callable[[Row], float | None]:
    """The usual laws, but for one series."""

    def law(row: Row) -> float | None:
        value = usual(row)
        return value if value is None or row["series"] != series else change(row, value)

    return law


def test_every_claim_names_a_panel_a_section_and_says_it_in_words():
    for claim in CLAIMS.values():
        assert claim.panel in PANELS
        assert re.fullmatch(r"8\.4\.[1-6]", claim.section)
        assert claim.says.endswith(".")
        assert not (claim.is_shape and claim.kind == "latency")


def test_every_number_that_the_thesis_states_has_a_claim_about_its_panel():
    assert {each.panel for each in PUBLISHED} <= {claim.panel for claim in CLAIMS.values()}
    thesis = {name for name, panel in PANELS.items() if panel.is_thesis}
    assert {claim.panel for claim in CLAIMS.values()} == thesis


def test_shapes_that_are_in_the_tables_are_reproduced(tmp_path: Path):
    found = evidence(tmp_path)
    wrong = {name: status(name, found) for name, claim in CLAIMS.items() if claim.is_shape}
    assert {name for name, each in wrong.items() if each != REPRODUCED} <= {"stable-memory-growth"}


@pytest.mark.parametrize("name", ["entries-classic", "entries-vector", "entries-constant-work"])
def test_contexts_as_long_as_vectors_are_not_reproduced(tmp_path: Path, name: str):
    law = changed("entries", lambda row, _: float(row["group_size"]))
    assert status(name, evidence(tmp_path, law=law)) == NOT_REPRODUCED


def test_contexts_of_80_against_128_are_just_reproduced_and_81_are_not(tmp_path: Path):
    for dots, expected in ((80.0, REPRODUCED), (81.0, NOT_REPRODUCED)):
        law = changed(
            "entries", lambda row, value, n=dots: n if row["variant"] == "graph" else value
        )
        found = evidence(tmp_path / f"{dots}", law=law, sizes=(128,))
        assert status("entries-vector", found) == expected


def test_a_claim_that_holds_at_some_intervals_is_reproduced_in_part_and_says_where(tmp_path: Path):
    def law(row: Row) -> float | None:
        if row["series"] == "words" and row["variant"] == "graph" and row["interval_ms"] == 10.0:
            return 1e9
        return usual(row)

    found = evidence(tmp_path, law=law)
    verdict = CLAIMS["stable-memory-vector"].verdict(found)
    assert verdict.status == IN_PART
    assert [part.holds for part in verdict.parts] == [False, True, True]
    assert "every 100 ms and every 1000 ms, not every 10 ms" in verdict.reason


def test_without_128_nodes_it_is_not_measured_and_the_largest_group_is_told(tmp_path: Path):
    found = evidence(tmp_path, sizes=SIZES[:3])
    for name, claim in CLAIMS.items():
        if name != "delivery-in-order":
            verdict = claim.verdict(found)
            assert verdict.status == NOT_MEASURED, name
            assert "No run of" in verdict.reason
    reason = CLAIMS["entries-vector"].verdict(found).reason
    assert "With 16 nodes, the largest group, it holds (" in reason


def test_without_an_engine_it_is_not_measured_and_the_engine_is_named(tmp_path: Path):
    found = evidence(tmp_path, keep=lambda run: run["variant"] != "vector", sizes=(4, 128))
    verdict = CLAIMS["memory-vector"].verdict(found)
    assert verdict.status == NOT_MEASURED
    assert verdict.reason == "Nothing was measured of vector for figure 30b."


def test_the_reason_of_a_table_is_passed_on(tmp_path: Path):
    def law(row: Row) -> float | None:
        return None if row["series"] == "told_work" else usual(row)

    verdict = CLAIMS["stability-latency-33a"].verdict(evidence(tmp_path, law=law, sizes=(128,)))
    assert verdict.status == NOT_MEASURED
    assert "nothing to observe" in verdict.reason


def test_a_latency_claim_that_fails_tells_the_cpu_time_of_the_engines(tmp_path: Path):
    verdict = CLAIMS["slow-link-graph-sooner-36a"].verdict(evidence(tmp_path))
    assert verdict.status == NOT_REPRODUCED
    assert "CPU time per delivery among 128 nodes, at most: graph 394 µs" in verdict.reason
    assert len(verdict.parts) == len(INTERVALS)


def test_latency_claims_turn_round_with_the_costs(tmp_path: Path):
    def law(row: Row) -> float | None:
        value = usual(row)
        if value is None or not row["series"].endswith("_work"):
            return value
        return {"graph": 2_500.0, "vector": 11_000.0, "cbcast-e2e": 11_000.0}.get(
            row["variant"], value
        )

    found = evidence(tmp_path, law=law)
    for name in ("slow-link-graph-sooner-36a", "stability-latency-33a",
                 "stability-latency-33a-values", "slow-link-values-36a"):  # fmt: skip
        assert status(name, found) == REPRODUCED
    for name in ("delivery-vector-sooner-34a", "slow-link-graph-sooner-36b"):
        assert status(name, found) == NOT_REPRODUCED


def test_real_runs_are_judged_by_the_plain_series(tmp_path: Path):
    folder = make_lab(tmp_path, sizes=(128,))
    lab = read_lab(folder)
    assert Evidence(Tables(folder / "metrics"), lab.variants).panel("34a").series == "waited_work"
    real = make_lab(
        tmp_path / "real", sizes=(128,), keep=lambda run: bool(run.update(scenario="{}")) or True
    )
    assert Evidence(Tables(real / "metrics"), lab.variants).panel("34a").series == "waited"


def test_two_zeros_are_no_evidence_of_being_smaller(tmp_path: Path):
    found = evidence(tmp_path, law=changed("words", lambda *_: 0.0), sizes=(128,))
    assert status("memory-vector", found) == NOT_REPRODUCED
    assert status("memory-constant-work", found) == NOT_REPRODUCED


def test_growth_is_compared_from_the_smallest_group_to_the_largest(tmp_path: Path):
    def law(row: Row) -> float | None:
        if row["series"] == "words":
            power = 1.0 if row["variant"] == "graph" else 2.0
            return float(row["group_size"] ** power)
        return usual(row)

    verdict = CLAIMS["stable-memory-growth"].verdict(evidence(tmp_path, law=law))
    assert verdict.status == REPRODUCED
    assert verdict.parts[0].numbers == (32.0, 1024.0)


def test_few_observations_are_told(tmp_path: Path):
    folder = make_lab(tmp_path, sizes=(128,), count=3)
    found = Evidence(Tables(folder / "metrics"), read_lab(folder).variants)
    assert "fewer than 20 observations" in CLAIMS["entries-vector"].verdict(found).parts[0].text


def test_smaller_groups_are_told_of_comparisons_and_say_nothing_to_values(tmp_path: Path):
    found = evidence(tmp_path, sizes=(4, 16))
    shape = CLAIMS["memory-vector"].verdict(found)
    assert shape.status == NOT_MEASURED
    assert shape.smaller
    assert "With 16 nodes, the largest group, it holds (" in shape.reason
    assert shape.tendency == "It holds in the largest group of these runs."
    both = CLAIMS["memory-stability-costs"].verdict(found)
    assert both.reason.startswith("No run of graph with 128 nodes.")
    value = CLAIMS["memory-vector-size"].verdict(found)
    assert not value.tendency
    assert not value.smaller
    assert "the largest group: every 10 ms: vector 256 B" in value.reason
    summary = summary_of({name: claim.verdict(found) for name, claim in CLAIMS.items()})
    assert "3 not measured. In the largest groups of these runs all of those" in summary[0]
    order = CLAIMS["delivery-in-order"].verdict(found)
    assert order.status == NOT_MEASURED
    assert "With up to 16: 100.0% had to wait at most" in order.reason


def test_a_graph_that_is_sooner_than_at_most_50_ms_is_no_contradiction(tmp_path: Path):
    for ms, expected in ((1.0, REPRODUCED), (200.0, NOT_REPRODUCED)):
        law = changed(
            "slow_waited_work",
            lambda row, _, ms=ms: 1.7e6 if row["variant"] == "vector" else ms * 1000,
        )
        found = evidence(tmp_path / f"{ms}", law=law, sizes=(128,))
        assert status("slow-link-values-36b", found) == expected


def test_less_but_not_by_as_much_as_is_claimed_is_not_called_the_opposite(tmp_path: Path):
    law = changed(
        "words", lambda row, value: value and (100.0 if row["variant"] == "graph" else 160.0)
    )
    verdict = CLAIMS["stable-memory-vector"].verdict(evidence(tmp_path, law=law, sizes=(4, 16)))
    assert "With 16 nodes, the largest group, it does not hold (" in verdict.reason
    assert "graph 800 B, vector 1.28 kB (1.6 times; it takes 4)" in verdict.reason


def test_words_without_a_number_are_among_those_that_the_page_explains():
    for claim in CLAIMS.values():
        for word in ("negligible", "significantly", "half", "close", "around", "in the order of"):
            if word in claim.says and "factor of" not in claim.says:
                assert any(word in each for each in WORDS), claim.name
