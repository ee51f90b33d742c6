"""Tests of the parameters of Open Inference requests: each is obeyed, or rejected with its name."""

import grpc
import numpy as np
import pytest

from tests.serve.clients import ask, send
from tests.serve.grpc.stub import grpc_served, infer, stub

INFER = "/v2/models/m/infer"
NOTHING = [
    {"priority": 0},
    {"sequence_id": 0, "sequence_start": False, "sequence_end": False},
    {"sequence_id": ""},
    {"timeout": 0},
    {"timeout": 60_000_000},
    {"triton_enable_empty_final_response": True},
]
REFUSED = [
    {"priority": 1},
    {"sequence_id": 7},
    {"sequence_id": "seven"},
    {"sequence_start": True},
    {"sequence_end": True},
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
    assert "parameter 'sequence_id': got 7" in refused.error_message
    assert answered.infer_response.outputs[0].shape == [1]


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"of_input": {"content_type": "str"}}, "input 'input': parameter 'content_type'"),
        (
            {"of_output": {"shared_memory_region": "there"}},
            "output 'output': parameter 'shared_memory_region'",
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


def test_a_raw_body_has_none(server):
    headers = {"Inference-Header-Content-Length": "0"}
    body = np.float32([1, 3]).tobytes()
    assert send(server, "POST", INFER, body, headers)[0] == 200
