"""Figures: the tables of them, their points, and pictures that are the same each time."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.report.made_tables import SIZES, VARIANTS, Row, make_lab, usual
from thence.report import claims, figures, run_figures
from thence.report.claims import CLAIMS
from thence.report.data import Tables, Variant, read_lab
from thence.report.drawing import GRID, INK, looks
from thence.report.evidence import Evidence
from thence.report.figures import FIGURES, PANELS
from thence.report.figures.draw import draw_panel
from thence.report.figures.other import other_figures
from thence.report.run_figures import RUN_FIGURES
from thence.report.thesis import PUBLISHED, published

HELP = {"base", "draw", "other"}


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    lab = make_lab(tmp_path_factory.mktemp("lab"))
    return Evidence(Tables(lab / "metrics"), read_lab(lab).variants)


@pytest.mark.parametrize(("package", "table"), [(figures, FIGURES), (run_figures, RUN_FIGURES)])
def test_folder_and_table_agree(package: object, table: dict[str, object]):
    folder = Path(package.__file__).parent  # type: ignore[attr-defined]
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"} - HELP
    assert modules == set(table)


def test_all_panels_of_figures_28_to_37_are_there():
    thesis = {name for name, panel in PANELS.items() if panel.is_thesis}
    assert thesis == {f"{number}{half}" for number in range(28, 38) for half in "ab"}
    assert {each.panel for each in PUBLISHED} <= thesis


def test_every_module_of_claims_is_in_their_table():
    names = {path.stem for path in Path(claims.__file__).parent.glob("*.py")}
    found = []
    for name in names - {"__init__", "base", "reasons"}:
        found += import_module(f"thence.report.claims.{name}").CLAIMS
    assert {claim.name for claim in found} == set(CLAIMS)
    assert len(found) == len(CLAIMS)


def test_figure_28_has_the_classic_of_experiment_1_and_the_others_of_experiment_2(
    evidence: Evidence,
):
    drawn = evidence.panel("28a")
    found = {name: {each.experiment for each in points.values()}
             for name, points in drawn.points.items() if points}  # fmt: skip
    assert found.pop("cbcast-e2e") == {"exp1"}
    assert set(found) == {"tagged-at-once", "tagged", "graph", "tagged-compiled"}
    assert set.union(*found.values()) == {"exp2"}


def test_memory_is_in_bytes_and_spread_is_the_middle_half(evidence: Evidence):
    point = evidence.panel("32a").points["vector"][128, 10.0]
    words = 2 * 128 + 4 * 128 * 128
    assert (point.p25, point.p50, point.p75) == pytest.approx(
        (words * 8 * 0.8, words * 8, words * 8 * 1.3)
    )


def test_intervals_divide_a_panel_only_where_a_size_has_several(evidence: Evidence):
    assert evidence.panel("30a").intervals() == [10.0, 100.0, 1000.0]
    assert evidence.panel("31a").intervals() == []


@pytest.mark.parametrize("name", ["28b", "31a", "36b"])
def test_a_picture_is_the_same_each_time_and_well_formed(
    name: str, evidence: Evidence, tmp_path: Path
):
    texts = []
    for each in ("one", "two"):
        (tmp_path / each).mkdir()
        look = looks(evidence.variants)
        picture = draw_panel(evidence.panel(name), look, published(name), tmp_path / each)
        texts.append(picture.svg)
    one, two = (sorted((tmp_path / each).iterdir()) for each in ("one", "two"))
    assert [path.name for path in one] == [f"{name}.png", f"{name}.svg"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    assert texts[0] == texts[1]
    svg = (tmp_path / "one" / f"{name}.svg").read_text()
    ElementTree.fromstring(svg)
    assert "<dc:date>" not in svg
    shown = set(re.findall(r">([^<>]+)</text>", svg))
    sizes = {f"{size}" for size in SIZES}
    assert sizes <= {text.strip() for text in shown}


def test_a_picture_in_a_page_follows_its_colours_and_keeps_its_ids(
    evidence: Evidence, tmp_path: Path
):
    svg = draw_panel(evidence.panel("31a"), looks(evidence.variants), [], tmp_path).svg
    assert INK not in svg
    assert GRID not in svg
    assert "://" not in svg
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert ids
    assert all(each.startswith("31a-") for each in ids)
    used = re.findall(r'(?:href="#|url\(#)([^")]+)', svg)
    assert set(used) <= set(ids)
    assert svg.startswith('<svg role="img" aria-label="What travels with a message')


def test_every_variant_differs_from_the_others_in_marker_and_colour():
    variants = tuple(Variant(**each) for each in VARIANTS)
    found = looks(variants)
    assert len({look.colour for look in found.values()}) == len(VARIANTS)
    assert len({(look.marker, look.is_hollow, look.line) for look in found.values()}) == len(
        VARIANTS
    )


def test_names_are_drawn_as_they_are(tmp_path: Path):
    variants = [dict(each) for each in VARIANTS]
    for each in variants:
        each["name"] = each["name"].replace("graph", r"$\graph{<b>")

    def rename(run: Row) -> bool:
        run["variant"] = run["variant"].replace("graph", r"$\graph{<b>")
        return True

    lab = make_lab(tmp_path / "lab", sizes=(4, 8), variants=variants, keep=rename)
    evidence = Evidence(Tables(lab / "metrics"), read_lab(lab).variants)
    svg = draw_panel(evidence.panel("31a"), looks(evidence.variants), [], tmp_path).svg
    assert r"$\graph{&lt;b&gt;" in svg
    assert "<b>" not in svg


def test_experiments_of_others_get_a_figure_each(tmp_path: Path):
    def rename(run: Row) -> bool:
        run["experiment"] = "../mine" if run["experiment"] == "exp3" else run["experiment"]
        return run["experiment"] in ("exp2", "../mine")

    def law(row: Row) -> float | None:
        return usual(row | {"experiment": "exp3"})

    lab = make_lab(tmp_path, sizes=(4, 8), keep=rename, law=law)
    tables = Tables(lab / "metrics")
    (figure,) = other_figures(tables, {})
    assert figure.title == "Experiment ../mine"
    assert other_figures(tables, {"../mine": "Mine"})[0].title == "Mine"
    labels = [panel.title for panel in figure.panels]
    assert "Metadata held by a node, with stability" in labels
    assert all(re.fullmatch(r"other-1[a-l]", panel.name) for panel in figure.panels)
    # Nobody computes stability without it, and there is no slow link.
    assert len(labels) == 9
