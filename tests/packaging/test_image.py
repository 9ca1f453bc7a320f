"""The steps of the Dockerfile, run without Docker: each in an empty folder that stands for the root
of the image, with no Python packages but those that the steps install.

Needs a package index and minutes, so only CI runs it (marker ``packaging``).  Base images and users
are not tried.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.images import compose, copied, steps
from tests.tracked import ROOT as REPOSITORY
from tests.tracked import tracked_files
from thence.lab.processes import free_ports

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

STEP_S = 600
LAB_S = 180
# Absolute paths that are meant to be in the image; others, such as /bin/sh, are this machine's.
INSIDE = re.compile(r"(?<![\w.])/(etc|experiments|lab|run|src|thence|tmp)(?=[/:\s\"']|$)")
SCENARIO = """
[variants.v]
engine = "tagged"
form = "compiled"
[experiments.far]
variants = ["v"]
settings = [{ nodes = 3, interval_ms = 2 }]
latency = { mean_ms = 2 }
messages = 10
phantom_ms = 20
"""


class Stage:
    """A stage of the image while its steps run, and the image at the end.

    All stages have the same root, one after the other: what is installed somewhere and copied to
    the same place of a later stage finds itself there, as in a real image.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.env: dict[str, str] = {}
        self.workdir = "/"
        self.entrypoint: list[str] = []
        self.cmd: list[str] = []

    def inside(self, text: str) -> str:
        """With paths of the image replaced by where they are here."""
        return INSIDE.sub(lambda found: f"{self.root}{found[0]}", text)

    def path(self, name: str) -> Path:
        """Of a file of the image, or of one that is named from the working folder."""
        return self.root / (Path(self.workdir) / name).relative_to("/")

    def environ(self) -> dict[str, str]:
        """Ours, without what could lead to packages of this environment."""
        ours = ("PYTHON", "THENCE_", "VIRTUAL_ENV")
        found = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        found["PATH"] = f"{self.folder / 'base'}:/usr/bin:/bin"
        found["THENCE_OPT"] = "0"  # that it is compiled matters, not how fast it is
        for name, value in self.env.items():
            found[name] = self.inside(value).replace("$PATH", found["PATH"])
        return found

    def run(self, command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.path("."), env=self.environ(),
            capture_output=True, text=True, check=False, timeout=seconds,
        )  # fmt: skip

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        """What a container does when it is given these words."""
        return subprocess.Popen(
            [*self.entrypoint, *map(self.inside, words)], cwd=self.path("."), env=self.environ(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip


def copy(source: Path, target: Path, is_folder: bool) -> None:
    if source.is_dir():  # Docker copies what is in a folder
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        (target if is_folder else target.parent).mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def context(folder: Path) -> Path:
    """The files of the repository that the image is made of, and no others."""
    wanted = copied()
    for path in tracked_files():
        if any(
            path.as_posix() == name or path.as_posix().startswith(f"{name}/") for name in wanted
        ):
            copy(REPOSITORY / path, folder / path, is_folder=False)
    return folder


def build(folder: Path) -> Stage:
    """Run all steps; the last stage is the image."""
    files = context(folder / "context")
    python = folder / "base" / "python"  # what a base image has
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{Path(sys.base_prefix, "bin", "python3")}" "$@"\n')
    python.chmod(0o755)
    stage, name = Stage(folder), ""
    for step in steps():
        words = step.rest.split()
        if step.word == "FROM":
            assert words[0].startswith("python:3.")
            if stage.root.exists():
                stage.root.rename(folder / f"stage-{name}")
            stage, name = Stage(folder), words[-1]
            for each in ("etc", "tmp"):
                (stage.root / each).mkdir(parents=True)
        elif step.word == "WORKDIR":
            stage.workdir = step.rest
            stage.path(".").mkdir(parents=True, exist_ok=True)
        elif step.word == "COPY":
            origin = files
            if words[0].startswith("--from="):
                origin = folder / f"stage-{words.pop(0).removeprefix('--from=')}"
            for source in words[:-1]:
                is_folder = words[-1].endswith("/")
                copy(origin / source.lstrip("/"), stage.path(words[-1]), is_folder)
        elif step.word == "RUN":
            done = stage.run(["/bin/sh", "-c", stage.inside(step.rest)], STEP_S)
            assert done.returncode == 0, f"{step.rest}\n{done.stdout}{done.stderr}"
        elif step.word == "ENV":
            key, _, value = step.rest.partition("=")
            stage.env[key] = value
        elif step.word == "ENTRYPOINT":
            (program, *more) = json.loads(step.rest)
            found = shutil.which(program, path=stage.environ()["PATH"])
            assert found is not None, f"{program} is not on the path of the image"
            stage.entrypoint = [found, *more]
        elif step.word == "CMD":
            stage.cmd = json.loads(step.rest)
    return stage


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("image")
    yield build(folder)
    shutil.rmtree(folder, ignore_errors=True)


def test_the_entry_point_starts_with_what_was_installed(image: Stage):
    assert Path(image.entrypoint[0]).is_relative_to(image.root / "thence")
    done = image.run([*image.entrypoint, *image.cmd], 60)
    assert done.returncode == 0, done.stderr
    assert "lab worker" in done.stdout
    where = "import thence, thence.engine.tagged as t; print(thence.__file__); print(t.__file__)"
    python = image.root / "thence" / "bin" / "python"
    found = image.run([str(python), "-c", where], 60).stdout.split()
    assert all(Path(each).is_relative_to(image.root / "thence") for each in found)
    assert found[1].endswith(".so"), "the compiled form is in the image"
    assert (image.root / "experiments" / "quick.toml").is_file()


def test_coordinator_and_workers_of_the_compose_file_run_a_lab(image: Stage):
    (image.root / "experiments" / "mine.toml").write_text(SCENARIO)
    secret = image.root / "run" / "secrets" / "lab-secret"
    secret.parent.mkdir(parents=True)
    secret.write_text("known to the lab\n")
    secret.chmod(0o400)
    (port,) = free_ports(1)
    services: dict[str, Any] = compose(LAB_FILE="mine.toml", LAB_WORKERS="2")["services"]

    def start(service: str) -> subprocess.Popen[str]:
        hosts = re.compile(r"^(coordinator|0\.0\.0\.0):7070$")
        words = [hosts.sub(f"127.0.0.1:{port}", word) for word in services[service]["command"]]
        return image.start(words)

    started = [start("coordinator"), start("worker"), start("worker")]
    try:
        said = [each.communicate(timeout=LAB_S)[0] for each in started]
    finally:
        for each in started:
            each.kill()
            each.wait()
    assert [each.returncode for each in started] == [0, 0, 0], said
    assert "ok: 1 run" in said[0]
    assert all("all runs are done" in each for each in said[1:])
    assert (image.root / "lab" / "out" / "report" / "index.html").is_file()
