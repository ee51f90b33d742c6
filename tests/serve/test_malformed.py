"""Tests of malformed requests over real sockets: the right code, and further answers."""

import gzip
import itertools
import json
import socket
import struct

import grpc
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import modelflow
from tests.http.clients import answer, is_ended
from tests.http.clients import request as http_request
from tests.serve.clients import ask, of_rest, send
from tests.serve.grpc.stub import OIP, PREDICTION, SECONDS, X, grpc_served, infer, predict, stub

PREDICT = "/v1/models/m:predict"
INFER = "/v2/models/m/infer"
GENERATE = "/v2/models/m/generate"
STREAM = f"{GENERATE}_stream"
LENGTH = "Inference-Header-Content-Length"
DEEP = 100_000


@pytest.fixture(scope="module")
def server(grpc_server):
    @modelflow.flowunit(name="mean")
    def length(row):  # takes any row of numbers
        return np.float32(len(row))

    with grpc_served(length, max_body=1 << 20) as running:
        yield running


@pytest.fixture(autouse=True)
def _sound(server):
    """Checks after every request that the next request succeeds and nothing is left."""
    yield
    assert ask(server, PREDICT, {"instances": [[1.0, 3.0]]})[:2] == (200, {"predictions": [2.0]})
    with stub(server) as client:
        assert client.oip("ModelInfer", infer()).model_name == "m"
    model = server.model("m")
    while model.admission.under_way:
        pass  # a cancelled request ends a little later


def tensor(**fields):
    """Returns an infer request with one input, changed by ``fields``."""
    one = {"name": "input", "shape": [1, 3], "datatype": "FP32", "data": [1.0, 2.0, 3.0], **fields}
    found = {key: value for key, value in one.items() if value is not None}
    return json.dumps({"inputs": [found]}).encode()


def doc(value):
    return json.dumps(value).encode()


