"""What the documentation says is true: its examples run, its tables agree with the code."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.thesis.errata_table import ERRATA
from tests.tracked import ROOT, tracked_files
from thence.cli.main import COMMANDS, main
from thence.engine import reject
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES

README_LINES_MAX = 20
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = tracked_files(".md")
RUNNABLE = ("README.md", "docs/reference/engines.md", "docs/reference/tags.md")
RUNNABLE += ("docs/reference/simulator.md", "docs/reference/groups.md", "docs/tutorial/groups.md")
RUNNABLE += ("docs/reference/crdts.md",)
EXAMPLES = tracked_files(".py", under="examples/")
# One has a test of its own (tests/pipeline), the other is what examples are played in.
NO_PROGRAMS = {"analytics", "world"}
ENGINES_PAGE = "docs/reference/engines.md"
ERRATA_PAGE = "docs/explanation/errata.md"


def read(path: str | Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def blocks(path: str | Path) -> list[tuple[str, str]]:
    """(language, text) of the fenced blocks of a document."""
    return BLOCK.findall(read(path))


def rows(path: str) -> Iterator[list[str]]:
    """The cells of every row of every table of a document, without code marks."""
    for line in read(path).splitlines():
        if line.startswith("|"):
            yield [cell.strip().strip("`") for cell in line.strip("|").split("|")]


def printed(run: Any, *given: Any) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        run(*given)
    return shown.getvalue()


@pytest.mark.parametrize("path", RUNNABLE)
def test_python_blocks_run_and_print_what_follows_them(path: str):
    names: dict[str, Any] = {"__name__": "documentation"}
    found = blocks(path)
    ran = 0
    for (language, text), after in zip(found, [*found[1:], ("", "")], strict=True):
        if language == "python":
            code = compile(text, f"{path}, block {ran}", "exec")
            output = printed(exec, code, names)
            assert output == (after[1] if after[0] == "text" else "")
            ran += 1
    assert ran


def test_the_first_example_fits_a_glance():
    first = next(text for language, text in blocks("README.md") if language == "python")
    assert len([line for line in first.splitlines() if line.strip()]) <= README_LINES_MAX


def without_numbers(text: str) -> list[list[str]]:
    """The words of each line, with one sign for all that chance decides: a time has the unit that
    fits its size, so that too."""
    chance = re.compile(r"[\d,.]*\d(?: (?:µs|ms|s)\b)?|(?<= )[abc-](?=  )")
    return [chance.sub("0", line).split() for line in text.splitlines()]


@pytest.mark.usefixtures("spark")
def test_commands_print_what_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    ran = []
    for language, text in blocks("README.md"):
        if language == "console":
            command, _, output = text.partition("\n")
            program, *words = shlex.split(command.removeprefix("$ "))
            assert program == "thence"
            shown = printed(main, words)
            if words[0] == "demo":  # real processes: the numbers differ each time
                shown, output = without_numbers(shown), without_numbers(output)
            assert shown == output
            ran.append(words[0])
    assert set(ran) == {"demo", "simulate", "check"}


@pytest.mark.parametrize(
    "path",
    [path for path in EXAMPLES if path.stem not in NO_PROGRAMS],
    ids=str,
)
def test_an_example_prints_what_its_docstring_says(path: Path):
    output = printed(lambda: runpy.run_path(str(ROOT / path), run_name="__main__"))
    shown = "".join(f"    {line}\n" for line in output.splitlines())
    assert output
    assert shown in read(path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_links_lead_somewhere(path: Path):
    text = BLOCK.sub("", read(path))
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    broken = [
        target
        for target in targets
        if "://" not in target and not (ROOT / path.parent / target).exists()
    ]
    assert not broken


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_files_and_tests_that_are_named_exist(path: Path):
    text = BLOCK.sub("", read(path))
    for file, test in re.findall(r"`((?:src|tests|docs)/[\w/]+\.(?:py|md))(?:::(\w+))?`", text):
        assert (ROOT / file).is_file(), file
        assert not test or f"def {test}(" in read(file), f"{file} has no {test}"


def test_every_engine_and_command_is_documented():
    for page in ("README.md", ENGINES_PAGE):
        found = dict.fromkeys(row[0] for row in rows(page) if row[0] in ENGINES)
        assert list(found) == list(ENGINES)
    commands = read("docs/reference/cli.md")
    assert not [name for name in COMMANDS if f"## thence {name}" not in commands]


def test_every_reason_of_a_reject_is_documented():
    reasons = {
        value for name, value in vars(reject).items() if name.isupper() and isinstance(value, str)
    }
    section = read(ENGINES_PAGE).partition("## Rejected input")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([\w-]+)`", section, re.MULTILINE)) == reasons


def test_every_option_of_an_engine_is_documented_with_its_default():
    documented = {row[0]: row[1] for row in rows(ENGINES_PAGE)}
    for field in msgspec.structs.fields(EngineOptions):
        shown = field.default
        text = f"{shown:,}" if type(shown) is int else str(shown)
        assert documented[field.name] == text


@pytest.mark.parametrize("path", [ENGINES_PAGE, "docs/reference/tags.md"])
def test_limits_are_what_the_tables_say(path: str):
    limits = [row for row in rows(path) if row[0].startswith("thence.")]
    assert limits
    for name, value, *_ in limits:
        module, _, constant = name.rpartition(".")
        assert f"{getattr(importlib.import_module(module), constant):,}" == value, name


def test_every_erratum_that_a_test_puts_back_is_explained():
    explained = {row[0] for row in rows(ERRATA_PAGE)}
    assert not [erratum.lines for erratum in ERRATA if erratum.lines not in explained]
