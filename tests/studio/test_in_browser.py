"""Tests of the dashboard from a user's view, in a real browser."""

import contextlib
import gzip
import json
import re
import threading
from functools import partial
from pathlib import Path

import pytest

import modelflow
from modelflow.errors import ConfigError
from modelflow.profile.snapshot import Snapshot
from modelflow.studio.dashboard import Dashboard
from tests.browser import browsing, needs_browser
from tests.programs import LIMIT
from tests.studio.axe import serious
from tests.studio.load import load, slow_flow
from tests.studio.moments import far_moment, moment

pytestmark = needs_browser

ROOT = Path(__file__).resolve().parents[2]
GRAPH = """digraph faces {
    input [type=input]
    check [threads=1]
    hold [batch_size=1, threads=1, queue_size=16]
    out [type=output]
    input -> check -> hold -> out
}"""


class Held:
    """A stopped flow: of ten rows two failed, another is in the last node, and nine wait."""

    def __init__(self):
        self.is_inside, self.go = threading.Event(), threading.Event()

        @modelflow.flowunit
        def check(number):
            """Refuses odd thousands."""
            if number >= 1000:
                raise ValueError(f"{number} is too large")
            return number

        @modelflow.flowunit(is_one_by_one=False)
        def hold(number):
            """Waits until the test lets the unit go on."""
            self.is_inside.set()
            self.go.wait(LIMIT)
            return number

        self.flow = modelflow.Flow(GRAPH, units=[check, hold])

    def __enter__(self):
        self.flow.start()
        self.stream = self.flow.create_stream_io()
        for number in (0, 1000, 1001, *range(1, 8)):
            self.stream.send("input", number)
        self.stream.close_input()
        assert self.is_inside.wait(LIMIT)
        return self

    def __exit__(self, *_):
        self.go.set()
        self.flow.stop()

    def look(self):
        return Snapshot.of_flow(self.flow)

    def finish(self):
        """Releases all rows."""
        self.go.set()
        while True:
            try:
                self.stream.recv("out")
            except modelflow.FlowUnitError:
                continue
            except modelflow.EndOfStream:
                return


@pytest.fixture
def held():
    with Held() as flow:
        yield flow


@contextlib.contextmanager
def seen(look, every=0.05, record=None, **more):
    """Yields the page in a browser."""
    with (
        Dashboard(look, every=every, record=record) as served,
        browsing(**more) as browser,
    ):
        browser.open(served.url)
        yield browser.page, browser


def cell(page, node, column):
    return page.locator(f"tr[data-row={node}] td[data-column='{column}']")


def test_the_page_shows_what_the_flow_says_of_itself(held):
    from playwright.sync_api import expect

    with seen(held.look) as (page, browser):
        expect(cell(page, "hold", "queue")).to_have_text("9 of 16")
        expect(cell(page, "check", "rows")).to_have_text("10")
        stats = held.flow.stats()
        for node in ("check", "hold"):
            expect(cell(page, node, "rows")).to_have_text(str(stats[node].buffers))
            expect(cell(page, node, "failed")).to_have_text(str(stats[node].errors))
            expect(cell(page, node, "threads")).to_have_text("1")
        assert stats["check"].errors == 2
        expect(page.locator("[data-trouble=check]")).to_contain_text("2 failed")
        expect(page.locator("[data-trouble=check]")).to_contain_text(
            re.compile(r"2 ValueError, last at \d\d:\d\d:\d\d")
        )
        expect(page.locator("[data-trouble=check]")).to_contain_text("1001 is too large")
        expect(page.locator("[data-figure=in-flight] dd")).to_have_text(str(stats.in_flight))
        expect(page.locator("[data-node=hold]")).to_have_attribute(
            "aria-label", "hold cpu 0.0 rows/s · 0.0 per call, busy 100 %, queue 9 of 16 rows"
        )
        expect(
            page.locator("[data-node=hold] .cell.taken, [data-node=hold] .cell.full")
        ).to_have_count(9)
        expect(page.locator("[data-link]")).to_contain_text("live")
        expect(page).to_have_title("faces · modelflow")
        held.finish()
        expect(cell(page, "hold", "rows")).to_have_text("8")
        expect(page.locator("[data-figure='outcome-failed'] dd")).to_have_text("1")
        assert browser.complaints == []


def test_nodes_behind_a_far_one_have_rows_of_their_own():
    from playwright.sync_api import expect

    with seen(lambda: far_moment(4.0, 10, 20)) as (page, browser):
        row = page.locator("tr[data-row='infer > net']")
        expect(row.locator("th")).to_have_text("infer > net")
        expect(row.locator("td[data-column=rows]")).to_have_text("30")
        expect(row.locator("td[data-column=threads]")).to_have_text("2")
        assert browser.complaints == []


@pytest.fixture
def fed():
    """Yields a flow with too many rows: its last node is slow, its second rejects some."""
    over = threading.Event()
    with slow_flow(over.wait) as flow, load(flow):
        yield flow
        over.set()


def test_what_limits_a_flow_under_load_is_said_and_marked(fed):
    from playwright.sync_api import expect

    with seen(partial(Snapshot.of_flow, fed), every=0.5) as (page, _):
        page.set_viewport_size({"width": 1200, "height": 1000})
        expect(page.locator(".verdict:not(.idle)")).to_be_visible(timeout=LIMIT * 1e3)
        expect(page.locator("[data-trouble=resize]")).to_contain_text(".jpg is no JPEG")
        expect(cell(page, "infer", "rows/s")).not_to_have_text("0.0")
        shown = page.evaluate(
            """() => [
                document.querySelector(".verdict").classList.contains("finding"),
                document.querySelector(".verdict").dataset.verdict,
                document.querySelector(".limiting")?.dataset.node,
            ]"""
        )
    is_finding, node, marked = shown
    assert marked == (node if is_finding and node in fed.stats() else None)


