"""Limits of API keys, exact over all processes of a server."""

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from tests.serve.grpc.stub import PROTOCOLS, Stub
from tests.serve.processes.server_processes import serving, wait_until, write_graphs

MOST = 60
MINUTE = 60
KEY = {"x-api-key": "k"}
MESSAGE = {"model_name": "m", "inputs": [{"name": "input", "datatype": "BYTES", "shape": [1]}]}


def message():
    found = PROTOCOLS["inference"]["inference.ModelInferRequest"](**MESSAGE)
    found.inputs[0].contents.bytes_contents.append(b"x")
    return found


def over_http(server):
    """Sends requests over a connection of its own; returns the number of answers."""
    connection, count = server.connect(), 0
    body = json.dumps({"instances": ["x"]})
    for _ in range(MOST // 2):
        connection.request("POST", "/v1/models/m:predict", body, KEY)
        response = connection.getresponse()
        response.read()
        assert response.status in (200, 429)
        count += response.status == 200
    connection.close()
    return count


def over_grpc(server):
    options, count = [("grpc.use_local_subchannel_pool", 1)], 0
    with grpc.insecure_channel(server.grpc, options) as channel:
        call = Stub(channel).method("inference.GRPCInferenceService", "ModelInfer")
        for _ in range(MOST // 2):
            done = call.future(message(), metadata=tuple(KEY.items()), timeout=60)
            assert done.code().name in ("OK", "RESOURCE_EXHAUSTED")
            count += done.exception() is None
    return count


def count_in_one_minute(server):
    """Returns the answers that many connections got within one minute of the clock."""
    while True:
        began = time.time() // MINUTE
        with ThreadPoolExecutor(8) as pool:
            ways = [over_http, over_grpc] * 4
            count = sum(pool.map(lambda way: way(server), ways))
        if time.time() // MINUTE == began:
            return count


@pytest.mark.parametrize("option", ["--replicas", "--workers"])
@pytest.mark.parametrize("kind", ["native", "grpcio"])
@pytest.mark.parametrize("resource", ["requests", "rows"])
def test_no_process_answers_beyond_the_limit(tmp_path, option, kind, resource):
    folder = write_graphs(tmp_path)
    (folder / "keys").write_text(f"infer k {resource}={MOST}/m\nmetrics,repository other\n")
    arguments = ("m.dot", "--grpc", "127.0.0.1:0", "--grpc-server", kind, "--api-key-file", "keys")
    with serving(folder, *arguments, option=option) as server:
        assert count_in_one_minute(server) == MOST


def test_a_replaced_process_and_a_reread_file_keep_the_counts(tmp_path):
    folder = write_graphs(tmp_path)
    (folder / "keys").write_text(f"infer k requests={MOST}/m\n")
    arguments = ("m.dot", "--api-key-file", "keys")
    with serving(folder, *arguments) as server:
        while True:
            began = time.time() // MINUTE
            first = over_http(server)
            for pid in server.children():
                server.kill(pid)
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: server.ask("/readyz")[0] == 200)
            count = first + over_http(server) + over_http(server)
            if time.time() // MINUTE == began:
                break
        assert count == MOST
