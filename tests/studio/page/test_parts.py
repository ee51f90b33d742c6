"""Tests of the figures, the table, the requests and the layout of the dashboard's page."""

import itertools
import json
from dataclasses import replace

import pytest

from modelflow.draw.outline import Outline, OutlineEdge, OutlineNode
from modelflow.runtime.stats import Histogram
from modelflow.studio.dashboard import Dashboard
from tests.browser import browsing, needs_browser
from tests.studio.moments import moment
from tests.studio.page.source import Source, changed, shown

pytestmark = needs_browser


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
        widths = {node.bounding_box()["width"] for node in page.locator("[data-node]").all()}
        assert min(widths) >= 190
        charts, last = (
            page.locator(".charts").bounding_box(),
            page.locator("[data-node]").last.bounding_box(),
        )
        assert charts["x"] > last["x"] + last["width"]


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_moves_when_the_sentence_changes(width):
    from playwright.sync_api import expect

    failed = {"errors": 600, "failures": {"ValueError": 600}}
    first, last = moment(1.0), moment(11.0, rows=800)
    size = {"width": width, "height": 900}
    with shown(first, viewport=size) as (page, source):
        expect(page.locator(".verdict")).to_have_text("looking")
        expect(page.locator(".runner-up")).to_contain_text("No rows yet")
        before = page.locator("[data-figure=rate]").bounding_box()
        source.show(changed(last, "infer", **failed))
        expect(page.locator(".verdict.finding")).to_be_visible()
        assert page.locator("[data-figure=rate]").bounding_box() == before


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
        widths = [round(one.bounding_box()["width"]) for one in calls.all()]
        assert widths[0] == widths[1] == pytest.approx(2 * widths[2], abs=1)
        lane = browser.page.locator("[data-request] summary .lane").first
        assert lane.bounding_box()["width"] == pytest.approx(widths[0] + widths[1], abs=2)
        colours = calls.evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
        assert colours[:2] == colours[2:]
        assert colours[0] != colours[1]
        legend = browser.page.get_by_role("list", name="Nodes of the requests")
        expect(legend.locator("li")).to_have_text(
            ["1 decode", "2 infer", "failed", "waiting for a call"]
        )


_NO_STORAGE = """for (const name of ["localStorage", "sessionStorage"]) {
    const get = () => { throw new DOMException("refused", "SecurityError"); };
    Object.defineProperty(window, name, { get });
}"""


@pytest.mark.parametrize(("script", "fragment"), [(_NO_STORAGE, ""), ("", "#50%")])
def test_a_page_without_storage_or_with_an_odd_address_is_shown(script, fragment):
    from playwright.sync_api import expect

    source = Source(moment(1.0, rows=2))
    with Dashboard(source.look, every=0.02) as served, browsing() as browser:
        browser.page.add_init_script(script)
        browser.open(served.url + fragment)
        expect(browser.page.locator("header")).to_be_visible()


def test_bars_and_the_chosen_span_are_seen_in_forced_colours():
    with shown(moment(1.0), moment(3.0, rows=900), forced_colors="active") as (page, _):
        page.locator("[data-node=infer]").click()
        page.locator(".track").first.wait_for()
        colour = "one => getComputedStyle(one).backgroundColor"
        track = page.locator(".track").first
        assert track.evaluate(colour) != track.locator("span").evaluate(colour)
        chosen, other = (
            page.get_by_role("button", name=name, exact=True) for name in ("5 min", "1 min")
        )
        assert chosen.evaluate(colour) != other.evaluate(colour)
