"""Tests of the time axis on the dashboard's page."""

from dataclasses import replace

from tests.browser import needs_browser
from tests.studio.moments import moment
from tests.studio.page.source import shown

pytestmark = needs_browser


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
