"""Random graphs of all kinds of unit, run with threads and without, against an interpreter."""

import os
import threading

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from modelflow.errors import Cancelled, EndOfStream
from modelflow.stream_io import StreamIO
from tests.properties.random_graphs import (
    Branch,
    Chain,
    Delay,
    Fork,
    Loop,
    Map,
    Program,
    Repeat,
    Tap,
    plain,
    programs,
    sessions,
)
from tests.runtime.graphs import Running

# How many graphs in each of the two tests; the long run before a release sets 20000.
EXAMPLES = int(os.environ.get("MODELFLOW_RANDOM_GRAPHS", "2000"))
LONG = 15.0

thorough = settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Client:
    """Uses one session from threads of its own: one sends, one reads each output."""

    def __init__(self, stream, columns, cancel_after=None):
        self.stream = stream
        self.columns = columns
        self.cancel_after = cancel_after
        self.outputs = {name: [] for name in self.stream.outputs}
        self.failures = []
        jobs = [lambda name=name: self._read(name) for name in self.outputs]
        if columns is not None:
            jobs.append(self._send)
        self.threads = [
            threading.Thread(target=self._guarded, args=(job,), name=f"modelflow/test/{n}")
            for n, job in enumerate(jobs)
        ]

    def _guarded(self, job):
        try:
            job()
        except Cancelled:
            if self.cancel_after is None:
                self.failures.append("was cancelled by somebody else")
        except Exception as error:  # noqa: BLE001 - whatever it is, the test tells it
            self.failures.append(repr(error))

    def _send(self):
        for position, values in enumerate(zip(*self.columns, strict=True)):
            if position == self.cancel_after:
                self.stream.cancel()
            for number, value in enumerate(values):
                self.stream.send(f"in{number}", value, timeout=LONG)
        self.stream.close_input()
        if self.cancel_after is not None:
            self.stream.cancel()

    def _read(self, name):
        try:
            while True:
                self.outputs[name].append(plain(self.stream.recv_buffer(name, timeout=LONG)))
        except EndOfStream:
            return

    def join(self):
        for thread in self.threads:
            thread.join()
        assert self.failures == []
        assert self.stream.wait(LONG), "the session has not ended"


def check(stream, outputs, expected):
    assert outputs == expected.outputs
    sinks = {name: stream.context.get(name, []) for name in expected.sinks}
    assert sinks == expected.sinks
    assert stream.error_count == expected.errors


def run_with_threads(program, rows, cancels):
    """Runs the sessions side by side, and compares those that were not cancelled."""
    graph = program.graph()
    columns = [[[v + n for v in values] for n in range(program.inputs)] for values in rows]
    with Running(graph, stop_timeout=LONG) as flow:
        clients = [
            Client(flow.session(), given, cancel)
            for given, cancel in zip(columns, cancels, strict=True)
        ]
        sources = [Client(stream, None) for stream in source_streams(flow)]
        for client in clients + sources:
            for thread in client.threads:
                thread.start()
        for client in clients + sources:
            client.join()
    for client, given_columns in zip(clients, columns, strict=True):
        if client.cancel_after is None:
            check(client.stream, client.outputs, program.expected(given_columns))
    for client, source in zip(sources, program.sources, strict=True):
        check(client.stream, client.outputs, source.expected())


def source_streams(flow):
    """The sessions of the sources, in the order of the graph."""
    return [StreamIO(flow.scheduler, session) for session in flow.scheduler.sources.values()]


def run_inline(program, rows):
    """Runs the sessions one after the other on this thread; nothing may be left of them."""
    graph = program.graph()
    with Running(graph, is_inline=True) as flow:
        for stream, source in zip(source_streams(flow), program.sources, strict=True):
            client = Client(stream, None)
            for name in stream.outputs:
                client._read(name)
            assert stream.wait(0)
            check(stream, client.outputs, source.expected())
        for values in rows:
            columns = {f"in{n}": [v + n for v in values] for n in range(program.inputs)}
            stream = flow.session()
            found = stream.exchange_many(columns)
            outputs = {name: [plain(buffer) for buffer in found[name]] for name in found}
            check(stream, outputs, program.expected(list(columns.values())))
            assert flow.scheduler.held() == {}


@pytest.mark.timeout(900)
@thorough
@given(programs(), sessions, st.data())
def test_any_graph_gives_what_the_interpreter_gives(program, rows, data):
    cancels = [data.draw(st.one_of(st.none(), st.none(), st.integers(0, 12))) for _ in rows]
    run_with_threads(program, rows, cancels)


@pytest.mark.timeout(900)
@thorough
@given(programs(), sessions)
def test_on_one_thread_any_graph_gives_the_same_and_keeps_nothing(program, rows):
    run_inline(program, rows)


ONE = {"threads": 1, "batch_size": 1, "queue_size": 1}


def out():
    return Tap(True, 0, {})


def branch(*branches):
    return Branch(list(branches), 0, False, False, ONE)


# What the tests above have found, each with the smallest graph that shows it.
FOUND = {
    "a stream unit that is shown errors passes one on in a later call": Program(
        1,
        Chain([Map(1, 5, False, ONE), Repeat(True, ONE, 0), Map(1, 0, False, ONE), out()]),
        None,
    ),
    "rows were counted out behind a unit that keeps some: max_in_flight let no more in": Program(
        1, Chain([Fork(Chain([]), Chain([Delay(1, ONE)]), ONE), out()]), 1
    ),
    "the same, with the unit on a branch": Program(
        1,
        Chain([Fork(Chain([]), Chain([branch(Chain([]), Chain([Delay(2, ONE)]))]), ONE), out()]),
        1,
    ),
    "an error that waits for its turn behind a unit that keeps the count was passed on as data": (
        Program(
            1, Chain([Map(1, 5, False, ONE), Delay(2, ONE), Map(1, 0, False, ONE), out()]), None
        )
    ),
    "no exit was found behind a loop, so max_in_flight never let more in": Program(
        1, Chain([Loop(0, Chain([]), ONE), Delay(0, ONE), out()]), 1
    ),
    "a condition on the way round hid the exit of the loop": Program(
        1, Chain([Loop(0, Chain([branch(Chain([]), Chain([]))]), ONE), Delay(0, ONE), out()]), 1
    ),
}


@pytest.mark.parametrize("program", FOUND.values(), ids=FOUND)
def test_what_was_found_stays_mended(program):
    rows = [[1, 0, 2, 692, 9972, 1024, 7881, 3944], [1]]
    run_with_threads(program, rows, [None, None])
    run_inline(program, rows)
