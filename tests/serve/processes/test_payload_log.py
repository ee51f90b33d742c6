"""The payload log of several processes, which append to one file."""

import json
import signal
from collections import Counter

import grpc
import pytest

from modelflow.serve.access.payload_log import REQUEST, RESPONSE
from tests.serve.grpc.stub import Stub
from tests.serve.processes.server_processes import serving, who_over_grpc, write_graphs


@pytest.mark.parametrize("option", ["--replicas", "--workers"])
@pytest.mark.parametrize("kind", ["native", "grpcio"])
def test_every_process_logs_whole_lines(tmp_path, option, kind):
    folder = write_graphs(tmp_path)
    arguments = ("m.dot", "--grpc", "127.0.0.1:0", "--grpc-server", kind)
    with serving(folder, *arguments, "--payload-log", "events", option=option) as server:
        with server.connections(4) as connections:
            for one in connections * 10:
                server.who(one)
        with grpc.insecure_channel(server.grpc) as channel:
            for _ in range(10):
                who_over_grpc(Stub(channel))
        server.end(signal.SIGTERM)
    events = [json.loads(line) for line in (folder / "events").read_text().splitlines()]
    assert Counter(event["type"] for event in events) == {REQUEST: 50, RESPONSE: 50}
    statuses = Counter(event["status"] for event in events if event["type"] == RESPONSE)
    assert statuses == {"200": 40, "OK": 10}
    assert len({event["id"] for event in events}) == 50
    assert {event["inferenceservicename"] for event in events} == {"m"}
