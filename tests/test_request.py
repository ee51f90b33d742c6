"""Requests as a whole: submitted together, answered by callbacks."""

import gc
import queue
import threading
import time
import weakref

import pytest

import modelflow
from modelflow.buffer import Buffer
from modelflow.errors import Cancelled, DeadlineExceeded, EndOfStream, FlowUnitError, StreamClosed
from modelflow.runtime.entry.submitter import Submitter
from modelflow.runtime.scheduler import Scheduler
from modelflow.stream_io.request import Request, submit, submit_rows
from modelflow.unit.kind import Normal
from tests.serve.tokens import Tokens

ECHO = "digraph echo { input [type=input] half output [type=output] input -> half -> output }"


@modelflow.flowunit
def half(number: int):
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


class Ended:
    """The ended requests, in the order of their ends."""

    def __init__(self):
        self._count = threading.Semaphore(0)
        self.requests = []

    def __call__(self, request):
        self.requests.append(request)
        self._count.release()

    def wait(self, count):
        for _ in range(count):
            assert self._count.acquire(timeout=60)


def data(request):
    return [buffer.data for buffer in request.answer()["output"]]


def test_every_request_is_answered_by_its_callback():
    ended = Ended()
    requests = [Request({"input": [2 * n, 4 * n]}, ended) for n in range(5)]
    with modelflow.Flow(ECHO, units=[half]) as flow:
        assert submit(flow.scheduler, requests) == []
        ended.wait(5)
    assert sorted(map(id, ended.requests)) == sorted(map(id, requests))
    assert [data(request) for request in requests] == [[n, 2 * n] for n in range(5)]


def test_an_error_is_in_the_answer_of_its_request_alone():
    ended = Ended()
    good, bad = (Request({"input": [value]}, ended) for value in (2, 3))
    with modelflow.Flow(ECHO, units=[half]) as flow:
        submit(flow.scheduler, [good, bad])
        ended.wait(2)
    assert data(good) == [1]
    (buffer,) = bad.answer()["output"]
    assert isinstance(buffer.error, FlowUnitError)


def test_units_find_the_context_of_a_request():
    class Tell(modelflow.FlowUnit):
        SPEC = modelflow.FlowUnitSpec(
            "tell",
            {"cpu": lambda: Tell()},
            inputs=(modelflow.Port("in"),),
            outputs=(modelflow.Port("out"),),
            kind=Normal(is_per_stream=True),
        )

        def process(self, ctx):
            ctx.emit([ctx.session["user"] for _ in ctx.input()])

    ended = Ended()
    graph = "digraph { input [type=input] tell output [type=output] input -> tell -> output }"
    request = Request({"input": [1]}, ended, context={"user": "ann"})
    with modelflow.Flow(graph, units=[Tell]) as flow:
        submit(flow.scheduler, [request])
        ended.wait(1)
    assert data(request) == ["ann"]


def test_a_request_without_inputs_of_that_name_is_refused_with_all_others():
    ended = Ended()
    requests = [Request({"input": [2]}, ended), Request({"inputs": [2]}, ended)]
    with modelflow.Flow(ECHO, units=[half]) as flow:
        with pytest.raises(KeyError, match=r"no input 'inputs'.*did you mean 'input'"):
            submit(flow.scheduler, requests)
        assert not requests[0].is_submitted
    assert ended.requests == []


def test_a_request_whose_deadline_has_passed_is_answered_with_that():
    ended = Ended()
    request = Request({"input": [2]}, ended, deadline=-1.0)
    with modelflow.Flow(ECHO, units=[half]) as flow:
        submit(flow.scheduler, [request])
        ended.wait(1)
    (buffer,) = request.answer()["output"]
    assert isinstance(buffer.error.__cause__, DeadlineExceeded)


class Held:
    """A flow of one unit that blocks in its call until release; the queue holds a single row."""

    GRAPH = (
        "digraph { input [type=input] wait [queue_size=1, batch_size=1, threads=1] "
        "output [type=output] input -> wait -> output }"
    )

    def __init__(self):
        self.entered, self.go = threading.Semaphore(0), threading.Event()

        @modelflow.flowunit(name="wait")
        def wait(item):
            self.entered.release()
            self.go.wait()
            return item

        self.unit = wait
        self.flow = modelflow.Flow(self.GRAPH, units=[wait])


