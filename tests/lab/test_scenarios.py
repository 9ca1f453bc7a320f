"""Scenario files: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracked import ROOT
from thence.errors import UnusableInputError
from thence.lab.scenarios import load, plans_of, quick

HEAD = '[variants.v]\nengine = "vector"\n[experiments.e]\nvariants = ["v"]\n'
CHURN = HEAD.replace('"vector"', '"tagged"')


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
        (
            HEAD + "pacing = 'poisson'",
            "pacing: invalid enum value 'poisson'; expected one of 'exponential', 'fixed'",
        ),
        (HEAD + "intervals_ms = [-1]", "intervals_ms: expected 0 to"),
        (HEAD + "stability = [1]", "stability[0]: expected `bool`, got `int`"),
        (HEAD + "seeds = [-1]", "seeds: expected 0 to 9223372036854775807, got -1"),
        (HEAD + f"seeds = [{1 << 63}]", "seeds: expected 0 to 9223372036854775807, got"),
        (
            HEAD + "seeds = [1, 2, 3, 4]\nsizes = [4, 8, 16, 32, 64]\nrepetitions = 999\n"
            "intervals_ms = [1, 2, 3, 4, 5, 6]",
            "119,880 runs; expected at most 100,000",
        ),
        (HEAD + "payload_bytes = -1", "payload_bytes: expected 0 to"),
        (HEAD + "stability = true", "stability: expected `array`, got `bool`"),
        (HEAD + 'latency = { matrix = "/dev/zero" }', "/dev/zero: expected a matrix of at most"),
        (HEAD + 'latency = { matrix = "a\\u0000" }', "it is no text"),
        (f"x = {'[' * 5000}{']' * 5000}", "brackets within brackets"),
        (HEAD + "settings = [{ nodes = 4 }]", "settings[0]: object missing required field"),
        (HEAD + "settings = [{ node = 4 }]", "settings[0]: there is no key 'node'; expected one"),
        (
            HEAD + "latency = { mean = 4 }",
            "latency: there is no key 'mean'; expected one of mean_ms",
        ),
        (HEAD + "latency = { spread = 'fixed' }", "latency: expected either mean_ms or matrix"),
        (HEAD + "latency = { mean_ms = 4, matrix = 'm' }", "either mean_ms or matrix"),
        (
            HEAD + "latency = { mean_ms = 4, spread = 'gamma' }",
            "value 'gamma'; expected one of 'fixed'",
        ),
        (HEAD + "slow_link = { factor = 0 }", "slow_link: factor: expected above 0"),
        (HEAD + "partitions = [{ start_ms = 2, end_ms = 1, share = 0.5 }]", "an end_ms after it"),
        (
            HEAD + "partitions = [{ start_ms = 1, end_ms = 2, share = 1 }]",
            "share: expected above 0",
        ),
        (HEAD + "partitions = [{ start_ms = 1, end_ms = 2, nodes = [7] }]", "numbers from 0 to 3"),
        (HEAD + "churn = { join = 1 }", "churn: there is no key 'join'; expected one of joins,"),
        (HEAD + "churn = { joins = 1 }", "variants: expected only engine 'tagged'"),
        (CHURN + "churn = {}", "churn: expected a join, a leave or a crash"),
        (CHURN + "churn = { joins = -1 }", "churn: expected numbers of joins"),
        (
            CHURN + "churn = { leaves = 1, crashes = 1 }",
            "at most 1 leaves and crashes in a group of 4",
        ),
        (CHURN + "churn = { joins = 1 }\nstability = [false]", "stability: expected [true]"),
        (CHURN + "churn = { joins = 1 }\nphantom_ms = 5", "phantom_ms: expected 0"),
        (
            CHURN
            + "churn = { joins = 1 }\npartitions = [{ start_ms = 1, end_ms = 2, share = 0.5 }]",
            "partitions: expected none, with churn",
        ),
        (
            HEAD.replace('"vector"', '"vector"\nrole = "hero"'),
            "'hero'; expected one of 'flagship', ",
        ),
        (HEAD.replace('"vector"', '"vector"\nform = "compiled"'), "only engine 'tagged' has a"),
        (
            HEAD.replace('"vector"', f'"vector"\nstability_batch = {1 << 70}'),
            "variant v: stability_batch: expected 0 to 1000000",
        ),
        (HEAD.replace('["v"]', '["w"]'), "there is no variant 'w'; there are v"),
        (HEAD.replace('"vector"', '"rumour"'), "there is no engine 'rumour'"),
        (HEAD.replace("experiments.e", 'experiments."E/1"'), "it names folders"),
        (HEAD.replace("experiments.e", 'experiments."e\\n"'), "it names folders"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_its_place(tmp_path: Path, text: str, sentence: str):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(UnusableInputError) as error:
        plans_of([load(file)])
    assert sentence in str(error.value)
    assert any(name in str(error.value) for name in ("mine.toml", "no.csv", "/dev/zero"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "runs", "of_quick"),
    [("quick", 126, 126), ("thesis", 516, 258), ("beyond", 50, 37)],
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
