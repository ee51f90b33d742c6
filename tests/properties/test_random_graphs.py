"""Random graphs of all kinds of unit, run with threads and without, against an interpreter."""

import logging
import threading
from collections import deque

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from modelflow.stream_io import StreamIO
from tests.properties.blocks import Branch, Chain, Fork, Loop, Map, Tap
from tests.properties.clients import LONG, Client, Usage
from tests.properties.figures import check_figures
from tests.properties.programs import Program, programs, sessions
from tests.properties.stream_blocks import Delay, Repeat
from tests.properties.tokens import plain
from tests.runtime.graphs import Running

any_graph = settings(
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

places = st.frozensets(st.integers(0, 11), max_size=3)
usages = st.builds(
    Usage,
    late=st.one_of(st.just(frozenset()), places),
    far=st.one_of(st.just(frozenset()), places),
    cancel_after=st.one_of(st.none(), st.none(), st.integers(0, 12)),
    reads=st.sampled_from(["waiting", "waiting", "called", "raising"]),
)


@pytest.fixture(autouse=True, scope="module")
def quiet():
    """Keeps the intended exceptions of callbacks out of the log."""
    logger = logging.getLogger("modelflow")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def source_streams(flow):
    """Returns the sessions of the sources, in the order of the graph."""
    return [
        StreamIO(flow.scheduler, session, is_owner=False)
        for session in flow.scheduler.sources.values()
    ]


def nothing_is_left(flow):
    """Checks that a flow keeps nothing of finished sessions."""
    assert flow.scheduler.count_held() == {}
    check_figures(flow.scheduler)
    in_flight = flow.scheduler._wiring._in_flight
    assert in_flight is None or in_flight.rows == 0


def run_with_threads(program, rows, uses, tap=None):
    """Runs the sessions at the same time, and compares the sessions that were not cancelled."""
    with Running(program.graph(), stop_timeout=LONG, tap=tap) as flow:
        clients = [
            Client(flow.session(), program.columns(values), usage)
            for values, usage in zip(rows, uses, strict=True)
        ]
        sources = [Client(stream, None, Usage()) for stream in source_streams(flow)]
        for client in clients + sources:
            client.start()
        for client in clients + sources:
            client.join()
    nothing_is_left(flow)
    for client, values in zip(clients, rows, strict=True):
        assert not client.is_cut_off
        if client.usage.cancel_after is None:
            client.check(program.expected(values, client.usage.late))
    for client, source in zip(sources, program.sources, strict=True):
        client.check(source.expected())


def run_until_stopped(program, rows, uses, moment, drain):
    """Stops the flow when the first session has sent ``moment`` rows, and checks the results.

    If the flow drains, every sent row must come out.
    """
    is_time = threading.Event()

    def sent(count):
        if count is None or count >= moment:
            is_time.set()

    flow = Running(program.graph(), stop_timeout=LONG)
    flow.scheduler.start()
    clients = []
    try:
        for values, usage in zip(rows, uses, strict=True):
            told = (lambda _: None) if clients else sent
            clients.append(Client(flow.session(), program.columns(values), usage, told))
        sources = [Client(stream, None, Usage()) for stream in source_streams(flow)]
        for client in clients + sources:
            client.start()
        assert is_time.wait(LONG)
    finally:
        flow.scheduler.stop(drain)
    for client in clients + sources:
        client.join()
    nothing_is_left(flow)
    for client, values in zip(clients, rows, strict=True):
        counts = {client.stream._session.progress.has_entered(name) for name in client.columns}
        if client.usage.cancel_after is None and len(counts) == 1:
            check_stopped(
                client, program.expected(values[: counts.pop()], client.usage.late), drain
            )
    for client, source in zip(sources, program.sources, strict=True):
        check_stopped(client, source.expected(client.stream._session.progress.sent), drain)


def check_stopped(client, expected, drain):
    """Checks a session that a stop has ended; a sender may find the session closed in any case."""
    client.is_cut_off = client.stream._session.is_cancelled
    assert not (drain and client.is_cut_off)
    client.check(expected)


def run_inline(program, rows, uses):
    """Runs the sessions in sequence on this thread; afterwards nothing of them may remain."""
    with Running(program.graph(), is_inline=True) as flow:
        for stream, source in zip(source_streams(flow), program.sources, strict=True):
            client = Client(stream, None, Usage())
            for name in stream.outputs:
                client.read(name)
            assert stream.wait(0)
            client.check(source.expected())
        for values, usage in zip(rows, uses, strict=True):
            client = Client(flow.session(), program.columns(values), usage)
            if usage.late:
                use_inline(client)
            else:
                found = client.stream.exchange(client.columns)
                client.outputs = {name: [*map(plain, found[name])] for name in found}
            client.check(program.expected(values, usage.late))
            nothing_is_left(flow)


def use_inline(client):
    """Sends every row and reads everything, on this thread."""
    for place in range(len(next(iter(client.columns.values())))):
        client.send(place)
    client.stream.close_input()
    for name in client.outputs:
        client.read(name)
    assert client.failures == []


@pytest.mark.timeout(3000)
@any_graph
@given(programs(), sessions, st.data(), st.booleans())
def test_any_graph_gives_what_the_interpreter_gives(program, rows, data, is_tapped):
    kept = deque(maxlen=64)
    tap = (lambda *given: kept.append([one.twin() for one in given[2]])) if is_tapped else None
    run_with_threads(program, rows, [data.draw(usages) for _ in rows], tap)
    assert all(kept)


@pytest.mark.timeout(3000)
@any_graph
@given(programs(), sessions, st.data(), st.integers(0, 12), st.booleans())
def test_any_graph_ends_when_it_is_stopped_and_keeps_nothing(program, rows, data, moment, drain):
    run_until_stopped(program, rows, [data.draw(usages) for _ in rows], moment, drain)


@pytest.mark.timeout(3000)
@any_graph
@given(programs(), sessions, st.data())
def test_on_one_thread_any_graph_gives_the_same_and_keeps_nothing(program, rows, data):
    run_inline(program, rows, [data.draw(usages) for _ in rows])


ONE = {"threads": 1, "batch_size": 1, "queue_size": 1}


def out():
    return Tap(True, 0, {})


def branch(*branches):
    return Branch(list(branches), 0, False, False, ONE)


# Bugs that the tests above have found, each with the smallest graph that shows the bug.
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
    run_with_threads(program, rows, [Usage(), Usage()])
    run_inline(program, rows, [Usage(), Usage()])
