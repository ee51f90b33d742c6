"""Tests of the spans of the nodes that a request passes."""

import contextlib
import threading

import grpc
import numpy as np
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

import modelflow
from modelflow.remote import ProcessEngine, place_nodes
from modelflow.runtime.scheduler import Scheduler
from modelflow.serve.server import ServeOptions, Server
from modelflow.unit import function
from tests.serve.clients import ask, served
from tests.serve.grpc.stub import OIP, PREDICTION, SECONDS, Stub, grpc_served, infer, predict
from tests.serve.test_generate_stream import Events, streaming
from tests.serve.test_request_context import BODY, PREDICT
from tests.serve.test_server import Gate, asking
from tests.serve.tokens import Tokens
from tests.serve.tracing.spans import Spans, cancel_one


@pytest.fixture
def spans():
    return Spans()


def said(span, *names):
    return tuple(span.attributes[f"modelflow.{name}"] for name in names)


def test_a_node_has_a_span_below_the_requests(spans):
    with served(tracing=spans.provider) as server:
        assert ask(server, PREDICT, BODY)[0] == 200
    (request,) = spans.requests
    (node,) = spans.below(request)
    assert (node.name, node.kind.name) == ("mean", "INTERNAL")
    assert dict(node.attributes) == {
        "modelflow.node": "mean",
        "modelflow.unit": "mean",
        "modelflow.device": "cpu:0",
        "modelflow.rows": 1,
        "modelflow.calls": 1,
        "modelflow.batch_size": 1,
    }
    assert request.start_time <= node.start_time <= node.end_time <= request.end_time
    assert node.status.status_code.name == "UNSET"


def test_requests_in_one_batch_have_each_a_span_of_its_times(spans):
    entered, go = threading.Event(), threading.Event()

    @modelflow.flowunit(name="mean", is_one_by_one=False)
    def wait(row):
        entered.set()
        go.wait()
        return row[0]

    del function._declared["mean"]
    found = []
    with served(wait, "batch_size=8, threads=1", tracing=spans.provider) as server:
        try:
            threads = [asking(server, 1, found)]
            assert entered.wait(SECONDS)
            threads += [asking(server, value, found) for value in (2, 3)]
            while server.model("m").flow.stats()["mean"].queue < 2:
                pass
        finally:
            go.set()
        for thread in threads:
            thread.join()
    assert [status for status, _ in found] == [200] * 3
    nodes = [spans.below(request)[0] for request in spans.requests]
    assert sorted(said(node, "rows", "batch_size") for node in nodes) == [(1, 1), (1, 2), (1, 2)]
    assert len({node.context.trace_id for node in nodes}) == 3
    together = [node for node in nodes if said(node, "batch_size") == (2,)]
    assert len({node.end_time - node.start_time for node in together}) == 1


def test_a_request_of_many_batches_has_one_span_a_node(spans):
    with served(node="batch_size=2", tracing=spans.provider) as server:
        rows = [[float(number)] for number in range(7)]
        assert ask(server, PREDICT, {"instances": rows})[0] == 200
    (node,) = spans.below(spans.requests[0])
    assert said(node, "rows", "calls", "batch_size") == (7, 4, 2)


def test_a_node_that_fails_says_why(spans):
    with served(tracing=spans.provider) as server:
        assert ask(server, PREDICT, {"instances": [[-1.0]]})[0] == 500
        assert ask(server, PREDICT, {"instances": [[1.0]]})[0] == 200
    bad, good = (spans.below(request)[0] for request in spans.requests)
    assert (bad.status.status_code.name, bad.attributes["error.type"]) == (
        "ERROR",
        "ZeroDivisionError",
    )
    assert "a secret" in bad.status.description
    assert good.status.status_code.name == "UNSET"


# -- graphs of several nodes ----------------------------------------------------------------------

GRAPH = """digraph m {{
    input [type=input]
    first [flowunit=first, {first}]
    second [flowunit=second, {second}]
    output [type=output]
    input -> first -> second -> output
}}"""


@modelflow.flowunit
def first(row):
    """Fails for 13."""
    if row == 13:
        raise modelflow.BadRequest("no luck")
    return row


