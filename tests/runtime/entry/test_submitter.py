"""Tests of the reasons for backpressure, and of the wake-ups of waiting senders."""

import asyncio
import sys
import threading

import pytest

from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, QueueFullError, StreamClosed
from modelflow.plan import Origin
from modelflow.runtime.entry.request_group import EntryPort
from modelflow.runtime.entry.submitter import WARN_AFTER, Submitter
from modelflow.runtime.orders.fair import Fair
from modelflow.runtime.orders.order import InboxPolicy
from modelflow.runtime.queues.inbox import Inbox
from modelflow.runtime.session.in_flight import InFlight
from modelflow.runtime.session.progress import Progress
from modelflow.runtime.session.session import Session
from tests.runtime.fake_clock import FakeClock, Passing
from tests.runtime.graphs import Running, chain, graph_of, per_item, spec_of, told, unit_of
from tests.runtime.test_scheduler import Gate, counting_source

ONE = {"queue_size": 1, "batch_size": 1, "threads": 1}


def forward(x):
    return x


class Caller:
    """A thread that calls a function, and the function's result or error."""

    def __init__(self, function, *args, **more):
        self.result = None

        def call():
            try:
                self.result = function(*args, **more)
            except Exception as error:  # noqa: BLE001 - looked at by the test
                self.result = error

        self.thread = threading.Thread(target=call, name="modelflow/test/caller")
        self.thread.start()

    def join(self):
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self.result


class Full:
    """A flow whose first node is in a call, and whose queue holds ``queued`` rows (1 is full)."""

    def __init__(self, settings=(), queued=1, clock=None, **graph):
        self.gate, self.clock, self._queued = Gate(), clock or FakeClock(), queued
        node = (self.gate.spec(), {**ONE, **dict(settings)})
        self._running = Running(chain(node, **graph), clock=self.clock)

    def __enter__(self):
        self.flow = self._running.__enter__()
        self.other = self.flow.session()
        self.other.send("input", 1)
        self.gate.entered.acquire()
        for _ in range(self._queued):
            self.other.send("input", 2)
        return self

    def __exit__(self, *how):
        self.gate.open.set()
        self._running.__exit__(*how)

    def sender(self):
        """Returns a session, and a thread whose `send` waits for room."""
        stream = self.flow.session()
        caller = Caller(stream.send, "input", 3)
        self.clock.until_sleeping(2)  # in addition to the watchdog
        return stream, caller


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda stream: stream.close_input(), StreamClosed),
        (lambda stream: stream.cancel(), Cancelled),
    ],
    ids=["close_input", "cancel"],
)
def test_a_send_that_waits_for_room_ends_when_its_input_does(end, error):
    with Full() as full:
        stream, caller = full.sender()
        end(stream)
        assert isinstance(caller.join(), error)


@pytest.mark.parametrize("end", ["close_input", "cancel"])
def test_a_send_that_waits_for_its_reader_ends_when_its_input_does(end):
    clock = FakeClock()
    with Running(chain(per_item(forward)), clock=clock, results_bound=2) as flow:
        stream = flow.session()
        stream.send("input", 1)
        stream.send("input", 2)
        caller = Caller(stream.send, "input", 3)
        clock.until_sleeping(2)
        getattr(stream, end)()
        assert isinstance(caller.join(), StreamClosed if end == "close_input" else Cancelled)


@pytest.mark.parametrize("end", ["close_input", "cancel"])
def test_a_send_that_waits_for_max_in_flight_ends_when_its_input_does(end):
    gate, clock = Gate(), FakeClock()
    graph = chain((gate.spec(), {"threads": 1}), max_in_flight=1)
    with Running(graph, clock=clock) as flow:
        flow.session().send("input", 1)
        gate.entered.acquire()
        stream = flow.session()
        caller = Caller(stream.send, "input", 3)
        clock.until_sleeping(2)
        getattr(stream, end)()
        assert isinstance(caller.join(), StreamClosed if end == "close_input" else Cancelled)
        gate.open.set()


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda flow, stream: stream.close_input(), StreamClosed),
        (lambda flow, stream: stream.cancel(), Cancelled),
        (lambda flow, stream: flow.scheduler.stop(drain=False), StreamClosed),
    ],
    ids=["close_input", "cancel", "stop"],
)
def test_an_asend_that_waits_for_room_ends_when_its_input_or_the_flow_does(end, error):
    async def ended(full):
        stream = full.flow.session()
        send = asyncio.create_task(stream.asend("input", 3))
        await asyncio.sleep(0)  # the task has begun, and waits
        ending = Caller(end, full.flow, stream)
        try:
            with pytest.raises(error):
                await asyncio.wait_for(send, 60)
        finally:
            full.gate.open.set()
            assert await asyncio.to_thread(ending.join) is None

    with Full() as full:
        asyncio.run(ended(full))


