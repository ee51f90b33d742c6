"""Tests of the options of a load."""

import pytest

from modelflow.insight.load.options import LoadOptions


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "rate and clients: got neither; expected one of them"),
        ({"rate": 1, "clients": 1}, "rate and clients: got both; expected one of them"),
        ({"rate": 0}, "rate: got 0; expected more than 0 and at most 1e+06 requests a second"),
        ({"rate": float("nan")}, "rate: got nan; expected more than 0"),
        ({"rate": 1e6 + 1}, "expected more than 0 and at most 1e+06 requests a second"),
        ({"rate": 1e6, "seconds": 3600}, "rate and seconds: got 3601000000 requests"),
        ({"clients": 0}, "clients: got 0; expected at least 1 and at most 100000"),
        ({"clients": 1, "seconds": 0}, "seconds: got 0; expected more than 0 seconds"),
        ({"clients": 1, "seconds": None}, "seconds and requests: got neither"),
        ({"clients": 1, "warm_up": -1}, "warm_up: got -1; expected at least 0 seconds"),
        ({"clients": 1, "requests": 0}, "requests: got 0; expected at least 1"),
        ({"clients": 1, "timeout": 0}, "timeout: got 0; expected more than 0 seconds"),
        ({"rate": 1, "max_in_flight": 0}, "max_in_flight: got 0; expected at least 1"),
        ({"rate": 1, "arrivals": "x"}, "arrivals: got 'x'; expected poisson or constant"),
    ],
)
def test_what_makes_no_sense_is_refused(given, text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is looked at
        LoadOptions(**given)
    assert text in str(caught.value)


def test_requests_bound_a_high_rate():
    assert LoadOptions(rate=1e6, seconds=None, requests=10).requests == 10
