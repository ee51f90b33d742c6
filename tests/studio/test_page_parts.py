"""Tests of the parts of the dashboard's page: opened nodes, time axis, table, narrow screens."""

import contextlib
import itertools
import json
import re
from dataclasses import replace

import pytest

from modelflow.draw.outline import Outline, OutlineEdge, OutlineNode
from modelflow.runtime.stats import Histogram
from modelflow.studio.dashboard import Dashboard
from tests.browser import browsing, needs_browser
from tests.studio.moments import moment

pytestmark = needs_browser


class Source:
    """Snapshots for a page, in order; the last snapshot stays."""

    def __init__(self, *moments):
        self.moments = list(moments)

    def look(self):
        return self.moments.pop(0) if len(self.moments) > 1 else self.moments[0]

    def show(self, *moments):
        """Adds snapshots to show next."""
        self.moments += moments


@contextlib.contextmanager
def shown(*moments, every=0.02, **more):
    """Yields the page in a browser, and the source of its snapshots."""
    source = Source(*moments)
    with Dashboard(source.look, every=every) as served, browsing(**more) as browser:
        browser.open(served.url)
        yield browser.page, source
        assert browser.complaints == []


def changed(snapshot, node, **values):
    """Returns the snapshot with other values of a node's statistics."""
    nodes = {**snapshot.stats.nodes, node: replace(snapshot.stats[node], **values)}
    return replace(snapshot, stats=replace(snapshot.stats, nodes=nodes))


def busy_moment(seconds):
    """Returns a flow whose last node took 4 rows a call, in 2 ms each."""
    now = moment(seconds, rows=int(seconds * 40))
    calls = int(seconds * 10)
    return changed(
        now,
        "infer",
        batch_size=4,
        batch_sizes={4: calls},
        batch_seconds={4: calls * 2e-3},
        closed={"full": calls},
        service=Histogram({83: calls}, calls * 2e-3),
        wait=Histogram({87: calls}, calls * 4e-3),
    )


@pytest.mark.parametrize("way", ["click", "Enter"])
def test_a_node_is_opened_and_escape_gives_the_focus_back(way):
    from playwright.sync_api import expect

    with shown(busy_moment(1.0), busy_moment(9.0)) as (page, _):
        card = page.locator("[data-node=infer]")
        expect(page.locator("tr[data-row=infer] td[data-column=rows]")).to_have_text("360")
        if way == "click":
            card.click()
        else:
            card.focus()
            page.keyboard.press(way)
        panel = page.locator("[data-panel=infer]")
        expect(panel).to_be_focused()
        expect(card).to_have_attribute("aria-expanded", "true")
        page.keyboard.press("Escape")
        expect(panel).to_have_count(0)
        expect(card).to_be_focused()


def test_an_opened_node_shows_its_calls_waits_batches_and_settings():
    from playwright.sync_api import expect

    with shown(busy_moment(1.0), busy_moment(9.0)) as (page, _):
        page.locator("[data-node=infer]").click()
        panel = page.locator("[data-panel=infer]")
        expect(panel).to_contain_text("Rows a call, of at most 4")
        for name, value in (("full", "80"), ("4", "80"), ("from 1.8 ms", "80")):
            bar = panel.locator("li").filter(has=page.get_by_text(name, exact=True))
            expect(bar.locator(".value")).to_have_text(value)
        expect(panel.locator(".marks").nth(1)).to_contain_text("3.8 ms")
        expect(panel).to_contain_text("device")
        panel.get_by_role("button", name="Close").click()
        expect(panel).to_have_count(0)


def test_the_charts_begin_with_the_history_of_the_server():
    from playwright.sync_api import expect

    steps = [moment(float(second), rows=second * 3) for second in range(0, 600, 10)]
    with shown(*steps, steps[-1]) as (page, source):
        rows = page.locator("tr[data-row=infer] td[data-column=rows]")
        expect(rows).to_have_text("1,770")
        source.show(moment(600.0, rows=1770 + 90))
        expect(rows).to_have_text("1,860")
        page.reload()
        expect(rows).to_have_text("1,860")
        rate = page.locator("[data-chart=rate] strong")
        slider = page.get_by_role("slider", name="Moment")
        expect(slider).to_have_attribute("aria-valuetext", "now")
        slider.focus()
        for _ in range(6):  # half a minute of five
            page.keyboard.press("ArrowLeft")
        expect(slider).to_have_attribute("aria-valuenow", "-30")
        expect(rate).to_have_text("3.0")
        page.keyboard.press("Escape")
        expect(slider).to_have_attribute("aria-valuenow", "0")


def test_a_paused_time_axis_stands_still_and_goes_on():
    from playwright.sync_api import expect

    with shown(moment(1.0), moment(2.0, rows=10)) as (page, source):
        inside = page.locator("[data-chart=inside] strong")
        expect(inside).to_have_text("0")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_text("paused at")).to_be_visible()
        line = page.locator(".plot .line").first
        before = line.get_attribute("d")
        source.show(moment(33.0, rows=10, queue=7))
        expect(page.locator("[data-figure=inside] dd")).to_have_text("14")
        expect(inside).to_have_text("0")
        assert line.get_attribute("d") == before
        page.get_by_role("button", name="Go on").click()
        expect(inside).to_have_text("14")