# Bodies that are no JSON, or useless JSON, for every protocol.
NO_DOCUMENTS = [
    b"",
    b" ",
    b"{",
    b"}",
    b"[",
    b"[]",
    b"null",
    b"true",
    b"1",
    b'"text"',
    b'{"a"}',
    b'{"a":}',
    b'{"a":1,}',
    b"{'a': 1}",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b'{"\xff": 1}',
    b'{"\\ud800": 1}',
    b"{}",
    b'{"x": 1}',
    b"[" * DEEP,
    b'{"a":' * DEEP,
    b"[" * DEEP + b"]" * DEEP,
    b'{"instances": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    b'{"inputs": ' + b'{"a":' * 2000 + b"1" + b"}" * 2000 + b"}",
]
PREDICTS = [
    *NO_DOCUMENTS,
    *map(
        doc,
        (
            {"instances": []},
            {"instances": {}},
            {"instances": None},
            {"instances": 1},
            {"instances": "x"},
            {"instances": [[1.0]], "inputs": [[1.0]]},
            {"instances": [[[]]]},
            {"instances": [[1.0], 2.0]},
            {"instances": [[1.0], [1.0, 2.0]]},
            {"instances": [[[1.0]]]},
            {"instances": [1.0, 2.0]},
            {"instances": [["x"]]},
            {"instances": [[None]]},
            {"instances": [[True]]},
            {"instances": [[{}]]},
            {"instances": [{"input": [1.0]}, {"x": [1.0]}]},
            {"instances": [{"input": [1.0]}, [1.0]]},
            {"instances": [{}]},
            {"instances": [{"input": {"b64": "AA=="}}]},
            {"instances": [{"input": {"b64": "?"}}]},
            {"inputs": {}},
            {"inputs": {"x": [[1.0]]}},
            {"inputs": None},
            {"inputs": 1.0},
            {"inputs": [["x"]]},
            {"inputs": {"input": [[1.0], [1.0, 2.0]]}},
            {"instances": [[1.0]], "signature_name": 1},
            {"instances": [[1.0]], "signature_name": "x" * 10_000},
            {"instances": [[1.0]], "signature_name": ["serving_default"]},
        ),
    ),
    b'{"instances": [[1.0e]]}',
    b'{"instances": [[0x10]]}',
    b'{"instances": [[01]]}',
    b'{"instances": [[+1.0]]}',
    b'{"instances": [[.5]]}',
    b'{"instances": [[nan]]}',
    b'{"instances": [[--1]]}',
    b'{"instances": [[1.0]]',
    b'{"instances": [[1.0]}',
    b'{"instances": [[1.0]' + b" " * 100_000,
    b'{"instances": [' + b"[" * 1000 + b"1" + b"]" * 1000 + b"]}",
]
INFERS = [
    *NO_DOCUMENTS,
    *map(
        doc,
        (
            {"inputs": []},
            {"inputs": {}},
            {"inputs": [1]},
            {"inputs": [None]},
            {"inputs": [{}]},
            {"inputs": [{"name": "input"}]},
            {"inputs": "x"},
        ),
    ),
    *(
        tensor(**fields)
        for fields in (
            {"name": None},
            {"name": 1},
            {"name": "x"},
            {"name": ""},
            {"shape": None},
            {"shape": []},
            {"shape": 3},
            {"shape": "1,3"},
            {"shape": [3]},
            {"shape": [-1, 3]},
            {"shape": [1, -3]},
            {"shape": [1.0, 3.0]},
            {"shape": [True, 3]},
            {"shape": [None, 3]},
            {"shape": [2, 3]},
            {"shape": [1, 2]},
            {"shape": [0, 3]},
            {"shape": [1, 3, 1]},
            {"shape": [1] * 100},
            {"shape": [1 << 40, 1 << 40]},
            {"shape": [1 << 62, 4]},
            {"shape": [1 << 63, 1]},
            {"shape": [10**400, 0]},
            {"shape": [1 << 32, 1 << 32, 0]},
            {"datatype": None},
            {"datatype": 1},
            {"datatype": ""},
            {"datatype": "fp32"},
            {"datatype": "FP33"},
            {"datatype": "INT32", "data": [1, 2, 3]},
            {"datatype": "BF16"},
            {"datatype": "BYTES", "data": ["a", "b", "c"]},
            {"datatype": "BOOL", "data": [True, False, True]},
            {"data": None},
            {"data": []},
            {"data": {}},
            {"data": "abc"},
            {"data": [1.0, 2.0]},
            {"data": [1.0] * 4},
            {"data": [1.0, "x", 2.0]},
            {"data": [1.0, None, 2.0]},
            {"data": [[1.0, 2.0], [3.0]]},
            {"data": [[[1.0, 2.0, 3.0]], 1]},
            {"parameters": 1},
            {"parameters": {"binary_data_size": 12}},
            {"data": None, "parameters": {"binary_data_size": 12}},
            {"data": None, "parameters": {"binary_data_size": -1}},
            {"data": None, "parameters": {"binary_data_size": "12"}},
            {"data": None, "parameters": {"binary_data_size": 1 << 70}},
            {"data": None, "parameters": {"binary_data_size": 12.0}},
        )
    ),
    *(
        tensor()[:-1] + b", " + more + b"}"
        for more in (
            b'"outputs": 1',
            b'"outputs": [1]',
            b'"outputs": [{}]',
            b'"outputs": [{"name": 1}]',
            b'"outputs": [{"name": "x"}]',
            b'"outputs": [{"name": "output", "parameters": {"classification": -1}}]',
            b'"outputs": [{"name": "output", "parameters": {"classification": "x"}}]',
            b'"outputs": [{"name": "output", "parameters": {"binary_data": 3}}]',
            b'"parameters": []',
            b'"parameters": {"timeout": -1}',
            b'"parameters": {"timeout": "x"}',
            b'"parameters": {"timeout": 1.5}',
            b'"parameters": {"binary_data_output": "x"}',
            b'"id": {}',
            b'"id": [1]',
        )
    ),
    tensor() + b"x",
    tensor()[:-1],
    tensor() + tensor(),
]


def test_there_are_a_hundred_for_each_protocol():
    assert len(PREDICTS) + len(EXAMPLES) >= 100
    assert len(INFERS) + len(LIES) >= 100


EXAMPLES = [
    *NO_DOCUMENTS,
    *map(
        doc,
        (
            {"examples": []},
            {"examples": {}},
            {"examples": 1},
            {"examples": [1]},
            {"examples": [[]]},
            {"examples": [{"x": None}]},
            {"examples": [{"x": [1, "a"]}]},
            {"examples": [{"x": [[1]]}]},
            {"examples": [{"x": {"b64": "?"}}]},
            {"examples": [{"x": 1 << 80}]},
            {"examples": [{}], "context": 1},
            {"examples": [{}], "signature_name": 1},
        ),
    ),
]


@of_rest
@pytest.mark.parametrize("body", PREDICTS, ids=itertools.count())
def test_a_predict_that_is_wrong_is_400(server, body):
    status, found, _ = ask(server, PREDICT, body)
    assert (status, list(found)) == (400, ["error"]), found


@of_rest
@pytest.mark.parametrize("body", EXAMPLES, ids=itertools.count())
def test_examples_that_are_wrong_are_400(server, body):
    status, found, _ = ask(server, "/v1/models/m:classify", body)
    assert (status, list(found)) == (400, ["error"]), found


@of_rest
@pytest.mark.parametrize("body", INFERS, ids=itertools.count())
def test_an_infer_that_is_wrong_is_400(server, body):
    status, found, _ = ask(server, INFER, body)
    assert (status, list(found)) == (400, ["error"]), found


@of_rest
@pytest.mark.parametrize("path", [GENERATE, STREAM])
@pytest.mark.parametrize("body", NO_DOCUMENTS[3:], ids=itertools.count())
def test_a_generate_that_is_wrong_is_400(server, path, body):
    status, found, _ = ask(server, path, body)
    assert (status, list(found)) == (400, ["error"]), found


BINARY = json.dumps(
    {
        "inputs": [
            {
                "name": "input",
                "shape": [2, 3],
                "datatype": "FP32",
                "parameters": {"binary_data_size": 24},
            }
        ]
    }
).encode()
LIES = [
    (str(len(BINARY)), BINARY),
    (str(len(BINARY)), BINARY + X.tobytes()[:-1]),
    (str(len(BINARY)), BINARY + X.tobytes() + b"x"),
    (str(len(BINARY) - 1), BINARY + X.tobytes()),
    (str(len(BINARY) + 1), BINARY + X.tobytes()),
    ("1", BINARY + X.tobytes()),
    ("99999999", BINARY + X.tobytes()),
    ("9" * 100, BINARY + X.tobytes()),
    ("-1", BINARY + X.tobytes()),
    ("x", BINARY + X.tobytes()),
    ("", BINARY + X.tobytes()),
    ("1.5", BINARY + X.tobytes()),
    ("0", b"\0" * 5),
    (str(len(BINARY)), BINARY.replace(b"24", b"23") + X.tobytes()),
    (str(len(BINARY)), BINARY.replace(b"24", b"25") + X.tobytes()),
    (str(len(BINARY)), BINARY.replace(b"[2, 3]", b"[3, 3]") + X.tobytes()),
    (str(len(BINARY) + 2), BINARY.replace(b"FP32", b"NONSEN") + X.tobytes()),
]


@of_rest
@pytest.mark.parametrize(("length", "body"), LIES, ids=itertools.count())
def test_a_length_that_lies_is_400(server, length, body):
    status, found, _ = ask(server, INFER, body, headers={LENGTH: length})
    assert (status, list(found)) == (400, ["error"]), found


@of_rest
@pytest.mark.parametrize(
    "element", [b"", b"\1", b"\4\0\0\0ab", b"\xff\xff\xff\xff", struct.pack("<I", 2) + b"abcd"]
)
def test_texts_whose_lengths_lie_are_400(server, element):
    document = json.loads(BINARY)
    document["inputs"][0] |= {"datatype": "BYTES", "shape": [1, 1]}
    document["inputs"][0]["parameters"]["binary_data_size"] = len(element)
    head = json.dumps(document).encode()
    status, _, _ = ask(server, INFER, head + element, headers={LENGTH: str(len(head))})
    assert status == 400


@of_rest
@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", b"no gzip", 400),
        ("gzip", gzip.compress(tensor(), mtime=0)[:-4], 400),
        ("gzip", gzip.compress(b" " * (2 << 20), mtime=0), 400),
        ("deflate", b"\0", 400),
        ("br", tensor(), 415),
    ],
)
def test_a_body_that_is_compressed_wrongly_is_refused(server, encoding, body, status):
    found = ask(server, INFER, body, headers={"Content-Encoding": encoding})
    assert (found[0], list(found[1])) == (status, ["error"])


