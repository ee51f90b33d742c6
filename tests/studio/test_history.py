"""Tests of the last hour of a flow, which the pages begin with."""

import json
from dataclasses import replace

from modelflow.studio.history import History
from tests.studio.moments import moment


def value_of(data):
    """Returns the value of an event."""
    return json.loads(data.partition(b"data: ")[2])


def planned(snapshot, **settings):
    plan = tuple({**row, **settings} for row in snapshot.plan[:1]) + snapshot.plan[1:]
    return replace(snapshot, plan=plan)


def test_a_sample_covers_ten_seconds_however_often_the_flow_is_read():
    history = History()
    for tick in range(61):
        history.add(moment(tick / 2, rows=tick * 5))
    times, rates = zip(*(sample[:2] for sample in value_of(history.event())), strict=True)
    assert times == (110.0, 120.0, 130.0)
    assert rates == (10.0, 10.0, 10.0)


def test_a_flow_without_samples_sends_nothing():
    history = History()
    history.add(moment(1.0))
    assert (history.event(), history.changes) == (b"", b"")


def test_only_the_last_hour_and_the_last_changes_are_kept():
    history = History()
    for tick in range(1000):
        history.add(planned(moment(tick * 10.0), threads=f"{tick} (set)"))
    samples = value_of(history.event())
    assert len(samples) == 360
    assert samples[-1][0] - samples[0][0] == 3590.0
    assert len(value_of(history.changes)) == 50


def test_a_changed_setting_another_version_and_a_new_start_are_changes():
    history = History()
    history.add(planned(moment(1.0), threads="1 (set)"))
    history.add(planned(moment(2.0), threads="1 (measured)"))
    assert history.changes == b""
    history.add(planned(moment(3.0), threads="2 (set)"))
    history.add(moment(3.5), version=2)
    again = moment(4.0)
    history.add(replace(again, stats=replace(again.stats, seconds=0.5)), version=2)
    assert value_of(history.changes) == [
        [103.0, "decode: threads 1 → 2"],
        [103.5, "version 2"],
        [104.0, "started again"],
    ]


def test_a_sample_has_the_machines_figures_where_they_are_known():
    history = History()
    for seconds in (0.0, 10.0):
        process = {
            "processor_seconds": seconds / 2,
            "children_seconds": seconds / 10,
            "resident_bytes": 4e6,
        }
        history.add(replace(moment(seconds), process=process))
    history.add(moment(20.0))
    known, unknown = value_of(history.event())
    assert known[6:] == [0.6, 4e6]
    assert unknown[6:] == [None, None]


def test_the_clock_of_another_machine_begins_a_new_history():
    history = History()
    history.add(moment(1.0), version=1)
    history.add(moment(11.0), version=2)
    history.add(moment(0.5), version=2)
    assert value_of(history.changes) == [[100.5, "started again"]]
    assert history.event() == b""
