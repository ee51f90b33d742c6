"""Measures the cost of the dashboard, and the memory of its page over a long time.

python benchmarks/dashboard.py [--minutes 10] [--quick]

Needs Debian's chromium, and playwright.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from child import started
from machine import cpu_seconds, machine
from measure import print_table

# A flow of 30 nodes. It reads commands from its standard input, and prints their results.
_FLOW = """
import json, sys, threading
import modelflow
from modelflow.studio.dashboard import Dashboard

names = [f"n{number}" for number in range(30)]
graph = "digraph flow { in[type=input] out[type=output] "
graph += " ".join(f"{name}[flowunit=plus]" for name in names)
graph += f" in -> {' -> '.join(names)} -> out }}"

@modelflow.flowunit
def plus(number):
    return number + 1

over = threading.Event()
def load():
    while not over.wait(RATE):
        flow.infer(0)

with modelflow.Flow(graph, units=[plus]) as flow:
    page = None
    for line in sys.stdin:
        word = line.strip()
        if word == "page":
            page = Dashboard.of(flow).__enter__()
            print(page.url, flush=True)
        elif word == "load":
            loading = threading.Thread(target=load)
            loading.start()
            print("loading", flush=True)
        elif word == "rest":
            over.set()
            loading.join()
            stats = flow.stats()
            print(json.dumps({name: stats[name].buffers for name in names}), flush=True)
    if page is not None:
        page.__exit__(None, None, None)
"""
_RATE = 0.02  # seconds between two requests
_LOOKS = 10
_SHOWN = """() => Object.fromEntries([...document.querySelectorAll("tr[data-row]")].map(
    row => [row.dataset.row,
            Number(row.querySelector("[data-column=rows]").textContent.replaceAll(",", ""))]))"""
_ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]


class Flow:
    """The flow, in a process of its own."""

    def __init__(self, process: subprocess.Popen) -> None:
        """Takes the process."""
        self._process = process

    def tell(self, word: str) -> str:
        """Sends a command, and returns the reply."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def share(self, seconds: float, watch: Callable[[float], object]) -> float:
        """Returns the percentage of a processor that the flow's process uses during ``watch``."""
        before = cpu_seconds(self._process.pid)
        watch(seconds)
        return (cpu_seconds(self._process.pid) - before) / seconds * 100


class Browser:
    """The dashboard's page, in a browser."""

    def __init__(self, context: Any) -> None:
        """Takes Playwright's context."""
        self._context = context
        self._page = context.pages[0]

    def open(self, url: str) -> None:
        """Opens the dashboard's page, and waits until the page is live."""
        self._page.goto(url)
        self._page.locator("[data-link=live]").wait_for()

    def close(self) -> None:
        """Leaves the dashboard."""
        self._page.goto("about:blank")
        self.look(1.0)

    def look(self, seconds: float) -> None:
        """Leaves the page open for so many seconds."""
        self._page.wait_for_timeout(seconds * 1e3)

    def heap(self) -> float:
        """Collects garbage, and returns the size of the page's heap in MB."""
        session = self._context.new_cdp_session(self._page)
        session.send("HeapProfiler.collectGarbage")
        used: float = session.send("Runtime.getHeapUsage")["usedSize"] / 1e6
        session.detach()
        return used

    def rows(self) -> dict[str, int]:
        """Returns the rows of each node, as the page's table shows them."""
        found: dict[str, int] = self._page.evaluate(_SHOWN)
        return found


def compare(
    flow: Flow, browser: Browser, short: float, long: float
) -> tuple[dict[str, float], list[float], int]:
    """Returns processor shares, heaps of the page over time, and the number of correct nodes."""
    wait, shares = threading.Event().wait, {}
    shares["idle, no dashboard"] = flow.share(short, wait)
    url = flow.tell("page")
    shares["idle, page never opened"] = flow.share(short, wait)
    browser.open(url)
    shares["idle, page open"] = flow.share(short, browser.look)
    browser.close()
    shares["idle, page closed again"] = flow.share(short, wait)
    flow.tell("load")
    shares["50 requests/s, page closed"] = flow.share(short, wait)
    browser.open(url)
    heaps, looks = [browser.heap()], []
    for _ in range(_LOOKS):
        looks.append(flow.share(long / _LOOKS, browser.look))
        heaps.append(browser.heap())
    shares["50 requests/s, page open"] = sum(looks) / len(looks)
    told: dict[str, int] = json.loads(flow.tell("rest"))
    browser.look(2.0)
    shown = browser.rows()
    return shares, heaps, sum(shown.get(name) == rows for name, rows in told.items())


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="with the page, under load")
    parser.add_argument("--quick", action="store_true", help="seconds: to see that it runs")
    options = parser.parse_args()
    short, long = (2.0, 4.0) if options.quick else (20.0, options.minutes * 60)
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("needs chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    program = _FLOW.replace("RATE", str(_RATE))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        machine() as ran_on,
        tempfile.TemporaryDirectory() as profile,
        started([sys.executable, "-c", program], **pipes) as process,
        sync_playwright() as playwright,
        playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium, args=_ARGUMENTS
        ) as context,
    ):
        shares, heaps, right = compare(Flow(process), Browser(context), short, long)
    rows = [(name, f"{share:.2f}") for name, share in shares.items()]
    print_table("A flow of 30 nodes", ("its process", "% of a processor"), rows)
    step = long / _LOOKS
    points = [(f"{place * step:.0f} s", f"{size:.2f}") for place, size in enumerate(heaps)]
    print_table("The page", ("open for", "heap, MB"), points)
    print(f"\nnodes whose rows are shown as Flow.stats() has them at the end: {right} of 30")
    print(ran_on)


if __name__ == "__main__":
    main()
