"""The browser, which the tests of a file share."""

import pytest

from tests.browser import one_browser


@pytest.fixture(autouse=True, scope="module")
def browser_of_the_file():
    """Starts nothing where no test of the file has a page."""
    with one_browser():
        yield
