"""Tests of the built files of the pages."""

import gzip
from importlib.resources import files

import pytest

from modelflow.studio.pages import EDITOR_PAGES, PAGES

STATIC = files("modelflow.studio").joinpath("static")


@pytest.mark.parametrize("name", ["app.js", "edit.js"])
def test_the_pages_are_small(name):
    packed = gzip.compress(STATIC.joinpath(name).read_bytes(), 9)
    assert len(packed) <= 60_000


@pytest.mark.parametrize("pages", [PAGES, EDITOR_PAGES])
def test_the_pages_name_nothing_that_is_elsewhere(pages):
    for name, _ in pages.values():
        text = STATIC.joinpath(name).read_text()
        assert "//" not in text.replace("http://www.w3.org/", "") or name.endswith(".js")
        assert "https://" not in text
