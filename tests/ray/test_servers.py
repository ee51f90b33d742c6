"""The servers of a cluster: those that are fakes here, and real ones with clients."""

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

from modelflow.ray import Servers
from modelflow.ray.cluster import ClusterError
from tests import programs

LONG = 60


class Told:
    """A server that does what it is told."""

    def __init__(self, number, failures):
        self.number, self.failures, self.rows = number, failures, 0
        self.has_ended = threading.Event()
        self.is_to_leave = False
        self.how = ""

    def open(self):
        if self.failures:
            raise self.failures.pop(0)
        return f"http://{self.number}"

    def wait(self):
        assert self.has_ended.wait(LONG)
        return self.how

    def waiting(self):
        return self.rows

    def leave(self):
        self.is_to_leave = True

    def stop(self):
        self.end("stopped")

    def kill(self):
        self.end("killed")

    def end(self, how):
        self.how = self.how or how
        self.has_ended.set()


class Kept:
    """Servers that are told, what was made, and what was said."""

    def __init__(self, least=1, most=1, failures=()):
        self.made, self.failures, self.said = [], list(failures), []
        self.known_to_leave = {}  # by the number of one that is made: which others are to leave
        self.heard = threading.Condition()
        self.servers = Servers(self._make, (least, most), self._say)

    def _make(self, number):
        self.known_to_leave[number] = [one.number for one in self.made if one.is_to_leave]
        self.made.append(Told(number, self.failures))
        return self.made[-1]

    def _say(self, text):
        with self.heard:
            self.said.append(text)
            self.heard.notify_all()

    def until_said(self, text, count=1):
        with self.heard:
            assert self.heard.wait_for(lambda: self.said.count(text) >= count, LONG), self.said


def test_all_answer_before_anybody_is_told_and_end_together():
    kept = Kept(2, 2)
    kept.servers.start()
    assert sorted(kept.servers.addresses) == ["http://0", "http://1"]
    kept.servers.stop()
    assert [one.how for one in kept.made] == ["stopped"] * 2
    assert kept.servers.addresses == []


def test_one_that_cannot_begin_is_raised_and_none_is_left():
    kept = Kept(2, 2, [ClusterError("no machine")])
    with pytest.raises(ClusterError, match="no machine"):
        kept.servers.start()
    assert kept.servers.addresses == []


def test_one_that_ends_is_told_and_another_takes_its_place():
    kept = Kept()
    kept.servers.start()
    kept.made[0].end("it ended with -9")
    kept.until_said("server 0 has ended: it ended with -9")
    kept.until_said("server 0 answers at http://0", 2)
    kept.servers.stop()
    assert len(kept.made) == 2


def test_a_new_one_answers_before_the_old_one_leaves():
    kept = Kept(2, 2)
    kept.servers.start()
    kept.servers.roll()
    assert sorted(kept.servers.addresses) == ["http://2", "http://3"]
    kept.until_said("server 0 has ended")
    kept.until_said("server 1 has ended")
    said = kept.said
    assert said.index("server 2 answers at http://2") < said.index("server 0 has ended")
    kept.servers.stop()


def test_one_that_is_replaced_knows_it_before_the_next_one_looks_for_a_machine():
    kept = Kept(3, 3)
    kept.servers.start()
    kept.servers.roll()
    assert [kept.known_to_leave[number] for number in (3, 4, 5)] == [[], [0], [0, 1]]
    kept.servers.stop()


def test_where_the_new_one_cannot_begin_the_old_ones_stay():
    kept = Kept(2, 2)
    kept.servers.start()
    kept.failures.append(ClusterError("a bad archive"))
    kept.servers.roll()
    assert sorted(kept.servers.addresses) == ["http://0", "http://1"]
    assert any("not replaced, those that are there stay: a bad archive" in x for x in kept.said)
    kept.servers.stop()


def test_there_is_one_more_where_rows_wait_and_one_less_where_none_do():
    kept = Kept(1, 2)
    kept.servers.start()
    kept.made[0].rows = 100
    for _ in range(3):
        kept.servers.look()
    kept.until_said("server 1 answers at http://1")
    for _ in range(6):
        kept.servers.look()
    assert len(kept.made) == 2, "there are more than the most"
    kept.made[0].rows = 0
    for _ in range(30):
        kept.servers.look()
    kept.until_said("server 1 has ended")
    assert kept.servers.addresses == ["http://0"]
    kept.servers.stop()


def test_there_is_one_less_also_where_a_row_waits_now_and_then():
    kept = Kept(2, 3)
    kept.servers.start()
    kept.made[0].rows = 100
    for _ in range(3):
        kept.servers.look()
    kept.until_said("server 2 answers at http://2")
    for turn in range(60):
        kept.made[0].rows = 3 if turn % 5 == 0 else 0  # fewer than one on average
        kept.servers.look()
    kept.until_said("server 2 has ended")
    kept.servers.stop()


def test_there_are_as_many_where_rows_wait_though_few():
    kept = Kept(1, 2)
    kept.servers.start()
    kept.made[0].rows = 100
    for _ in range(3):
        kept.servers.look()
    kept.until_said("server 1 answers at http://1")
    kept.made[0].rows = 2
    for _ in range(60):
        kept.servers.look()
    assert sorted(kept.servers.addresses) == ["http://0", "http://1"]
    kept.servers.stop()


def test_one_that_finds_no_machine_is_not_waited_for_when_no_rows_wait():
    kept = Kept(1, 3)
    kept.servers.start()
    kept.failures.extend([ClusterError("no machine")] * 1000)
    kept.made[0].rows = 100
    for _ in range(3):
        kept.servers.look()
    kept.until_said("server 1 does not begin: no machine")
    kept.made[0].rows = 0
    for _ in range(30):
        kept.servers.look()
    kept.failures.clear()
    kept.made[0].rows = 100
    for _ in range(3):
        kept.servers.look()
    kept.until_said("server 2 answers at http://2")
    assert sorted(kept.servers.addresses) == ["http://0", "http://2"]
    kept.servers.stop()


def test_all_are_killed_at_once_also_while_they_begin():
    kept = Kept(2, 2)
    kept.servers.start()
    kept.servers.kill()
    kept.servers.stop()
    assert [one.how for one in kept.made] == ["killed"] * 2


# -- real ones ------------------------------------------------------------------------------------


class Balanced(threading.Thread):
    """Asks one server after the other, over connections that it keeps; goes on where none is."""

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
            except ConnectionRefusedError:  # it was accepted by nobody
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
    """What a client is told of what fails inside."""
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
    """Where two servers have what was sent to their machines."""
    served = re.findall(r"\(process (\d+)\): serves at", status)
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
            """Reads what is said until so many have answered in all."""
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
    with socket.socket() as taken:  # a port that was free on all of them a moment ago
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
        for count in 2, 4:
            process.send_signal(signal.SIGHUP)
            until_there_are(count + 2, count)
        assert {address.rpartition(":")[2] for address in addresses} == {str(port)}
        folders = folders_of(status_of(machines))
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(LONG) == 128 + signal.SIGINT, rest
    assert not any(folder.exists() for folder in folders), "archives are left there"
