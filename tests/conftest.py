"""What all tests share: no deadlines, tiers, and a real browser for pages (Chromium, driven by Playwright)."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

settings.register_profile("shared machine", deadline=None)  # a busy neighbour is no failure
settings.load_profile("shared machine")
# Shells start what runs in the background deaf to Ctrl-C, and programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A test belongs to the tier of the machinery that it uses; other tiers are marked in their files.
TIERS = {"chromium": "browser", "cluster": "dask", "client": "dask", "server": "slow"}
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for fixture in TIERS.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(TIERS[fixture])
    # What builds the whole site begins, so that no process waits for it in the end.
    items.sort(key=lambda item: item.get_closest_marker("docs") is None)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of a process."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        if os.environ.get("DIFFDAG_NEEDS_BROWSER"):
            pytest.fail("no Chromium found, and DIFFDAG_NEEDS_BROWSER is set")
        pytest.skip("no Chromium found; install it to test pages (apt-get install chromium)")
    from playwright.sync_api import expect, sync_playwright  # noqa: PLC0415

    expect.set_options(timeout=10_000)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page, and everything it complained of or asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)  # errors and warnings of the console, exceptions
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visit]:
    """A fresh page as wide as a desktop; `visit.page.set_viewport_size(PHONE)` makes it a phone's."""
    context = chromium.new_context(viewport=DESKTOP, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(10_000)
    seen = Visit(page)
    page.on("console", lambda said: said.type in ("error", "warning") and seen.complaints.append(said.text))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("request", lambda request: seen.requests.append(request.url))
    yield seen
    context.close()
