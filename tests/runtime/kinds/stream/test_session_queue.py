"""Tests of the queries on a session's queue at a stream unit."""

import pytest

from modelflow.runtime.kinds.stream.session_queue import OpenStream, SessionQueue
from tests.runtime.queues.test_inbox import segment, stream


@pytest.fixture
def session_queue():
    source = stream()
    made = SessionQueue(source.session)
    made.open = OpenStream(source, [])
    return made


def test_an_empty_lane_has_no_work(session_queue):
    assert not session_queue.has_work
    assert not session_queue.is_kept_open


def test_rows_are_work_unless_the_open_stream_waits_for_its_events(session_queue):
    session_queue.segments.append(segment(session_queue.open.stream, 0, 1))
    assert session_queue.has_work
    session_queue.open.is_ended = True
    assert session_queue.is_stalled
    assert session_queue.is_kept_open
    assert not session_queue.has_work


def test_an_event_is_work_unless_the_lane_is_parked(session_queue):
    session_queue.open.events.append("event")
    assert session_queue.has_work
    session_queue.is_parked = True
    assert not session_queue.has_work


def test_a_busy_lane_has_no_work_for_another_worker(session_queue):
    session_queue.segments.append(segment(session_queue.open.stream, 0, 1))
    session_queue.is_busy = True
    assert not session_queue.has_work


def test_a_dropped_lane_has_its_open_stream_to_end_and_nothing_else(session_queue):
    session_queue.segments.append(segment(session_queue.open.stream, 0, 1))
    session_queue.is_dropped = True
    assert session_queue.has_work
    session_queue.open = None
    assert not session_queue.has_work
