"""Tests of servers on a cluster, with clients: replaced under load, each on its own machine."""

import http.client
import itertools
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests import programs

LONG = 60


class Balanced(threading.Thread):
    """Calls several servers in rotation over kept connections; skips unreachable servers."""

    def __init__(self, addresses):
        super().__init__(name="client")
        self.addresses, self.answers, self.failed = addresses, 0, []
        self.is_over = False
        self.start()

    def run(self):
        open_ = {}
        for turn in itertools.count():
            if self.is_over:
                break
            there = list(self.addresses)
            if not there:
                continue
            address = there[turn % len(there)]
            try:
                connection = open_.get(address)
                if connection is None or connection.sock is None:
                    connection = open_[address] = http.client.HTTPConnection(address, timeout=LONG)
                    connection.connect()
            except ConnectionRefusedError:  # no server accepted the connection
                open_.pop(address, None)
                continue
            try:
                body = json.dumps({"instances": [turn]})
                connection.request("POST", "/v1/models/m:predict", body)
                answer = connection.getresponse()
                found = json.loads(answer.read())
                assert (answer.status, found) == (200, {"predictions": [turn + 1]})
                self.answers += 1
                if answer.will_close:
                    connection.close()
            except Exception as error:  # noqa: BLE001 - each is a request that failed
                self.failed.append(repr(error))
                return
        for connection in open_.values():
            connection.close()


@pytest.fixture
def archive(tmp_path):
    (tmp_path / "units.py").write_text(
        "import modelflow\n\n\n@modelflow.flowunit\ndef up(value):\n    return value + 1\n"
    )
    (tmp_path / "m.toml").write_text(
        "[graph]\ngraphconf = '''digraph m {\n  input [type=input]\n"
        "  up [flowunit=\"units:up\"]\n  output [type=output]\n  input -> up -> output\n}'''\n"
    )
    command = [sys.executable, "-m", "modelflow", "pack", "m.toml", "-o", "m.mfz"]
    programs.run(command, cwd=tmp_path, check=True)
    return tmp_path / "m.mfz"


def id_of_a_failure(address):
    """Returns the id that a client gets for an internal error."""
    connection = http.client.HTTPConnection(address, timeout=LONG)
    connection.request("POST", "/v1/models/m:predict", json.dumps({"instances": ["no number"]}))
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 500, text
    return re.search(r"under the id (\w+)", text)[1]


def status_of(machines):
    command = [sys.executable, "-m", "modelflow", "ray", "status", "--address", machines.address]
    return programs.run(command, check=True).stdout


def folders_of(status):
    """Returns the folders in which two servers have the files sent to their machines."""
    served = re.findall(r"process (\d+)\): serves at", status)
    told = [Path(f"/proc/{number}/environ").read_bytes() for number in served]
    found = [Path(re.search(rb"NOTIFY_SOCKET=([^\0]+)", one)[1].decode()).parent for one in told]
    assert len(found) == 2
    assert all((folder / "m.mfz").exists() for folder in found)
    return found


def test_servers_are_replaced_under_load_without_a_request_that_fails(machines, archive):
    command = [sys.executable, "-m", "modelflow", "ray", "serve", archive.name]
    command += ["--address", machines.address, "--replicas", "2", "--drain-delay", "0.2"]
    with programs.started(
        command, cwd=archive.parent, stderr=subprocess.PIPE, text=True
    ) as process:
        addresses, said = [], []

        def until(count):
            """Reads the output until so many servers have answered in all."""
            while count:
                line = process.stderr.readline()
                assert line, said
                said.append(line)
                if found := re.search(r"server (\d+) answers at http://(\S+)", line):
                    addresses.append(found[2])
                    count -= 1

        until(2)
        seen = status_of(machines)
        assert all(f"serves at http://{address}" in seen for address in addresses), seen
        folders = folders_of(seen)
        logs = dict(re.findall(r"serves at http://(\S+); its log is (\S+) there", seen))
        number = id_of_a_failure(addresses[0])
        assert f"request {number} failed" in Path(logs[addresses[0]]).read_text()
        clients = [Balanced(addresses) for _ in range(4)]
        try:
            before = list(addresses)
            process.send_signal(signal.SIGHUP)
            until(1)
            addresses.remove(before[0])
            until(1)
            addresses.remove(before[1])
            asked = sum(client.answers for client in clients)
            while sum(client.answers for client in clients) < asked + 200:
                assert not any(client.failed for client in clients)
        finally:
            for client in clients:
                client.is_over = True
                client.join()
        assert [client.failed for client in clients] == [[]] * 4
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(LONG) == 128 + signal.SIGTERM, rest
    assert not any(folder.exists() for folder in folders), "archives are left there"


def test_servers_of_one_port_are_on_machines_of_their_own_and_are_replaced_until_a_ctrl_c(
    machines, archive
):
    command = [sys.executable, "-m", "modelflow", "ray", "serve", archive.name, "--cpus", "0.1"]
    command += ["--address", machines.address, "--replicas", "2", "--drain-delay", "0"]
    with socket.socket() as taken:  # a port that was free a moment ago
        taken.bind(("0.0.0.0", 0))
        port = taken.getsockname()[1]
    command += ["--http", f"machine:{port}"]
    with programs.started(
        command, cwd=archive.parent, stderr=subprocess.PIPE, text=True
    ) as process:
        said, addresses, gone = [], [], 0

        def until_there_are(begun, ended):
            nonlocal gone
            while len(addresses) < begun or gone < ended:
                said.append(process.stderr.readline())
                assert said[-1], said
                assert "not replaced" not in said[-1], said
                gone += "has ended" in said[-1]
                if found := re.search(r"answers at http://(\S+)", said[-1]):
                    addresses.append(found[1])

        until_there_are(2, 0)
        assert len(set(addresses)) == 2, "two are on one machine"
        process.send_signal(signal.SIGHUP)
        until_there_are(4, 2)
        assert {address.rpartition(":")[2] for address in addresses} == {str(port)}
        folders = folders_of(status_of(machines))
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(LONG) == 128 + signal.SIGINT, rest
    assert not any(folder.exists() for folder in folders), "archives are left there"