def test_tab_goes_through_the_nodes_in_the_order_of_the_data(held):
    with seen(held.look) as (page, _):
        page.locator("[data-node=input]").focus()
        order = [page.evaluate("document.activeElement.dataset.node")]
        for _ in range(3):
            page.keyboard.press("Tab")
            order.append(page.evaluate("document.activeElement.dataset.node"))
    assert order == ["input", "check", "hold", "out"]


def test_when_the_flow_ends_its_last_figures_stay(held):
    from playwright.sync_api import expect

    with browsing() as browser:
        page = browser.page
        with Dashboard(held.look, every=0.05) as served:
            browser.open(served.url)
            expect(cell(page, "check", "rows")).to_have_text("10")
            held.finish()
        expect(page.locator("[data-link=ended]")).to_contain_text("the flow has ended")
        expect(cell(page, "hold", "rows")).to_have_text("8")


def test_who_is_away_is_said_to_be_so_until_he_is_back():
    from playwright.sync_api import expect

    answers = [moment(1.0)]

    def look():
        if isinstance(answers[-1], Exception):
            raise answers[-1]
        return answers[-1]

    with seen(look) as (page, _):
        expect(page.locator("[data-link=live]")).to_be_visible()
        answers.append(ConfigError("http://127.0.0.1:9100/stats: no answer: refused"))
        expect(page.locator("[data-link=lost]")).to_contain_text("disconnected since")
        expect(page.locator("[data-link=lost]")).to_contain_text("no answer: refused")
        answers.append(moment(2.0, rows=5))
        expect(page.locator("[data-link=live]")).to_be_visible()
        expect(cell(page, "decode", "rows")).to_have_text("5")


def test_a_page_without_its_server_says_so():
    from playwright.sync_api import expect

    with browsing() as browser, Dashboard(lambda: moment(1.0)) as served:
        browser.open(f"{served.url}wrong")
        assert "has no token, or a wrong one" in browser.page.inner_text("body")
        browser.open(served.url)
        expect(browser.page.locator("[data-link=live]")).to_be_visible()
        browser.page.route("**/events*", lambda route: route.abort())
        browser.page.reload()
        expect(browser.page.locator("[data-link=lost]")).to_contain_text("does not answer")


def test_a_recording_is_begun_and_ended_and_its_requests_are_seen(held):
    from playwright.sync_api import expect

    with seen(held.look, record=held.flow.record) as (page, browser):
        page.get_by_role("button", name="Record").click()
        expect(page.locator("[data-recording=on]")).to_be_visible()
        held.finish()
        for number in range(3):
            held.flow.infer(number)
        expect(page.locator("[data-recording]")).to_contain_text(
            "calls and waits; the recording stops"
        )
        page.get_by_role("button", name="Stop recording").click()
        expect(page.locator("[data-recording=ended]")).to_be_visible()
        request = page.locator("[data-request]").first
        request.locator("summary").click()
        expect(request.locator("[data-part]")).to_have_count(2)
        expect(request.locator("[data-part=hold]")).to_contain_text("2 hold")
        expect(request.get_by_role("img")).to_have_attribute(
            "aria-label", re.compile("check from .*; hold from .*, 1 of 1 rows in the batch")
        )
        with page.expect_download() as download:
            page.get_by_role("link", name="Download the trace").click()
        trace = gzip.decompress(Path(download.value.path()).read_bytes())
        assert {"check", "hold"} <= {event.get("name") for event in json.loads(trace)}
        assert browser.complaints == []


def test_no_request_leaves_this_machine(held):
    from playwright.sync_api import expect

    with Dashboard(held.look) as served, browsing() as browser:
        asked = []
        browser.page.on("request", lambda request: asked.append(request.url))
        browser.open(served.url)
        expect(browser.page.locator("[data-link=live]")).to_be_visible()
        home = served.url.partition("?")[0]
    assert asked
    assert all(url.startswith(home) for url in asked)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(held, scheme, width):
    from playwright.sync_api import expect

    size = {"width": width, "height": 900}
    with seen(held.look, record=held.flow.record, color_scheme=scheme, viewport=size) as (page, _):
        expect(cell(page, "hold", "queue")).to_have_text("9 of 16")
        page.get_by_role("button", name="Record").click()
        expect(page.locator("[data-recording=on]")).to_be_visible()
        held.finish()
        held.flow.infer(1)
        page.get_by_role("button", name="Stop recording").click()
        page.locator("[data-request] summary").first.click()
        page.locator("[data-node=hold]").click()
        expect(page.locator("[data-panel=hold]")).to_be_visible()
        assert serious(page) == ""


def test_an_hour_of_frames_leaves_no_heap_behind():
    from playwright.sync_api import expect

    number = [0]

    def look():
        number[0] += 1
        return moment(number[0] / 2, rows=number[0])

    def heap(page, session):
        session.send("HeapProfiler.collectGarbage")
        return session.send("Runtime.getHeapUsage")["usedSize"]

    with seen(look, every=0.0) as (page, _):
        session = page.context.new_cdp_session(page)
        rows = cell(page, "infer", "rows")
        expect(rows).to_be_visible()
        page.get_by_role("button", name="30 min").click()
        page.locator("[data-node=infer]").click()
        before = heap(page, session)
        while number[0] < 7200:
            page.wait_for_timeout(20)
        expect(page.locator("[data-link=live]")).to_be_visible()
        grown = heap(page, session) - before
    assert grown < 5e6, grown