def test_a_timeout_of_send_says_what_it_waited_for_and_nothing_was_sent():
    with Full() as full:
        stream = full.flow.session()
        caller = Caller(stream.send, "input", 3, timeout=2.0)
        full.clock.until_sleeping(2)
        full.clock.advance(2.0)
        error = caller.join()
        assert isinstance(error, TimeoutError)
        assert "within 2 s: the queue of node 'n0' is full (1 buffers)" in str(error)
        full.gate.open.set()
        stream.send("input", 4)
        stream.close_input()
        assert [b.data for b in stream] == [4]


def test_a_send_that_waits_for_long_says_so_once(caplog):
    with Full() as full:
        _, caller = full.sender()
        full.clock.advance(WARN_AFTER)
        full.clock.until_waiting(1)  # the thread continues to wait, without a limit
        full.gate.open.set()
        caller.join()
    said = [r.getMessage() for r in caplog.records if "has waited for" in r.getMessage()]
    assert said == [
        "send to 'input' has waited for 5 s: the queue of node 'n0' is full (1 buffers)"
    ]


def test_a_refusal_tells_the_expected_wait():
    gate = Gate()
    with Running(chain((gate.spec(), {**ONE, "queue_policy": "reject"}))) as flow:
        stream = flow.session()
        stage = flow.scheduler._wiring.stages["n0"]
        stream.send("input", 1)
        gate.entered.acquire()
        stream.send("input", 2)
        with pytest.raises(QueueFullError, match="refused a buffer") as caught:
            stream.send("input", 3)
        assert caught.value.retry_after is None  # no call has been measured yet
        assert str(caught.value).endswith("the queue of node 'n0' is full (1 buffers)")
        stage.figures.workers[0].count(4, 0, 2.0)  # four rows in two seconds; one is queued
        with pytest.raises(QueueFullError, match=r"expected wait 0\.5 s") as caught:
            stream.send("input", 3)
        assert caught.value.retry_after == 0.5
        gate.open.set()


def race(senders, send):
    """Calls ``send(i)`` on many threads with frequent switches; returns the admitted numbers."""
    entered, start = [], threading.Barrier(senders)

    def run(number):
        start.wait(60)
        try:
            send(number)
        except (QueueFullError, TimeoutError):
            return
        entered.append(number)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(target=run, args=(i,), name=f"modelflow/test/{i}")
            for i in range(senders)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    return entered


def test_of_many_senders_at_once_a_queue_of_one_takes_one():
    gate = Gate()
    with Running(chain((gate.spec(), {**ONE, "queue_policy": "reject"}))) as flow:
        flow.session().send("input", "first")
        gate.entered.acquire()
        for _ in range(20):
            streams = [flow.session() for _ in range(16)]
            assert len(race(16, lambda i, s=streams: s[i].send("input", i))) == 1
            for stream in streams:
                stream.cancel()
        gate.open.set()


def test_of_many_senders_at_once_max_in_flight_lets_in_as_many_as_it_says():
    gate = Gate()
    with Running(chain((gate.spec(), {"threads": 1}), max_in_flight=2)) as flow:
        for _ in range(20):
            streams = [flow.session() for _ in range(16)]
            entered = race(16, lambda i, s=streams: s[i].send("input", i, timeout=0))
            assert len(entered) == 2
            assert flow.scheduler._wiring._in_flight.rows == 2
            for stream in streams:
                stream.cancel()
            assert flow.scheduler._wiring._in_flight.rows == 0
        gate.open.set()


