"""The Open Inference Protocol over gRPC."""

import contextlib

import numpy as np
import pytest

import modelflow
from modelflow.serve.server import ServeOptions, Server
from modelflow.wire.proto import OPEN_INFERENCE
from tests.serve.clients import ask
from tests.serve.grpc.stub import OIP, SECONDS, X, grpc_served, infer, refused, stub
from tests.serve.tokens import Tokens

pytestmark = pytest.mark.usefixtures("grpc_server")


@pytest.fixture(scope="module")
def server(grpc_server):
    with grpc_served() as running:
        yield running


@pytest.fixture
def client(server):
    with stub(server) as found:
        yield found


def values(answer, place=0, dtype="<f4"):
    return np.frombuffer(answer.raw_output_contents[place], dtype).tolist()


@pytest.mark.parametrize("raw", [True, False])
def test_tensors_are_answered_in_raw_form_however_they_come(client, raw):
    answer = client.oip("ModelInfer", infer(raw=raw, id="7"))
    assert (answer.model_name, answer.model_version, answer.id) == ("m", "1", "7")
    (output,) = answer.outputs
    assert (output.name, output.datatype, list(output.shape)) == ("output", "FP32", [2])
    assert values(answer) == [1.0, 4.0]


def test_outputs_are_classes_if_the_request_says_so(client):
    message = infer()
    asked = message.outputs.add(name="output")
    asked.parameters["classification"].int64_param = 1
    answer = client.oip("ModelInfer", message)
    assert answer.outputs[0].datatype == "BYTES"
    assert b"1.000000:0:small" in answer.raw_output_contents[0]


def wrong(**fields):
    message = infer()
    for key, value in fields.items():
        setattr(message.inputs[0], key, value)
    return message


def with_output():
    message = infer()
    message.outputs.add(name="x")
    return message


def with_timeout(microseconds):
    message = infer()
    message.parameters["timeout"].int64_param = microseconds
    return message


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        (infer(model_name="x"), "NOT_FOUND", "Request for unknown model: 'x' is not found"),
        (infer(model_version="3"), "NOT_FOUND", "'m' version 3 is not found"),
        (infer(model_version="three"), "NOT_FOUND", "'m' version 'three' is not found"),
        (infer(model_version="9" * 5000), "NOT_FOUND", "is not found"),
        (wrong(datatype="FP64"), "INVALID_ARGUMENT", "bytes; expected 48"),
        (wrong(datatype="INT32"), "INVALID_ARGUMENT", "data-type is 'INT32', but model 'm'"),
        (wrong(name="other"), "INVALID_ARGUMENT", "Missing but required: {input}"),
        (with_output(), "INVALID_ARGUMENT", "unexpected inference output 'x'"),
        (with_timeout(-1), "INVALID_ARGUMENT", "timeout -1; expected microseconds"),
    ],
)
def test_what_is_wrong_is_said(client, message, code, text):
    with refused(code, text):
        client.oip("ModelInfer", message)


def test_an_item_that_fails_is_refused_and_what_failed_inside_is_not_told(client, caplog):
    with refused("INTERNAL") as found:
        client.oip("ModelInfer", infer(np.float32([[1], [-1]])))
    assert "secret" not in found[0].details()
    assert found[0].details().split()[-1] in caplog.text


def test_an_output_that_no_answer_can_carry_is_a_failure_inside():
    @modelflow.flowunit(name="mean")
    def odd(row):
        return {"odd": object()}

    with grpc_served(odd) as server, stub(server) as client:
        with refused("INTERNAL", "the request failed inside the server, whose log tells why"):
            client.oip("ModelInfer", infer())
        (answer,) = stream(client, [infer()])
    assert "the request failed inside the server" in answer.error_message


def test_what_is_served_is_told(client):
    assert client.oip("ServerLive").live
    assert client.oip("ServerReady").ready
    assert client.oip("ModelReady", name="m").ready
    assert not client.oip("ModelReady", name="x").ready
    assert client.oip("ServerMetadata").name == "modelflow"
    found = client.oip("ModelMetadata", name="m")
    assert (list(found.versions), found.platform) == (["1"], "modelflow_graph")
    (port,) = found.inputs
    assert (port.name, port.datatype, list(port.shape)) == ("input", "FP32", [-1, -1])
    (entry,) = client.oip("RepositoryIndex").models
    assert (entry.name, entry.version, entry.state) == ("m", "1", "READY")


