"""Tests of the time limits of requests."""

import pytest

from modelflow.http.request import HttpRequest, RequestHead
from modelflow.serve.requests.time_limits import earlier, seconds_of
from modelflow.wire.problem import Problem


def asking(*headers):
    return HttpRequest(RequestHead("POST", "/", headers), "", lambda *_: None, None)


def test_the_header_says_how_long():
    assert seconds_of(asking()) is None
    assert seconds_of(asking((b"inference-timeout-ms", b"250"))) == 0.25


@pytest.mark.parametrize("value", [b"", b"soon", b"-1", b"0", b"nan", b"inf"])
def test_what_is_no_time_says_so(value):
    with pytest.raises(Problem, match="expected milliseconds above 0"):
        seconds_of(asking((b"inference-timeout-ms", value)))


def test_the_shortest_time_counts():
    assert earlier(None, 2.0, 1.0) == 1.0
    assert earlier(None, None) is None
