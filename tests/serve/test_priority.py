"""Tests of the two classes of requests, whose first overtakes the second everywhere."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import modelflow
from modelflow.runtime.orders import fifo, turns
from modelflow.serve.requests import submit_queue
from modelflow.serve.server import ServeOptions, Server
from tests.serve.clients import TYPED, ask, served
from tests.serve.grpc.stub import grpc_served, infer, stub

ROUTES = {
    "/v1/models/m:predict": lambda row: {"instances": [row]},
    "/v2/models/m/infer": lambda row: {
        "inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 1], "data": row}]
    },
    "/v2/models/m/generate": lambda row: {"input": row},
}


class Gate:
    """A unit that stops at its first row until the gate opens, and keeps the order of its rows."""

    def __init__(self):
        self.seen, self.is_open, self.has_begun = [], threading.Event(), threading.Event()

    def unit(self):
        @modelflow.flowunit(name="mean", kind=modelflow.Normal())
        def mean(row):
            self.has_begun.set()
            self.is_open.wait()
            self.seen.append(float(row[0]))
            return np.float32(row[0])

        from modelflow.unit import function

        del function._declared["mean"]
        return mean


@pytest.fixture
def gate():
    found = Gate()
    yield found
    found.is_open.set()


def wait_for_requests(server, count):
    """Waits until the model has so many requests, and the graph has as many as fit."""
    for _ in range(10_000):
        if server.model("m").admission.under_way >= count:
            has_entered = threading.Event()
            server.post(has_entered.set)  # behind the turn of the loop that submits them
            has_entered.wait()
            return
        threading.Event().wait(0.001)
    raise AssertionError("the requests have not arrived")


def overtake(server, gate, send_first):
    """Fills the queues, sends a request of the first class, and returns the order."""
    with ThreadPoolExecutor(16) as pool:
        path = "/v1/models/m:predict"
        slow = [pool.submit(ask, server, path, {"instances": [[float(n)]]}) for n in range(1, 13)]
        gate.has_begun.wait()
        wait_for_requests(server, len(slow))
        first = pool.submit(send_first)
        wait_for_requests(server, len(slow) + 1)
        gate.is_open.set()
        first.result()
        assert {one.result()[0] for one in slow} == {200}
    return gate.seen


@pytest.mark.parametrize(
    "node", ["batch_size=1, threads=1, queue_size=2", "batch_size=1, threads=1, split_size=1"]
)
@pytest.mark.parametrize("path", ROUTES)
def test_the_first_class_is_next_although_the_queues_are_full(gate, path, node):
    with served(gate.unit(), node) as server:
        headers = {"Inference-Priority": "1"}
        send = lambda: ask(server, path, ROUTES[path]([99.0]), headers=headers)  # noqa: E731
        seen = overtake(server, gate, send)
    assert seen.index(99.0) == 1
    assert sorted(seen) == [*map(float, range(1, 13)), 99.0]


@pytest.mark.parametrize(
    ("kind", "node", "more"),
    [
        (modelflow.Normal(), "", ""),
        (modelflow.Normal(), ", split_size=1", ""),
        (modelflow.Normal(), "", "[flow]\nmax_in_flight = 2\n"),
        (modelflow.Stream(modelflow.Count.SAME), "", ""),
    ],
)
def test_the_second_class_advances_under_a_permanent_load_of_the_first(
    kind, node, more, monkeypatch
):
    for module in (fifo, turns, submit_queue):
        monkeypatch.setattr(module, "PATIENCE", 0.01)

    class Mean(modelflow.FlowUnit):
        SPEC = modelflow.FlowUnitSpec(
            "mean",
            {"cpu": lambda: Mean()},
            inputs=(modelflow.Port("row"),),
            outputs=(modelflow.Port("out"),),
            kind=kind,
        )

        def process(self, ctx):
            # The first class never has fewer rows in the queue than its bound.
            while server.model("m").admission.first < 5 and not is_over.is_set():
                is_over.wait(0.001)
            ctx.emit([np.float32(buffer.data[0]) for buffer in ctx.input()])

    path, is_over = "/v1/models/m:predict", threading.Event()

    def load():
        while not is_over.is_set():
            ask(server, path, {"instances": [[1.0]]}, headers={"Inference-Priority": "1"})

    text = TYPED.format(node=f"batch_size=1, threads=1, queue_size=2{node}") + more
    with (
        Server({"m": modelflow.Flow(text, units=[Mean])}, ServeOptions(http_port=0)) as server,
        ThreadPoolExecutor(8) as pool,
    ):
        for _ in range(8):
            pool.submit(load)
        wait_for_requests(server, 7)
        try:
            for _ in range(3):
                assert ask(server, path, {"instances": [[2.0]]})[0] == 200
        finally:
            is_over.set()


def test_the_parameter_does_the_same_over_grpc(gate, grpc_server):
    def send():
        request = infer(np.float32([[99.0]]))
        request.parameters["priority"].uint64_param = 1
        with stub(server) as client:
            client.oip("ModelInfer", request)

    with grpc_served(gate.unit(), "batch_size=1, threads=1") as server:
        assert overtake(server, gate, send).index(99.0) == 1


def test_the_parameter_does_the_same_over_rest(gate):
    document = {**ROUTES["/v2/models/m/infer"]([99.0]), "parameters": {"priority": 1}}
    with served(gate.unit(), "batch_size=1, threads=1") as server:
        send = lambda: ask(server, "/v2/models/m/infer", document)  # noqa: E731
        assert overtake(server, gate, send).index(99.0) == 1


def test_each_class_has_its_own_limit_of_requests(gate):
    path = "/v1/models/m:predict"
    with (
        served(gate.unit(), "batch_size=1, threads=1", max_requests=2) as server,
        ThreadPoolExecutor(8) as pool,
    ):
        slow = [pool.submit(ask, server, path, {"instances": [[1.0]]}) for _ in range(2)]
        wait_for_requests(server, 2)
        assert ask(server, path, {"instances": [[1.0]]})[0] == 503
        headers = {"Inference-Priority": "1"}
        first = [
            pool.submit(ask, server, path, {"instances": [[9.0]]}, headers=headers)
            for _ in range(2)
        ]
        wait_for_requests(server, 4)
        status, found, _ = ask(server, path, {"instances": [[9.0]]}, headers=headers)
        assert (status, "2 requests under way" in found["error"]) == (503, True)
        gate.is_open.set()
        assert {one.result()[0] for one in (*slow, *first)} == {200}
        assert server.model("m").admission.first == 0


def test_a_request_of_the_first_class_that_is_given_up_leaves_room(gate):
    path = "/v1/models/m:predict"
    headers = {"Inference-Priority": "1", "Inference-Timeout-Ms": "50"}
    with served(gate.unit(), "batch_size=1, threads=1") as server, ThreadPoolExecutor(2) as pool:
        slow = pool.submit(ask, server, path, {"instances": [[1.0]]})
        gate.has_begun.wait()
        assert ask(server, path, {"instances": [[9.0]]}, headers=headers)[0] == 504
        assert server.model("m").admission.first == 0
        gate.is_open.set()
        assert slow.result()[0] == 200
    assert gate.seen == [1.0]


def test_a_full_graph_is_not_asked_again_for_each_request_of_the_first_class(gate, monkeypatch):
    with (
        served(gate.unit(), "batch_size=1, threads=1, queue_size=2") as server,
        ThreadPoolExecutor(16) as pool,
    ):
        path = "/v1/models/m:predict"
        slow = []
        for number in range(12):  # one after the other, so some wait outside the graph
            slow.append(pool.submit(ask, server, path, {"instances": [[1.0]]}))
            wait_for_requests(server, number + 1)
        scheduler, tries = server.model("m").flow.scheduler, []
        create = scheduler.create_request_batch

        def count_and_create():
            tries.append(1)
            return create()

        monkeypatch.setattr(scheduler, "create_request_batch", count_and_create)
        headers = {"Inference-Priority": "1"}
        first = pool.submit(ask, server, path, {"instances": [[9.0]]}, headers=headers)
        wait_for_requests(server, 13)
        for _ in range(50):  # turns of the event loop
            turned = threading.Event()
            server.post(turned.set)
            turned.wait()
        assert len(tries) <= 1
        gate.is_open.set()
        assert {one.result()[0] for one in (*slow, first)} == {200}