@pytest.mark.parametrize("name", ["RepositoryModelLoad", "RepositoryModelUnload"])
def test_models_are_loaded_and_unloaded_only_where_that_is_allowed(client, name):
    with refused("PERMISSION_DENIED", "--allow-repository"):
        client.oip(name, model_name="m")


def test_configuration_and_statistics_are_those_of_rest(server, client):
    client.oip("ModelInfer", infer())
    (found,) = client.oip("ModelStatistics", name="m").model_stats
    (rest,) = ask(server, "/v2/models/m/stats")[1]["model_stats"]
    assert (found.name, found.version, found.inference_count) == ("m", "1", rest["inference_count"])
    assert found.execution_count == rest["execution_count"] > 0
    for part, value in rest["inference_stats"].items():
        told = getattr(found.inference_stats, part)
        assert (told.count, told.ns) == (value["count"], value["ns"])
    assert [one.batch_size for one in found.batch_stats] == [
        one["batch_size"] for one in rest["batch_stats"]
    ]
    assert len(client.oip("ModelStatistics").model_stats) == 1
    config = client.oip("ModelConfig", name="m").config
    rest = ask(server, "/v2/models/m/config")[1]
    assert (config.name, config.platform) == (rest["name"], rest["platform"])
    assert config.max_batch_size == rest["max_batch_size"] == 8
    assert [list(one.dims) for one in config.input] == [one["dims"] for one in rest["input"]]
    types = OPEN_INFERENCE.enum("inference.DataType")
    assert [one.data_type for one in config.output] == [
        types[one["data_type"]] for one in rest["output"]
    ]
    for name in ("ModelConfig", "ModelStatistics"):
        with refused("NOT_FOUND", "unknown model: 'x'"):
            client.oip(name, name="x")


def stream(client, messages):
    return list(client.method(OIP, "ModelStreamInfer")(iter(messages), timeout=SECONDS))


def final(answer):
    return answer.infer_response.parameters["triton_final_response"].bool_param


def test_each_request_of_a_stream_is_answered_in_its_order(client):
    rows = [np.float32([[number]]) for number in range(200)]
    answers = stream(client, [infer(row, id=str(row[0, 0])) for row in rows])
    assert [values(one.infer_response) for one in answers] == [[row[0, 0]] for row in rows]
    assert [one.infer_response.id for one in answers] == [str(row[0, 0]) for row in rows]
    assert all(map(final, answers))


def test_a_request_of_several_rows_has_one_answer_in_a_stream(client):
    (answer,) = stream(client, [infer()])
    assert values(answer.infer_response) == [1.0, 4.0]


def test_a_request_that_fails_does_not_end_the_stream(client):
    bad = infer(np.float32([[-1]]), id="b")
    answers = stream(client, [infer(id="a"), bad, infer(model_name="x", id="c"), infer(id="d")])
    errors = [one.error_message for one in answers]
    assert [bool(error) for error in errors] == [False, True, True, False]
    assert "unknown model: 'x'" in errors[2]
    assert [one.infer_response.id for one in answers] == ["a", "b", "c", "d"]


PARTS = """
[graph]
format = "graphviz"
graphconf = '''digraph m {
    input [type=input]
    parts []
    output [type=output]
    input -> parts -> output
}'''
[serve.input.input]
datatype = "FP32"
shape = [-1]
"""


