"""Tests of the parameters of Open Inference requests: each is obeyed, or rejected with its name."""

import json

import grpc
import numpy as np
import pytest

import modelflow
from modelflow.serve.server import ServeOptions, Server
from tests.serve.clients import ask, send
from tests.serve.grpc.stub import grpc_served, infer, stub

INFER = "/v2/models/m/infer"
NOTHING = [
    {"priority": 0},
    {"priority": 1},
    {"priority": 2},
    {"sequence_id": 0, "sequence_start": False, "sequence_end": False},
    {"sequence_id": ""},
    {"timeout": 0},
    {"timeout": 60_000_000},
    {"triton_enable_empty_final_response": True},
]
REFUSED = [
    {"priority": 3},
    {"priority": -1},
    {"priority": "1"},
    {"sequence_id": 7},
    {"sequence_id": "seven"},
    {"sequence_id": -7},
    {"sequence_id": 0.5},
    {"sequence_id": "x" * 129},
    {"sequence_start": 1},
    {"sequence_end": "true"},
    {"triton_something": True},
    {"temperature": 0.5},
]


def name_of(parameters):
    return "-".join(parameters)


@pytest.fixture(scope="module")
def server(grpc_server):
    with grpc_served() as running:
        yield running


@pytest.fixture
def client(server):
    with stub(server) as found:
        yield found


def document(parameters, of_input=None, of_output=None):
    tensor = {"name": "input", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 3.0]}
    if of_input is not None:
        tensor["parameters"] = of_input
    output = {"name": "output", "parameters": of_output or {}}
    return {"inputs": [tensor], "outputs": [output], "parameters": parameters}


def fill(into, parameters):
    kinds = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}
    for name, value in parameters.items():
        setattr(into[name], kinds[type(value)], value)


def message(parameters):
    made = infer(np.float32([[1, 3]]))
    fill(made.parameters, parameters)
    return made


@pytest.mark.parametrize("parameters", NOTHING, ids=name_of)
def test_what_is_done_or_asks_for_nothing_is_accepted(server, client, parameters):
    status, found, _ = ask(server, INFER, document(parameters))
    assert (status, found["outputs"][0]["data"]) == (200, [2.0])
    assert client.oip("ModelInfer", message(parameters)).outputs[0].shape == [1]


@pytest.mark.parametrize("parameters", REFUSED, ids=name_of)
def test_what_is_not_done_is_refused_with_its_name(server, client, parameters):
    (name,) = parameters
    status, found, _ = ask(server, INFER, document(parameters))
    assert status == 400
    assert f"request: parameter {name!r}" in found["error"]
    with pytest.raises(grpc.RpcError) as caught:
        client.oip("ModelInfer", message(parameters))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert found["error"] == caught.value.details()


def test_a_stream_refuses_them_and_goes_on(client):
    call = client.method("inference.GRPCInferenceService", "ModelStreamInfer")
    asked = [message({"sequence_id": 7}), message({"sequence_id": 0})]
    refused, answered = call(iter(asked), timeout=60)
    assert "parameter 'sequence_id': model 'm' takes no sequences" in refused.error_message
    assert answered.infer_response.outputs[0].shape == [1]


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"of_input": {"content_type": "str"}}, "input 'input': parameter 'content_type'"),
        (
            {"of_output": {"shared_memory_region": "there"}},
            "output 'output': shared memory is not used here; serve with --allow-shared-memory",
        ),
    ],
)
def test_those_of_inputs_and_outputs_are_refused_as_well(server, more, where):
    status, found, _ = ask(server, INFER, document({}, **more))
    assert status == 400
    assert where in found["error"]


def test_large_lists_are_no_values_of_parameters(server):
    """Tests that a list of numbers in a large document, parsed as an array, equals no parameter."""
    status, found, _ = ask(server, INFER, document({"sequence_id": list(range(50_000))}))
    assert status == 400
    assert "request: parameter 'sequence_id'" in found["error"]


@pytest.mark.parametrize("flag", ["sequence_start", "sequence_end"])
def test_a_flag_of_a_sequence_needs_its_id(server, client, flag):
    status, found, _ = ask(server, INFER, document({flag: True}))
    assert (status, f"a text of at most 128 characters, with {flag[:8]}" in found["error"]) == (
        400,
        True,
    )
    with pytest.raises(grpc.RpcError, match="parameter 'sequence_id'"):
        client.oip("ModelInfer", message({flag: True}))


