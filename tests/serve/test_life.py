"""Servers that end, and whose models come and go, while clients ask without a pause."""

import http.client
import json
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests import programs
from tests.serve.models_on_disk import write_version
from tests.serve.test_repository import BODY, serving, states

PATH = "/v1/models/m:predict"
GRAPH = """digraph m {
    input [type=input]
    wait [flowunit="units:wait", batch_size=8, threads=1]
    output [type=output]
    input -> wait -> output
}"""
UNITS = """
import time
import modelflow

@modelflow.flowunit(batched=True)
def wait(rows):
    time.sleep(0.005)
    return rows
"""


class Client(threading.Thread):
    """Asks over one connection, again and again; over another when it is told to."""

    def __init__(self, address, body):
        super().__init__(name="client")
        self.answers, self.failed = 0, []
        self.is_over, self.asks = False, threading.Event()
        self._address, self._body = address.removeprefix("http://"), json.dumps(body)
        self.start()

    def run(self):
        while not self.is_over:
            try:
                self._ask()
            except ConnectionRefusedError:
                return  # there is no server any more
            except Exception as error:  # noqa: BLE001 - each is a request that failed
                self.failed.append(error)
                return

    def _ask(self):
        """Asks until it is over, or the server says that the connection is."""
        connection = http.client.HTTPConnection(self._address, timeout=60)
        connection.connect()
        try:
            while not self.is_over:
                connection.request("POST", PATH, self._body)
                response = connection.getresponse()
                text = response.read()
                assert response.status == 200, text
                self.answers += 1
                self.asks.set()
                if response.getheader("connection") == "close":
                    return
        finally:
            connection.close()


@pytest.mark.parametrize("processes", [(), ("--replicas", "2"), ("--workers", "2")])
def test_what_was_sent_before_the_signal_to_end_is_answered(tmp_path, processes):
    (tmp_path / "units.py").write_text(UNITS)
    (tmp_path / "m.dot").write_text(GRAPH)
    command = ["python", "-m", "modelflow", "serve", "m.dot", "--grpc", "off"]
    command += ["--http", "127.0.0.1:0", *processes]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with programs.started(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        said = next(line for line in process.stderr if "serves " in line)
        address = re.search(r"http://[\d.:]+\d", said)[0]
        clients = [Client(address, {"instances": [1.0]}) for _ in range(16)]
        for client in clients:
            assert client.asks.wait(60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        for client in clients:
            client.join()
    assert [client.failed for client in clients] == [[]] * 16


@pytest.mark.parametrize("how", ["load", "poll"])
def test_no_request_fails_while_a_model_is_loaded_a_dozen_times(tmp_path, how):
    root = write_version(tmp_path / "m", 1)
    options = {"is_repository_open": True} if how == "load" else {"poll": 0.01}
    with serving(root, **options) as server:
        clients = [Client(server.address, BODY) for _ in range(2)]
        try:
            held = [
                _reload(server, root, number, is_asked=how == "load") for number in range(2, 14)
            ]
        finally:
            for client in clients:
                client.is_over = True
                client.join()
    assert [client.failed for client in clients] == [[], []]
    assert min(client.answers for client in clients) > 0
    assert max(held[5:]) <= max(held[:5]) + 2  # a version that ends may still close


def _reload(server, root, number, *, is_asked):
    """Has another version served; returns how many threads and descriptors there are then."""
    write_version(root, number)
    if is_asked:
        connection = http.client.HTTPConnection(server.address.removeprefix("http://"), timeout=60)
        connection.request("POST", "/v2/repository/models/m/load")
        assert connection.getresponse().status == 200
        connection.close()
    while states(server).get(number, ("",))[0] != "AVAILABLE":
        pass
    while states(server)[number - 1][0] != "END":
        pass
    return threading.active_count() + len(list(Path("/proc/self/fd").iterdir()))
