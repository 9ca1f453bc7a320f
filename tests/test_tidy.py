"""House style, as ordinary tests: each says what to do instead."""

from __future__ import annotations

import ast
import graphlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tracked import ROOT, tracked_files

MODULE_LINES_MAX = 500
LINE_COLUMNS_MAX = 100
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
# Test folders that are not named for a package: they cut across.
CROSS_CUTTING = {"chaos", "conformance", "examples", "packaging", "scenarios", "thesis", "docs"}
FRAGMENT = re.compile(r"[a-z0-9-]+\.(added|changed|fixed|removed)\.md")

PYTHON = tracked_files(".py")
SOURCES = tracked_files(".py", under="src/")
# Where a causal chain, long as a backlog, must not become a stack of calls.
NO_RECURSION = tuple(f"src/thence/{folder}/" for folder in ("engine", "causal", "trace"))
# Where the order of a set, which changes with the hash seed, could reach an effect or a trace.
NO_SET_ORDER = tuple(f"src/thence/{folder}/" for folder in ("engine", "causal", "sim", "trace"))


def read(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def tree(path: Path) -> ast.Module:
    return ast.parse(read(path), filename=str(path))


def each(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=str)


def under(prefixes: tuple[str, ...]) -> list[Path]:
    return [path for path in SOURCES if path.as_posix().startswith(prefixes)]


@each(PYTHON)
def test_modules_and_lines_are_short(path: Path):
    lines = read(path).splitlines()
    assert len(lines) <= MODULE_LINES_MAX, "split the module by the things it is about"
    long = [n for n, line in enumerate(lines, 1) if len(line) > LINE_COLUMNS_MAX]
    assert not long, f"lines over {LINE_COLUMNS_MAX} columns: {long}"


@each(SOURCES)
def test_every_module_says_what_it_is(path: Path):
    assert ast.get_docstring(tree(path)), "open the module with a docstring"


@each(PYTHON)
def test_no_star_imports(path: Path):
    stars = [
        node.lineno
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and any(name.name == "*" for name in node.names)
    ]
    assert not stars


@each([path for path in SOURCES if not path.as_posix().startswith("src/thence/cli/")])
def test_only_the_command_line_prints(path: Path):
    prints = [
        node.lineno
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "print"
    ]
    assert not prints, "return the text and let cli/ print it"


def test_names_say_what_is_inside():
    vague = [path for path in PYTHON if VAGUE_NAMES & {*path.parts[:-1], path.stem}]
    assert not vague, "name a module for the thing it is about"


def test_nothing_is_left_for_later():
    marks = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]))
    left = [
        f"{path}:{n}"
        for path in tracked_files()
        if path.suffix in {".py", ".md", ".toml", ".js", ".html", ".txt"} or path.name == "Makefile"
        for n, line in enumerate(read(path).splitlines(), 1)
        if marks.search(line)
    ]
    assert not left, "do it, or open an issue"


def test_no_machine_is_named():
    """A path or a package registry of one machine means nothing on another."""
    folders = "|".join(["home", "root", "Users", "work", "tmp", "opt"])
    hosts = "|".join(["py" + r"pi\.org", "python" + r"hosted\.org", "npm" + r"js\.org"])
    # A path starts after a space, a quote or the like; within a URL it names somebody's page.
    machine = re.compile(rf"(?<![\w./~*-])/(?:{folders})/\w|{hosts}|(?:index|find)-(?:url|links)")
    named = []
    for path in tracked_files():
        try:
            lines = read(path).splitlines()
        except UnicodeDecodeError:
            continue
        named += [f"{path}:{n}" for n, line in enumerate(lines, 1) if machine.search(line)]
    assert not named, "use a relative path, or leave it to the reader's configuration"


