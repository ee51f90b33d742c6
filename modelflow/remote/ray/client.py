"""Ray's client, in a process of its own: it makes actors, calls them, and tells of their end.

Ray ends a process that is connected to a cluster whose head is gone. So this process is not
connected: it asks one that is, which may end and be begun again without a word to those whose
batches go by sockets of their own.

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
# Seconds in which somebody listens at the cluster's address; in which Ray connects to it then; and
# in which it does what is asked, where nobody says how long that may take.
_ANSWER = 5.0
_CONNECT = 120.0
ASKED = 30.0


class ClusterError(ModelflowError):
    """A cluster that cannot be reached, or cannot hold what it is to run."""


class ActorGoneError(ClusterError):
    """An actor has ended, or its machine has."""


_ERRORS: Mapping[str, Callable[[str], Exception]] = {
    "gone": ActorGoneError,
    "failed": ClusterError,
    "missing": LookupError,
}


class _Link:
    """One process, and who waits for its answers; guarded by the client's lock."""

    def __init__(self) -> None:
        self.process: ChildProcess | None = None
        self.waiting: dict[int, Future[Any]] = {}
        self.unsent: list[tuple[int, str, tuple[Any, ...]]] | None = []  # None: it is connected
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
    """Asks a process that is connected to a cluster; begins it when it is asked, and is not there.

    From any thread.
    """

    def __init__(self, address: str) -> None:
        """Begins nothing.

        Args:
            address: The cluster's, as Ray takes it.
        """
        self._address = address
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._link: _Link | None = None
        self._threads: set[threading.Thread] = set()
        self._is_over = False

    def ask(self, what: str, *given: Any, timeout: float | None = ASKED) -> Any:
        """Has the process do something.

        Args:
            what: A method of `modelflow.remote.ray.client_process.ClientServer`.
            given: What it takes.
            timeout: Seconds to wait for the answer; None: as long as it takes.

        Raises:
            TimeoutError: there was no answer in time.
            ActorGoneError: the actor has ended.
            ClusterError: the cluster cannot be reached, or what was asked for has failed.
        """
        try:
            return self.begin(what, *given).result(timeout)
        except FutureTimeoutError as error:
            raise TimeoutError(f"no answer within {timeout:g} s") from error

    def begin(self, what: str, *given: Any) -> "Future[Any]":
        """Has the process do something, and waits for nothing; see `ask`."""
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
        except OSError:  # it has just ended
            with self._lock:
                self._link = None if self._link is link else self._link
            return self.begin(what, *given)
        return found

    def close(self) -> None:
        """Ends the process; whoever waits for an answer is told."""
        with self._lock:
            self._is_over = True
            if self._link is not None and self._link.process is not None:
                self._link.channel.end()
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _new(self) -> _Link:
        """Begins a process; the lock is held."""
        self._link = link = _Link()
        # It starts the process, which ends when the thread does that has started it.
        link.thread = threading.Thread(target=self._keep, args=(link,), name="modelflow/ray client")
        self._threads.add(link.thread)
        link.thread.start()
        return link

    def _keep(self, link: _Link) -> None:
        """Starts a process, and gives answers to those who wait for them, until it ends."""
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
        except (EOFError, OSError):  # it has ended, or was told to
            pass
        finally:
            self._has_ended(link, reason)

    def _connect(self, link: _Link) -> None:
        """Waits until the process is connected, and sends what it was asked meanwhile.

        Raises:
            ClusterError: it cannot connect.
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
            link.channel.end()  # who sends sees it
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
    """Sees that somebody listens: Ray itself would try for minutes, and say so line by line.

    Raises:
        ClusterError: nobody does.
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