class Parts(modelflow.FlowUnit):
    """Emits each number of a row in its own buffer."""

    SPEC = modelflow.FlowUnitSpec(
        "parts",
        {"cpu": lambda: Parts()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
        kind=modelflow.Stream(),
    )

    def process(self, ctx):
        ctx.emit([np.float32(number) for row in ctx.input() for number in row.data])


def test_an_output_of_many_buffers_is_as_many_answers_the_last_one_final():
    flow = modelflow.Flow(PARTS, units=[Parts])
    with (
        Server({"m": flow}, ServeOptions(http_port=0, grpc_port=0)) as server,
        stub(server) as client,
    ):
        answers = stream(client, [infer(np.float32([[1, 2, 3]])), infer(np.empty((1, 0), "f4"))])
        whole = client.oip("ModelInfer", infer(np.float32([[1, 2, 3]])))
    parts = [one for one in answers if one.infer_response.outputs]
    assert [values(one.infer_response) for one in parts] == [[1.0], [2.0], [3.0]]
    ends = [place for place, one in enumerate(answers) if final(one)]
    assert (len(ends), ends[1] - ends[0], ends[1]) == (2, 1, len(answers) - 1)
    # with the last buffer, or in a separate message if the end came after that buffer
    assert ends[0] in {2, 3}
    assert values(whole) == [1.0, 2.0, 3.0]


def test_rest_and_grpc_give_the_same_answers(server, client):
    body = {"inputs": [{"name": "input", "shape": [2, 3], "datatype": "FP32", "data": X.tolist()}]}
    _, rest, _ = ask(server, "/v2/models/m/infer", body)
    assert rest["outputs"][0]["data"] == values(client.oip("ModelInfer", infer()))
    metadata = client.oip("ModelMetadata", name="m")
    _, rest, _ = ask(server, "/v2/models/m")
    assert rest["inputs"] == [
        {"name": one.name, "datatype": one.datatype, "shape": list(one.shape)}
        for one in metadata.inputs
    ]
    _, rest, _ = ask(server, "/v2/models/x")
    with refused("NOT_FOUND", rest["error"]):
        client.oip("ModelInfer", infer(model_name="x"))
    body["inputs"][0]["datatype"] = "INT32"
    _, rest, _ = ask(
        server, "/v2/models/m/infer", {"inputs": [{**body["inputs"][0], "data": [0] * 6}]}
    )
    with refused("INVALID_ARGUMENT", rest["error"]):
        client.oip("ModelInfer", wrong(datatype="INT32"))


def one_number(number, **more):
    return infer(np.float32([[number]]), **more)


STREAMED = """
[graph]
format = "graphviz"
graphconf = '''digraph m { input [type=input]
tokens []
output [type=output]
input -> tokens -> output }'''
[serve.input.input]
datatype = "FP32"
shape = [1]
[serve.output.output]
datatype = "INT64"
shape = []
"""


@contextlib.contextmanager
def streaming(tokens):
    """Yields a server of a model that gives many buffers, and a client."""
    flow = modelflow.Flow(STREAMED, units=[tokens.unit])
    options = ServeOptions(http_port=0, grpc_port=0)
    try:
        with Server({"m": flow}, options) as server, stub(server) as client:
            yield server, client
    finally:
        tokens.go.release(1000)


def test_an_answer_goes_out_before_the_next_buffer_is_made():
    tokens = Tokens()
    with streaming(tokens) as (_, client):
        answers = client.method(OIP, "ModelStreamInfer")(
            iter([one_number(3, id="7")]), timeout=SECONDS
        )
        for number in range(3):
            answer = next(answers).infer_response
            assert (answer.id, values(answer, dtype="<i8")) == ("7", [number])
            assert tokens.made == list(range(number + 1))
            tokens.go.release()
        rest = list(answers)
    assert len(rest) <= 1
    assert not any(one.infer_response.outputs for one in rest)


def test_a_buffer_that_fails_ends_its_answers_and_the_stream_goes_on():
    with streaming(Tokens(is_free=True)) as (_, client):
        answers = stream(client, [one_number(-4, id="a"), one_number(1, id="b")])
    told = [(one.infer_response.id, one.error_message) for one in answers]
    assert told[:3] == [("a", ""), ("a", ""), ("a", "node 'tokens': half of it is enough")]
    assert final(answers[2])
    assert {name for name, _ in told[3:]} == {"b"}
    assert final(answers[-1])


def test_a_stream_that_is_left_takes_its_request_with_it():
    tokens = Tokens()
    with streaming(tokens) as (server, client):
        answers = client.method(OIP, "ModelStreamInfer")(iter([one_number(1000)]), timeout=SECONDS)
        assert values(next(answers).infer_response, dtype="<i8") == [0]
        answers.cancel()
        while server.model("m").admission.under_way:
            pass
        tokens.go.release(1000)
        assert tokens.ended.acquire(timeout=60)
        assert server.model("m").figures.outcomes == {"CANCELLED": 1}
    assert len(tokens.made) < 5


def test_a_client_that_takes_nothing_holds_up_only_itself():
    tokens = Tokens(is_free=True, size=1 << 16)
    source = STREAMED.partition("[serve.output")[0]
    flow = modelflow.Flow(source, units=[tokens.unit], results_bound=8)
    with (
        Server({"m": flow}, ServeOptions(http_port=0, grpc_port=0)) as server,
        stub(server) as idle,
        stub(server) as busy,
    ):
        answers = idle.method(OIP, "ModelStreamInfer")(iter([one_number(500)]), timeout=SECONDS)
        next(answers)
        assert len(stream(busy, [one_number(50)])) in {50, 51}
        made = len(tokens.made)
        assert made < 400  # the number that gRPC and the bound keep, not all
        assert sum(bool(one.infer_response.outputs) for one in answers) == 499
