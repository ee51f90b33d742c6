"""Limits of API keys, exact over all processes of a server."""

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import grpc
import pytest

from tests.serve.grpc.stub import PROTOCOLS, Stub
from tests.serve.processes.server_processes import serving, wait_until, write_graphs

MOST = 60
MINUTE = 60
# Each try needs a key of its own: a try that ends in the next minute spends from that minute, too.
KEYS = ("k0", "k1", "k2", "k3")
MESSAGE = {"model_name": "m", "inputs": [{"name": "input", "datatype": "BYTES", "shape": [1]}]}


def message():
    found = PROTOCOLS["inference"]["inference.ModelInferRequest"](**MESSAGE)
    found.inputs[0].contents.bytes_contents.append(b"x")
    return found


def over_http(server, key):
    """Sends requests over a connection of its own; returns the number of answers."""
    connection, count = server.connect(), 0
    body = json.dumps({"instances": ["x"]})
    for _ in range(MOST // 2):
        connection.request("POST", "/v1/models/m:predict", body, {"x-api-key": key})
        response = connection.getresponse()
        response.read()
        assert response.status in (200, 429)
        count += response.status == 200
    connection.close()
    return count


def over_grpc(server, key):
    options, count = [("grpc.use_local_subchannel_pool", 1)], 0
    with grpc.insecure_channel(server.grpc, options) as channel:
        call = Stub(channel).method("inference.GRPCInferenceService", "ModelInfer")
        for _ in range(MOST // 2):
            done = call.future(message(), metadata=(("x-api-key", key),), timeout=60)
            assert done.code().name in ("OK", "RESOURCE_EXHAUSTED")
            count += done.exception() is None
    return count


def count_in_one_minute(count):
    """Returns the number of answers for a key within one minute of the clock."""
    for key in KEYS:
        began = time.time() // MINUTE
        found = count(key)
        if time.time() // MINUTE == began:
            return found
    pytest.fail("every try went on into the next minute")


def over_many_connections(server, key):
    with ThreadPoolExecutor(8) as pool:
        ways = [over_http, over_grpc] * 4
        return sum(pool.map(lambda way: way(server, key), ways))


def write_keys(folder, limit):
    lines = [f"infer {key} {limit}={MOST}/m\n" for key in KEYS]
    (folder / "keys").write_text("".join([*lines, "metrics,repository other\n"]))


@pytest.mark.parametrize("option", ["--replicas", "--workers"])
@pytest.mark.parametrize("kind", ["native", "grpcio"])
@pytest.mark.parametrize("resource", ["requests", "rows"])
def test_no_process_answers_beyond_the_limit(tmp_path, option, kind, resource):
    folder = write_graphs(tmp_path)
    write_keys(folder, resource)
    arguments = ("m.dot", "--grpc", "127.0.0.1:0", "--grpc-server", kind, "--api-key-file", "keys")
    with serving(folder, *arguments, option=option) as server:
        assert count_in_one_minute(partial(over_many_connections, server)) == MOST


def test_a_replaced_process_and_a_reread_file_keep_the_counts(tmp_path):
    folder = write_graphs(tmp_path)
    write_keys(folder, "requests")
    with serving(folder, "m.dot", "--api-key-file", "keys") as server:

        def count(key):
            first = over_http(server, key)
            for pid in server.children():
                server.kill(pid)
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: server.ask("/readyz")[0] == 200)
            return first + over_http(server, key) + over_http(server, key)

        assert count_in_one_minute(count) == MOST