def test_those_without_room_are_returned_and_come_again_when_there_is():
    ended, room = Ended(), threading.Event()
    held = Held()
    requests = [Request({"input": [n]}, ended) for n in range(4)]
    with held.flow as flow:
        submit(flow.scheduler, requests[:1])
        assert held.entered.acquire(timeout=60)
        rest = submit(flow.scheduler, requests[1:], room.set)
        assert rest == requests[2:]
        assert not room.is_set()
        held.go.set()
        while rest:
            assert room.wait(60)
            room.clear()
            rest = submit(flow.scheduler, rest, room.set)
        ended.wait(4)
    assert [data(request) for request in requests] == [[0], [1], [2], [3]]


@pytest.mark.parametrize("when", ["before", "queued", "running"])
def test_a_request_that_is_cancelled_ends_at_once_and_harms_nobody(when):
    ended, held = Ended(), Held()
    running, queued = (Request({"input": [n]}, ended) for n in range(2))
    with held.flow as flow:
        if when == "before":
            running.cancel()
            submit(flow.scheduler, [running])
        else:
            submit(flow.scheduler, [running])
            assert held.entered.acquire(timeout=60)
            submit(flow.scheduler, [queued])
            (queued if when == "queued" else running).cancel()
        ended.wait(1)
        cancelled = ended.requests[0]
        with pytest.raises(Cancelled):
            cancelled.answer()
        held.go.set()
        if when != "before":
            ended.wait(1)
            assert data(ended.requests[1]) in ([0], [1])


def test_a_stop_ends_every_request():
    ended, held = Ended(), Held()
    request = Request({"input": [1]}, ended)
    flow = held.flow.start()
    submit(flow.scheduler, [request])
    assert held.entered.acquire(timeout=60)
    stop = threading.Thread(target=flow.stop, args=(False,))
    stop.start()
    ended.wait(1)
    held.go.set()
    stop.join()
    with pytest.raises(StreamClosed):
        request.answer()
    with pytest.raises(StreamClosed):
        submit(flow.scheduler, [Request({"input": [1]}, ended)])


def test_a_request_says_that_it_is_not_over():
    request = Request({"input": [1]}, lambda _: None)
    with pytest.raises(TimeoutError, match="not submitted"):
        request.answer()
    held = Held()
    with held.flow as flow:
        submit(flow.scheduler, [request])
        assert held.entered.acquire(timeout=60)
        with pytest.raises(TimeoutError):
            request.answer()
        held.go.set()


def test_on_the_calling_thread_requests_are_over_when_they_are_submitted():
    ended = Ended()
    request = Request({"input": [2]}, ended)
    with modelflow.Flow(ECHO, units=[half], threads=0) as flow:
        submit(flow.scheduler, [request])
        assert ended.requests == [request]
    assert data(request) == [1]


class Streamed:
    """Receives the results of a stream as they arrive."""

    def __init__(self):
        self.came = threading.Semaphore(0)

    def __call__(self, request):
        self.came.release()

    def next(self, request):
        while (found := request.next_result()) is None:
            assert self.came.acquire(timeout=60)
        return found[1].data


def stream(number, ended):
    streamed = Streamed()
    return streamed, Request({"input": [number]}, ended, on_result=streamed)


def test_a_stream_hands_over_each_result_before_the_next_is_made():
    tokens, ended = Tokens(), Ended()
    streamed, request = stream(3, ended)
    with tokens.flow() as flow:
        submit(flow.scheduler, [request])
        for number in range(3):
            assert streamed.next(request) == number
            assert tokens.made == list(range(number + 1))
            assert (request.is_drained, ended.requests) in ((False, []), (True, [request]))
            tokens.go.release()
        with pytest.raises(EndOfStream):
            streamed.next(request)
        ended.wait(1)
        assert request.is_drained


