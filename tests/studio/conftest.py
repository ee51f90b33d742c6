"""The browser, which the tests of a file share."""

import pytest

from tests.browser import one_browser


@pytest.fixture(autouse=True, scope="module")
def browser_of_the_file():
    """Yields a browser that starts with the first page of a test file."""
    with one_browser():
        yield
