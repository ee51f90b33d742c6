"""A real browser: Debian's Chromium, driven by Playwright."""

import contextlib
import importlib.util
import shutil
import time
from typing import Any

import pytest

from tests import programs

__all__ = ["Browser", "browsing", "needs_browser", "one_browser"]

_CHROMIUM = shutil.which("chromium")
_IS_MISSING = _CHROMIUM is None or importlib.util.find_spec("playwright") is None

needs_browser = pytest.mark.skipif(
    _IS_MISSING,
    reason="a browser is not installed: apt-get install chromium; pip install playwright",
)

# Seconds for an expectation of a page to come true; the machine may be busy.
_PATIENCE = 30.0

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


class Browser:
    """A browser window.

    Attributes:
        page: Playwright's page.
        complaints: The errors that the page raised or wrote to its console.
    """

    def __init__(self, page):
        """Wraps a page of Playwright."""
        self.page = page
        self.complaints = []
        page.set_default_timeout(programs.LIMIT * 1e3)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "console",
            lambda said: self.complaints.append(said.text) if said.type == "error" else None,
        )

    def open(self, url):
        """Opens a page, and waits until the page has loaded."""
        self.page.goto(url)

    def run(self, script):
        """Returns the result of a script."""
        return self.page.evaluate(f"() => {{{script}}}")

    def run_async(self, script):
        """Returns the value that a script passes to the function in its last argument."""
        return self.page.evaluate(
            f"() => new Promise(done => (function () {{{script}}}).call(null, done))"
        )

    def until(self, script):
        """Waits until a script returns a true value, and returns that value."""
        limit = time.monotonic() + programs.LIMIT
        while not (found := self.run(script)):
            if time.monotonic() > limit:
                text = self.run("return document.body.innerText")
                pytest.fail(f"{script!r} is never true; the page says: {text}")
            self.page.wait_for_timeout(20)
        return found

    def type(self, xpath, text):
        """Types into a field; for a file field, sets the path."""
        field = self.page.locator(f"xpath={xpath}").first
        if field.get_attribute("type") == "file":
            field.set_input_files(text)
        else:
            field.press_sequentially(text)

    def click(self, xpath):
        """Clicks on an element."""
        self.page.locator(f"xpath={xpath}").first.click()


class _Shared:
    """The browser of a block of `one_browser`."""

    ends: contextlib.ExitStack | None = None
    chromium: Any = None


_shared = _Shared()


@contextlib.contextmanager
def one_browser():
    """Makes every `browsing` of the block share one browser, which starts with the first use.

    During the block, the thread has a running event loop of Playwright.
    """
    with contextlib.ExitStack() as _shared.ends:
        yield
    _shared.ends = _shared.chromium = None


@contextlib.contextmanager
def browsing(**more):
    """Yields a window with a separate state, for the time of the block.

    Args:
        more: As for Playwright's ``new_context``: ``color_scheme="dark"``.
    """
    with contextlib.ExitStack() as own:
        chromium = _shared.chromium or _launched(_shared.ends or own)
        if _shared.ends:
            _shared.chromium = chromium
        context = own.enter_context(contextlib.closing(chromium.new_context(**more)))
        yield Browser(context.new_page())


def _launched(ends):
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=_PATIENCE * 1e3)
    playwright = ends.enter_context(sync_playwright())
    chromium = playwright.chromium.launch(executable_path=_CHROMIUM, args=_ARGUMENTS)
    return ends.enter_context(contextlib.closing(chromium))