@modelflow.flowunit
def second(row):
    """Fails for 14."""
    if row == 14:
        raise modelflow.BadRequest("bad luck")
    return row + 1


for name in ("first", "second"):
    del function._declared[name]


@contextlib.contextmanager
def two_nodes(spans, one="", other="", **options):
    flow = modelflow.Flow(GRAPH.format(first=one, second=other), units=[first, second])
    with Server({"m": flow}, ServeOptions(http_port=0, tracing=spans.provider)) as server:
        yield server


def generate(server, value):
    return ask(server, "/v2/models/m/generate", {"input": value})


@pytest.mark.parametrize("attributes", ["fuse=a", "batch_size=1"], ids=["fused", "apart"])
def test_every_node_has_a_span_in_its_order(spans, attributes):
    with two_nodes(spans, attributes, attributes) as server:
        assert ("second" in server.model("m").flow.scheduler.plan.stages) is (
            attributes != "fuse=a"
        )
        assert generate(server, 3)[1] == {"output": 4}
    found = spans.below(spans.requests[0])
    assert [(span.name, said(span, "unit")) for span in found] == [
        ("first", ("first",)),
        ("second", ("second",)),
    ]
    assert found[0].end_time <= found[1].start_time


@pytest.mark.parametrize("attributes", ["fuse=a", "batch_size=1"], ids=["fused", "apart"])
def test_a_node_behind_one_that_fails_has_no_span(spans, attributes):
    with two_nodes(spans, attributes, attributes) as server:
        assert generate(server, 13)[0] == 400
        assert generate(server, 14)[0] == 400
    early, late = (spans.below(request) for request in spans.requests)
    assert [(span.name, span.status.status_code.name) for span in early] == [("first", "ERROR")]
    assert [(span.name, span.status.status_code.name) for span in late] == [
        ("first", "UNSET"),
        ("second", "ERROR"),
    ]


# -- ends -----------------------------------------------------------------------------------------


def test_a_request_that_is_late_has_an_error_and_no_node_that_worked_for_it(spans):
    gate, found = Gate(), []
    with served(gate.unit, gate.NODE, tracing=spans.provider) as server:
        try:
            threads = [asking(server, 1, found)]
            assert gate.entered.acquire(timeout=SECONDS)
            asking(server, 2, found, headers={"inference-timeout-ms": "20"}).join()
        finally:
            gate.go.set()
        for thread in threads:
            thread.join()
    (late,) = [one for one in spans.requests if one.status.status_code.name == "ERROR"]
    assert spans.below(late) == []


