"""Tables that were measured of traces lie beside them and are not read as traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from thence.errors import UnusableInputError
from thence.trace.files import folders
from thence.trace.reader import find_places
from thence.trace.segments import Quarantine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "run.json").write_text('{"run": "one"}')
    for name in ("runs", "logs", "metrics"):
        folder = tmp_path / "metrics" / name
        folder.mkdir(parents=True)
        (folder / "part.parquet").write_text("")
    (tmp_path / "metrics" / "metrics.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("start", ["", "file://"])
def test_what_is_below_a_folder_of_tables_is_not_looked_into(root: Path, start: str):
    found = [folder for folder, names in folders(f"{start}{root}") if names]
    assert found == [f"{start}{root}/metrics", f"{start}{root}/runs/one"]
    places = find_places([f"{start}{root}"], Quarantine())
    assert [place.path for place in places] == [f"{start}{root}/runs/one"]


@pytest.mark.parametrize("start", ["", "file://"])
def test_a_metrics_json_of_somebody_else_hides_nothing(root: Path, start: str):
    (root / "metrics.json").write_text("{}")
    assert [place.path for place in find_places([f"{start}{root}"], Quarantine())] == [
        f"{start}{root}/runs/one"
    ]
    (root / "metrics" / "logs" / "part.parquet").unlink()
    (root / "metrics" / "logs").rmdir()
    assert f"{start}{root}/metrics/runs" in [folder for folder, _ in folders(f"{start}{root}")]


def test_a_folder_of_tables_alone_holds_no_trace(root: Path):
    with pytest.raises(UnusableInputError, match="holds no trace"):
        find_places([root / "metrics"], Quarantine())
