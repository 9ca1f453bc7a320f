"""The public names of thence, against a snapshot: no name comes or goes unnoticed.

After a wanted change, add a sentence to changes/ and run

    THENCE_UPDATE_SNAPSHOT=1 .venv/bin/python -m pytest tests/test_public_names.py
"""

from __future__ import annotations

import ast
import os
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import thence
import thence.pipeline
from tests.tracked import ROOT, tracked_files

SNAPSHOT = ROOT / "tests" / "public_names.txt"
UPDATE = os.environ.get("THENCE_UPDATE_SNAPSHOT") == "1"


def assigned(node: ast.stmt) -> Iterator[str]:
    """Names that one top-level statement defines; imports define none."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    for target in targets:
        yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def defined(path: Path) -> list[str]:
    """Public names of a module, read from its source: the same for both forms of the flagship."""
    names: set[str] = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        names.update(name for name in assigned(node) if not name.startswith("_"))
        if isinstance(node, ast.Assign) and "__all__" in assigned(node):
            return sorted(ast.literal_eval(node.value))
    return sorted(names)


def public_modules() -> Iterator[tuple[str, Path]]:
    """Modules whose names users may import: none private, and not the command line."""
    for path in tracked_files(".py", under="src/thence/"):
        parts = path.with_suffix("").parts[1:]
        if parts[-1] == "__init__":
            parts = parts[:-1]
        private = any(part.startswith("_") for part in parts)
        if not private and parts[:2] != ("thence", "cli") and len(parts) > 1:
            yield ".".join(parts), path


def listing() -> str:
    lines = [f"thence {name}" for name in sorted(thence.__all__)]
    for module, path in public_modules():
        lines += [f"{module} {name}" for name in defined(path)]
    return "\n".join(lines) + "\n"


def test_public_names_are_those_of_the_snapshot():
    found = listing()
    if UPDATE:
        SNAPSHOT.write_text(found, encoding="utf-8")
    expected = SNAPSHOT.read_text(encoding="utf-8")
    gone = sorted(set(expected.splitlines()) - set(found.splitlines()))
    new = sorted(set(found.splitlines()) - set(expected.splitlines()))
    assert (gone, new) == ([], []), "see the top of this file for how to accept a wanted change"


def test_every_exported_name_resolves():
    for package in (thence, thence.pipeline):
        for name in package.__all__:
            assert getattr(package, name) is not None


def test_no_exported_name_of_the_pipeline_hides_a_module():
    modules = {module.name for module in pkgutil.iter_modules(thence.pipeline.__path__)}
    assert not modules & set(thence.pipeline.__all__)


def test_documents_import_exported_names_from_the_package():
    """What users copy should be the short form, and stay when code moves."""
    homes = set(thence.pipeline.__all__)
    for path in tracked_files(".md") + tracked_files(".py", under="examples/"):
        text = (ROOT / path).read_text(encoding="utf-8")
        for names in re.findall(r"^from thence\.pipeline\.[\w.]+ import (.+)$", text, re.MULTILINE):
            assert not homes & set(re.findall(r"\w+", names)), f"{path}: {names}"


def test_dir_shows_the_exported_names():
    for package in (thence, thence.pipeline):
        assert set(package.__all__) <= set(dir(package))
