"""The guide to causal analytics and its example do what they say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.test_docs import blocks, printed


def test_the_guide_runs_and_prints_what_it_shows(spark: SparkSession):
    names: dict[str, Any] = {"__name__": "documentation"}
    found = blocks("docs/howto/analytics.md")
    shown = 0
    for (language, text), after in zip(found, [*found[1:], ("", "")], strict=True):
        if language == "python":
            output = printed(exec, compile(text, "docs/howto/analytics.md", "exec"), names)
            assert output == (after[1] if after[0] == "text" else "")
            shown += bool(output)
    assert shown


def test_the_example_runs_and_prints_what_it_shows(spark: SparkSession, root: Path):
    path = root / "examples/analytics.py"
    output = printed(lambda: runpy.run_path(str(path), run_name="__main__"))
    assert output
    assert "".join(f"    {line}\n" for line in output.splitlines()) in path.read_text("utf-8")
