"""The editor's page in a real browser, with the actions that tests repeat."""

import contextlib

from modelflow.studio.edit.editor import Editor
from tests.browser import browsing

__all__ = ["Page", "editing", "middle", "said"]


class Page:
    """The editor's page, with the actions that tests repeat."""

    def __init__(self, page, path):
        self.page = page
        self.path = path

    def node(self, name):
        return self.page.locator(f"[data-body='{name}']")

    def port(self, name, port, side):
        return self.page.locator(f"[data-node='{name}'] [data-{side}='{port}'] .reach")

    def wire(self, source, target):
        return self.page.locator(f"[data-wire='{source} {target}']")

    @property
    def source(self):
        return self.page.get_by_role("textbox", name=f"Text of {self.path.name}")

    def drag(self, one, other, by=(0, 0)):
        """Drags with the mouse from the middle of one element to the middle of another."""
        x0, y0 = middle(one)
        x1, y1 = middle(other)
        mouse = self.page.mouse
        mouse.move(x0, y0)
        mouse.down()
        mouse.move((x0 + x1) / 2, (y0 + y1) / 2)
        mouse.move(x1 + by[0], y1 + by[1])
        mouse.up()

    def save(self):
        self.page.get_by_role("button", name="Save", exact=True).click()
        said(self, f"saved {self.path}")


def middle(locator):
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def said(edited, text):
    from playwright.sync_api import expect

    expect(edited.page.locator("[data-said]")).to_contain_text(text)


@contextlib.contextmanager
def editing(path, *, refusals=(), **more):
    """Yields the page of a file once its picture is visible.

    Args:
        path: The file.
        refusals: The rejected requests' answers, as the browser's console shows them.
        more: As for `browsing`.
    """
    from playwright.sync_api import expect

    with Editor(path) as editor, browsing(**more) as browser:
        browser.page.set_viewport_size({"width": 1400, "height": 860})
        browser.open(editor.url)
        expect(browser.page.locator("[data-unit=resize]")).to_be_visible()
        edited = Page(browser.page, path)
        yield edited
        told = browser.complaints
        assert len(told) == len(refusals), told
        assert all(status in one for status, one in zip(refusals, told, strict=True)), told