@of_rest
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1e-999", "-0.0"])
def test_numbers_at_the_edge_are_answered(server, number):
    body = f'{{"instances": [[0.5, {number}]]}}'.encode()
    status, _, text = send(server, "POST", PREDICT, body)
    assert status in {200, 400}
    assert text.startswith((b'{"predictions":[', b'{"error":'))


@of_rest
@pytest.mark.parametrize("path", [PREDICT, INFER, GENERATE, STREAM])
def test_who_goes_in_the_middle_of_a_body_is_forgotten(server, path):
    whole = http_request(path, tensor())
    for cut in (1, 10, len(whole) // 2, len(whole) - 1):
        with socket.create_connection(place(server), timeout=60) as client:
            client.sendall(whole[:cut])


@of_rest
@pytest.mark.parametrize("path", [PREDICT, INFER])
def test_a_body_that_comes_byte_by_byte_is_read(server, path):
    body = tensor() if path == INFER else b'{"instances": [[1.0]]}'
    with socket.create_connection(place(server), timeout=60) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in http_request(path, body):
            client.sendall(bytes([byte]))
        assert answer(client)[0] == 200


def test_a_body_that_does_not_come_is_408():
    with (
        grpc_served(body_time_out=0.2) as server,
        socket.create_connection(place(server), timeout=60) as client,
    ):
        client.sendall(http_request(PREDICT, b"{" * 50)[:-10])
        assert answer(client)[0] == 408
        assert is_ended(client)


@of_rest
@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1e3\r\n\r\n", 400),
        (b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST /v1/models/m:predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"NONSENSE\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    ],
)
def test_a_head_that_is_wrong_is_refused(server, head, status):
    with socket.create_connection(place(server), timeout=60) as client:
        client.sendall(head)
        assert answer(client)[0] == status


def place(server):
    host, port = server.address.removeprefix("http://").split(":")
    return host, int(port)


FUZZ = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def mangled(data):
    """Draws bytes with a part removed, doubled, or inserted."""
    return st.tuples(
        st.integers(0, len(data)), st.integers(0, 8), st.binary(max_size=8), st.booleans()
    ).map(
        lambda way: (
            data[: way[0]]
            + way[2]
            + (data[max(0, way[0] - way[1]) :] if way[3] else data[way[0] + way[1] :])
        )
    )


@of_rest
@FUZZ
@given(
    st.one_of(
        mangled(b'{"signature_name": "serving_default", "instances": [[1.0, 2.0], [3.0, 4.0]]}'),
        mangled(b'{"inputs": {"input": [[1.0, 2.0], [3.0, 4.0]]}}'),
        st.binary(max_size=100),
    )
)
def test_a_mangled_predict_is_answered_or_400(server, body):
    status, found, _ = ask(server, PREDICT, body)
    assert status in {200, 400}, found


@of_rest
@FUZZ
@given(st.one_of(mangled(tensor()), mangled(BINARY + X.tobytes())), st.integers(0, 200))
def test_a_mangled_infer_is_answered_or_400(server, body, length):
    for headers in ({}, {LENGTH: str(len(BINARY))}, {LENGTH: str(length)}):
        status, _, found = send(server, "POST", INFER, body, headers)
        assert status in {200, 400}, found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@of_rest
@FUZZ
@given(
    JSON,
    st.sampled_from(["instances", "inputs", "examples", "context", "signature_name", "input"]),
)
def test_any_document_is_answered_or_400(server, value, key):
    body = json.dumps({"instances": [[1.0]], key: value}).encode()
    alone = json.dumps({key: value}).encode()
    for path in (PREDICT, "/v1/models/m:regress", INFER, GENERATE):
        for one in (body, alone):
            status, found, _ = ask(server, path, one)
            assert status in {200, 400}, (path, one, found)


def call(server, service, name, data):
    """Sends bytes to a method; returns the code of the answer."""
    with grpc.insecure_channel(server.grpc_address) as channel:
        method = channel.unary_unary(f"/{service}/{name}")
        try:
            method(data, timeout=SECONDS)
        except grpc.RpcError as error:
            return error.code().name
        return "OK"


METHODS = (
    (OIP, "ModelInfer"),
    (OIP, "ModelConfig"),
    (OIP, "ModelStatistics"),
    (PREDICTION, "Predict"),
    (PREDICTION, "Classify"),
    (PREDICTION, "MultiInference"),
    ("tensorflow.serving.ModelService", "HandleReloadConfigRequest"),
)
FINE = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"}
FINE |= {"PERMISSION_DENIED"}  # the permission to load models


@pytest.mark.parametrize(("service", "name"), METHODS)
@pytest.mark.parametrize(
    "data", [b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0b" * DEEP], ids=itertools.count()
)
def test_bytes_that_are_no_message_are_an_invalid_argument(server, service, name, data):
    assert call(server, service, name, data) == "INVALID_ARGUMENT"


def changed(**fields):
    message = infer()
    for key, value in fields.items():
        if key == "shape":
            del message.inputs[0].shape[:]
            message.inputs[0].shape.extend(value)
        elif key == "raw":
            del message.raw_input_contents[:]
            message.raw_input_contents.extend(value)
        else:
            setattr(message.inputs[0], key, value)
    return message


@pytest.mark.parametrize(
    "fields",
    [
        {"shape": []},
        {"shape": [-1, 3]},
        {"shape": [2, -3]},
        {"shape": [1 << 40, 1 << 40]},
        {"shape": [(1 << 63) - 1, 4]},
        {"shape": [1] * 100},
        {"shape": [2, 2]},
        {"shape": [3, 3]},
        {"raw": []},
        {"raw": [b""]},
        {"raw": [b"123"]},
        {"raw": [X.tobytes(), X.tobytes()]},
        {"raw": [X.tobytes()[:-1]]},
        {"datatype": ""},
        {"datatype": "FP33"},
        {"datatype": "BYTES"},
        {"datatype": "INT64"},
        {"name": ""},
        {"name": "x"},
    ],
)
def test_an_infer_message_that_is_wrong_is_an_invalid_argument(server, fields):
    data = changed(**fields).SerializeToString()
    assert call(server, OIP, "ModelInfer", data) == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("shape", "fields"),
    [
        ((-1, 3), {}),
        ((1 << 40, 1 << 40), {}),
        ((1,) * 100, {}),
        ((2, 3), {"dtype": 99}),
        ((2, 3), {"dtype": 0}),
        ((2, 3), {"dtype": 21}),
        ((2, 3), {"dtype": 7}),
        ((2, 3), {"tensor_content": b"123"}),
        ((1, 3), {"tensor_content": X.tobytes()}),
        ((1, 1), {}),
    ],
)
def test_a_predict_message_that_is_wrong_is_refused(server, shape, fields):
    message = predict()
    held = message.inputs["input"]
    del held.tensor_shape.dim[:]
    for size in shape:
        held.tensor_shape.dim.add(size=size)
    for key, value in fields.items():
        setattr(held, key, value)
    found = call(server, PREDICTION, "Predict", message.SerializeToString())
    assert found in {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}


@FUZZ
@given(
    st.one_of(
        mangled(infer().SerializeToString(deterministic=True)),
        mangled(predict().SerializeToString(deterministic=True)),
        st.binary(max_size=60),
    ),
    st.sampled_from(METHODS),
)
def test_a_mangled_message_is_answered_or_refused(server, data, method):
    assert call(server, method[0], method[1], data) in FINE


def test_a_message_that_is_too_long_is_refused(server):
    data = infer(np.zeros((1, 1 << 19), np.float32)).SerializeToString()
    assert call(server, OIP, "ModelInfer", data) == "RESOURCE_EXHAUSTED"