def test_a_stream_that_nobody_takes_makes_no_more_than_its_bound_and_holds_up_nobody():
    tokens, ended = Tokens(is_free=True), Ended()
    idle, busy = stream(1000, ended), stream(100, ended)
    with tokens.flow(results_bound=8) as flow:
        submit(flow.scheduler, [idle[1]])
        assert idle[0].came.acquire(timeout=60)
        submit(flow.scheduler, [busy[1]])
        assert [busy[0].next(busy[1]) for _ in range(100)] == list(range(100))
        ended.wait(1)
        assert ended.requests == [busy[1]]
        assert len(tokens.made) <= 100 + 8 + 1
        assert [idle[0].next(idle[1]) for _ in range(1000)] == list(range(1000))
        ended.wait(1)


def test_a_stream_that_is_cancelled_ends_with_that():
    tokens, ended = Tokens(), Ended()
    streamed, request = stream(1000, ended)
    with tokens.flow() as flow:
        submit(flow.scheduler, [request])
        assert streamed.next(request) == 0
        request.cancel()
        ended.wait(1)
        with pytest.raises(Cancelled):
            streamed.next(request)
        tokens.go.release(2)
        assert len(tokens.made) <= 2


def test_the_outputs_of_a_stream_take_turns():
    graph = """digraph g {
        input [type=input]
        a [flowunit=tokens]
        b [flowunit=tokens]
        first [type=output]
        second [type=output]
        input -> a -> first
        input -> b -> second
    }"""
    tokens, ended, came = Tokens(is_free=True), Ended(), threading.Semaphore(0)
    request = Request({"input": [50]}, ended, on_result=lambda _: came.release())
    found = []
    with modelflow.Flow(graph, units=[tokens.unit]) as flow:
        submit(flow.scheduler, [request])
        ended.wait(1)
        while (result := request.next_result()) is not None and len(found) < 99:
            found.append((result[0], result[1].data))
    assert found[:4] == [("first", 0), ("second", 0), ("first", 1), ("second", 1)]


TWICE = """digraph { input [type=input] half output [type=output] log
    input -> half -> output
    half -> log
}"""


@pytest.mark.parametrize("threads", [1, 3])
def test_one_row_requests_are_one_session_that_costs_the_flow_nothing_when_it_is_over(threads):
    ended = Ended()
    settings = f"threads={threads}, batch_size=2, queue_size=64"
    graph = ECHO.replace("half output", f"half [{settings}] output")
    requests = [Request({"input": [n]}, ended) for n in range(64)]
    with modelflow.Flow(graph, units=[half]) as flow:
        assert submit(flow.scheduler, requests) == []
        ended.wait(64)
        for number, request in enumerate(requests):
            (buffer,) = request.answer()["output"]
            assert buffer.data == number // 2 if number % 2 == 0 else buffer.error is not None
        # the callback runs before the session is forgotten
        assert flow.scheduler.count_held() in ({}, {"sessions": 1})
    assert len(ended.requests) == 64


def test_a_request_is_over_when_every_sink_has_it_too():
    logged, ended = [], Ended()

    @modelflow.flowunit
    def log(number):
        logged.append(number)

    requests = [Request({"input": [2 * n]}, ended) for n in range(5)]
    with modelflow.Flow(TWICE, units=[half, log]) as flow:
        submit(flow.scheduler, requests)
        ended.wait(5)
        assert sorted(logged) == [0, 1, 2, 3, 4]
    assert [data(request) for request in requests] == [[0], [1], [2], [3], [4]]


