"""A real browser, or a skip that says how to get one; a failure where one must be there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ADVICE = "the page is tested in a real Chromium: apt-get install chromium (or put one on the PATH)"


@pytest.fixture(scope="session")
def browser() -> Iterator:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'pdebench-hss[test]' for playwright")
    path = next((found for found in map(shutil.which, BROWSERS) if found), None)
    if path is None and sys.platform == "linux" and os.environ.get("GITHUB_ACTIONS"):  # its runners have one
        pytest.fail(ADVICE)
    if path is None:
        pytest.skip(ADVICE)
    with playwright.sync_playwright() as tool:
        # Chromium's own sandbox does not start as root, which is what containers run as.
        started = tool.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield started
        started.close()


@pytest.fixture
def page(browser):
    """A page that fails the test if anything is written to its console or thrown in it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_default_timeout(15_000)
    yield page
    context.close()
    assert complaints == []
