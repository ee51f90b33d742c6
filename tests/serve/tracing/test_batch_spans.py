"""Tests of the spans of batches with several requests."""

import threading

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from tests.serve.clients import ask, served
from tests.serve.grpc.stub import SECONDS
from tests.serve.test_request_context import PREDICT
from tests.serve.test_server import Gate
from tests.serve.tracing.spans import Spans


def ask_at_once(server, gate, headers):
    """Sends a request for each of ``headers``, behind a request on which a unit is busy."""
    found = []

    def asking(value, more):
        document = {"instances": [[float(value)]]}
        return threading.Thread(
            target=lambda: found.append(ask(server, PREDICT, document, headers=more)[0])
        )

    threads = [asking(0, {"traceparent": f"00-{'e' * 32}-{'f' * 16}-00"})]
    threads += [asking(number, more) for number, more in enumerate(headers, 1)]
    threads[0].start()
    assert gate.entered.acquire(timeout=SECONDS)
    for thread in threads[1:]:
        thread.start()
    while server.model("m").flow.stats()["mean"].queue < len(headers):
        pass
    gate.go.set()
    for thread in threads:
        thread.join()
    assert found == [200] * len(threads)


def ids(context):
    return context.trace_id, context.span_id


def sampled(number):
    return {"traceparent": f"00-{number:032x}-{number:016x}-01"}


@pytest.fixture
def gate():
    return Gate()


def test_a_batch_links_to_every_request_in_it(gate):
    spans = Spans(ParentBased(ALWAYS_OFF))
    with served(gate.unit, "batch_size=8, threads=1", tracing=spans.provider) as server:
        ask_at_once(server, gate, [sampled(number) for number in range(1, 6)])
    (batch,) = (span for span in spans.all if span.name == "mean batch")
    requests = {ids(span.context) for span in spans.requests}
    assert len(requests) == 5
    assert {span.parent.trace_id for span in spans.requests} == {1, 2, 3, 4, 5}
    assert {span.parent.span_id for span in spans.requests} == {1, 2, 3, 4, 5}
    assert {ids(link.context) for link in batch.links} == requests
    assert len(batch.links) == 5
    assert ids(batch.parent) in requests
    assert batch.context.trace_id == batch.parent.trace_id
    (node, *_) = (span for span in spans.all if span.name == "mean")
    assert (batch.start_time // 1000, batch.end_time // 1000) == pytest.approx(
        (node.start_time // 1000, node.end_time // 1000), abs=1000
    )
    assert dict(batch.attributes) == {
        "modelflow.node": "mean",
        "modelflow.unit": "mean",
        "modelflow.device": "cpu:0",
        "modelflow.batch.rows": 5,
        "modelflow.batch.requests": 5,
        "modelflow.worker": "mean/0",
    }


def test_a_batch_with_one_sampled_request_is_told_by_the_span_of_its_node(gate):
    spans = Spans(ParentBased(ALWAYS_OFF))
    with served(gate.unit, "batch_size=8, threads=1", tracing=spans.provider) as server:
        unsampled = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-00"}
        ask_at_once(server, gate, [sampled(1), unsampled, unsampled])
    assert sorted(span.name for span in spans.all) == ["POST /v1/models/{name}:predict", "mean"]


def test_batches_of_a_request_alone_are_not_kept(gate):
    spans = Spans()
    with served(gate.unit, "batch_size=2, threads=1", tracing=spans.provider) as server:
        gate.go.set()
        assert ask(server, PREDICT, {"instances": [[1.0]] * 9})[0] == 200
    assert sorted(span.name for span in spans.all) == ["POST /v1/models/{name}:predict", "mean"]


def test_a_request_that_is_in_two_batches_is_linked_from_each(gate):
    spans = Spans(ParentBased(ALWAYS_OFF))
    with served(gate.unit, "batch_size=4, threads=1", tracing=spans.provider) as server:
        ask_at_once(server, gate, [sampled(number) for number in range(1, 8)])
    batches = [span for span in spans.all if span.name == "mean batch"]
    assert sorted(len(span.links) for span in batches) == [3, 4]
    assert {ids(link.context) for span in batches for link in span.links} == {
        ids(span.context) for span in spans.requests
    }
