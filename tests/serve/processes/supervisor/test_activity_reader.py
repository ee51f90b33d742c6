"""Tests of the supervisor's view of the activity of a process that has died."""

import contextlib
import mmap
import os
import signal

import pytest

from modelflow.serve.activity import MOST, ActivityTable
from modelflow.serve.processes.supervisor.restart import ActivityReader


@pytest.fixture
def record():
    with contextlib.closing(ActivityReader()) as found:
        yield found


@pytest.fixture
def activity(record):
    """Returns the table from the process's side."""
    memory, _ = record.descriptors
    return ActivityTable(mmap.mmap(memory, MOST), record.hear)


def told(record, thread):
    """Makes Python report that this thread has failed."""
    text = "Fatal Python error: Aborted\n\nThread 0x00007f0000000001 (most recent call first):\n"
    text += '  File "other.py", line 1 in other\n\n'
    text += f"Current thread 0x{thread:016x} (most recent call first):\n"
    text += '  File "unit.py", line 7 in process\n  File "worker.py", line 1 in main\n\n'
    text += "Extension modules: numpy (total: 1)\n"
    os.pwrite(record.descriptors[1], text.encode(), 0)


def names(record, code=-signal.SIGABRT):
    return [(*one.version, one.state.name) for one in record.suspects(code)]


def test_what_is_loaded_and_what_works_is_suspected_and_nothing_else(record, activity):
    loading, working, idle = (activity.begin(name, 1) for name in ("loads", "works", "rests"))
    with loading.loading():
        working.work()
        idle.work()
        idle.rest()
        assert names(record) == [("loads", 1, "LOADING"), ("works", 1, "WORKING")]
    assert names(record) == [("works", 1, "WORKING")]


def test_whoever_was_ended_from_outside_has_not_died_of_requests(record, activity):
    activity.begin("works", 1).work()
    doing = activity.begin("loads", 1)
    with doing.loading():
        assert names(record, -signal.SIGKILL) == [("loads", 1, "LOADING")]


def test_whoever_was_killed_because_it_stood_still_has_died_of_what_it_did(record, activity):
    activity.begin("works", 1).work()
    (found,) = record.suspects(-signal.SIGKILL, is_still=True)
    assert found.version == ("works", 1)


def test_an_exit_code_is_suspected_like_a_fault(record, activity):
    activity.begin("works", 1).work()
    assert names(record, 3) == [("works", 1, "WORKING")]


def test_the_version_whose_thread_has_failed_is_the_only_one_suspected(record, activity):
    first, second = activity.begin("first", 1), activity.begin("second", 2)
    activity.know_threads(first, [11, 12])
    activity.know_threads(second, [21])
    first.work()
    second.work()
    told(record, 21)
    assert names(record) == [("second", 2, "WORKING")]


def test_a_thread_of_nobody_leaves_all_suspected(record, activity):
    activity.begin("first", 1).work()
    activity.begin("second", 1).work()
    told(record, 99)
    assert len(names(record)) == 2


def test_a_fault_is_told_with_the_stack_of_the_thread_that_failed(record):
    assert record.fault() == ""
    told(record, 21)
    assert record.fault().splitlines() == [
        "Fatal Python error: Aborted",
        "Current thread 0x0000000000000015 (most recent call first):",
        '  File "unit.py", line 7 in process',
        '  File "worker.py", line 1 in main',
    ]


def test_a_byte_is_used_again_when_its_version_has_gone(record, activity):
    first = activity.begin("first", 1)
    first.work()
    activity.end(first)
    second = activity.begin("second", 1)
    assert second.place == first.place
    second.work()
    assert names(record) == [("second", 1, "WORKING")]


def test_more_versions_than_bytes_are_loaded_all_the_same():
    activity = ActivityTable()
    doings = [activity.begin("m", number) for number in range(MOST + 10)]
    for doing in doings:
        doing.work()
        activity.end(doing)
    assert activity.begin("m", 1).place < MOST


def test_a_version_that_is_acquitted_is_told_once():
    said = []
    activity = ActivityTable(None, said.append, {("m", 1): "it was it"})
    activity.acquit("m", 1)
    activity.acquit("m", 1)
    activity.acquit("other", 1)
    assert said == [{"acquitted": "m", "version": 1}]
