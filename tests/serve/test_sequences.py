"""Tests of sequences: requests with one id are steps of one session of the graph."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import modelflow
from modelflow.serve.server import ServeOptions, Server
from tests.prometheus import samples_of
from tests.serve.clients import ask
from tests.serve.clients import send as ask_text
from tests.serve.grpc.stub import refused, stub
from tests.serve.test_request_parameters import fill

INFER = "/v2/models/m/infer"
GENERATE = "/v2/models/m/generate"
GRAPH = """
[graph]
format = "graphviz"
graphconf = '''digraph m {{
    input [type=input]
    total [{node}]
    output [type=output]
    input -> total -> output
}}'''
[serve.input.input]
datatype = "INT64"
shape = [1]
[serve.output.output]
datatype = "INT64"
shape = [1]
"""


class Total(modelflow.FlowUnit):
    """The sum of all values of a stream so far. -13 fails, and does not count."""

    SPEC = modelflow.FlowUnitSpec(
        "total",
        {"cpu": lambda: Total()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        kind=modelflow.Stream(modelflow.Count.SAME),
    )
    ends: list[tuple[object, int]] = []  # noqa: RUF012 - of all tests

    def stream_start(self, ctx):
        ctx.state["total"] = 0

    def process(self, ctx):
        for buffer in ctx.input():
            if buffer.data[0] == -13:
                ctx.emit([ValueError("unlucky")])
                continue
            ctx.state["total"] += buffer.data[0]
            ctx.emit([np.int64([ctx.state["total"]])])

    def stream_end(self, ctx):
        self.ends.append((ctx.session.get("sequence_id"), int(ctx.state["total"])))


def serve(node="batch_size=2", **options):
    flow = modelflow.Flow(GRAPH.format(node=node), units=[Total])
    return Server({"m": flow}, ServeOptions(http_port=0, grpc_port=0, **options))


@pytest.fixture(scope="module")
def server(grpc_server):
    with serve() as running:
        yield running


def step(values, name, start=False, end=False):
    """Returns the document of a request with these values, a row each."""
    tensor = {"name": "input", "datatype": "INT64", "shape": [len(values), 1], "data": values}
    flags = {"sequence_start": start, "sequence_end": end}
    return {"inputs": [tensor], "parameters": {"sequence_id": name, **flags}}


def send(server, *args, **flags):
    status, found, _ = ask(server, INFER, step(*args, **flags))
    return found["outputs"][0]["data"] if status == 200 else (status, found["error"])


@pytest.mark.parametrize("name", [1, 2**63 - 1, "one", "é" * 128])
def test_the_requests_of_a_sequence_share_a_state_and_others_do_not(server, name):
    assert send(server, [1], name, start=True) == [1]
    assert send(server, [10, 100], name) == [11, 111]
    assert send(server, [5], f"other than {name!s:.9}", start=True, end=True) == [5]
    assert ask(server, INFER, {"inputs": step([7], "x")["inputs"]})[1]["outputs"][0]["data"] == [7]
    assert send(server, [1000], name, end=True) == [1111]
    assert (name, 1111) in Total.ends


def test_a_sequence_must_begin_and_may_begin_again(server):
    status, text = send(server, [1], "again")
    assert status == 400
    assert "sequence 'again' of model 'm' is not open; begin it with sequence_start" in text
    assert send(server, [1], "again", start=True) == [1]
    assert send(server, [2], "again", start=True) == [2]
    assert send(server, [3], "again", end=True) == [5]
    assert send(server, [4], "again")[0] == 400
    assert {("again", 1), ("again", 5)} <= {*Total.ends}


def test_open_sequences_are_counted():
    def count(server):
        text = ask_text(server, "GET", "/metrics")[2].decode()
        return samples_of(text)["modelflow_sequences", ("model", "m"), ("version", "1")]

    with serve() as server:
        assert count(server) == 0
        assert send(server, [1], "a", start=True) == [1]
        assert send(server, [1], "b", start=True) == [1]
        assert count(server) == 2
        assert send(server, [1], "a", end=True) == [2]
        assert count(server) == 1


def test_a_number_and_a_text_are_two_sequences(server):
    assert send(server, [1], 77, start=True) == [1]
    assert send(server, [2], "77", start=True) == [2]
    assert send(server, [1], 77, end=True) == [2]
    assert send(server, [1], "77", end=True) == [3]


def test_a_failed_row_fails_its_request_and_not_the_sequence(server):
    assert send(server, [1], "unlucky", start=True) == [1]
    assert send(server, [-13], "unlucky")[0] == 500
    assert send(server, [2], "unlucky", end=True) == [3]


def test_generate_takes_steps_as_well(server):
    found = [
        ask(server, GENERATE, {"input": [n], "sequence_id": "g", "sequence_start": n == 1})[1]
        for n in (1, 2, 3)
    ]
    assert found == [{"output": [1]}, {"output": [3]}, {"output": [6]}]
    status, found, _ = ask(server, f"{GENERATE}_stream", {"input": [1], "sequence_id": "g"})
    assert (status, "generate_stream: parameter 'sequence_id'" in found["error"]) == (400, True)


def message(values, name, start=False, end=False):
    from modelflow.wire.proto import OPEN_INFERENCE

    made = OPEN_INFERENCE["inference.ModelInferRequest"](model_name="m")
    array = np.int64(values)[:, None]
    made.inputs.add(name="input", datatype="INT64", shape=array.shape)
    made.raw_input_contents.append(array.tobytes())
    fill(made.parameters, {"sequence_id": name, "sequence_start": start, "sequence_end": end})
    return made


def numbers(answer):
    return np.frombuffer(answer.raw_output_contents[0], np.int64).tolist()


def test_a_grpc_stream_brings_the_steps_of_several_sequences(server):
    sent = [
        message([n], name, start=n == 1, end=n == 20) for n in range(1, 21) for name in (5, "five")
    ]
    with stub(server) as client:
        call = client.method("inference.GRPCInferenceService", "ModelStreamInfer")
        answers = [numbers(one.infer_response) for one in call(iter(sent), timeout=60)]
    sums = np.cumsum(range(1, 21)).tolist()
    assert sorted(answers) == sorted([[one] for one in sums for _ in range(2)])


def test_the_steps_of_one_grpc_stream_stay_in_order(server):
    sent = [message([n, n], "s", start=n == 0, end=n == 99) for n in range(100)]
    with stub(server) as client:
        call = client.method("inference.GRPCInferenceService", "ModelStreamInfer")
        answers = [numbers(one.infer_response) for one in call(iter(sent), timeout=60)]
        with refused("INVALID_ARGUMENT", "is not open"):
            client.oip("ModelInfer", message([1], "s"))
    assert answers == [[n * n, n * n + n] for n in range(100)]


def test_sequences_over_many_connections_do_not_mix(server):
    def run(number):
        total = 0
        for value in range(10):
            found = send(server, [number], f"n{number}", start=value == 0, end=value == 9)
            total += number
            assert found == [total]

    with ThreadPoolExecutor(16) as pool:
        [*pool.map(run, range(1, 65))]


def test_a_sequence_ends_after_a_time_without_a_request():
    with serve(sequence_timeout=0.05) as server:
        assert send(server, [41], "idle", start=True) == [41]
        for _ in range(10_000):
            if ("idle", 41) in Total.ends:
                break
            threading.Event().wait(0.001)
        status, text = send(server, [1], "idle")
        assert (status, "after 0.05 s without a request" in text) == (400, True)


def test_open_sequences_are_bounded():
    with serve(max_sequences=2) as server:
        assert send(server, [1], 1, start=True) == [1]
        assert send(server, [1], 2, start=True) == [1]
        status, text = send(server, [1], 3, start=True)
        assert (status, "has 2 open sequences, as many as it may" in text) == (429, True)
        assert send(server, [1], 1, start=True) == [1]  # begins again
        assert send(server, [1], 1, end=True) == [2]
        assert send(server, [1], 3, start=True) == [1]


def test_a_request_that_is_given_up_still_counts_for_the_state():
    gate = threading.Event()

    class Slow(Total):
        SPEC = replace(Total.SPEC, devices={"cpu": lambda: Slow()})

        def process(self, ctx):
            if ctx.input()[0].data[0] == 2:
                gate.wait()
            super().process(ctx)

    flow = modelflow.Flow(GRAPH.format(node="batch_size=1"), units=[Slow])
    with Server({"m": flow}, ServeOptions(http_port=0)) as server:
        assert send(server, [1], "late", start=True) == [1]
        headers = {"Inference-Timeout-Ms": "50"}
        assert ask(server, INFER, step([2], "late"), headers=headers)[0] == 504
        gate.set()
        assert send(server, [3], "late", end=True) == [6]


def serve_unit(process, node="batch_size=1", **options):
    """Serves a `Total` whose ``process`` is the given function."""
    unit = type("Other", (Total,), {"process": process})
    unit.SPEC = replace(Total.SPEC, devices={"cpu": unit})
    flow = modelflow.Flow(GRAPH.format(node=node), units=[unit])
    return Server({"m": flow}, ServeOptions(http_port=0, **options))


def test_a_request_that_is_given_up_before_its_turn_still_counts_for_the_state():
    gate, has_begun = threading.Event(), threading.Event()

    def wait(self, ctx):
        if ctx.input()[0].data[0] == 2:
            has_begun.set()
            gate.wait()
        Total.process(self, ctx)

    with serve_unit(wait) as server, ThreadPoolExecutor(1) as pool:
        assert send(server, [1], "late", start=True) == [1]
        slow = pool.submit(send, server, [2], "late")
        has_begun.wait()
        headers = {"Inference-Timeout-Ms": "50"}
        assert ask(server, INFER, step([40], "late"), headers=headers)[0] == 504
        gate.set()
        assert slow.result() == [3]
        assert send(server, [3], "late", end=True) == [46]


def test_a_unit_may_need_the_next_request_for_the_results_of_this_one():
    has_one = threading.Event()

    def delay(_, ctx):
        for buffer in ctx.input():
            if "kept" in ctx.state:
                ctx.emit([ctx.state["kept"]])
            ctx.state["kept"] = buffer.data
            has_one.set()

    with serve_unit(delay) as server, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(send, server, [1], "ahead", start=True)
        has_one.wait()
        headers = {"Inference-Timeout-Ms": "50"}
        assert ask(server, INFER, step([2], "ahead"), headers=headers)[0] == 504
        assert waiting.result() == [1]


@pytest.mark.parametrize("is_ended", [True, False])
def test_a_sequence_without_results_leaves_nothing(is_ended):
    with serve_unit(
        lambda _unit, _ctx: None, request_timeout=0.05, sequence_timeout=0.05
    ) as server:
        assert send(server, [1], "none", start=True)[0] == 504
        if is_ended:
            assert send(server, [1], "none", end=True)[0] == 500
        scheduler = server.model("m").flow.scheduler
        for _ in range(10_000):
            if not scheduler.count_held():
                break
            threading.Event().wait(0.001)
        assert not scheduler.count_held()
        assert not len(server.model("m").sequences)


def test_many_rows_in_a_small_queue_are_tried_about_once_each(monkeypatch):
    with serve("batch_size=1, queue_size=2") as server:
        submitter, tries = server.model("m").flow.scheduler.submitter, []
        send_one = submitter.try_send

        def count_and_send(*args, **more):
            tries.append(1)
            return send_one(*args, **more)

        monkeypatch.setattr(submitter, "try_send", count_and_send)
        assert send(server, [1] * 2000, "long", start=True, end=True)[-1] == 2000
        assert len(tries) <= 3 * 2000


def test_a_sequence_of_a_flow_that_has_ended_is_refused_and_not_counted():
    server = serve()
    with server:
        model = server.model("m")
        assert send(server, [1], "open", start=True) == [1]
        model.flow.stop()
        assert send(server, [1], "other", start=True)[0] == 503
        assert model.admission.under_way == 0


@pytest.mark.parametrize("kind", [modelflow.Normal(), modelflow.Stream()], ids=str)
def test_a_graph_without_state_or_with_any_number_of_results_is_refused(kind):
    unit = type("Other", (Total,), {})
    unit.SPEC = replace(Total.SPEC, devices={"cpu": unit}, kind=kind)
    flow = modelflow.Flow(GRAPH.format(node="batch_size=1"), units=[unit])
    with Server({"m": flow}, ServeOptions(http_port=0)) as server:
        status, text = send(server, [1], 1, start=True)
    reason = "a stream unit)" if kind == modelflow.Normal() else "may have any number of results"
    assert (status, reason in text) == (400, True)


def test_a_sequence_of_the_first_class_is_refused(server):
    document = step([1], 1, start=True)
    document["parameters"]["priority"] = 1
    status, found, _ = ask(server, INFER, document)
    assert (status, "a sequence with priority 1" in found["error"]) == (400, True)


def test_the_last_requests_are_answered_while_the_server_stops():
    server = serve()
    with server:
        assert send(server, [1], "last", start=True) == [1]
    assert ("last", 1) in Total.ends
