"""Tests of tensors in system shared memory, with Triton's client and its own utility."""

import base64
import os
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from tests.serve.clients import ask, served
from tests.serve.grpc.stub import grpc_served

STATUS = "/v2/systemsharedmemory/status"
REGION = "/v2/systemsharedmemory/region/{}/{}"


@pytest.fixture(scope="module")
def server(grpc_server):
    with grpc_served(is_memory_shared=True) as running:
        yield running


@pytest.fixture
def memory():
    """Yields memory of 64 bytes: the numbers 0 to 15 as FP32."""
    found = SharedMemory(create=True, size=64)
    np.ndarray(16, np.float32, found.buf)[:] = np.arange(16)
    yield found
    found.close()
    found.unlink()


@pytest.fixture(params=["http", "grpc"])
def triton(request, server):
    if request.param == "http":
        module, client = (
            over_http,
            over_http.InferenceServerClient(server.address.partition("//")[2]),
        )
    else:
        module, client = over_grpc, over_grpc.InferenceServerClient(server.grpc_address)
    yield module, client
    client.unregister_system_shared_memory()
    client.unregister_cuda_shared_memory()
    client.close()


def test_tensors_come_and_go_through_memory_that_the_client_made(triton):
    module, client = triton
    given = np.float32([[1, 3], [5, 7]])
    region = shm.create_shared_memory_region("in", f"/modelflow_in_{os.getpid()}", given.nbytes)
    place = shm.create_shared_memory_region("out", f"/modelflow_out_{os.getpid()}", 64)
    try:
        shm.set_shared_memory_region(region, [given])
        client.register_system_shared_memory("in", f"/modelflow_in_{os.getpid()}", given.nbytes)
        client.register_system_shared_memory("out", f"/modelflow_out_{os.getpid()}", 64)
        tensor = module.InferInput("input", [2, 2], "FP32")
        tensor.set_shared_memory("in", given.nbytes)
        output = module.InferRequestedOutput("output")
        output.set_shared_memory("out", 32, offset=16)
        for rows in (given, given * 2):  # a later request reads the new bytes
            shm.set_shared_memory_region(region, [rows])
            answer = client.infer("m", [tensor], outputs=[output])
            found = answer.get_output("output")
            assert [*(found["shape"] if isinstance(found, dict) else found.shape)] == [2]
            written = shm.get_contents_as_numpy(place, np.float32, [8])
            assert written[4:6].tolist() == rows.mean(1).tolist()
            assert written[:4].tolist() == [0] * 4
    finally:
        shm.destroy_shared_memory_region(region)
        shm.destroy_shared_memory_region(place)


def test_regions_are_listed_and_removed_one_by_one_or_together(triton, server, memory):
    _, client = triton
    for name in ("a", "b", "c"):
        client.register_system_shared_memory(name, memory.name, 16, offset=8)
    assert [one["name"] for one in ask(server, STATUS)[1]] == ["a", "b", "c"]
    status = client.get_system_shared_memory_status("b")
    if isinstance(status, list):
        assert status == [{"name": "b", "key": memory.name, "offset": 8, "byte_size": 16}]
    else:
        assert (status.regions["b"].offset, status.regions["b"].byte_size) == (8, 16)
    client.unregister_system_shared_memory("a")
    assert [one["name"] for one in ask(server, STATUS)[1]] == ["b", "c"]
    client.unregister_system_shared_memory()
    assert ask(server, STATUS)[1] == []
    with pytest.raises(InferenceServerException, match="'b' is not registered"):
        client.get_system_shared_memory_status("b")


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"key": "no_such_memory", "byte_size": 4}, "cannot be opened: No such file"),
        ({"key": "../etc/passwd", "byte_size": 4}, "expected a name for shm_open"),
        ({"key": "/a/b", "byte_size": 4}, "expected a name for shm_open"),
        ({"key": "..", "byte_size": 4}, "expected a name for shm_open"),
        ({"key": "/", "byte_size": 4}, "expected a name for shm_open"),
        ({"key": 7, "byte_size": 4}, "expected a name for shm_open"),
        ({"byte_size": 4}, "expected a name for shm_open"),
        ({"key": "{}", "byte_size": 65}, "bytes 0 to 65; the memory"),
        ({"key": "{}", "byte_size": 4, "offset": 61}, "bytes 61 to 65; the memory"),
        ({"key": "{}", "byte_size": 0}, "a size from 1"),
        ({"key": "{}", "byte_size": -1}, "a size from 1"),
        ({"key": "{}", "byte_size": 4, "offset": -1}, "an offset from 0"),
        ({"key": "{}", "byte_size": "4"}, "a size from 1"),
        ({"key": "{}"}, "a size from 1"),
        ([], "expected a JSON object"),
    ],
)
def test_a_wrong_region_is_refused(server, memory, document, text):
    if isinstance(document, dict) and document.get("key") == "{}":
        document = {**document, "key": memory.name}
    status, found, _ = ask(server, REGION.format("x", "register"), document)
    assert (status, text in found["error"]) == (400, True), found
    assert ask(server, STATUS)[1] == []


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/etc/passwd", path)])
def test_other_files_beside_the_memory_are_refused(server, make):
    path = f"/dev/shm/modelflow_other_{os.getpid()}"
    make(path)
    try:
        document = {"key": path.rpartition("/")[2], "byte_size": 1}
        status, found, _ = ask(server, REGION.format("x", "register"), document)
    finally:
        os.unlink(path)
    assert status == 400
    assert "is no shared memory" in found["error"] or "cannot be opened" in found["error"]


