"""A real browser, one for all tests of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")
READY_MS = 30_000


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address and waits until the page has drawn; what its scripts complain of fails."""
    complaints: list[str] = []
    contexts = []

    def visit(address: str, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 700}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(READY_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else 0)
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        return page

    yield visit
    for context in contexts:
        context.close()
    # A server that a test has stopped is nothing to complain of.
    assert not [words for words in complaints if "ERR_CONNECTION_REFUSED" not in words]
