"""Tests of bodies that Triton's own client writes and reads, without a server."""

import numpy as np
import pytest

from modelflow.wire.open_inference.infer import InferAnswer, InferTensor
from modelflow.wire.open_inference.infer_json import infer_answer, read_infer
from modelflow.wire.open_inference.infer_message import infer_message, infer_request
from modelflow.wire.proto import OPEN_INFERENCE

http = pytest.importorskip(
    "tritonclient.http", reason="tritonclient[http] is not installed", exc_type=ImportError
)
ARRAYS = {
    "BOOL": np.array([[True, False]]),
    "INT8": np.array([[-1, 2]], np.int8),
    "UINT64": np.array([[2**63, 1]], np.uint64),
    "FP16": np.array([[0.5, -1]], np.float16),
    "FP32": np.array([[0.1, 1e10]], np.float32),
    "FP64": np.array([[0.1, 1e300]]),
    "BYTES": np.array([[b"a", "é".encode()]], object),
    "BF16": np.array([[1.0, -2.5]], np.float32),
}


def theirs(datatype):
    """Returns the array in the client's types, where bfloat16 is a type of ml_dtypes."""
    if datatype != "BF16":
        return ARRAYS[datatype]
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    return ARRAYS[datatype].astype(ml_dtypes.bfloat16)


# The client sends 16-bit types only in binary.
FORMS = [(name, True) for name in ARRAYS] + [(name, False) for name in ARRAYS if "16" not in name]


@pytest.mark.parametrize(("datatype", "binary"), FORMS)
def test_what_the_client_writes_is_read_and_what_it_reads_was_written(datatype, binary):
    array = ARRAYS[datatype]
    tensor = http.InferInput("x", list(array.shape), datatype)
    tensor.set_data_from_numpy(theirs(datatype), binary_data=binary)
    output = http.InferRequestedOutput("y", binary_data=binary)
    body, length = http.InferenceServerClient.generate_request_body(
        [tensor], outputs=[output], request_id="7", priority=1, timeout=5
    )
    request = read_infer(body, length)
    assert (request.id, request.parameters["timeout"], request.parameters["priority"]) == (
        "7",
        5,
        1,
    )
    np.testing.assert_array_equal(request.inputs["x"].array, array)

    answer = InferAnswer("m", "1", (InferTensor("y", datatype, request.inputs["x"].array),), id="7")
    answered, header = infer_answer(answer, request)
    found = http.InferenceServerClient.parse_response_body(answered, header_length=header)
    back = found.as_numpy("y")
    if datatype == "BYTES" and not binary:
        back = np.array([item.encode() for item in back.ravel()], object).reshape(back.shape)
    np.testing.assert_array_equal(back.astype(array.dtype), array)
    assert found.get_response()["id"] == "7"


@pytest.mark.parametrize("datatype", ARRAYS)
def test_the_grpc_client_is_understood_and_understands(datatype):
    grpc = pytest.importorskip(
        "tritonclient.grpc", reason="tritonclient[grpc] is not installed", exc_type=ImportError
    )
    from tritonclient.grpc import service_pb2
    from tritonclient.grpc._utils import _get_inference_request

    array = ARRAYS[datatype]
    tensor = grpc.InferInput("x", list(array.shape), datatype)
    tensor.set_data_from_numpy(theirs(datatype))
    written = _get_inference_request(
        model_name="m", inputs=[tensor], model_version="2", request_id="7", outputs=[grpc.InferRequestedOutput("y", class_count=2)],
        sequence_id=0, sequence_start=False, sequence_end=False, priority=1, timeout=5, parameters=None,
    )  # fmt: skip
    request = infer_request(
        OPEN_INFERENCE.parse("inference.ModelInferRequest", written.SerializeToString())
    )
    assert (request.model_name, request.model_version, request.id) == ("m", "2", "7")
    assert request.outputs["y"].classes == 2
    np.testing.assert_array_equal(request.inputs["x"].array, array)
    answer = infer_message(InferAnswer("m", "2", (InferTensor("y", datatype, array),)))
    response = service_pb2.ModelInferResponse.FromString(answer.SerializeToString())
    back = grpc.InferResult(response).as_numpy("y")
    np.testing.assert_array_equal(back.astype(array.dtype), array)
