"""The caller's side of Ray's client, which makes, calls and watches actors in its own process.

Ray ends a process that is connected to a cluster without a head. The caller's process is therefore
not connected. It sends requests to a client process, which may end and be started again. Batches
have their own sockets and are not affected.

    Client.ask("call", name, method, ...)  --channel-->  client_process  --Ray-->  actor
           Future  <--channel--  (number, kind, value)
"""

import itertools
import re
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from modelflow.errors import ModelflowError
from modelflow.ipc.channel import Channel
from modelflow.ipc.process import ChildProcess

AUTO = "auto"
HOST_PORT = re.compile(r"(?:ray://)?(\[[^]]+\]|[^:/]+):(\d{1,5})\Z")
NAMESPACE = "modelflow"
"""The namespace of modelflow's actors."""

_ENTRY = "modelflow.remote.ray.client_process:main"
# Seconds for the cluster to accept a connection, for Ray to connect then, and for a request without
# its own time-out.
_ANSWER = 5.0
_CONNECT = 120.0
ASKED = 30.0


class ClusterError(ModelflowError):
    """A cluster that cannot be reached, or cannot hold the actors."""


class ActorGoneError(ClusterError):
    """An actor that has ended, or whose machine has."""


_ERRORS: Mapping[str, Callable[[str], Exception]] = {
    "gone": ActorGoneError,
    "failed": ClusterError,
    "missing": LookupError,
}


class _Link:
    """A client process and the requests without answers; guarded by the client's lock."""

    def __init__(self) -> None:
        self.process: ChildProcess | None = None
        self.waiting: dict[int, Future[Any]] = {}
        # Requests to send after the process has connected; None once it is connected.
        self.unsent: list[tuple[int, str, tuple[Any, ...]]] | None = []
        self.sending = threading.Lock()
        self.thread: threading.Thread

    @property
    def channel(self) -> Channel:
        if self.process is None:
            raise BrokenPipeError("the process has ended")
        return self.process.channels[0]

    def send(self, message: Any) -> None:
        with self.sending:
            self.channel.send(message)


class Client:
    """The requests to a client process, which is started by the first request.

    Safe for all threads.
    """

    def __init__(self, address: str) -> None:
        """Stores the address; starts no process.

        Args:
            address: The address of the cluster, in Ray's form.
        """
        self._address = address
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._link: _Link | None = None
        self._threads: set[threading.Thread] = set()
        self._is_over = False

    def ask(self, what: str, *given: Any, timeout: float | None = ASKED) -> Any:
        """Sends a request to the client process and returns the answer.

        Args:
            what: A method of `modelflow.remote.ray.client_process.ClientServer`.
            given: The arguments of the method.
            timeout: The longest wait in seconds; None for no limit.

        Raises:
            TimeoutError: No answer came in time.
            ActorGoneError: The actor has ended.
            ClusterError: The cluster cannot be reached, or the method has failed.
        """
        try:
            return self.begin(what, *given).result(timeout)
        except FutureTimeoutError as error:
            raise TimeoutError(f"no answer within {timeout:g} s") from error

    def begin(self, what: str, *given: Any) -> "Future[Any]":
        """Sends a request without waiting for its answer; see `ask`."""
        found: Future[Any] = Future()
        with self._lock:
            if self._is_over:
                raise ClusterError("the cluster was left")
            link = self._link or self._new()
            number = next(self._numbers)
            link.waiting[number] = found
            if link.unsent is not None:
                link.unsent.append((number, what, given))
                return found
        try:
            link.send((number, what, given))
        except OSError:  # the process has just ended
            with self._lock:
                self._link = None if self._link is link else self._link
            return self.begin(what, *given)
        return found

    def close(self) -> None:
        """Ends the process; open requests fail."""
        with self._lock:
            self._is_over = True
            if self._link is not None and self._link.process is not None:
                self._link.channel.end()
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _new(self) -> _Link:
        """Starts a client process; called with the lock held."""
        self._link = link = _Link()
        # This thread starts the process. The process would end with the thread that started it.
        link.thread = threading.Thread(target=self._keep, args=(link,), name="modelflow/ray client")
        self._threads.add(link.thread)
        link.thread.start()
        return link

    def _keep(self, link: _Link) -> None:
        """Starts a process and passes its answers to the callers until the process ends."""
        reason = ClusterError(f"the cluster at {self._address!r} cannot be reached any more")
        try:
            _reach(self._address)
            process = ChildProcess(_ENTRY, sys.path)
            with self._lock:
                link.process = process
                is_over = self._is_over
            if not is_over:
                self._connect(link)
            while not is_over:
                number, kind, value = link.channel.receive()
                with self._lock:
                    found = link.waiting.pop(number)
                if kind is None:
                    found.set_result(value)
                else:
                    found.set_exception(_ERRORS[kind](value))
        except ClusterError as error:
            reason = error
        except (EOFError, OSError):  # the process has ended, or `close` was called
            pass
        finally:
            self._has_ended(link, reason)

    def _connect(self, link: _Link) -> None:
        """Waits until the process is connected, and sends the requests of the meantime.

        Raises:
            ClusterError: The process cannot connect.
        """
        said = f"Ray did not connect within {_CONNECT:g} s"
        try:
            link.send(self._address)
            if link.channel.has_come(_CONNECT):
                said, self._address = link.channel.receive()
        except (EOFError, OSError):
            said = "its client has ended"
        if said:
            raise ClusterError(f"the cluster at {self._address!r} cannot be used: {said}")
        while True:
            with self._lock:
                unsent = link.unsent
                link.unsent = [] if unsent else None
            if not unsent:
                return
            for asked in unsent:
                link.send(asked)

    def _has_ended(self, link: _Link, reason: ClusterError) -> None:
        process = link.process
        if process is not None:
            link.channel.end()  # `send` in other threads then fails
            if link.unsent is not None:  # Ray may still try to connect
                process.kill()
            process.wait()
            with link.sending:
                process.close()
                link.process = None
        with self._lock:
            if self._link is link:
                self._link = None
            waiting, link.waiting = link.waiting, {}
            self._threads.discard(link.thread)
        for found in waiting.values():
            found.set_exception(reason)


def _reach(address: str) -> None:
    """Checks that the address accepts connections; Ray would try and log for minutes.

    Raises:
        ClusterError: The address accepts no connection.
    """
    found = HOST_PORT.match(address)
    if found is None:
        return
    try:
        socket.create_connection((found[1].strip("[]"), int(found[2])), _ANSWER).close()
    except OSError as error:
        raise ClusterError(
            f"the cluster at {address!r} cannot be reached: {error.strerror or error}"
        ) from error
