"""Scenario files: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracked import ROOT
from thence.errors import UnusableInputError
from thence.lab.scenarios import load, plans_of, quick

HEAD = '[variants.v]\nengine = "vector"\n[experiments.e]\nvariants = ["v"]\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = = 1", "not TOML"),
        ("", "at least one table [experiments.NAME]"),
        (HEAD + "size = [4]", "there is no key 'size'; expected one of"),
        (HEAD + 'sizes = ["4"]', "sizes[0]: expected `int`, got `str`"),
        (HEAD + "sizes = [1]", "sizes: expected 2 to 1024 nodes, got 1"),
        (HEAD + "sizes = []", "sizes: expected at least one"),
        (HEAD + "sizes = [4, 4]", "name no value twice"),
        (HEAD + "messages = 0", "messages: expected 1 to"),
        (HEAD + 'like = "other"', "there is no experiment 'other'"),
        (HEAD + 'like = "e"', "expected an end"),
        (HEAD + "phantom_ms = 5", "engine 'vector' has no phantoms"),
        (HEAD + "passive = 1.5", "passive: expected the share"),
        (HEAD + "repetitions = 0", "repetitions: expected 1 to 999, got 0"),
        (HEAD + 'latency = { matrix = "no.csv" }', "no.csv cannot be read"),
        (HEAD + "slow_link = { a = 0, b = 9 }", "slow_link: expected two nodes of 0 to 3"),
        (HEAD + "partitions = [{ start_ms = 1, end_ms = 2 }]", "either nodes, as in [0, 1]"),
        (HEAD.replace('["v"]', '["w"]'), "there is no variant 'w'; there are v"),
        (HEAD.replace('"vector"', '"rumour"'), "there is no engine 'rumour'"),
        (HEAD.replace("experiments.e", 'experiments."E/1"'), "it names folders"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_its_place(tmp_path: Path, text: str, sentence: str):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(UnusableInputError) as error:
        plans_of([load(file)])
    assert sentence in str(error.value)
    assert "mine.toml" in str(error.value) or "no.csv" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "runs", "of_quick"),
    [("quick", 126, 126), ("thesis", 516, 258), ("beyond", 44, 33)],
)
def test_the_files_mean_as_many_runs_as_they_should(name: str, runs: int, of_quick: int):
    scenario = load(ROOT / "experiments" / f"{name}.toml")
    assert len(plans_of([scenario])) == runs
    assert len(plans_of([quick(scenario)])) == of_quick


def test_the_thesis_is_as_chapter_8_says():
    plans = plans_of([load(ROOT / "experiments" / "thesis.toml")])
    third = {(plan.nodes, plan.interval_ms) for plan in plans if plan.experiment == "exp3"}
    assert third == {(4, 31), (8, 63), (16, 125), (32, 250), (64, 500), (128, 1000)}
    assert {plan.latency.mean_ms for plan in plans if plan.experiment == "exp3-slow"} == {31}
    assert {plan.messages for plan in plans} == {100}
    assert {plan.slow is not None for plan in plans if "slow" in plan.experiment} == {True}