def test_the_axis_covers_one_five_or_thirty_minutes():
    from playwright.sync_api import expect

    with shown(moment(1.0)) as (page, _):
        for name, seconds in (("1 min", 60), ("30 min", 1800), ("5 min", 300)):
            page.get_by_role("button", name=name, exact=True).click()
            slider = page.get_by_role("slider", name="Moment")
            expect(slider).to_have_attribute("aria-valuemin", str(-seconds))


def test_a_changed_setting_is_marked_and_named():
    from playwright.sync_api import expect

    def planned(seconds, threads):
        now = moment(seconds)
        plan = ({**now.plan[0], "threads": f"{threads} (set)"}, *now.plan[1:])
        return replace(now, plan=plan)

    with shown(planned(1.0, 1), planned(2.0, 3)) as (page, _):
        expect(page.locator("[data-change='decode: threads 1 → 3']")).to_be_visible()
        expect(page.locator(".cursor .mark")).to_have_count(1)


def test_the_table_is_sorted_by_a_press_on_a_column():
    from playwright.sync_api import expect

    last = changed(moment(2.0, rows=9), "decode", threads=3)
    with shown(moment(1.0), last) as (page, _):
        names = page.locator("tbody th")
        head = page.get_by_role("columnheader", name="threads")
        expect(head).to_have_attribute("aria-sort", "none")
        page.get_by_role("button", name="node").click()
        expect(names).to_have_text(["infer", "decode"])
        page.get_by_role("button", name="threads").click()
        expect(head).to_have_attribute("aria-sort", "descending")
        expect(names).to_have_text(["decode", "infer"])
        page.get_by_role("button", name="threads").click()
        expect(head).to_have_attribute("aria-sort", "ascending")
        expect(names).to_have_text(["infer", "decode"])
        assert page.locator("thead button:not([title])").count() == 0


def test_an_error_has_its_time_and_opens_its_node():
    from playwright.sync_api import expect

    failed = {"errors": 3, "failures": {"OSError": 1, "ValueError": 2}, "last_error": "a.jpg: no"}
    last = changed(moment(9.0, rows=9), "infer", **failed)
    earlier = changed(last, "infer", failed_at={"OSError": 48.0, "ValueError": 108.0})
    with shown(moment(1.0), earlier) as (page, _):
        trouble = page.locator("[data-trouble=infer]")
        kinds = trouble.locator(".kinds li")
        expect(kinds).to_have_count(2)
        expect(kinds.first).to_contain_text("2 ValueError, last at")
        expect(kinds.first).to_contain_text("a.jpg: no")
        clocks = [
            re.search(r"at \d\d:(\d\d):(\d\d)", one).groups() for one in kinds.all_inner_texts()
        ]
        (minute, second), (minute_before, second_before) = clocks
        assert second == second_before
        assert (int(minute) - int(minute_before)) % 60 == 1
        trouble.get_by_role("button", name="infer").click()
        expect(page.locator("[data-panel=infer]")).to_contain_text("2 ValueError")


def test_on_a_narrow_screen_the_graph_runs_down_and_only_the_table_scrolls():
    from playwright.sync_api import expect

    with shown(moment(2.0, rows=9), viewport={"width": 390, "height": 800}) as (page, _):
        decode, infer = (page.locator(f"[data-node={name}]") for name in ("decode", "infer"))
        expect(decode).to_be_visible()
        above, below = decode.bounding_box(), infer.bounding_box()
        assert above["y"] + above["height"] < below["y"]
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        region = page.get_by_role("region", name="Nodes")
        region.evaluate("region => region.scrollTo(300, 0)")
        name, place = page.locator("tr[data-row=infer] th"), region.bounding_box()["x"]
        assert name.bounding_box()["x"] == place


def chain_of(count):
    names = [f"stage{number}" for number in range(count)]
    nodes = tuple(OutlineNode(name, "cpu", (name,), ("in",), ("out",)) for name in names)
    edges = (OutlineEdge(one, "out", other, "in") for one, other in itertools.pairwise(names))
    return Outline("chain", nodes, tuple(edges))


def test_twelve_nodes_are_readable_beside_the_charts():
    from playwright.sync_api import expect

    now = moment(2.0)
    node = now.stats["infer"]
    nodes = {f"stage{number}": replace(node, node=f"stage{number}") for number in range(12)}
    now = replace(now, stats=replace(now.stats, nodes=nodes), outline=chain_of(12))
    with shown(now, viewport={"width": 1280, "height": 900}) as (page, _):
        expect(page.locator("[data-node]")).to_have_count(12)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        widths = {box["width"] for box in map(_box, page.locator("[data-node]").all())}
        assert min(widths) >= 190
        charts, last = _box(page.locator(".charts")), _box(page.locator("[data-node]").last)
        assert charts["x"] > last["x"] + last["width"]


