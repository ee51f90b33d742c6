"""Tests of the times when requests are sent, and from which latency counts; no real waits."""

import itertools
import json
import math
import threading

import pytest

from modelflow.errors import StreamClosed
from modelflow.insight.load.load import Load, run
from modelflow.insight.load.options import LoadOptions
from modelflow.insight.load.pace import arrivals_of
from modelflow.insight.load.target import Outcome
from modelflow.runtime.clock import Clock
from tests.load.simulated import Answering, Narrow, OneByOne, Simulated, Standing


def constant(rate=100.0, **more):
    return LoadOptions(rate=rate, arrivals="constant", **{"warm_up": 0.0, "seconds": 5.0, **more})


@pytest.fixture
def clock():
    return Simulated()


def test_a_rate_is_sent_when_it_is_due_and_warm_up_does_not_count(clock):
    target = Answering(clock, 0.004)
    found = run(target, LoadOptions(rate=40.0, seconds=5.0, warm_up=1.0, seed=7), clock=clock)
    due = list(itertools.takewhile(lambda at: at < 6.0, arrivals_of("poisson", 40.0, 7)))
    sent = [attempt.sent - 100.0 for attempt in target.submitted]
    assert sent == pytest.approx(due)
    counted = sum(at >= 1.0 for at in due)
    assert found.outcomes == {"ok": counted}
    assert found.seconds == found.sending == 5.0
    assert found.offered == counted / 5.0
    assert found.latency.seconds == pytest.approx([0.004] * counted)
    assert found.late.max == pytest.approx(0.0, abs=1e-9)
    assert not found.is_client_limited


def test_latency_counts_from_when_a_request_was_due_though_the_target_stood_still(clock):
    found = run(Standing(clock, at=102.0), constant(), clock=clock)
    assert found.outcomes == {"ok": 500}
    # A hundred requests were due in that second, and sent after it: 1.001 s, 0.991 s, ...
    held = [seconds for seconds in found.latency.seconds if seconds > 0.0015]
    assert held == pytest.approx([0.001 + number / 100 for number in range(1, 101)])
    assert found.late.max == pytest.approx(0.99)
    assert found.latency.percentile(99) > 0.9
    assert found.latency.percentile(50) == pytest.approx(0.001)
    assert found.is_client_limited  # a target that blocks the sender makes the sender late


def test_a_slow_server_is_seen_in_the_latencies_and_not_in_the_delay_of_the_sender(clock):
    found = run(OneByOne(clock, 0.02), constant(rate=100.0, seconds=2.0), clock=clock)
    # 50 a second of 100: request n waits for n others, and is answered after 0.02 + 0.01 n.
    wanted = [0.02 + 0.01 * number for number in range(200)]
    assert found.latency.seconds == pytest.approx(wanted)
    assert found.late.max == pytest.approx(0.0, abs=1e-9)
    assert found.offered == 100.0
    assert found.rate == pytest.approx(50.0)
    assert not found.is_client_limited


def test_what_is_due_beyond_the_most_in_flight_is_shed_by_name(clock):
    found = run(OneByOne(clock, 0.02), constant(seconds=2.0, max_in_flight=10), clock=clock)
    assert found.count == 200
    assert found.outcomes[Outcome.SHED] == 200 - found.ok
    assert found.latency.max <= 10 * 0.02 + 1e-9
    assert len(found.late) == found.ok  # requests that are not sent are not late


def test_what_the_target_has_no_room_for_is_sent_when_it_has(clock):
    target = Narrow(clock, 0.1, room=5)
    found = run(target, constant(rate=100.0, seconds=1.0), clock=clock)
    assert found.outcomes == {"ok": 100}
    assert [attempt.due for attempt in target.submitted] == sorted(
        attempt.due for attempt in target.submitted
    )
    assert found.latency.max == pytest.approx(100 / 50 + 0.1 - 1.0, abs=0.1)  # 50 a second
    assert found.late.max == pytest.approx(0.0, abs=1e-9)  # the sender was on time