def test_requests_of_one_row_many_and_none_go_in_together_in_order():
    ended = Ended()
    values = [[2], [4], [2, 4], [], [6], [8, 8]]
    requests = [Request({"input": numbers}, ended) for numbers in values]
    with modelflow.Flow(ECHO, units=[half]) as flow:
        assert submit(flow.scheduler, requests) == []
        ended.wait(len(values))
    assert [data(request) for request in requests] == [[n // 2 for n in one] for one in values]


def test_a_slow_row_holds_up_no_other_of_its_bundle():
    go, ended = threading.Event(), Ended()

    @modelflow.flowunit(name="half")
    def slow(number):
        if number == 0:
            go.wait()
        return number // 2

    graph = ECHO.replace("half output", "half [threads=2, batch_size=1] output")
    requests = [Request({"input": [2 * n]}, ended) for n in range(8)]
    with modelflow.Flow(graph, units=[slow]) as flow:
        submit(flow.scheduler, requests)
        ended.wait(7)
        assert requests[0] not in ended.requests
        go.set()
        ended.wait(1)
    assert [data(request) for request in requests] == [[n] for n in range(8)]


def test_what_is_given_up_in_the_queue_never_reaches_the_unit():
    held, seen, ended = Held(), [], Ended()

    @modelflow.flowunit(name="half", batched=True)
    def note(numbers):
        seen.extend(numbers)
        return numbers

    graph = Held.GRAPH.replace("wait -> output", "wait -> half -> output; half").replace(
        "queue_size=1", "queue_size=8"
    )
    requests = [Request({"input": [n]}, ended) for n in range(4)]
    with modelflow.Flow(graph, units=[held.unit, note]) as flow:
        submit(flow.scheduler, requests)
        assert held.entered.acquire(timeout=60)
        for request in requests[:3]:  # the first request is in the unit
            request.cancel()
        assert ended.requests == requests[:3]
        held.go.set()
        ended.wait(4)
    assert seen == [3]
    assert data(requests[3]) == [3]


def test_one_that_was_returned_and_given_up_ends_when_it_is_submitted():
    held, ended = Held(), Ended()
    requests = [Request({"input": [n]}, ended) for n in range(3)]
    with held.flow as flow:
        submit(flow.scheduler, requests[:1])
        assert held.entered.acquire(timeout=60)
        (rest,) = submit(flow.scheduler, requests[1:])
        rest.cancel()
        assert (rest.is_submitted, ended.requests) == (False, [])
        held.go.set()
        ended.wait(2)
        submit(flow.scheduler, [rest])
        ended.wait(1)
        with pytest.raises(Cancelled):
            rest.answer()


class Nobody:
    """A watcher that records nothing; a watched request has its own session."""

    def on_call(self, part):
        pass

    def over(self):
        pass


def watched(values, ended):
    request = Request({"input": values}, ended)
    request.watch(Nobody())
    return request


def test_of_requests_that_are_sessions_nothing_is_made_before_there_is_room(monkeypatch):
    held, ended, room, made = Held(), Ended(), threading.Event(), []
    requests = [watched([n, n], ended) for n in range(64)]
    create = Scheduler.create_sessions

    def counting(scheduler, count):
        made.append(count)
        return create(scheduler, count)

    monkeypatch.setattr(Scheduler, "create_sessions", counting)
    with held.flow as flow:
        submit(flow.scheduler, requests[:1])
        assert held.entered.acquire(timeout=60)
        rest = submit(flow.scheduler, requests[1:], room.set)
        assert not any(request.is_submitted for request in rest)
        held.go.set()
        while rest:
            assert room.wait(60)
            room.clear()
            rest = submit(flow.scheduler, rest, room.set)
        ended.wait(64)
    assert sum(made) == 64
    assert [data(request) for request in requests] == [[n, n] for n in range(64)]


def test_what_was_made_is_kept_where_another_thread_took_the_room(monkeypatch):
    held, ended, room, made = Held(), Ended(), threading.Event(), []
    requests = [watched([n, n], ended) for n in range(4)]
    init = Buffer.__init__

    def counting(buffer, *values):
        made.append(buffer)
        init(buffer, *values)

    with held.flow as flow:
        submit(flow.scheduler, requests[:1])
        assert held.entered.acquire(timeout=60)
        with monkeypatch.context() as patch:
            # The queue had room for all when it was checked, and has none when they enter.
            fitting = lambda _, columns, **__: (len([*columns]), None)  # noqa: E731
            patch.setattr(Submitter, "count_fitting", fitting)
            rest = submit(flow.scheduler, requests[1:], room.set)
        assert rest == requests[1:]
        assert all(request.is_submitted for request in rest)
        rest[0].cancel()
        assert ended.requests == rest[:1]
        with monkeypatch.context() as patch:
            patch.setattr(Buffer, "__init__", counting)
            held.go.set()
            while rest:
                assert room.wait(60)
                room.clear()
                rest = submit(flow.scheduler, rest, room.set)
            ended.wait(4)
    answered = [requests[0], *requests[2:]]
    assert [data(request) for request in answered] == [[0, 0], [2, 2], [3, 3]]
    assert len(made) <= 2 * len(answered)  # the buffers that the unit has made for its answers


def test_max_in_flight_lets_in_as_many_of_a_bundle_as_there_is_room_for():
    held, ended, room = Held(), Ended(), threading.Event()
    graph = Held.GRAPH.replace("queue_size=1", "queue_size=8")
    graph = f"[flow]\nmax_in_flight = 3\n[graph]\ngraphconf = '''{graph}'''"
    requests = [Request({"input": [n]}, ended) for n in range(8)]
    with modelflow.Flow(graph, units=[held.unit]) as flow:
        rest = submit(flow.scheduler, requests, room.set)
        assert rest == requests[3:]
        held.go.set()
        while rest:
            assert room.wait(60)
            room.clear()
            rest = submit(flow.scheduler, rest, room.set)
        ended.wait(8)
    assert [data(request) for request in requests] == [[n] for n in range(8)]


class Party:
    """Waits for rows, and records the notifications of each."""

    def __init__(self):
        self.came = queue.SimpleQueue()

    def on_result(self, positions, found):
        for place, position in enumerate(positions):
            self.came.put((position, {name: buffers[place] for name, buffers in found.items()}))

    def on_failure(self, positions, failure):
        for position in positions:
            self.came.put((position, failure))

    def told(self, count):
        found = dict(self.came.get(timeout=60) for _ in range(count))
        assert len(found) == count  # each once
        assert self.came.empty()
        return [found[position] for position in sorted(found)]


def test_rows_that_are_submitted_together_are_told_of_each_by_its_position():
    with modelflow.Flow(ECHO, units=[half]) as flow:
        assert flow.scheduler.is_row_by_row
        rows = [modelflow.Buffer(number) for number in (0, 2, 3, 8)]
        submitted = submit_rows(flow.scheduler, rows, batch_members := Party())
        assert submitted.count == 4
        found = [row["output"] for row in batch_members.told(4)]
    assert [buffer.data for buffer in found] == [0, 1, None, 4]
    assert "3 is odd" in str(found[2].error)


class Rows:
    """Waits for requests of several rows."""

    def __init__(self, sizes):
        self._sizes = sizes
        self.came = queue.SimpleQueue()

    def on_result(self, requests, found):
        end = 0
        for request in requests:
            start, end = end, end + self._sizes[request]
            self.came.put((request, [buffer.data for buffer in found["output"][start:end]]))

    def on_failure(self, requests, failure):
        for request in requests:
            self.came.put((request, failure))


def test_requests_of_several_rows_are_told_of_each_as_a_whole():
    sizes = [1, 3, 2]
    with modelflow.Flow(ECHO, units=[half]) as flow:
        rows = [modelflow.Buffer(2 * number) for number in range(6)]
        submitted = submit_rows(flow.scheduler, rows, members := Rows(sizes), sizes=sizes)
        found = dict(members.came.get(timeout=60) for _ in sizes)
        assert (submitted.count, found) == (3, {0: [0], 1: [1, 2, 3], 2: [4, 5]})
    assert flow.stats().requests["ok"] == 3


@pytest.mark.parametrize("sizes", [[1], [2, 2], [3, 0], [4, -1], []])
def test_sizes_that_do_not_fit_the_rows_are_said(sizes):
    with modelflow.Flow(ECHO, units=[half]) as flow:
        rows = [modelflow.Buffer(0) for _ in range(3)]
        with pytest.raises(ValueError, match=r"rows in all; expected 3, 1 each at least"):
            submit_rows(flow.scheduler, rows, Rows(sizes), sizes=sizes)


def test_deadlines_are_one_for_each_request():
    with modelflow.Flow(ECHO, units=[half]) as flow:
        rows = [modelflow.Buffer(0) for _ in range(3)]
        with pytest.raises(ValueError, match="deadlines: got 1; expected 2, one a request"):
            submit_rows(flow.scheduler, rows, Rows([1, 2]), sizes=[1, 2], deadlines=[None])


def test_values_that_are_added_before_a_request_is_submitted_belong_to_it():
    values, ended = [0], Ended()
    requests = [Request({"input": given}, ended) for given in (values, [8])]
    values.append(4)
    with modelflow.Flow(ECHO, units=[half]) as flow:
        submit(flow.scheduler, requests)
        ended.wait(2)
    assert [data(request) for request in requests] == [[0, 2], [4]]


@pytest.mark.parametrize("sizes", [[2, 1], [1, 1, 1]])
def test_of_a_request_whose_deadline_has_passed_no_row_is_worked_on(sizes):
    seen = []

    @modelflow.flowunit(name="half")
    def note(number: int):
        seen.append(number)
        return number

    with modelflow.Flow(ECHO, units=[note]) as flow:
        rows = [modelflow.Buffer(number) for number in range(3)]
        deadlines = [time.monotonic() - 1, *[None] * (len(sizes) - 1)]
        members = Rows(sizes)
        submit_rows(flow.scheduler, rows, members, sizes=sizes, deadlines=deadlines)
        found = dict(members.came.get(timeout=60) for _ in sizes)
    assert seen == [*range(sizes[0], 3)]
    assert found[0] == [None] * sizes[0]
    assert flow.stats().requests["expired"] == 1


def test_a_request_of_several_rows_enters_whole_where_there_is_room_for_one():
    waits, entered, gate, seen = waiting()
    graph = ECHO.replace(" half ", " half [batch_size=1, queue_size=2, threads=1] ", 1)
    sizes, room = [1, 8, 1], threading.Event()
    with modelflow.Flow(graph, units=[waits]) as flow:
        submit_rows(flow.scheduler, [modelflow.Buffer(0)], first := Party())
        assert entered.wait(60)
        rows = [modelflow.Buffer(number) for number in range(1, 11)]
        submitted = submit_rows(flow.scheduler, rows, members := Rows(sizes), room.set, sizes=sizes)
        assert submitted.count == 2
        assert not room.is_set()
        submitted.cancel(1)
        number, failure = members.came.get(timeout=60)
        assert (number, type(failure)) == (1, Cancelled)
        gate.set()
        assert members.came.get(timeout=60) == (0, [1])
        assert room.wait(60)
        first.told(1)
    assert seen == [0, 1]
    assert flow.stats().requests["cancelled"] == 1


@pytest.mark.parametrize(("max_in_flight", "entered_rows"), [(None, 10), (8, 8)])
def test_small_rows_enter_together_where_there_is_room_for_one(max_in_flight, entered_rows):
    waits, entered, gate, _ = waiting()
    graph = ECHO.replace(" half ", " half [batch_size=1, queue_size=2, threads=1] ", 1)
    if max_in_flight is not None:
        flow_section = f"[flow]\nmax_in_flight = {max_in_flight}\n"
        graph = f"{flow_section}[graph]\ngraphconf = '{graph}'"
    with modelflow.Flow(graph, units=[waits]) as flow:
        submit_rows(flow.scheduler, [modelflow.Buffer(0)], Party())
        assert entered.wait(60)
        rows, sizes = [modelflow.Buffer(number) for number in range(1, 11)], [2] * 5
        submitted = submit_rows(
            flow.scheduler, rows, members := Rows(sizes), sizes=sizes, is_together=True
        )
        assert submitted.count == entered_rows // 2
        more = [modelflow.Buffer(11)]
        assert (
            submit_rows(flow.scheduler, more, Party(), is_together=True).count == 0
        )  # the queue is full
        gate.set()
        found = [members.came.get(timeout=60) for _ in range(submitted.count)]
        assert [number for number, _ in found] == [*range(submitted.count)]


def test_a_graph_in_which_rows_meet_takes_none_by_themselves():
    with Tokens().flow() as flow:
        assert not flow.scheduler.is_row_by_row


def waiting():
    """Returns a unit that waits, its events for the call and the release, and its inputs."""
    entered, gate, seen = threading.Event(), threading.Event(), []

    @modelflow.flowunit(name="half")
    def waits(number: int):
        seen.append(number)
        entered.set()
        gate.wait(60)
        return number

    return waits, entered, gate, seen


def test_rows_for_which_there_is_no_room_are_not_taken_and_may_come_when_there_is():
    waits, entered, gate, _ = waiting()
    graph = ECHO.replace(" half ", " half [batch_size=1, queue_size=2, threads=1] ", 1)
    room = threading.Event()
    with modelflow.Flow(graph, units=[waits]) as flow:
        submit_rows(flow.scheduler, [modelflow.Buffer(0)], first := Party())
        assert entered.wait(60)
        rows = [modelflow.Buffer(number) for number in range(1, 6)]
        count = submit_rows(flow.scheduler, rows, second := Party(), room.set).count
        assert 0 < count < 5
        assert not room.is_set()
        gate.set()
        assert room.wait(60)
        submit_rows(flow.scheduler, rows[count:][:1], third := Party())
        numbers = [row["output"].data for row in (*first.told(1), *second.told(count))]
        assert [*numbers, third.told(1)[0]["output"].data] == [*range(count + 2)]


def test_a_row_that_is_cancelled_fails_at_once_and_the_others_go_on():
    waits, entered, gate, seen = waiting()
    graph = ECHO.replace(" half ", " half [batch_size=1, threads=1] ", 1)
    with modelflow.Flow(graph, units=[waits]) as flow:
        submitted = submit_rows(
            flow.scheduler, [*map(modelflow.Buffer, range(3))], batch_members := Party()
        )
        assert entered.wait(60)
        submitted.cancel(1)
        submitted.cancel(1)
        position, failure = batch_members.came.get(timeout=60)
        assert (position, type(failure)) == (1, Cancelled)
        gate.set()
        assert [row["output"].data for row in batch_members.told(2)] == [0, 2]
    assert seen == [0, 2]


def test_rows_in_a_flow_that_stops_fail():
    waits, entered, gate, _ = waiting()
    graph = ECHO.replace(" half ", " half [batch_size=1, threads=1] ", 1)
    flow = modelflow.Flow(graph, units=[waits]).start()
    submit_rows(flow.scheduler, [*map(modelflow.Buffer, range(3))], batch_members := Party())
    assert entered.wait(60)
    stopping = threading.Thread(target=flow.stop, kwargs={"drain": False})
    stopping.start()
    found = [batch_members.came.get(timeout=60) for _ in range(2)]  # the waiting requests
    gate.set()
    stopping.join()
    assert {type(failure) for _, failure in found} <= {StreamClosed, Cancelled}
    with pytest.raises(StreamClosed):
        submit_rows(flow.scheduler, [modelflow.Buffer(0)], batch_members)


def test_requests_that_are_over_are_freed_without_a_search_for_cycles():
    ended = Ended()
    gc.collect()
    gc.disable()
    try:
        with modelflow.Flow(ECHO, units=[half]) as flow:
            requests = [Request({"input": [2 * n]}, ended) for n in range(4)]
            submit(flow.scheduler, requests)
            requests[3].cancel()
            ended.wait(4)
            gone = _marked(requests)
            requests.clear()
            ended.requests.clear()
            assert [one() for one in gone] == [None] * 4
    finally:
        gc.enable()


class Marked:
    """An object that shows when a request is freed, because a request has no weak references."""


def _marked(requests):
    marks = [Marked() for _ in requests]
    for request, mark in zip(requests, marks, strict=True):
        request.inputs = {"input": [mark]}
    return [*map(weakref.ref, marks)]
