"""Tests of callers' time limits: a number, or an error that names the argument."""

import asyncio
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import modelflow
from modelflow.quantities import check_seconds
from modelflow.stream_io.request import Request
from modelflow.unit.stream_context import StreamContext

ECHO = "digraph echo { input [type=input] same output [type=output] input -> same -> output }"


@modelflow.flowunit
def same(number: int):
    return number


@pytest.fixture
def flow():
    with modelflow.Flow(ECHO, units=[same]) as running:
        yield running


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), np.int64(2), np.array(2.0), Decimal(2), Fraction(2)]
)
def test_a_number_of_any_type_is_a_time(value):
    found = check_seconds("timeout", value)
    assert (found, type(found)) == (2.0, float)


@pytest.mark.parametrize("value", [math.inf, 10**400, 1e300])
def test_what_is_longer_than_anybody_waits_is_a_time_that_can_be_waited_for(value):
    assert check_seconds("timeout", value) == 1e9
    assert check_seconds("timeout", -value) == -1e9


def test_the_error_says_what_was_given_and_what_was_expected():
    with pytest.raises(
        TypeError, match=r"^timeout: got '1' \(str\); expected a number of seconds$"
    ):
        check_seconds("timeout", "1")
    with pytest.raises(ValueError, match=r"^timeout: got nan; expected a number of seconds$"):
        check_seconds("timeout", math.nan)


def with_async(name, *given):
    """Returns a function that calls a coroutine method."""

    async def call(owner, named):
        return await getattr(owner, name)(*given, **named)

    return lambda owner, **named: asyncio.run(call(owner, named))


def opened(flow, call):
    """Returns a function that calls a method of a new session."""

    def ask(**named):
        with flow.create_stream_io() as stream:
            return call(stream, **named)

    return ask


CALLS = {
    "infer": lambda flow: lambda **named: flow.infer(1, **named),
    "infer at once": lambda flow: lambda **named: flow.infer(1, wait=False, **named),
    "ainfer": lambda flow: lambda **named: with_async("ainfer", 1)(flow, **named),
    "exchange": lambda flow: opened(flow, lambda s, **n: s.exchange({"input": (1,)}, **n)),
    "aexchange": lambda flow: opened(flow, with_async("aexchange", {"input": (1,)})),
    "send": lambda flow: opened(flow, lambda s, **n: s.send("input", 1, **n)),
    "asend": lambda flow: opened(flow, with_async("asend", "input", 1)),
    "send at once": lambda flow: opened(flow, lambda s, **n: s.send("input", 1, wait=False, **n)),
    "recv": lambda flow: opened(flow, lambda s, **n: sent(s).recv(**n)),
    "arecv": lambda flow: opened(flow, lambda s, **n: with_async("arecv")(sent(s), **n)),
    "wait of a session": lambda flow: opened(flow, lambda s, **n: sent(s).wait(**n)),
    "map": lambda flow: lambda **named: list(flow.map([1], **named)),
    "Request": lambda _: lambda **named: Request({"input": [1]}, print, **named),
    "stop": lambda flow: lambda **named: flow.stop(**named),
    "Flow": lambda _: lambda **named: modelflow.Flow(ECHO, units=[same], **named),
}


def sent(stream):
    """Sends an item into the session, ends the input, and returns the session."""
    stream.send("input", 1)
    stream.close_input()
    return stream


TIMES = [
    *((name, "timeout") for name in ("infer", "infer at once", "ainfer")),
    *((name, "deadline") for name in ("infer", "infer at once", "ainfer")),
    *((name, "timeout") for name in ("exchange", "aexchange", "send", "asend")),
    *((name, "deadline") for name in ("exchange", "aexchange", "send", "asend", "send at once")),
    *((name, "timeout") for name in ("recv", "arecv")),
    *((name, "timeout") for name in ("wait of a session", "stop")),
    *((name, "deadline") for name in ("map", "Request")),
    *(("Flow", name) for name in ("stop_timeout", "watchdog_interval")),
]


@pytest.mark.parametrize(("call", "argument"), TIMES)
@pytest.mark.parametrize(("value", "kind"), [("1", TypeError), (math.nan, ValueError)])
def test_what_is_no_time_is_refused_by_every_call_that_takes_one(flow, call, argument, value, kind):
    with pytest.raises(kind, match=rf"^{argument}: got .*; expected a number of seconds$"):
        CALLS[call](flow)(**{argument: value})
    assert flow.infer(2).data == 2


@pytest.mark.parametrize(("call", "argument"), TIMES)
def test_an_infinite_time_is_as_long_as_it_takes(flow, call, argument):
    CALLS[call](flow)(**{argument: math.inf})


def test_a_call_that_was_refused_leaves_no_session(flow):
    for call in ("infer", "infer at once", "ainfer"):
        for argument in ("timeout", "deadline"):
            with pytest.raises(TypeError):
                CALLS[call](flow)(**{argument: "1"})
    assert flow.stats().in_flight == 0


def test_the_wait_for_a_flow_is_in_seconds(flow):
    with pytest.raises(TypeError, match=r"^timeout: got '1' .*a number of seconds$"):
        flow.wait("1")
    assert not flow.wait(0)
    assert not flow.wait(0.01)


def test_a_stop_that_is_asked_for_takes_a_number(flow):
    with pytest.raises(ValueError, match=r"^timeout: got nan; "):
        flow.stop(timeout=math.nan, wait=False)
    assert flow.infer(1).data == 1


def test_the_deadline_of_a_session_that_a_source_opens_is_a_number():
    ctx = StreamContext({}, {"out": []}, {}, {}, {}, lambda *_: True)
    with pytest.raises(TypeError, match=r"^deadline: got '1' \(str\); expected a number of s"):
        ctx.opening(1, deadline="1")
    assert ctx.opening(1, deadline=2).deadline == 2.0
