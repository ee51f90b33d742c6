"""Tests of ending servers and changing models, while clients send requests without a pause."""

import http.client
import json
import signal
import threading
from pathlib import Path

import pytest

from tests.serve.models_on_disk import write_version
from tests.serve.test_repository import BODY, serving, until
from tests.served import serving as serving_program

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
    """Sends requests over one connection; reconnects when the server closes the connection."""

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
                return  # the server has ended
            except Exception as error:  # noqa: BLE001 - each is a request that failed
                self.failed.append(error)
                return

    def _ask(self):
        """Sends requests until the test or, by the server's announcement, the connection ends."""
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


def test_what_was_sent_before_the_signal_to_end_is_answered(tmp_path):
    (tmp_path / "units.py").write_text(UNITS)
    (tmp_path / "m.dot").write_text(GRAPH)
    with serving_program(tmp_path, "m.dot") as (process, address):
        clients = [Client(address, {"instances": [1.0]}) for _ in range(16)]
        for client in clients:
            assert client.asks.wait(60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        for client in clients:
            client.join()
    assert [client.failed for client in clients] == [[]] * 16


@pytest.mark.parametrize("how", ["load", "poll"])
def test_no_request_fails_while_a_model_is_loaded_again_and_again(tmp_path, how):
    root = write_version(tmp_path / "m", 1)
    options = {"is_repository_open": True} if how == "load" else {"poll": 0.01}
    with serving(root, **options) as server:
        clients = [Client(server.address, BODY) for _ in range(2)]
        try:
            held = [
                _reload(server, root, number, is_asked=how == "load") for number in range(2, 10)
            ]
        finally:
            for client in clients:
                client.is_over = True
                client.join()
    assert [client.failed for client in clients] == [[], []]
    assert min(client.answers for client in clients) > 0
    assert max(held[4:]) <= max(held[:4]) + 2  # an ending version may still have to close files


def _reload(server, root, number, *, is_asked):
    """Makes the server serve another version; returns the counts of threads and descriptors."""
    write_version(root, number)
    if is_asked:
        connection = http.client.HTTPConnection(server.address.removeprefix("http://"), timeout=60)
        connection.request("POST", "/v2/repository/models/m/load")
        assert connection.getresponse().status == 200
        connection.close()
    until(server, number, "AVAILABLE")
    until(server, number - 1, "END")
    return threading.active_count() + len(list(Path("/proc/self/fd").iterdir()))
