"""A Dockerfile as a list of steps, and what compose files and manifests say, for the tests.

Only the instructions that are known here may be used: what cannot be run in a test is not tested.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.tracked import ROOT

DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
IGNORE = DEPLOY / "Dockerfile.dockerignore"
COMPOSE = DEPLOY / "compose.yaml"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))

KNOWN = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}
VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


class Step(NamedTuple):
    """One instruction."""

    word: str
    rest: str


def steps(path: Path = DOCKERFILE) -> list[Step]:
    """The instructions of a Dockerfile; one line each."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            assert word in KNOWN, f"{word}: teach the tests to run it"
            found.append(Step(word, rest.strip()))
    return found


def copied() -> list[str]:
    """What is taken from the repository."""
    words = [step.rest.split() for step in steps() if step.word == "COPY"]
    return [name for each in words if not each[0].startswith("--from=") for name in each[:-1]]


def kept(name: str) -> bool:
    """Whether the ignore file lets a file or folder of the repository through."""
    return f"!{name}" in IGNORE.read_text(encoding="utf-8").splitlines()


def with_variables(text: str, **given: str) -> str:
    """With ``${NAME:-default}`` replaced, as compose does."""
    return VARIABLE.sub(lambda found: given.get(found[1], found[2]), text)


def compose(**given: str) -> dict[str, Any]:
    """The compose file."""
    found: dict[str, Any] = yaml.safe_load(with_variables(COMPOSE.read_text("utf-8"), **given))
    return found


def manifests() -> list[dict[str, Any]]:
    """All objects of the manifests."""
    return [each for path in MANIFESTS for each in yaml.safe_load_all(path.read_text("utf-8"))]


def manifest(kind: str, name: str) -> dict[str, Any]:
    """One of them."""
    (found,) = [m for m in manifests() if (m["kind"], m["metadata"]["name"]) == (kind, name)]
    return found
