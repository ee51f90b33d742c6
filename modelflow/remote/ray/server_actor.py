"""The actor of a server, which runs ``modelflow serve`` on its machine.

The server is a process with its own listener; no request passes through Ray.
"""

import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from modelflow.archive.received import SentArchives
from modelflow.errors import ModelflowError

MACHINE = "machine"
"""A placeholder for the host: the address of the machine of the server."""

CLUSTER = "cluster"
"""A placeholder for the value of ``--on``: the address of the cluster of the server."""

_COMMAND = (
    "import sys; from modelflow.signals import end_with; end_with(int(sys.argv.pop(1))); "
    "from modelflow.cli.main import main; main(sys.argv[1:])"
)
_STDERR = 2
# The end of the output of a server that does not start.
_TAIL = 2000  # bytes
_ANSWER = 2.0  # seconds
_QUEUED = b"modelflow_node_queue_rows{"
_FAR = re.compile(rb'replica="[^"]')


class ServerError(ModelflowError):
    """A server that did not start; the message has its output."""


class ServerActor:
    """The actor of one server; Ray calls its methods from several threads at once."""

    def __init__(self) -> None:
        """Makes an empty folder for files; starts no server."""
        self._archives = SentArchives()
        self.has, self.receive = self._archives.has, self._archives.receive
        self._folder = tempfile.TemporaryDirectory(prefix="modelflow-")
        self._log = _log()
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""

    def machine(self) -> str:
        """Returns Ray's name of this machine."""
        import ray

        found: str = ray.get_runtime_context().get_node_id()
        return found

    def open(
        self, words: Sequence[str], archives: Mapping[str, str], folder: str, timeout: float
    ) -> str:
        """Starts the server and waits until every model is loaded.

        Args:
            words: The arguments of ``modelflow serve``. The host `MACHINE` stands for this machine,
                and ``--on=`` `CLUSTER` for its cluster.
            archives: File name -> digest of the archives in the arguments, which were sent here.
            folder: The working directory of the caller. If it exists here, relative paths start
                there.
            timeout: The longest wait in seconds.

        Returns:
            The address of the server: ``http://10.0.0.2:8501``.

        Raises:
            ServerError: The server has ended, or was not ready in time.
        """
        import ray

        sent = Path(self._folder.name)
        for name, digest in archives.items():
            (sent / name).symlink_to(self._archives.path_of(digest))
        host = ray.util.get_node_ip_address()
        here = f"--on={ray.get_runtime_context().gcs_address}"
        given = [
            here if word == f"--on={CLUSTER}" else _here(word, host, sent, archives)
            for word in words
        ]
        begun = _size(self._log)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(str(sent / "notify"))
            self._process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND, str(os.getpid()), "serve", *given],
                cwd=folder if Path(folder).is_dir() else sent,
                stdin=subprocess.DEVNULL,
                stdout=_STDERR,
                stderr=_STDERR,
                env={
                    **os.environ,
                    "NOTIFY_SOCKET": str(sent / "notify"),
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                },
            )
            self._address = self._ready(told, begun, timeout)
        return self._address

    def _ready(self, told: socket.socket, begun: int, timeout: float) -> str:
        """Waits for the notification that the server answers; returns the server's address."""
        process = self._process
        assert process is not None  # `open` started it
        ended = os.pidfd_open(process.pid)
        try:
            seen, _, _ = select.select([told.fileno(), ended], [], [], timeout)
        finally:
            os.close(ended)
        if told.fileno() in seen:
            lines = told.recv(1 << 16).decode().splitlines()
            return next(line for line in lines if line.startswith("STATUS=")).split()[-1]
        process.kill()
        code = self.wait()
        tail = _tail(self._log, begun)
        what = f"was not ready within {timeout:g} s" if not seen else f"has ended with {code}"
        raise ServerError(f"the server {what}: {tail or 'it said nothing'}")

    def wait(self) -> int:
        """Waits until the server has ended; returns its exit code."""
        process = self._process
        code = 0 if process is None else process.wait()
        self._folder.cleanup()
        return code

    def waiting(self) -> int:
        """Returns the number of rows in the queues of local nodes, without remote nodes.

        Another server would not help with the rows of remote nodes.
        """
        with urllib.request.urlopen(f"{self._address}/metrics", timeout=_ANSWER) as answer:
            lines = answer.read().splitlines()
        found = (line for line in lines if line.startswith(_QUEUED))
        return sum(int(float(line.split()[-1])) for line in found if not _FAR.search(line))

    def figures(self) -> dict[str, Any]:
        """Returns a description of the server, in the form of `PartActor.figures`."""
        import ray

        process = self._process
        log = f"; its log is {self._log} there" if self._log is not None else ""
        does = "serves" if process is None or process.poll() is None else "served"
        return {
            "label": f"{does} at {self._address or '(not yet)'}{log}",
            "machine": ray.util.get_node_ip_address(),
            "process": os.getpid() if process is None else process.pid,
            "rows": {},
        }

    def stop(self, seconds: float) -> int:
        """Ends the server after its open requests; returns its exit code.

        Args:
            seconds: Seconds after which the server is killed.
        """
        process = self._process
        if process is None:
            return 0
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        return self.wait()

    def end(self) -> None:
        """Kills the server, and removes the files that were sent here."""
        if self._process is not None:
            self._process.kill()
        self.wait()


def _log() -> Path | None:
    """Returns the file to which Ray redirects this process's errors, or None."""
    path = Path(f"/proc/self/fd/{_STDERR}").readlink()
    return path if path.is_file() else None


def _size(log: Path | None) -> int:
    return 0 if log is None else log.stat().st_size


def _tail(log: Path | None, begun: int) -> str:
    """Returns the end of a log, from a first byte on."""
    if log is None:
        return "its output is where Ray writes the output of its processes"
    with log.open("rb") as file:
        file.seek(max(begun, _size(log) - _TAIL))
        return file.read(_TAIL).decode(errors="replace").strip()


def _here(word: str, host: str, folder: Path, names: Collection[str]) -> str:
    """Returns an argument with the values of this machine.

    Args:
        word: The argument.
        host: The address of the machine, for `MACHINE`.
        folder: The folder of the sent files.
        names: The names of the sent files.
    """
    name, mark, value = word.rpartition("=")
    if value.startswith(f"{MACHINE}:"):
        return f"{name}{mark}{host}{value.removeprefix(MACHINE)}"
    if value in names and not word.startswith("-"):
        return f"{name}{mark}{folder / value}"
    return word