def test_the_node_that_worked_for_somebody_who_has_gone_has_a_span(spans):
    gate = Gate()
    with (
        grpc_served(gate.unit, gate.NODE, tracing=spans.provider) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        cancel_one(server, channel, gate)
    (request,) = spans.requests
    assert request.attributes["rpc.response.status_code"] == "CANCELLED"
    assert [span.name for span in spans.below(request)] == ["mean"]


class Raising(SimpleSpanProcessor):  # type: ignore[misc]
    def __init__(self):
        self.seen = threading.Semaphore(0)

    def on_start(self, span, parent_context=None):
        if span.name == "mean":
            self.seen.release()
            raise RuntimeError("a processor of somebody's own")

    def on_end(self, span):
        pass

    def shutdown(self):
        pass


def test_a_processor_of_spans_that_raises_hurts_no_request(caplog):
    provider, gate, processor = TracerProvider(shutdown_on_exit=False), Gate(), Raising()
    provider.add_span_processor(processor)
    with (
        grpc_served(gate.unit, gate.NODE, tracing=provider) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        cancel_one(server, channel, gate)
        assert processor.seen.acquire(timeout=SECONDS)
        assert ask(server, PREDICT, BODY)[0] == 200


# -- streams, other protocols ---------------------------------------------------------------------


def test_a_stream_unit_has_one_span_for_all_that_it_gives(spans):
    with (
        streaming(Tokens(is_free=True), tracing=spans.provider) as server,
        Events(server) as events,
    ):
        events.ask(5)
        events.head()
        assert [events.next() for _ in range(6)] == [*({"output": n} for n in range(5)), None]
    (node,) = spans.below(spans.requests[0])
    assert (node.name, said(node, "rows")) == ("tokens", (1,))
    assert said(node, "calls")[0] >= 5


def test_a_stream_unit_that_fails_says_why(spans):
    with (
        streaming(Tokens(is_free=True), tracing=spans.provider) as server,
        Events(server) as events,
    ):
        events.ask(-4)
        events.head()
        while events.next() is not None:
            pass
    (node,) = spans.below(spans.requests[0])
    assert (node.status.status_code.name, node.attributes["error.type"]) == ("ERROR", "BadRequest")


@pytest.mark.usefixtures("grpc_server")
def test_every_protocol_has_spans_of_nodes(spans):
    with (
        grpc_served(tracing=spans.provider) as server,
        grpc.insecure_channel(server.grpc_address) as channel,
    ):
        stub = Stub(channel)
        stub.oip("ModelInfer", infer())
        stub.method(PREDICTION, "Predict")(predict(), timeout=SECONDS)
        stream = stub.method(OIP, "ModelStreamInfer")
        assert len(list(stream(iter([infer()] * 3), timeout=SECONDS))) == 3
        tensor = {"name": "input", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}
        assert ask(server, "/v2/models/m/infer", {"inputs": [tensor]})[0] == 200
    counts = [(one.name.split("/")[-1], len(spans.below(one))) for one in spans.requests]
    assert counts == [("ModelInfer", 1), ("Predict", 1), ("ModelStreamInfer", 3), ("infer", 1)]
    assert {said(node, "rows") for node in spans.below(spans.requests[0])} == {(2,)}


# -- requests that are not sampled ----------------------------------------------------------------


def test_what_is_not_sampled_travels_as_ever_and_nobody_watches_it():
    spans, request_batches = Spans(ParentBased(ALWAYS_OFF)), []
    make = Scheduler.create_request_batch

    def noting(scheduler):
        request_batches.append(scheduler)
        return make(scheduler)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scheduler, "create_request_batch", noting)
        with served(tracing=spans.provider) as server:
            scheduler = server.model("m").flow.scheduler
            assert ask(server, PREDICT, BODY)[0] == 200
            assert (len(request_batches), scheduler.is_watched) == (1, False)
            sampled = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}
            assert ask(server, PREDICT, BODY, headers=sampled)[0] == 200
            assert (len(request_batches), scheduler.is_watched) == (1, True)
            assert ask(server, PREDICT, BODY)[0] == 200
            assert len(request_batches) == 2
    assert sorted(span.name for span in spans.all) == ["POST /v1/models/{name}:predict", "mean"]


def test_a_request_of_many_rows_counts_only_its_own(spans):
    with served(tracing=spans.provider) as server:
        rows = np.arange(4, dtype=np.float32).reshape(4, 1).tolist()
        assert ask(server, PREDICT, {"instances": rows})[0] == 200
    (node,) = spans.below(spans.requests[0])
    assert said(node, "rows") == (4,)


PLACED = """
[placement.apart]
[graph]
graphconf = '''digraph {
    x [type=input]
    risky [flowunit="tests.remote.units:risky", placement=apart]
    then [flowunit="tests.remote.units:odd", placement=apart]
    y [type=output]
    x -> risky -> then -> y
}'''
"""


def test_nodes_that_are_elsewhere_have_spans_below_the_request_where_it_was_worked_on(spans):
    flow = modelflow.Flow(place_nodes(PLACED, ProcessEngine()))
    with Server({"m": flow}, ServeOptions(http_port=0, tracing=spans.provider)) as server:
        assert ask(server, PREDICT, {"instances": [3]})[0] == 200
    (request,) = spans.requests
    found = {(span.name, *said(span, "unit", "rows")): span for span in spans.below(request)}
    assert {*found} == {("risky", "remote", 1), ("risky", "risky", 1), ("then", "odd", 1)}
    far = found["risky", "remote", 1]
    first, then = found["risky", "risky", 1], found["then", "odd", 1]
    assert far.start_time <= first.start_time <= first.end_time <= then.start_time
    assert then.end_time <= far.end_time
