"""What a session's queue at a stream unit can be asked."""

import pytest

from modelflow.runtime.kinds.stream.lane import OpenStream, SessionQueue
from tests.runtime.queues.test_inbox import segment, stream


@pytest.fixture
def lane():
    source = stream()
    made = SessionQueue(source.session)
    made.open = OpenStream(source, [])
    return made


def test_an_empty_lane_has_no_work(lane):
    assert not lane.has_work
    assert not lane.is_kept_open


def test_rows_are_work_unless_the_open_stream_waits_for_its_events(lane):
    lane.segments.append(segment(lane.open.stream, 0, 1))
    assert lane.has_work
    lane.open.is_ended = True
    assert lane.is_stalled
    assert lane.is_kept_open
    assert not lane.has_work


def test_an_event_is_work_unless_the_lane_is_parked(lane):
    lane.open.events.append("event")
    assert lane.has_work
    lane.is_parked = True
    assert not lane.has_work


def test_a_busy_lane_has_no_work_for_another_worker(lane):
    lane.segments.append(segment(lane.open.stream, 0, 1))
    lane.is_busy = True
    assert not lane.has_work


def test_a_dropped_lane_has_its_open_stream_to_end_and_nothing_else(lane):
    lane.segments.append(segment(lane.open.stream, 0, 1))
    lane.is_dropped = True
    assert lane.has_work
    lane.open = None
    assert not lane.has_work