@pytest.mark.parametrize("is_fed_by_two", [False, True])
def test_what_one_branch_does_to_a_buffer_the_other_does_not_see(is_fed_by_two):
    def mark(ctx):
        for buffer in ctx.input():
            buffer.set("who", "left")
        ctx.emit([None] * len(ctx.inputs["in"]))
        ctx.inputs["in"].clear()  # a change of the list has no effect either

    def look(ctx):
        ctx.emit([dict(buffer.meta) for buffer in ctx.input()])

    nodes = {
        "input": "input",
        "same": spec_of(),
        "mark": (unit_of(mark, name="mark", inherits_meta=False), {"threads": 1}),
        "look": unit_of(look, name="look"),
        "marked": "output",
        "output": "output",
    }
    first = "same" if is_fed_by_two else "input"
    edges = [f"{first} -> mark", f"{first} -> look", "mark -> marked", "look -> output"]
    if is_fed_by_two:
        edges.append("input -> same")
    else:
        del nodes["same"]
    with Running(graph_of(nodes, edges), is_inline=True) as flow:
        stream = flow.session()
        own = Buffer(1, {"k": 0})
        stream.send("input", own)
        stream.close_input()
        assert stream.recv("output").data == {"k": 0}
        assert own.meta == {"k": 0}  # the caller's buffer is unchanged
        own.set("k", 1)


def test_the_same_buffer_may_be_sent_twice():
    def note(ctx):
        for number, buffer in enumerate(ctx.input()):
            buffer.set("n", buffer.get("n", 0) + 1 + number)
        ctx.outputs["out"] = ctx.inputs["in"]

    with Running(chain((unit_of(note), {"batch_size": 2, "threads": 1}))) as flow:
        stream, own = flow.session(), Buffer(1)
        for _ in range(2):
            stream.send("input", own)
            assert stream.recv().get("n") == 1


def source_graph(count, **more):
    nodes = {"source": counting_source(count), "output": "output"}
    return graph_of(nodes, ["source -> output"], **more)


def test_a_source_waits_while_too_much_of_it_is_unread_and_says_so(caplog):
    clock = FakeClock()
    with Running(source_graph(10), clock=clock, results_bound=3) as flow:
        session = flow.scheduler.sources["source"]
        clock.until_sleeping(2)
        assert session.progress.sent == 3
        clock.advance(WARN_AFTER)
        clock.until_waiting(1)
        assert session.progress.sent == 3
        results = session.results["output"]
        got = []
        for _ in range(10):
            got.append(results.get(clock, None).data)
            session.reader.took()
        assert got == list(range(10))
    (said,) = [r.getMessage() for r in caplog.records if "has waited" in r.getMessage()]
    assert said.startswith(
        "the source has waited for 5 s: source 'source' waits because 3 buffers of"
    )
    assert "'output' (3 unread)" in said


def test_a_source_waits_while_as_much_is_in_flight_as_may_be():
    gate, clock = Gate(), FakeClock()
    nodes = {
        "source": counting_source(10),
        "gate": (gate.spec(), {"threads": 1, "queue_size": 64}),
        "output": "output",
    }
    graph = graph_of(nodes, ["source -> gate", "gate -> output"], max_in_flight=2)
    with Running(graph, clock=clock) as flow:
        gate.entered.acquire()
        clock.until_sleeping(2)
        session = flow.scheduler.sources["source"]
        assert session.progress.sent == 2
        gate.open.set()
        results = session.results["output"]
        assert [results.get(clock, 60).data for _ in range(10)] == list(range(10))


def test_an_input_that_a_caller_forgets_holds_the_other_one_back_and_says_so(monkeypatch):
    monkeypatch.setattr("modelflow.runtime.stages.stage.UNMATCHED_BOUND", 2)

    def add(ctx):
        ctx.emit([a.data + b.data for a, b in zip(ctx.inputs["a"], ctx.inputs["b"], strict=True)])

    nodes = {"x": "input", "y": "input", "add": unit_of(add, inputs=("a", "b")), "out": "output"}
    with Running(graph_of(nodes, ["x -> add:a", "y -> add:b", "add -> out"])) as flow:
        stream = flow.session()
        stream.send("x", 1)
        stream.send("x", 2)
        message = "2 buffers of input 'a' of node 'add' wait for their partners on its other inputs"
        with pytest.raises(TimeoutError, match=message):
            stream.send("x", 3, timeout=0)
        stream.send("y", 10)
        stream.send("y", 10)
        stream.close_input()
        assert told(stream) == [11, 12]