def test_a_request_without_an_answer_is_given_up_and_its_late_answer_ignored(clock):
    target = Answering(clock, 0.5)
    found = run(target, constant(rate=10.0, seconds=1.0, timeout=0.2), clock=clock)
    assert found.outcomes == {Outcome.TIMED_OUT: 10}
    assert target.cancelled == target.submitted
    assert clock.now() == pytest.approx(101.1)  # the last one was due at 0.9


def test_a_request_for_which_there_was_no_room_is_given_up_in_time_too(clock):
    target = Narrow(clock, 10.0, room=1)
    found = run(target, constant(rate=10.0, seconds=1.0, timeout=0.5), clock=clock)
    assert found.outcomes == {Outcome.TIMED_OUT: 10}
    assert len(target.submitted) == 1


def test_an_answer_behind_the_time_is_none_though_nobody_could_look_before(clock):
    # The target blocks from 100.55 s on. Replies to requests that were due since 100.06 s arrive
    # meanwhile.
    found = run(Standing(clock, at=100.55, service=0.6), constant(timeout=0.5), clock=clock)
    assert found.outcomes == {Outcome.TIMED_OUT: 500}
    assert len(found.latency) == 0


def test_what_was_given_up_is_not_sent_when_there_is_room_again(clock):
    target = Narrow(clock, 1.0, room=1)
    found = run(target, constant(rate=10.0, seconds=2.0, timeout=0.45), clock=clock)
    assert found.outcomes == {Outcome.TIMED_OUT: 20}
    assert [attempt.due - 100.0 for attempt in target.submitted] == pytest.approx([0.0, 0.6, 1.6])


def test_what_was_due_before_the_end_is_sent_behind_it_if_the_target_stood_still(clock):
    found = run(Standing(clock, at=104.5), constant(), clock=clock)
    assert found.outcomes == {"ok": 500}
    assert found.seconds == 5.0
    assert found.answered_in_time < 500


def test_clients_have_a_request_each_under_way(clock):
    target = OneByOne(clock, 0.02)
    found = run(target, LoadOptions(clients=4, seconds=2.0, warm_up=1.0), clock=clock)
    assert found.rate == pytest.approx(50.0, abs=0.51)
    assert found.latency.seconds == pytest.approx([0.08] * len(found.latency))
    assert found.late.max == pytest.approx(0.0, abs=1e-9)
    assert found.seconds == 2.0
    assert max(attempt.sent for attempt in target.submitted) < 103.0


def test_latency_of_clients_counts_from_when_they_sent(clock):
    found = run(
        Standing(clock, at=101.0), LoadOptions(clients=1, warm_up=0, seconds=3), clock=clock
    )
    # One request was delayed. A client that waits for its reply hides the requests that would have
    # followed.
    assert sum(seconds > 0.5 for seconds in found.latency.seconds) == 1


@pytest.mark.parametrize("how", [{"clients": 3}, {"rate": 100.0}])
def test_a_number_of_requests_is_an_end(clock, how):
    options = LoadOptions(requests=50, seconds=None, warm_up=0.5, **how)
    target = Answering(clock, 0.01)
    found = run(target, options, clock=clock)
    assert found.outcomes == {"ok": 50}
    assert len(target.submitted) > 50  # the requests of the warm-up
    assert found.seconds == pytest.approx(clock.now() - 100.5)
    assert found.is_whole


def test_failures_are_counted_by_name_and_have_no_latency(clock):
    found = run(Answering(clock, 0.01, "HTTP 503"), constant(rate=10.0, seconds=1), clock=clock)
    assert found.outcomes == found.failures == {"HTTP 503": 10}
    assert (len(found.latency), found.ok, found.rate) == (0, 0, 0.0)
    assert len(found.late) == 10


def test_marks_are_told_when_the_warm_up_is_over_and_when_nothing_more_is_sent(clock):
    marks = []
    options = constant(rate=7.0, seconds=2.0, warm_up=1.05)
    run(Answering(clock, 3.0), options, clock=clock, marked=lambda: marks.append(clock.now()))
    assert marks == pytest.approx([101.05, 103.05])


def test_a_stop_in_the_warm_up_tells_both_marks(clock):
    marks = []
    options = constant(warm_up=1.0)
    load = Load(Answering(clock), options, clock=clock, marked=lambda: marks.append(clock.now()))
    clock.at(100.5, load.stop)
    found = load.run()
    assert len(marks) == 2
    assert (found.count, found.seconds) == (0, 0.0)


