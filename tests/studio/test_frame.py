"""Tests of the data that a page shows of a flow at one moment."""

import json
from dataclasses import replace

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


def test_the_errors_of_a_node_and_of_its_kinds_are_equally_many():
    now = moment(2.0, errors=2, failures={"ValueError": 2}, expired=3)
    frame = frame_of([moment(1.0), now], FINE)
    trouble = frame["troubles"][0]
    assert trouble["count"] == frame["nodes"][0]["errors"] == 5
    assert trouble["kinds"] == {"ValueError": 2, "expired": 3}


def test_a_picture_has_a_box_a_node_and_a_wire_an_edge():
    picture = picture_of(OUTLINE)
    assert [box["name"] for box in picture["boxes"]] == ["input", "decode", "infer"]
    assert [(wire["source"], wire["target"]) for wire in picture["wires"]] == [
        ("input", "decode"),
        ("decode", "infer"),
    ]
    assert json.loads(json.dumps(picture)) == picture


def test_rows_inside_are_those_in_queues_and_in_calls():
    frame = frame_of([moment(1.0, queue=3)], FINE)
    assert frame["inside"] == 6
    calling = replace(moment(1.0, queue=3).stats["infer"], calling=2)
    now = moment(1.0, queue=3)
    nodes = {**now.stats.nodes, "infer": calling}
    now = replace(now, stats=replace(now.stats, nodes=nodes))
    assert frame_of([now], FINE)["inside"] == 8


def test_the_details_of_a_node_cover_all_moments():
    frame = frame_of([moment(float(second), rows=second * 10) for second in range(11)], FINE)
    details = frame["nodes"][0]["details"]
    assert details["batches"] == [(1, 1, 100)]
    assert (details["closed"], details["cores"]) == ({}, {})


def test_many_batch_sizes_share_bars_of_one_width():
    before, after = moment(1.0), moment(3.0)
    sizes = dict.fromkeys(range(1, 65), 2)
    node = replace(after.stats["decode"], batch_sizes=sizes, batch_size=64)
    nodes = {**after.stats.nodes, "decode": node}
    after = replace(after, stats=replace(after.stats, nodes=nodes))
    bars = frame_of([before, after], FINE)["nodes"][0]["details"]["batches"]
    assert len(bars) <= 12
    assert bars[0] == (1, 6, 12)
    assert sum(count for _, _, count in bars) == 128


def test_a_graph_with_inputs_has_requests_and_one_with_sources_a_passage():
    outline = replace(OUTLINE, nodes=OUTLINE.nodes[1:], edges=OUTLINE.edges[1:])
    with_requests, without = moment(1.0), replace(moment(1.0), outline=outline)
    assert frame_of([with_requests], FINE)["in_flight"] == 0
    assert frame_of([without], FINE)["in_flight"] is None
    assert frame_of([with_requests], FINE)["passage"] is None


def test_a_picture_is_drawn_to_the_right_and_down():
    picture = picture_of(OUTLINE, moment(1.0).plan)
    right = [box["x"] for box in picture["boxes"]]
    down = [box["y"] for box in picture["down"]["boxes"]]
    assert right == sorted(right)
    assert down == sorted(down)
    assert picture["plan"]["infer"]["device"] == "cpu"