def test_everything_of_two_inputs_is_sent_though_only_one_row_may_be_inside():
    def add(ctx):
        ctx.emit([a.data + b.data for a, b in zip(ctx.inputs["a"], ctx.inputs["b"], strict=True)])

    nodes = {"x": "input", "y": "input", "add": unit_of(add, inputs=("a", "b")), "out": "output"}
    graph = graph_of(nodes, ["x -> add:a", "y -> add:b", "add -> out"], max_in_flight=1)
    with Running(graph) as flow:
        (found,) = flow.session().exchange({"x": [1], "y": [2]}, 60).values()
        assert told(found) == [3]


def test_a_reader_who_catches_up_during_the_look_opens_no_full_queue(monkeypatch):
    with Full() as full:
        stream = full.flow.session()
        unread = iter([1 << 30])  # too much at the first read, nothing at any other
        monkeypatch.setattr(Progress, "unread", property(lambda _: next(unread, 0)))
        with pytest.raises(QueueFullError):
            stream.send("input", 3, wait=False)
        assert stream._session.progress.sent == 0


def test_who_does_not_wait_is_refused_where_there_is_no_room():
    with Full() as full:
        stream = full.flow.session()
        with pytest.raises(QueueFullError, match="is full"):
            stream.send("input", 3, wait=False)
        with pytest.raises(QueueFullError, match="is full"):
            asyncio.run(stream.asend("input", 3, wait=False))
        assert stream._session.progress.sent == 0


class Way:
    """A submitter whose inputs feed one queue with alternating sessions."""

    def __init__(
        self, *, bound=4, in_flight=None, unread_bound=1 << 30, is_rejecting=False, clock=None
    ):
        self.clock = clock or FakeClock()
        policy = InboxPolicy((bound,), batch_size=1)
        self.box = Inbox("node", ("in",), policy, Fair(policy, 1, 1), self.clock)
        self.in_flight = None if in_flight is None else InFlight(in_flight, FakeClock())
        names = ("a", "b")
        ports = {n: EntryPort(n, ((self.box, 0),), is_rejecting, lambda: None) for n in names}
        self.submitter = Submitter(ports, self.in_flight, unread_bound, self.clock, Session.cancel)

    def session(self, name="s", outputs=("out", "other")):
        ends = Origin(outputs, outputs, outputs, frozenset(outputs), is_counted=True)
        in_flight = self.in_flight
        return Session(name, "", ends, in_flight=in_flight, on_finished=lambda _: None)

    def try_send(self, session, *data, **more):
        return self.submitter.try_send(session, "a", [Buffer(value) for value in data], **more)


def test_an_input_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(KeyError, match=r"no input 'c' .*\(inputs: a, b\)"):
        Way().submitter.port("c")
    nowhere = Submitter({}, None, 1, FakeClock(), Session.cancel)
    with pytest.raises(KeyError, match=r"no input 'c' \(inputs: none\)"):
        nowhere.port("c")


def test_try_send_ends_the_input_only_where_it_is_told_to():
    way = Way()
    session = way.session()
    assert way.try_send(session, 1) is None
    assert way.try_send(session, 2, is_last=True) is None
    assert not way.box.take().spans[0].is_last
    assert way.box.take().spans[0].is_last
    with pytest.raises(StreamClosed, match="input of session 's' is closed"):
        way.try_send(session, 3)


def test_try_send_gives_its_buffers_their_deadline():
    way = Way()
    session = way.session()
    way.try_send(session, 1)
    assert not session.has_deadlines
    way.try_send(session, 2, deadline=3.0)
    assert session.has_deadlines
    assert [way.box.take().columns[0][0]._deadline for _ in range(2)] == [None, way.clock.now() + 3]


def test_try_send_refuses_what_a_full_queue_rejects():
    way = Way(bound=1, is_rejecting=True)
    session = way.session()
    way.try_send(session, 1)
    with pytest.raises(QueueFullError, match=r"input 'a' refused .*queue of node 'node' is full"):
        way.try_send(session, 2)


