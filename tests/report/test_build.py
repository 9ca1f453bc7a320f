"""The page: whole, self-contained, safe; folders of others are left alone."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.report.made_tables import (
    VARIANTS,
    Row,
    draw_nothing,
    figures,
    make_lab,
    make_tables,
    settings,
    usual,
)
from thence.errors import UnusableInputError
from thence.report.build import build_lab, build_runs
from thence.report.claims import CLAIMS, WORDS
from thence.report.data import Lab, read_lab
from thence.report.figures import PANELS
from thence.report.runs_page import DRAWN_MAX, Checked

VOID = {"meta", "br", "img", "link", "input", "hr"}


class Tags(HTMLParser):
    """Tags that are closed in order, and the ids that there are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(text: str) -> None:
    tags = Tags(text)
    assert not tags.open
    assert len(tags.ids) == len(set(tags.ids))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(tags.ids)
    assert "://" not in text  # nothing is asked of anybody
    assert not re.search(r"<(script|link|img|iframe)\b", text)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take their time, and most tests here do not look at them."""
    draw_nothing(monkeypatch)


def build(folder: Path, out: Path) -> str:
    return build_lab(read_lab(folder), folder / "metrics", out).page.read_text(encoding="utf-8")


def test_the_page_of_a_lab_is_whole_and_asks_nobody_for_anything(tmp_path: Path):
    lab = make_lab(tmp_path / "lab", sizes=(8, 128), keep=lambda run: run["experiment"] == "exp3")
    text = build(lab, tmp_path / "out")
    check_page(text)
    facts = json.loads((tmp_path / "out" / "report.json").read_text())
    assert facts["complete"]
    assert [claim["name"] for claim in facts["claims"]] == list(CLAIMS)
    drawn = [name for name, panel in PANELS.items() if panel.experiments == ("exp3",)]
    assert facts["pictures"] == drawn
    assert len(drawn) == 6
    files = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    assert files == {f"{name}.{suffix}" for name in drawn for suffix in ("svg", "png")}
    for words in ("thence lab run made.toml --out lab", "made up", "no rule was broken",
                  "These runs were simulated", "# made up, for tests"):  # fmt: skip
        assert words in text


@pytest.mark.usefixtures("undrawn")
def test_the_same_tables_give_the_same_page(tmp_path: Path):
    lab = make_lab(tmp_path / "lab", sizes=(4, 8))
    assert build(lab, tmp_path / "one") == build(lab, tmp_path / "two")


@pytest.mark.usefixtures("undrawn")
def test_every_panel_without_data_says_why(tmp_path: Path):
    lab = make_lab(tmp_path / "lab", sizes=(4,), keep=lambda run: run["experiment"] == "exp2")
    text = build(lab, tmp_path / "out")
    assert "not drawn, no runs of exp3 without stability in this lab" in text
    assert "not drawn, no runs of exp3-slow with stability in this lab" in text
    assert "figure 37b: no runs of exp3-slow with stability (all of it)" in text


@pytest.mark.usefixtures("undrawn")
def test_a_series_that_was_not_measured_is_named(tmp_path: Path):
    lab = make_lab(tmp_path / "lab", sizes=(4,))
    tables = lab / "metrics" / "metrics" / "noncausal_stability" / "part-0.parquet"
    rows = pq.read_table(tables)
    pq.write_table(rows.filter(pc.not_equal(rows["series"], "told_work")), tables)
    text = build(lab, tmp_path / "out")
    assert "not drawn, the metrics of these runs have no series told_work" in text


@pytest.mark.usefixtures("undrawn")
def test_what_the_thesis_states_stands_beside_ours_at_the_largest_size(tmp_path: Path):
    text = build(make_lab(tmp_path / "lab", sizes=(4, 16)), tmp_path / "out")
    assert "<td>256</td><td>8.4.1</td><td>32, 16 nodes</td>" in text
    text = build(make_lab(tmp_path / "all", sizes=(4, 128)), tmp_path / "out")
    assert "<td>256</td><td>8.4.1</td><td>256</td>" in text


@pytest.mark.usefixtures("undrawn")
def test_a_lab_of_other_experiments_is_not_asked_about_the_thesis(tmp_path: Path):
    def rename(run: Row) -> bool:
        is_kept = run["experiment"] == "exp3"
        run["experiment"] = "mine"
        return is_kept

    def law(row: Row) -> float | None:
        return usual(row | {"experiment": "exp3"})

    named = [{"name": "made.toml", "text": "", "title": "What I wanted to know"}]
    lab = make_lab(tmp_path / "lab", sizes=(4, 8), keep=rename, law=law, files=named)
    text = build(lab, tmp_path / "out")
    check_page(text)
    assert "<h1>What I wanted to know</h1>" in text
    assert "of the thesis about" not in text
    assert "Figure 28" not in text
    assert "The claims of the thesis" not in text
    assert "metadata held by a node, with stability" in text


@pytest.mark.usefixtures("undrawn")
def test_a_lab_that_was_interrupted_says_so_first(tmp_path: Path):
    text = build(make_lab(tmp_path / "some", sizes=(4,), runs=1000), tmp_path / "out")
    assert re.search(r"<ul>\s*<li>Only [0-9]+ of the 1,000 runs of this lab are whole", text)
    assert "are whole" not in build(make_lab(tmp_path / "all", sizes=(4,)), tmp_path / "out")


@pytest.mark.usefixtures("undrawn")
def test_where_the_flagship_is_worse_the_page_shows_it_with_the_ratio(tmp_path: Path):
    def law(row: Row) -> float | None:
        own = row["variant"] == "tagged-at-once" and row["series"] == "words"
        return 3e6 if own and row["group_size"] == 8 else usual(row)

    lab = make_lab(tmp_path / "lab", sizes=(4, 8), law=law)
    text = build(lab, tmp_path / "out")
    assert "It is not in figure 28b (3)" in text
    assert text.count("24 MB") >= 6
    facts = json.loads((tmp_path / "out" / "report.json").read_text())
    worse = [each for each in facts["flagship"] if each["outcome"] == "worse"]
    assert {each["group_size"] for each in worse} == {8}
    assert all(each["ratio"] is None or each["ratio"] > 1 for each in worse)


@pytest.mark.usefixtures("undrawn")
def test_names_of_others_are_text_and_never_markup(tmp_path: Path):
    evil = "<script>alert(1)</script>"
    variants = [dict(each, name=each["name"] + evil) for each in VARIANTS]

    def rename(run: Row) -> bool:
        run["variant"] += evil
        return True

    lab = make_lab(
        tmp_path / "lab", sizes=(4,), variants=variants, keep=rename, law=lambda _: 1.0,
        command=evil, machine={evil: evil}, mode=evil, files=[{"name": evil, "text": evil}],
    )  # fmt: skip
    assert "<script" not in build(lab, tmp_path / "out")


@pytest.mark.usefixtures("undrawn")
def test_a_report_replaces_an_older_one_and_leaves_files_of_others_alone(tmp_path: Path):
    out = tmp_path / "out"
    build(make_lab(tmp_path / "lab", sizes=(4,)), out)
    (out / "mine.txt").write_text("")
    (out / "figures" / "mine.svg").write_text("")
    small = make_lab(tmp_path / "small", sizes=(4,), keep=lambda run: run["experiment"] == "exp3")
    build(small, out)
    assert (out / "mine.txt").exists()
    assert (out / "figures" / "mine.svg").exists()
    assert not (out / "figures" / "28a.svg").exists()
    assert (out / "figures" / "31a.svg").exists()


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "index.html").write_text("mine")
    lab = make_lab(tmp_path / "lab", sizes=(4,))
    with pytest.raises(UnusableInputError, match="is not empty and holds no report"):
        build(lab, tmp_path / "out")
    assert (tmp_path / "out" / "index.html").read_text() == "mine"
    with pytest.raises(UnusableInputError, match="is a file"):
        build(lab, lab / "lab.json")


def test_names_in_an_old_report_reach_no_file_outside(tmp_path: Path):
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "victim.svg").write_text("mine")
    (out / "report.json").write_text(json.dumps({"pictures": ["../../victim", "../victim"]}))
    build_lab(Lab(), make_tables(tmp_path / "metrics", list(settings((4,)))[:1]), out)
    assert (tmp_path / "victim.svg").exists()


# Single runs.


def node_rows(run: Row, values: dict[str, float]) -> list[Row]:
    """Rows of level node of one run."""
    return [
        {"series": series, "unit": "us", "level": "node", "run": run["run"], "node": node,
         "engine": run["engine"], "variant": run["variant"], **figures(value)}
        for node in "ab"
        for series, value in values.items()
    ]  # fmt: skip


def plain_runs(count: int) -> list[Row]:
    """Runs of no experiment."""
    base = next(settings((4,)))
    return [
        dict(base, run=f"run<{place}>", experiment=None, role=None, scenario="{}", variant="tagged")
        for place in range(count)
    ]


def law(row: Row) -> float | None:
    return usual(row | {"experiment": "exp2", "stability": True})


def test_the_page_of_a_run_tells_what_happened(tmp_path: Path):
    (run,) = plain_runs(1)
    time = [dict(each, level="time", bucket_us=us, node=None)
            for us in (0, 1000) for each in node_rows(run, {"words": 8.0})[:1]]  # fmt: skip
    more = {
        "memory": time,
        "noncausal_delivery": node_rows(run, {"waited": 10.0, "all": 20.0}),
        "delivery_delay": node_rows(run, {"delay": 50.0}),
        "stability_lag": node_rows(run, {"lag": 900.0}),
        "metadata": node_rows(run, {"bytes": 20.0}),
    }
    metrics = make_tables(tmp_path / "metrics", [run], law, more)
    checked = Checked(ok=True, text="1 run, no rule broken", where="on Spark")
    built = build_runs(metrics, tmp_path / "out", checked=checked, about="It was slow.")
    text = built.page.read_text(encoding="utf-8")
    check_page(text)
    assert text.count("<svg") == 5
    assert "Not drawn" not in text
    assert "The check of causality on Spark: 1 run, no rule broken." in text
    assert "run&lt;0&gt;" in text
    assert "It was slow." in text
    assert built.summary[0].startswith("4 messages were sent and 8 deliveries made")
    facts = json.loads((tmp_path / "out" / "report.json").read_text())
    assert facts["runs"][0]["deliveries"] == 8
    assert facts["check"]["ok"]


def test_what_a_run_lacks_is_said_where_the_picture_would_be(tmp_path: Path):
    metrics = make_tables(tmp_path / "metrics", plain_runs(1), lambda _: None)
    text = build_runs(metrics, tmp_path / "out").page.read_text(encoding="utf-8")
    assert text.count("Not drawn: ") == 5
    assert "Not drawn: nothing to observe" in text
    assert "The logs were not checked for this page" in text


def test_of_many_runs_the_page_says_which_have_no_pictures(tmp_path: Path):
    metrics = make_tables(tmp_path / "metrics", plain_runs(DRAWN_MAX + 2), lambda _: None)
    text = build_runs(metrics, tmp_path / "out").page.read_text(encoding="utf-8")
    assert "the last 2 have their numbers and no pictures" in text
    assert text.count("Not drawn: ") == 5 * DRAWN_MAX


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_what_words_of_the_thesis_are_taken_to_mean(tmp_path: Path):
    text = build(make_lab(tmp_path / "lab", sizes=(4,)), tmp_path / "out")
    for word, meaning in WORDS.items():
        assert f"<em>{word}</em> {meaning}" in text
    assert WORDS["around"] == "within a factor of 2"
    assert WORDS["half"] == "a ratio of 1.6 to 2.5"


def test_a_picture_of_a_panel_fits_on_a_phone_without_scrolling():
    style = (files("thence.report") / "templates" / "style.css").read_text()
    widths = re.findall(r"figure svg \{[^}]*min-width: ([0-9.]+)rem", style)
    edges = re.findall(r"max-width: 40rem\) \{ body \{ padding: \S+ ([.0-9]+)rem", style)
    assert 16 * (float(widths[0]) + 2 * float(edges[0])) <= 390
