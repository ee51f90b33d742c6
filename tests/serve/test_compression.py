"""Bodies that are sent compressed to the endpoints of TensorFlow Serving."""

import gzip
import json
import zlib

import pytest

from modelflow.serve.repository.config import ServeConfig
from modelflow.serve.server import ServeOptions, Server
from tests.serve.clients import ask, send, served
from tests.serve.half_plus_two import write_saved_model

MOST = 2000  # bytes, decompressed
PREDICT = "/v1/models/m:predict"
ENCODINGS = (("gzip", gzip.compress), ("deflate", zlib.compress))


@pytest.fixture(scope="module")
def server():
    with served(max_decompressed=MOST) as running:
        yield running


@pytest.fixture(scope="module")
def of_examples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "m"
    write_saved_model(folder / "1", 2.0)
    with Server(ServeConfig({"m": folder}), ServeOptions(http_port=0)) as running:
        yield running


def asked(server, path, document, encoding, compress):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return ask(server, path, compress(body), headers={"Content-Encoding": encoding})[:2]


@pytest.mark.parametrize(("encoding", "compress"), ENCODINGS)
def test_rows_may_be_compressed(server, encoding, compress):
    rows = {"instances": [[1.0, 3.0], [4.0, 6.0]]}
    assert asked(server, PREDICT, rows, encoding, compress) == (200, {"predictions": [2.0, 5.0]})


@pytest.mark.parametrize(("encoding", "compress"), ENCODINGS)
@pytest.mark.parametrize("verb", ["classify", "regress"])
def test_examples_may_be_compressed(of_examples, verb, encoding, compress):
    path = f"/v1/models/m:{verb}"
    document = {"signature_name": verb, "examples": [{"x": 2.0}]}
    plain = ask(of_examples, path, document)[:2]
    assert plain[0] == 200, plain
    assert asked(of_examples, path, document, encoding, compress) == plain


@pytest.mark.parametrize("verb", ["predict", "classify", "regress"])
@pytest.mark.parametrize(("encoding", "compress"), ENCODINGS)
def test_what_is_too_long_decompressed_is_refused(server, verb, encoding, compress):
    path, long = f"/v1/models/m:{verb}", b" " * (MOST + 1)
    status, found = asked(server, path, long, encoding, compress)
    assert (status, f"more than {MOST} bytes" in found["error"]) == (400, True)
    status, found = asked(server, path, b"x" * 100, encoding, lambda body: body)
    assert (status, f"no {encoding}" in found["error"]) == (400, True)


@pytest.mark.parametrize("encoding", ["zstd", "br", "gzip, gzip"])
@pytest.mark.parametrize("path", [PREDICT, "/v2/models/m/infer", "/v2/models/m/generate"])
def test_an_unknown_encoding_is_415_with_those_that_are_known(server, path, encoding):
    status, found, headers = ask(server, path, b"{}", headers={"Content-Encoding": encoding})
    assert (status, headers["accept-encoding"]) == (415, "gzip, deflate")
    assert found["error"] == f"Content-Encoding: {encoding!r}; expected gzip, deflate or identity"


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip", "gzip"),
        ("GZIP;q=0.5, br", "gzip"),
        ("gzip;q=0.001", "gzip"),
        ("gzip;q=0", None),
        ("gzip; q=0.000, deflate;q=1.0", "deflate"),
        ("gzip ;q = 0,deflate;q=0.0", None),
        ("identity", None),
    ],
)
def test_an_answer_is_compressed_as_the_client_accepts_it(server, accepted, encoding):
    count = 1000
    tensor = {"name": "input", "datatype": "FP32", "shape": [count, 1], "data": [1.5] * count}
    body = gzip.compress(json.dumps({"inputs": [tensor]}).encode())
    assert len(body) < MOST
    headers = {"Content-Encoding": "gzip", "Accept-Encoding": accepted}
    with served() as large:
        status, found, _ = send(large, "POST", "/v2/models/m/infer", body, headers)
    assert (status, found.get("content-encoding")) == (200, encoding)
