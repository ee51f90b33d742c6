"""``traceparent``, by the rules of the W3C."""

import pytest

from modelflow.http.request import Trace, read_trace

ID, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{ID}-{SPAN}-01"


def test_a_trace_is_passed_on_as_it_came():
    assert read_trace([PARENT], ["a=1", "b=2"]) == Trace(ID, PARENT, "a=1,b=2")
    assert read_trace([f" {PARENT}\t"]) == Trace(ID, PARENT)


@pytest.mark.parametrize("parent", [f"cc-{ID}-{SPAN}-01", f"cc-{ID}-{SPAN}-01-what.comes"])
def test_a_later_version_is_read_as_far_as_it_is_known(parent):
    assert read_trace([parent]) == Trace(ID, parent)


@pytest.mark.parametrize(
    "parents",
    [
        [],
        [""],
        [PARENT, PARENT],
        [f"ff-{ID}-{SPAN}-01"],
        [f"00-{ID}-{SPAN}-01-more"],
        [f"cc-{ID}-{SPAN}-01more"],
        [f"00-{'0' * 32}-{SPAN}-01"],
        [f"00-{ID}-{'0' * 16}-01"],
        [f"00-{ID.upper()}-{SPAN}-01"],
        [f"00-{ID[1:]}-{SPAN}-01"],
        [f"00-{ID}-{SPAN}"],
        [f"00-{ID}-{SPAN}-0\u0661"],
        [PARENT + "\n"],
    ],
)
def test_what_is_not_valid_is_as_if_it_had_not_been_sent(parents):
    assert read_trace(parents, ["a=1"]) is None


@pytest.mark.parametrize("state", ["a=" + "x" * 600, "a=\x01", "a=é"])
def test_a_state_that_may_not_be_passed_on_is_dropped_alone(state):
    assert read_trace([PARENT], [state]) == Trace(ID, PARENT)