def _box(locator):
    return locator.bounding_box()


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_moves_when_the_sentence_changes(width):
    from playwright.sync_api import expect

    failed = {"errors": 600, "failures": {"ValueError": 600}}
    first, last = moment(1.0), moment(11.0, rows=800)
    size = {"width": width, "height": 900}
    with shown(first, viewport=size) as (page, source):
        expect(page.locator(".verdict")).to_have_text("looking")
        expect(page.locator(".runner-up")).to_contain_text("No rows yet")
        before = _box(page.locator("[data-figure=rate]"))
        source.show(changed(last, "infer", **failed))
        expect(page.locator(".verdict.finding")).to_be_visible()
        assert _box(page.locator("[data-figure=rate]")) == before


def test_a_page_without_rows_tells_where_they_come_from():
    from playwright.sync_api import expect

    with shown(moment(184.0)) as (page, source):
        expect(page.locator(".runner-up")).to_contain_text("sends them to input")
        expect(page.locator("header")).to_contain_text("for 3 min 4 s")
        source.show(moment(185.0, rows=4))
        expect(page.locator(".runner-up")).not_to_contain_text("No rows yet")


def test_a_flow_with_sources_has_rows_inside_and_no_requests():
    from playwright.sync_api import expect

    def camera(seconds):
        calls = int(seconds * 9)
        now = moment(seconds, rows=calls, queue=3)
        now = changed(now, "infer", calling=2, service=Histogram({83: calls}, calls * 2e-3))
        now = changed(now, "decode", service=Histogram({83: calls}, calls * 2e-3))
        outline = replace(now.outline, nodes=now.outline.nodes[1:], edges=now.outline.edges[1:])
        return replace(now, outline=outline)

    with shown(camera(1.0), camera(5.0)) as (page, _):
        expect(page.locator("[data-figure=inside] dd")).to_have_text("8")
        expect(page.locator("[data-figure=in-flight]")).to_have_count(0)
        expect(page.locator("[data-figure=passage] dd")).to_have_text("2.0 ms")


def test_the_machine_is_shown_as_far_as_it_is_known():
    from playwright.sync_api import expect

    def used(seconds, **more):
        return replace(moment(seconds), process={"processor_seconds": seconds / 2, **more})

    with shown(used(1.0), used(3.0)) as (page, source):
        expect(page.locator("[data-figure=cpu]")).to_have_text("CPU, of 2 cores0.50")
        expect(page.locator("[data-figure=memory]")).to_have_count(0)
        expect(page.locator("[data-figure=gpu]")).to_have_count(0)
        gpus = {"gpus": 2.0, "gpu_share": 0.8, "gpu_bytes": 4.2e9}
        source.show(used(4.0, resident_bytes=123e6, **gpus))
        expect(page.locator("[data-figure=memory] dd")).to_have_text("123 MB")
        expect(page.locator("[data-figure=gpu]")).to_have_text("GPU, of 20.80")
        expect(page.locator("[data-figure=gpu-memory] dd")).to_have_text("4.2 GB")


def test_all_requests_of_a_recording_share_one_scale_and_one_colour_a_node():
    from playwright.sync_api import expect

    def request(session, seconds):
        half = {"start": 0.0, "end": seconds / 2, "rows": 1, "batch": 1, "error": ""}
        parts = [
            {"node": "decode", **half},
            {"node": "infer", **half, "start": seconds / 2, "end": seconds},
        ]
        document = {"session": session, "seconds": seconds, "over": True, "left_out": 0}
        return {**document, "parts": parts}

    recording = {"on": False, "has": True, "slices": 4, "version": 1, "problem": ""}
    event = f"event: recording\ndata: {json.dumps(recording)}\n\n"
    source = Source(moment(1.0, rows=2))
    with Dashboard(source.look, every=0.02) as served, browsing() as browser:
        served._board._beside = event.encode
        body = json.dumps([request("1", 2.0), request("2", 1.0)])
        browser.page.route("**/requests*", lambda route: route.fulfill(body=body))
        browser.open(served.url)
        calls = browser.page.locator("[data-request] summary .call")
        expect(calls).to_have_count(4)
        widths = [round(_box(one)["width"]) for one in calls.all()]
        assert widths[0] == widths[1] == pytest.approx(2 * widths[2], abs=1)
        lane = browser.page.locator("[data-request] summary .lane").first
        assert _box(lane)["width"] == pytest.approx(widths[0] + widths[1], abs=2)
        colours = calls.evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
        assert colours[:2] == colours[2:]
        assert colours[0] != colours[1]
        legend = browser.page.get_by_role("list", name="Nodes of the requests")
        expect(legend.locator("li")).to_have_text(
            ["1 decode", "2 infer", "failed", "waiting for a call"]
        )
