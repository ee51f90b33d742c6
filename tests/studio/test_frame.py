"""Tests of the data that a page shows of a flow at one moment."""

import json

from modelflow.studio.frame import frame_of
from modelflow.studio.moments import picture_of
from modelflow.studio.verdict import Verdict
from tests.studio.moments import OUTLINE, far_moment, moment

FINE = Verdict("fine")


def test_rates_are_those_of_the_last_two_seconds_and_counts_those_of_all():
    moments = [moment(second / 2, rows=int(second * 10)) for second in range(20)]
    moments.append(moment(10.0, rows=290))
    frame = frame_of(moments, FINE)
    assert (frame["rate"], frame["unit"]) == (65.0, "rows/s")  # 290 - 160 since 8.0 s
    decode = frame["nodes"][0]
    assert (decode["node"], decode["rate"], decode["rows"]) == ("decode", 65.0, 290)


def test_nodes_behind_a_far_one_are_told_of_with_it():
    frame = frame_of([far_moment(4.0, 10, 20), far_moment(6.0, 20, 30)], FINE)
    decode, infer = frame["nodes"]
    assert decode["inside"] == []
    (net,) = infer["inside"]
    assert (net["node"], net["rows"], net["rate"], net["threads"]) == ("net", 50, 10.0, 2)


def test_requests_count_where_there_are_any():
    frame = frame_of([moment(1.0), moment(3.0, 8, requests={"ok": 5, "failed": 1})], FINE)
    assert (frame["rate"], frame["unit"]) == (3.0, "requests/s")
    assert frame["outcomes"] == {"ok": 5, "failed": 1}


def test_requests_of_many_rows_and_those_that_were_cancelled_do_not_hide_the_rows():
    long = frame_of([moment(1.0), moment(3.0, 80, requests={"ok": 2})], FINE)
    cancelled = frame_of([moment(1.0), moment(3.0, 80, requests={"cancelled": 200})], FINE)
    for frame in (long, cancelled):
        assert (frame["rate"], frame["unit"]) == (40.0, "rows/s")


def test_the_first_moment_alone_is_shown_from_the_beginning_on():
    frame = frame_of([moment(4.0, rows=40)], FINE)
    assert frame["nodes"][1]["rate"] == 10.0
    assert frame["verdict"]["text"] == "fine"


def test_failed_rows_are_told_with_their_last_error():
    before = moment(1.0)
    after = moment(9.0, rows=800, errors=600, failures={"ValueError": 600}, last_error="a.jpg: no")
    frame = frame_of([before, after], FINE)
    assert frame["troubles"][0] == {
        "node": "decode",
        "count": 600,
        "kinds": {"ValueError": 600},
        "at": {},
        "last": "a.jpg: no",
    }


def test_a_picture_has_a_box_a_node_and_a_wire_an_edge():
    picture = picture_of(OUTLINE)
    assert [box["name"] for box in picture["boxes"]] == ["input", "decode", "infer"]
    assert [(wire["source"], wire["target"]) for wire in picture["wires"]] == [
        ("input", "decode"),
        ("decode", "infer"),
    ]
    assert json.loads(json.dumps(picture)) == picture