def test_try_send_refuses_at_max_in_flight():
    way = Way(in_flight=1, is_rejecting=True)
    way.try_send(way.session(), 1)
    with pytest.raises(QueueFullError, match="input 'a' refused a buffer: max_in_flight=1 buffers"):
        way.try_send(way.session(), 2)


def test_a_reader_who_is_late_is_waited_for_also_by_an_input_that_rejects():
    way = Way(unread_bound=1, is_rejecting=True)
    session = way.session()
    way.try_send(session, 1)
    backpressure = way.try_send(session, 2)
    assert backpressure.reason == (
        "send to 'a' waits because 1 buffers of session 's' have not been received: read its "
        "outputs 'out' (0 unread), 'other' (0 unread), or raise results_bound"
    )


def test_a_session_that_fills_its_own_share_waits_for_its_own_rows():
    way = Way(bound=2)
    full, other = way.session("full"), way.session("other")
    way.try_send(full, 1, 2)
    calls = []
    backpressure = way.try_send(full, 3)
    assert way.try_send(other, 1) is None
    backpressure.on_gone(lambda: calls.append("room"))
    assert calls == []
    way.box.take()
    assert calls == ["room"]


def test_a_callback_for_room_comes_at_once_where_the_input_is_closed():
    way, calls = Way(bound=1), []
    session = way.session()
    way.try_send(session, 1)
    backpressure = way.try_send(session, 2)
    session.progress.close()
    backpressure.on_gone(lambda: calls.append("closed"))
    assert calls == ["closed"]


def test_a_callback_for_max_in_flight_comes_when_a_row_has_left_unless_it_is_taken_back():
    way, calls = Way(in_flight=1), []
    way.try_send(way.session(), 1)
    backpressure = way.try_send(way.session(), 2)
    callbacks = [lambda number=number: calls.append(number) for number in range(2)]
    for callback in callbacks:
        backpressure.on_gone(callback)
    backpressure.forget(callbacks[0])
    assert calls == []
    way.in_flight.remove(1)
    way.in_flight.call_due()
    assert calls == [1]


@pytest.mark.parametrize("bounds", [{"in_flight": 1}, {"unread_bound": 1}])
def test_nobody_waits_for_room_behind_a_closed_input(bounds):
    way, calls = Way(**bounds), []
    session = way.session()
    way.try_send(session, 1)
    backpressure = way.try_send(session, 2)
    session.progress.close()
    backpressure.wait(None)
    backpressure.on_gone(lambda: calls.append("closed"))
    assert calls == ["closed"]


@pytest.mark.parametrize("bounds", [{"in_flight": 1}, {"unread_bound": 1}])
def test_a_source_waits_for_nothing_once_it_is_over(bounds):
    way, calls = Way(**bounds), []
    session = way.session()
    way.try_send(session, 1)
    backpressure = way.submitter.backpressure_for_source(session, "camera", lambda: True)
    backpressure.wait(None)
    backpressure.on_gone(lambda: calls.append("over"))
    assert calls == ["over"]


def test_a_session_that_ends_during_the_look_is_refused_by_its_name():
    way = Way()
    session = way.session()
    session.progress.is_finished = True
    with pytest.raises(StreamClosed, match="input of session 's' is closed"):
        way.try_send(session, 1)


def test_a_cancelled_session_is_refused_by_its_name():
    way = Way()
    session = way.session()
    session.is_cancelled = session.progress.is_closed = True
    with pytest.raises(Cancelled, match="session 's' was cancelled"):
        way.try_send(session, 1)


def test_a_send_that_is_woken_too_early_waits_until_the_end_of_its_time():
    way = Way(in_flight=1, clock=Passing(longest=3.0))
    session = way.session()
    way.try_send(session, 1)
    with pytest.raises(TimeoutError):
        way.submitter.send(session, "a", [Buffer(2)], timeout=4.0)
    assert way.clock.waits == [3.0, 1.0]


def test_a_send_that_breaks_off_behind_the_count_of_its_row_cancels_its_session(monkeypatch):
    def break_off(port, segments, handoff):
        raise KeyboardInterrupt

    way = Way(in_flight=1)
    session = way.session()
    monkeypatch.setattr(way.box, "append", break_off)
    with pytest.raises(KeyboardInterrupt):
        way.try_send(session, 1)
    assert session.is_cancelled
    assert way.in_flight.rows == 0