@pytest.mark.parametrize("value", ["0", "1", "2", "3", "first"])
def test_the_header_gives_the_class_over_every_route(server, value):
    bodies = {
        INFER: document({}),
        "/v2/models/m/generate": {"input": [1.0, 3.0]},
        "/v1/models/m:predict": {"instances": [[1.0, 3.0]]},
    }
    for path, body in bodies.items():
        status, found, _ = ask(server, path, body, headers={"Inference-Priority": value})
        if value in "012":
            assert status == 200
        else:
            expected = f"header Inference-Priority: got {value!r}; expected 0, 1 or 2"
            assert (status, found["error"]) == (400, expected)


SCALED = """
[graph]
format = "graphviz"
graphconf = '''digraph m {
    input [type=input]
    scale
    output [type=output]
    input -> scale -> output
}'''
[serve]
parameters = ["factor", "unit"]
[serve.input.input]
datatype = "FP32"
shape = [2]
[serve.output.output]
datatype = "FP32"
shape = [2]
"""


@pytest.fixture(scope="module")
def scaling(grpc_server):
    class Scale(modelflow.FlowUnit):
        SPEC = modelflow.FlowUnitSpec(
            "scale",
            {"cpu": lambda: Scale()},
            inputs=(modelflow.Port("in"),),
            outputs=(modelflow.Port("out"),),
            kind=modelflow.Normal(is_per_stream=True),
        )

        def process(self, ctx):
            factor = ctx.session.get("parameters", {}).get("factor", 1)
            ctx.emit([np.float32(buffer.data * factor) for buffer in ctx.input()])

    flow = modelflow.Flow(SCALED, units=[Scale])
    with Server({"m": flow}, ServeOptions(http_port=0, grpc_port=0)) as running:
        yield running


@pytest.mark.parametrize(("parameters", "factor"), [({}, 1), ({"factor": 3, "unit": "kg"}, 3)])
def test_units_read_the_parameters_that_their_graph_declares(scaling, parameters, factor):
    expected = [1.0 * factor, 3.0 * factor]
    status, found, _ = ask(scaling, INFER, document(parameters))
    assert (status, found["outputs"][0]["data"]) == (200, expected)
    with stub(scaling) as client:
        answer = client.oip("ModelInfer", message(parameters))
    assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == expected
    generated = {"input": [1.0, 3.0], "parameters": parameters}
    assert ask(scaling, "/v2/models/m/generate", generated)[:2] == (200, {"output": expected})


def test_a_form_may_have_inputs_and_parameters_as_fields(scaling):
    def form(**fields):
        lines = [
            part
            for name, value in fields.items()
            for part in ("--x", f'Content-Disposition: form-data; name="{name}"', "", value)
        ]
        return "\r\n".join([*lines, "--x--", ""]).encode()

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    for fields, expected in (
        ({"input": "[1, 3]", "factor": "2"}, [2.0, 6.0]),
        ({"input": "[1, 3]", "parameters": '{"factor": 2}', "unit": "kg"}, [2.0, 6.0]),
        ({"input": "[1, 3]", "priority": "1"}, [1.0, 3.0]),
    ):
        status, _, body = send(scaling, "POST", "/v2/models/m/generate", form(**fields), headers)
        assert (status, json.loads(body)) == (200, {"output": expected})
    fields = {"input": "[1, 3]", "other": "2"}
    status, _, body = send(scaling, "POST", "/v2/models/m/generate", form(**fields), headers)
    assert (status, b"parameter 'other' is not supported" in body) == (400, True)


@pytest.mark.parametrize(("name", "value"), [("other", 1), ("factor", [1]), ("factor", None)])
def test_undeclared_and_compound_parameters_are_refused(scaling, name, value):
    status, found, _ = ask(scaling, INFER, document({name: value}))
    assert (status, f"parameter {name!r}" in found["error"]) == (400, True)


def test_a_raw_body_has_none(server):
    headers = {"Inference-Header-Content-Length": "0"}
    body = np.float32([1, 3]).tobytes()
    assert send(server, "POST", INFER, body, headers)[0] == 200