def test_a_name_is_registered_once(server, memory):
    register = REGION.format("x", "register")
    assert ask(server, register, {"key": memory.name, "byte_size": 4})[0] == 200
    status, found, _ = ask(server, register, {"key": memory.name, "byte_size": 4})
    assert (status, "is registered already" in found["error"]) == (409, True)
    assert ask(server, REGION.format("x", "unregister"), {})[0] == 200
    assert ask(server, register, {"key": memory.name, "byte_size": 4})[0] == 200
    assert ask(server, "/v2/systemsharedmemory/unregister", {})[0] == 200


def infer_with(server, of_input=None, of_output=None, shape=(1, 4)):
    tensor = {"name": "input", "datatype": "FP32", "shape": shape, "parameters": of_input or {}}
    if of_input is None:
        tensor["data"] = [1.0] * 4
    outputs = [{"name": "output", "parameters": of_output}] if of_output else []
    return ask(server, "/v2/models/m/infer", {"inputs": [tensor], "outputs": outputs})


def at(size, offset=0, region="x"):
    return {
        "shared_memory_region": region,
        "shared_memory_byte_size": size,
        "shared_memory_offset": offset,
    }


def test_places_inside_a_region_are_checked(server, memory):
    ask(server, REGION.format("x", "register"), {"key": memory.name, "offset": 16, "byte_size": 32})
    try:
        status, found, _ = infer_with(server, at(16, 16))
        assert (status, found["outputs"][0]["data"]) == (200, [9.5])  # the numbers 8 to 11
        for wrong in (at(16, 17), at(33), at(-1), at(16, -1), at(None), at("16")):
            status, found, _ = infer_with(server, wrong)
            assert (status, "'x', which has 32 bytes" in found["error"]) == (400, True), found
            status, found, _ = infer_with(server, None, wrong)
            assert (status, "'x', which has 32 bytes" in found["error"]) == (400, True), found
        status, found, _ = infer_with(server, {"shared_memory_region": "x"})
        assert "shared_memory_byte_size None; expected" in found["error"]  # not a made-up size
        status, found, _ = infer_with(server, at(12))
        assert (status, "12 bytes; expected 16 for FP32" in found["error"]) == (400, True)
        status, found, _ = infer_with(server, None, at(3))
        assert (status, "4 bytes; region 'x' has room for 3" in found["error"]) == (400, True)
        status, found, _ = infer_with(server, at(16, region="y"))
        assert (status, "region 'y' is not registered" in found["error"]) == (404, True)
    finally:
        ask(server, "/v2/systemsharedmemory/unregister", {})


def test_memory_that_becomes_shorter_is_an_error_and_not_the_end(server, memory):
    ask(server, REGION.format("x", "register"), {"key": memory.name, "byte_size": 64})
    try:
        with open(f"/dev/shm/{memory.name}", "r+b") as file:
            file.truncate(8)
        status, found, _ = infer_with(server, at(16))
        assert (status, "has become shorter" in found["error"]) == (400, True)
        assert infer_with(server)[0] == 200
        with open(f"/dev/shm/{memory.name}", "r+b") as file:
            file.truncate(64)
    finally:
        ask(server, "/v2/systemsharedmemory/unregister", {})


def test_a_tensor_has_at_most_as_many_bytes_as_a_body(memory):
    """Tests that a sparse memory of any size costs the server nothing."""
    with open(f"/dev/shm/{memory.name}", "r+b") as file:
        file.truncate(1 << 40)
    try:
        with served(is_memory_shared=True, max_body=1000) as server:
            document = {"key": memory.name, "byte_size": 1 << 40}
            assert ask(server, REGION.format("x", "register"), document)[0] == 200
            assert infer_with(server, at(16))[0] == 200
            status, found, _ = infer_with(server, at(1001))
            assert (status, "at most 1000 bytes are taken (--max-body)" in found["error"]) == (
                429,
                True,
            )
    finally:
        with open(f"/dev/shm/{memory.name}", "r+b") as file:
            file.truncate(64)


def test_without_the_option_nothing_is_shared(grpc_server, memory):
    with grpc_served() as server:
        for path, document in (
            (REGION.format("x", "register"), {"key": memory.name, "byte_size": 4}),
            ("/v2/systemsharedmemory/unregister", {}),
        ):
            status, found, _ = ask(server, path, document)
            assert (status, "--allow-shared-memory" in found["error"]) == (403, True)
        status, found, _ = infer_with(server, at(16))
        assert (status, "--allow-shared-memory" in found["error"]) == (400, True)
        assert "system_shared_memory" not in ask(server, "/v2")[1]["extensions"]
        with over_grpc.InferenceServerClient(server.grpc_address) as client:
            tensor = over_grpc.InferInput("input", [1, 4], "FP32")
            tensor.set_shared_memory("x", 16)
            with pytest.raises(InferenceServerException, match="--allow-shared-memory"):
                client.infer("m", [tensor])


def test_memory_of_a_gpu_is_refused_and_there_is_none(triton, server):
    _, client = triton
    assert "system_shared_memory" in ask(server, "/v2")[1]["extensions"]
    client.unregister_cuda_shared_memory()
    assert not getattr(client.get_cuda_shared_memory_status(), "regions", [])
    with pytest.raises(InferenceServerException, match="CUDA shared memory is not supported"):
        client.register_cuda_shared_memory("x", base64.b64encode(b"handle"), 0, 4)
