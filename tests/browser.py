"""A real browser: Debian's Chromium, driven by Playwright."""

import contextlib
import importlib.util
import shutil
import time

import pytest

from tests import programs

__all__ = ["Browser", "browsing", "needs_browser"]

_CHROMIUM = shutil.which("chromium")
_IS_MISSING = _CHROMIUM is None or importlib.util.find_spec("playwright") is None

needs_browser = pytest.mark.skipif(
    _IS_MISSING,
    reason="a browser is not installed: apt-get install chromium; pip install playwright",
)

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
    """One window.

    Attributes:
        page: Playwright's page.
        complaints: What the page has written to its console as an error, or raised.
    """

    def __init__(self, page):
        """Takes the page."""
        self.page = page
        self.complaints = []
        page.set_default_timeout(programs.LIMIT * 1e3)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "console",
            lambda said: self.complaints.append(said.text) if said.type == "error" else None,
        )

    def open(self, url):
        """Goes to a page, and waits until it is there."""
        self.page.goto(url)

    def run(self, script):
        """Returns what a script returns."""
        return self.page.evaluate(f"() => {{{script}}}")

    def run_async(self, script):
        """Returns what a script gives to the function that it finds as its last argument."""
        return self.page.evaluate(
            f"() => new Promise(done => (function () {{{script}}}).call(null, done))"
        )

    def until(self, script):
        """Waits until a script returns something that is true; returns it."""
        limit = time.monotonic() + programs.LIMIT
        while not (found := self.run(script)):
            if time.monotonic() > limit:
                text = self.run("return document.body.innerText")
                pytest.fail(f"{script!r} is never true; the page says: {text}")
            self.page.wait_for_timeout(20)
        return found

    def type(self, xpath, text):
        """Types into a field; of a field for files the path of one."""
        field = self.page.locator(f"xpath={xpath}").first
        if field.get_attribute("type") == "file":
            field.set_input_files(text)
        else:
            field.press_sequentially(text)

    def click(self, xpath):
        """Clicks on an element."""
        self.page.locator(f"xpath={xpath}").first.click()


@contextlib.contextmanager
def browsing(profile, **more):
    """A browser, for the time of the block.

    Args:
        profile: A folder of its own.
        more: As for Playwright's ``launch_persistent_context``: ``color_scheme="dark"``.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=_CHROMIUM, args=_ARGUMENTS, **more
        )
        with contextlib.closing(context):
            yield Browser(context.pages[0] if context.pages else context.new_page())