def test_a_stop_wakes_who_waits_for_what_is_due():
    resting = threading.Event()

    class Noted(Clock):
        """The system's clock, which reports waits."""

        def wait(self, condition, timeout=None):
            resting.set()
            return super().wait(condition, timeout)

    class Now(Answering):
        def take(self, attempt):
            attempt.on_end()

    load = Load(Now(None), constant(rate=0.001, seconds=1e5), clock=Noted())

    def stop():
        resting.wait(60)
        load.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    found = load.run()  # the next request is due in 1000 s
    stopper.join()
    assert found.outcomes == {"ok": 1}


def test_a_stop_sends_nothing_more_and_waits_for_what_is_under_way(clock):
    target = Answering(clock, 0.25)
    load = Load(target, constant(rate=10.0), clock=clock)
    clock.at(101.0, load.stop)
    found = load.run()
    assert found.outcomes == {"ok": len(target.submitted)}
    assert clock.now() == pytest.approx(101.0 + 0.25, abs=0.1)
    assert found.seconds == pytest.approx(clock.now() - 100.0)
    assert found.sending == pytest.approx(1.0)


def test_an_interrupt_gives_up_what_is_under_way_and_leaves_a_report(clock):
    target = Answering(clock, 0.25)
    load = Load(target, constant(rate=10.0), clock=clock)

    def interrupt():
        raise KeyboardInterrupt

    clock.at(101.01, interrupt)
    with pytest.raises(KeyboardInterrupt):
        load.run()
    found = load.report()
    assert not found.is_whole
    assert found.outcomes == {"ok": 8, Outcome.UNFINISHED: 3}
    assert target.cancelled == target.submitted[-3:]
    assert found.seconds == pytest.approx(1.01)


def test_a_target_that_ends_ends_the_load(clock):
    class Ended(Answering):
        def submit(self, attempts, on_room):
            raise StreamClosed("the flow has ended")

    load = Load(Ended(clock), constant(), clock=clock)
    with pytest.raises(StreamClosed):
        load.run()
    assert load.report().outcomes == {Outcome.UNFINISHED: 1}


def test_the_curve_has_each_second(clock):
    found = run(Standing(clock, at=102.0), constant(), clock=clock)
    assert [second.due for second in found.curve] == [100] * 5
    assert [round(second.rate) for second in found.curve] == [100, 100, 0, 200, 100]
    assert [second.p99 > 0.5 for second in found.curve] == [False, False, True, False, False]
    assert sum(second.rate for second in found.curve) == found.answered_in_time


def test_a_report_is_a_document(clock):
    found = run(Answering(clock, 0.01), constant(seconds=2.5), clock=clock).document()
    assert json.loads(json.dumps(found)) == found
    assert found["version"] == 1
    assert found["latency"]["p50"] == pytest.approx(0.01)
    assert [second["second"] for second in found["curve"]] == [0, 1, 2]
    assert found["options"]["rate"] == 100.0
    assert found["outcomes"] == {"ok": 250}


def test_many_that_are_due_at_once_are_sent_in_lots_and_none_is_lost(clock):
    found = run(Answering(clock, 0.001), constant(rate=1e5, seconds=0.5), clock=clock)
    assert found.count == 50_000
    assert math.isclose(found.offered, 1e5)


@pytest.mark.parametrize(("delay", "is_limited"), [(0.0009, False), (0.0011, True)])
def test_clients_that_take_a_tenth_of_the_latency_to_send_are_the_limit(clock, delay, is_limited):
    class Busy(Answering):
        """A target that blocks its sender, which makes the next request late."""

        def submit(self, attempts, on_room):
            taken = super().submit(attempts, on_room)
            self.clock.pass_by(0.01 + delay)
            return taken

    options = LoadOptions(clients=1, requests=100, seconds=None, warm_up=0.0)
    found = run(Busy(clock, 0.01), options, clock=clock)
    assert found.latency.mean == pytest.approx(0.01)
    assert found.late.percentile(50) == pytest.approx(delay)
    assert found.is_client_limited == is_limited