def calls(function: ast.AST, method: bool) -> Iterator[str]:
    """Names of functions (or of methods, through ``self``) that ``function`` calls."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        target = node.func
        if method and isinstance(target, ast.Attribute):
            if isinstance(target.value, ast.Name) and target.value.id in ("self", "cls"):
                yield target.attr
        elif not method and isinstance(target, ast.Name):
            yield target.id


def call_graphs(module: ast.Module) -> Iterator[dict[str, set[str]]]:
    """Who calls whom among the functions of a module, and among the methods of each class."""
    scopes = [(module, False)]
    scopes += [(node, True) for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    for scope, method in scopes:
        functions = {
            node.name: node
            for node in scope.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        yield {
            name: {callee for callee in calls(function, method) if callee in functions}
            for name, function in functions.items()
        }


def recursion(module: ast.Module) -> list[str]:
    """Functions that come back to themselves, as ``f -> g -> f``."""
    found = []
    for graph in call_graphs(module):
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            found.append(" -> ".join(error.args[1]))
    return found


@each(under(NO_RECURSION))
def test_no_recursion(path: Path):
    assert not recursion(tree(path)), "use a worklist"


def test_the_recursion_check_sees_direct_and_mutual_recursion():
    for text in (
        "def f(n): return f(n - 1)",
        "def f(): g()\ndef g(): f()",
        "class A:\n def f(self): self.g()\n def g(self): self.f()",
    ):
        assert recursion(ast.parse(text))
    assert not recursion(ast.parse("class A:\n def f(self): super().f(); self.x.f()"))


def unordered(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", None) in ("set", "frozenset")
    return isinstance(node, ast.Set | ast.SetComp)


@each(under(NO_SET_ORDER))
def test_no_loop_over_a_set(path: Path):
    loops = [
        node.iter
        for node in ast.walk(tree(path))
        if isinstance(node, ast.For | ast.comprehension) and unordered(node.iter)
    ]
    assert not [node.lineno for node in loops], "sort it first: set order changes with the seed"


def test_every_source_folder_is_a_package():
    folders = {path.parent for path in SOURCES if path.parts[:2] == ("src", "thence")}
    assert not [folder for folder in folders if not (ROOT / folder / "__init__.py").is_file()]


def test_no_file_is_empty():
    empty = [path for path in tracked_files() if not (ROOT / path).stat().st_size]
    assert {path.name for path in empty} <= {"py.typed"}


def test_test_folders_mirror_the_packages():
    folders = {
        path.parts[1] for path in tracked_files(".py", under="tests/") if len(path.parts) > 2
    }
    packages = {path.name for path in (ROOT / "src/thence").iterdir() if path.is_dir()}
    assert folders <= packages | CROSS_CUTTING, "name a test folder for the package it tests"


@each([path for path in tracked_files(".md", under="changes/") if path.name != "README.md"])
def test_a_change_fragment_is_one_sentence_for_users(path: Path):
    assert FRAGMENT.fullmatch(path.name), "see changes/README.md for names"
    text = " ".join(read(path).split())
    assert text.endswith(".")
    assert not re.search(r"[.!?] +[A-Z]", text), "one sentence"


def test_decisions_are_numbered_without_gaps_and_indexed():
    records = [path for path in tracked_files(".md", under="docs/adr/") if path.name != "README.md"]
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    index = read(Path("docs/adr/README.md"))
    assert not [path.name for path in records if f"]({path.name})" not in index]


def test_the_lock_pins_exactly_and_covers_what_pyproject_asks_for():
    lines = [line for line in read(Path("requirements.lock")).splitlines() if line[:1] != "#"]
    assert not [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)]
    locked = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    settings = tomllib.loads(read(Path("pyproject.toml")))
    project = settings["project"]
    asked = [*settings["build-system"]["requires"], *project["dependencies"]]
    asked += settings["dependency-groups"]["dev"]
    asked += [name for extra in project["optional-dependencies"].values() for name in extra]
    names = {re.split(r"[<>=!~;\[ ]", name)[0].lower() for name in asked} - {"thence"}
    assert names <= locked, "run make lock"
