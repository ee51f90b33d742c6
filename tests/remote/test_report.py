"""Tests of the reports of a replica: in time, late, or missing."""

import threading

import pytest

from modelflow.ipc.memory_channel import MemoryChannel, open_channel
from modelflow.remote.replica import Inquiry, Report, Reports, ReportSender
from modelflow.runtime.stats import GONE, NodeStats

LONG = 60.0


def report(replica, buffers, part="part", **more):
    return Report(replica, {part: {"a": NodeStats("a", "unit", buffers=buffers, **more)}})


@pytest.fixture
def reporting():
    """Yields a sender of report requests, and the channel of the replica's side."""
    here, ends = open_channel()
    there = MemoryChannel(ends)
    made = ReportSender()
    made.use(here)
    yield made, there
    made.close()
    there.close()


def test_nothing_is_told_by_one_without_a_channel():
    assert ReportSender().report(LONG) is None


def test_the_present_report_is_waited_for(reporting):
    asking, asked = reporting

    def answer():
        assert isinstance(asked.receive(LONG), Inquiry)
        asked.send((True, report("r", 1)))

    thread = threading.Thread(target=answer)
    thread.start()
    assert asking.report(LONG) == report("r", 1)
    thread.join()


def test_one_that_does_not_answer_is_not_waited_for_again_and_its_late_answer_is_no_other_ones(
    reporting,
):
    asking, asked = reporting
    assert asking.report(0.0) is None
    assert asking.report(LONG) is None, "it is waited for"
    asked.receive(LONG)
    assert not asked.has_come(0.0), "it is asked twice"
    asked.send((True, report("r", 1)))
    assert asking.report(0.0) == report("r", 1)
    asked.receive(LONG)
    asked.send((True, report("r", 2)))
    assert asking.report(0.0) == report("r", 2)


def test_behind_a_late_answer_the_present_one_is_waited_for(reporting):
    asking, asked = reporting
    asking.report(0.0)
    asked.receive(LONG)
    asked.send((True, report("r", 1)))

    def answer():
        asked.receive(LONG)
        asked.send((True, report("r", 2)))

    thread = threading.Thread(target=answer)
    thread.start()
    assert asking.report(LONG) == report("r", 2)
    thread.join()


def test_of_one_that_has_ended_it_is_what_it_told_before(reporting):
    asking, asked = reporting
    asking.report(0.0)
    asked.send((True, report("r", 1)))
    asked.end()
    assert asking.report(LONG) == report("r", 1)
    assert asking.report(LONG) == report("r", 1)


def test_one_that_ends_while_it_is_asked_is_waited_for_no_more(reporting):
    asking, asked = reporting

    def end():
        asked.receive(LONG)
        asking.end()

    thread = threading.Thread(target=end)
    thread.start()
    assert asking.report(LONG) is None
    thread.join()


# -- all of a pool --------------------------------------------------------------------------------


def test_those_that_run_stand_by_themselves_and_those_that_are_gone_together():
    reports = Reports()
    reports.has_gone(report("r", 1, threads=2, queue=3))
    reports.has_gone(report("s", 10))
    found = reports.of("part", {"t": report("t", 100, threads=2)})
    assert {name: nodes["a"].buffers for name, nodes in found.items()} == {"t": 100, GONE: 11}
    assert (found["t"]["a"].threads, found[GONE]["a"].threads, found[GONE]["a"].queue) == (2, 0, 0)


def test_one_that_is_there_again_is_counted_once():
    reports = Reports()
    reports.has_gone(report("r", 1))
    reports.has_gone(report("r", 5))
    assert reports.of("part", {})[GONE]["a"].buffers == 5
    assert set(reports.of("part", {"r": report("r", 7)})) == {"r"}


def test_however_many_are_gone_all_count():
    reports = Reports()
    for number in range(1000):
        reports.has_gone(report(f"r{number}", 1))
    assert reports.of("part", {})[GONE]["a"].buffers == 1000
    assert len(reports._gone) < 100


def test_a_part_is_told_of_its_own_nodes():
    reports = Reports()
    reports.has_gone(report("r", 1, part="other"))
    assert reports.of("part", {"s": report("s", 1, part="other")}) == {"s": {}}
