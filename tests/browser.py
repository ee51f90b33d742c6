"""A real browser, driven over chromedriver's own protocol (WebDriver, JSON over HTTP)."""

import contextlib
import http.client
import json
import re
import shutil
import subprocess
import time

import pytest

from tests import programs

__all__ = ["Browser", "browsing", "needs_browser"]

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for what is an element

needs_browser = pytest.mark.skipif(
    shutil.which("chromedriver") is None,
    reason="chromedriver is not installed: apt-get install chromium chromium-driver",
)


class Browser:
    """One window."""

    def __init__(self, port, profile):
        """Opens it; ``profile``: a folder of its own."""
        self._port = port
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        options = {"args": [*arguments, f"--user-data-dir={profile}"]}
        wanted = {"alwaysMatch": {"goog:chromeOptions": options}}
        self._session = ""
        self._session = "/" + self._call("", {"capabilities": wanted})["sessionId"]

    def _call(self, path, document=None, method="POST"):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=programs.LIMIT)
        try:
            body = None if method != "POST" else json.dumps(document or {})
            connection.request(method, f"/session{self._session}{path}", body)
            response = connection.getresponse()
            value = json.loads(response.read())["value"]
            assert response.status == 200, value
            return value
        finally:
            connection.close()

    def open(self, url):
        """Goes to a page, and waits until it is there."""
        self._call("/url", {"url": url})

    def run(self, script):
        """Returns what a script returns."""
        return self._call("/execute/sync", {"script": script, "args": []})

    def run_async(self, script):
        """Returns what a script gives to the function that it finds as its last argument."""
        return self._call("/execute/async", {"script": script, "args": []})

    def until(self, script):
        """Waits until a script returns something that is true; returns it."""
        limit = time.monotonic() + programs.LIMIT
        while not (found := self.run(script)):
            if time.monotonic() > limit:
                text = self.run("return document.body.innerText")
                pytest.fail(f"{script!r} is never true; the page says: {text}")
        return found

    def _element(self, xpath):
        return self._call("/element", {"using": "xpath", "value": xpath})[_ELEMENT]

    def type(self, xpath, text):
        """Types into a field; of a field for files the path of one."""
        self._call(f"/element/{self._element(xpath)}/value", {"text": text})

    def click(self, xpath):
        """Clicks on an element."""
        self._call(f"/element/{self._element(xpath)}/click")

    def close(self):
        """Closes the window."""
        self._call("", method="DELETE")


@contextlib.contextmanager
def browsing(profile):
    """A browser, for the time of the block."""
    command = ["chromedriver", "--port=0"]
    with programs.started(command, stdout=subprocess.PIPE, text=True) as driver:
        for line in driver.stdout:
            if found := re.search(r"successfully on port (\d+)", line):
                break
        else:
            pytest.fail("chromedriver has ended")
        with contextlib.closing(Browser(int(found[1]), profile)) as browser:
            yield browser
