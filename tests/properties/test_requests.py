"""Tests of requests through random graphs of normal units: one notification each."""

import threading
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

import modelflow
from modelflow.errors import Cancelled, StreamClosed
from modelflow.stream_io.request import Request, submit

_SETTINGS = st.fixed_dictionaries(
    {
        "threads": st.integers(1, 3),
        "batch_size": st.integers(1, 5),
        "queue_size": st.integers(1, 40),
    }
)


@modelflow.flowunit
def step(number: int):
    if number % 7 == 3:
        raise ValueError(f"{number} is bad")
    return number + 1


@modelflow.flowunit
def swallow(number: int):
    pass


def expected(number, steps):
    """Returns the result of so many steps, or None for an error."""
    for _ in range(steps):
        if number % 7 == 3:
            return None
        number += 1
    return number


@st.composite
def graphs(draw):
    """Draws a graph's text, and the number of steps before each output."""
    count = draw(st.integers(1, 3))
    lines, outputs = ["input [type=input]"], {}
    before = "input"
    for place in range(count):
        attributes = ", ".join(f"{k}={v}" for k, v in draw(_SETTINGS).items())
        lines.append(f"s{place} [flowunit=step, {attributes}]")
        lines.append(f"{before} -> s{place}")
        before = f"s{place}"
        if place == count - 1 or draw(st.booleans()):
            lines.append(f"o{place} [type=output]\n{before} -> o{place}")
            outputs[f"o{place}"] = place + 1
        if draw(st.booleans()):
            lines.append(f"k{place} [flowunit=swallow]\n{before} -> k{place}")
    text = "digraph {\n" + "\n".join(lines) + "\n}"
    bound = draw(st.none() | st.integers(1, 8))
    if bound is not None:
        text = f"[flow]\nmax_in_flight = {bound}\n[graph]\ngraphconf = '''{text}'''"
    return text, outputs


class Told:
    """Counts the notifications of each request."""

    def __init__(self):
        self.counts = Counter()
        self._more = threading.Condition()

    def __call__(self, request):
        with self._more:
            self.counts[id(request)] += 1
            self._more.notify_all()

    def wait(self, requests):
        with self._more:
            while not all(self.counts[id(request)] for request in requests):
                self._more.wait()


def submit_all(flow, group):
    """Submits requests, waiting for room; returns the requests that a stopping flow rejected."""
    room = threading.Event()
    while group:
        room.clear()
        try:
            group = submit(flow.scheduler, group, room.set)
        except StreamClosed:
            return group
        if group:
            room.wait()
    return []


@given(
    graph=graphs(),
    gangs=st.lists(
        st.lists(
            st.tuples(
                st.lists(st.integers(0, 50), min_size=1, max_size=3) | st.just([5]),
                st.sampled_from(["keep", "keep", "keep", "cancel", "late"]),
            ),
            max_size=30,
        ),
        max_size=4,
    ),
    ending=st.sampled_from(["wait", "drain", "abort"]),
)
def test_each_request_is_told_once_of_its_own_answer(graph, gangs, ending):
    text, outputs = graph
    told, gone, requests, untaken = Told(), set(), [], []
    with modelflow.Flow(text, units=[step, swallow]) as flow:
        for group in gangs:
            made = [
                Request({"input": values}, told, deadline=-1.0 if how == "late" else None)
                for values, how in group
            ]
            untaken += submit_all(flow, made)
            for request, (values, how) in zip(made, group, strict=True):
                requests.append((request, values, how))
                if how == "cancel":
                    request.cancel()
                    gone.add(id(request))
        if ending == "wait":
            told.wait([request for request, *_ in requests])
        else:
            flow.stop(drain=ending == "drain")
    assert not untaken
    for request, values, how in requests:
        assert told.counts[id(request)] == 1
        try:
            answer = request.answer()
        except Cancelled:
            assert id(request) in gone
            continue
        except StreamClosed:
            assert ending == "abort"
            continue
        for output, steps in outputs.items():
            found = [None if b.error is not None else b.data for b in answer[output]]
            if how != "late":
                assert found == [expected(number, steps) for number in values]
            else:
                assert found == [None] * len(values)
    assert flow.scheduler.count_held() == {}
