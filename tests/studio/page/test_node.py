"""Tests of an opened node on the dashboard's page."""

import re

import pytest

from modelflow.runtime.stats import Histogram
from tests.browser import needs_browser
from tests.studio.moments import moment
from tests.studio.page.source import changed, shown

pytestmark = needs_browser


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
