"""``modelflow serve --replicas N`` or ``--workers N`` as a process, and plain clients."""

import contextlib
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from modelflow.wire.proto import TF_SERVING
from tests import programs
from tests.prometheus import samples_of

PAUSE = 0.02
"""Seconds between two checks, which leave processor time to the server's processes."""
GRAPH = """digraph who {
    input [type=input]
    who [flowunit="units:%s"]
    output [type=output]
    input -> who -> output
}"""
SAID = [
    ("/readyz", None),
    ("/livez", None),
    ("/v2", None),
    ("/v1/models/m", None),
    ("/v1/models/m/metadata", None),
    ("/v2/models/m", None),
    ("/v2/models/m/config", None),
    ("/openapi.json", None),
    ("/v2/repository/index", {}),
]
"""Requests by path and document; every process answers each."""
UNITS = """
import os
import time

import modelflow


@modelflow.flowunit
def who(x):
    return str(os.getpid()).encode()


class Only(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec(
        "Only",
        {"cpu": lambda: Only()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
    )

    def open(self, config):
        try:
            os.symlink(str(os.getpid()), "only")
        except FileExistsError:
            if os.readlink("only") != str(os.getpid()):
                raise ValueError("somebody has it") from None

    def process(self, data):
        return data


@modelflow.flowunit
def slow(x):
    time.sleep(0.05)
    return str(os.getpid()).encode()


@modelflow.flowunit
def stuck(x):
    open(f"entered.{os.getpid()}", "w").close()
    with open("pipe") as pipe:
        pipe.read()
    return str(os.getpid()).encode()
"""


def write_graphs(folder, **units):
    """Writes a graph for each unit: ``m="who"``."""
    (folder / "units.py").write_text(UNITS)
    for name, unit in (units or {"m": "who"}).items():
        (folder / f"{name}.dot").write_text(GRAPH % unit)
    return folder


class Fleet:
    """The server's processes and their output."""

    def __init__(self, process):
        self.process = process
        self.said = []
        self.address = self.grpc = ""
        self._news = threading.Condition()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self):
        for line in self.process.stderr:
            with self._news:
                self.said.append(line)
                self._news.notify_all()
        with self._news:
            self.said.append("")
            self._news.notify_all()

    def wait_for(self, text, count=1, since=0):
        """Waits for ``count`` lines with a text, from line ``since``; returns the last of them."""

        def found():
            return [line for line in self.said[since:] if text in line]

        with self._news:
            self._news.wait_for(
                lambda: len(found()) >= count or "" in self.said,
                programs.LIMIT,
            )
            assert len(found()) >= count, "".join(self.said)
            return found()[count - 1]

    def kill(self, pid, said="another takes its place"):
        """Kills a process and waits for a line about the loss; returns that line."""
        before = len(self.said)
        os.kill(pid, signal.SIGKILL)
        return self.wait_for(said, since=before)

    def wait_until_whole(self):
        """Waits until all replicas are up."""
        wait_until(lambda: self.metrics()["modelflow_replicas_up",] == 2)

    def end(self, number=None):
        """Sends a signal, and returns the exit code."""
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(programs.LIMIT)
        self._reading.join()
        return code

    def children(self):
        """Returns the process ids of the first process's children, in the order of their start."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(one) for one in path.read_text().split()]

    def connect(self):
        host, port = self.address.removeprefix("http://").split(":")
        return http.client.HTTPConnection(host, int(port), timeout=60)

    def ask(self, path, document=None, method=None, connection=None):
        """Returns status and document, over a new connection unless a connection is given."""
        with contextlib.closing(self.connect()) as own:
            one = connection or own
            body = None if document is None else json.dumps(document)
            one.request(method or ("GET" if body is None else "POST"), path, body)
            response = one.getresponse()
            text = response.read()
            return response.status, text if path == "/metrics" else json.loads(text or b"null")

    @contextlib.contextmanager
    def connections(self, count=4):
        """Yields connections to all accepting processes, distributed evenly."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(contextlib.closing(self.connect())) for _ in range(count)]

    def everywhere(self, path, document=None):
        """Returns the answer of each process."""
        with self.connections() as all_of_them:
            return [self.ask(path, document, connection=one) for one in all_of_them]

    def statuses(self, path):
        return {status for status, _ in self.everywhere(path)}

    def who(self, connection=None, name="m"):
        """Returns which process answers."""
        return _process_of(*self._predicted(connection, name))

    def who_is_back(self, connection=None, name="m"):
        """Returns which process answers, after all 503 replies that ask clients to retry."""
        while (answer := self._predicted(connection, name))[0] == 503:
            time.sleep(PAUSE)
        return _process_of(*answer)

    def _predicted(self, connection, name):
        path = f"/v1/models/{name}:predict"
        return self.ask(path, {"instances": ["x"]}, connection=connection)

    def metrics(self):
        return samples_of(self.ask("/metrics")[1].decode())


@contextlib.contextmanager
def serving(folder, *arguments, count=2, said="serves ", option="--replicas"):
    """Yields the processes after they have printed a text."""
    command = [sys.executable, "-m", "modelflow", "serve", "--http", "127.0.0.1:0"]
    command += [option, str(count), *arguments]
    if "--grpc" not in arguments:
        command += ["--grpc", "off"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with programs.started(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        replica_group = Fleet(process)
        try:
            line = replica_group.wait_for(said)
            found = re.search(r"https?://[\d.:]+\d", line)
            replica_group.address = found[0] if found else ""
            if "--grpc" in arguments:
                replica_group.grpc = replica_group.wait_for("over gRPC at").split()[-1]
            yield replica_group
        finally:
            process.kill()
            replica_group.end()


def _process_of(status, found):
    assert status == 200, found
    return int(found["predictions"][0])


def is_alive(pid):
    """Returns whether a process runs, and has not ended (Z) and is not being removed (X)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # before the file was opened, or since
        return False


def wait_until(is_so):
    end = time.monotonic() + programs.LIMIT
    while not is_so():
        assert time.monotonic() < end, "it has not come to be so"
        time.sleep(PAUSE)


def wait_until_closed(replica_group):
    """Waits until no process listens any more."""
    host, port = replica_group.address.removeprefix("http://").split(":")
    with contextlib.suppress(ConnectionError):
        while True:
            socket.create_connection((host, int(port)), timeout=60).close()


def wait_until_ended(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            with os.fdopen(descriptor):
                assert select.select([descriptor], [], [], programs.LIMIT)[0], "it has not ended"


def who_over_grpc(client):
    """Returns which process answers."""
    message = TF_SERVING["tensorflow.serving.PredictRequest"]()
    message.model_spec.name = "m"
    message.inputs["input"].dtype = 7
    message.inputs["input"].tensor_shape.dim.add().size = 1
    message.inputs["input"].string_val.append(b"x")
    answer = client.call("tensorflow.serving.PredictionService", "Predict", message)
    return answer.outputs["output"].string_val[0]
