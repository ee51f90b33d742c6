"""Ray's client, in a process of its own: it makes actors, calls them, and tells of their end.

Ray ends a process that is connected to a cluster whose head is gone. So this process is not
connected: it asks one that is (`Client`), which may end and be begun again without a word to those
whose batches go by sockets of their own. What an actor is called with is pickled here and read
there, at the actor; the process between them passes it on.

    Client.ask("call", name, method, ...)  --pipe-->  _Answering  --Ray-->  actor
           Future  <--pipe--  (number, kind, value)
"""

import contextlib
import itertools
import os
import pickle
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from modelflow.errors import ModelflowError
from modelflow.ipc import process as processes

__all__ = [
    "AUTO",
    "HOST_PORT",
    "NAMESPACE",
    "ActorGoneError",
    "Client",
    "ClusterError",
    "first_line",
    "main",
]

HOST_PORT = re.compile(r"(?:ray://)?(\[[^]]+\]|[^:/]+):(\d{1,5})\Z")
AUTO = "auto"
NAMESPACE = "modelflow"
"""The namespace of modelflow's actors."""

_ENTRY = "modelflow.ray.client:main"
# Seconds in which somebody listens at the cluster's address; in which Ray connects to it then; and
# in which it does what is asked, where nobody says how long that may take.
_ANSWER = 5.0
_CONNECT = 120.0
_ASKED = 30.0
_CHUNK = 4 << 20  # bytes of an archive that are sent at once


class ClusterError(ModelflowError):
    """A cluster that cannot be reached, or cannot hold what it is to run."""


class ActorGoneError(ClusterError):
    """An actor has ended, or its machine has."""


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
        self._waiting: dict[int, Future[Any]] = {}
        self._pipe: Connection | None = None
        self._process: Any = None
        self._reading: threading.Thread | None = None
        self._is_over = False

    def ask(self, what: str, *given: Any, timeout: float | None = _ASKED) -> Any:
        """Has the process do something.

        Args:
            what: A method of `_Answering`.
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
            message = f"no answer within {timeout:g} s"
            raise TimeoutError(message) from error

    def close(self) -> None:
        """Ends the process; whoever waits for an answer is told."""
        with self._lock:
            self._is_over = True
            pipe, reading, process = self._pipe, self._reading, self._process
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.send(None)
        if reading is not None:
            processes.see_end_of(process)
            reading.join()

    def begin(self, what: str, *given: Any) -> "Future[Any]":
        """Has the process do something, and waits for nothing; see `ask`."""
        found: Future[Any] = Future()
        with self._lock:
            if self._is_over:
                message = "the cluster was left"
                raise ClusterError(message)
            number = next(self._numbers)
            asked = number, what, given
            try:
                self._connected().send(asked)
            except OSError:  # it has just ended
                self._pipe = None
                self._connected().send(asked)
            self._waiting[number] = found
        return found

    def _connected(self) -> Connection:
        """Returns the pipe to the process, which is begun where there is none; lock held."""
        if self._pipe is None:
            self._begin()
        assert self._pipe is not None  # it was begun
        return self._pipe

    def _begin(self) -> None:
        """Starts the process, and waits until it is connected; the lock is held."""
        _reach(self._address)
        ours, theirs = Pipe()
        process = processes.started(_ENTRY, [theirs.fileno()], sys.path)
        theirs.close()
        said, address = f"did not answer within {_CONNECT:g} s", ""
        try:
            ours.send(self._address)
            if ours.poll(_CONNECT):
                said, address = ours.recv()
        except (EOFError, OSError):
            said = "its client has ended"
        if said:
            process.kill()
            process.wait()
            ours.close()
            message = f"the cluster at {self._address!r} cannot be used: {said}"
            raise ClusterError(message)
        self._address = address  # of "auto", where it is found without Ray the next time
        self._pipe, self._process, self._waiting = ours, process, {}
        self._reading = threading.Thread(
            target=self._read, args=(ours, process, self._waiting), name="modelflow/ray client"
        )
        self._reading.start()

    def _read(self, pipe: Connection, process: Any, waiting: dict[int, "Future[Any]"]) -> None:
        """Gives answers to those who wait for them, until the process ends."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, kind, value = pipe.recv()
                with self._lock:  # it may be just being noted
                    found = waiting.pop(number)
                if kind is None:
                    found.set_result(value)
                else:
                    found.set_exception(_ERRORS[kind](value))
        processes.see_end_of(process)
        with self._lock:
            pipe.close()
            if self._pipe is pipe:
                self._pipe = None
        for found in waiting.values():
            found.set_exception(self._lost())

    def _lost(self) -> ClusterError:
        return ClusterError(f"the cluster at {self._address!r} cannot be reached any more")


_ERRORS: Mapping[str, Callable[[str], Exception]] = {
    "gone": ActorGoneError,
    "failed": ClusterError,
    "missing": LookupError,
}


def main(arguments: list[str]) -> None:
    """Connects to a cluster, and does what it is asked until nobody can ask any more."""
    fd, parent = map(int, arguments)
    processes.end_with(parent)
    os.dup2(2, 1)  # results of ours may go to the standard output; Ray has nothing to say there
    pipe = Connection(fd)
    with contextlib.suppress(EOFError, OSError):
        said, address = _connected(pipe.recv())
        # The flow's own process decides what a signal means, which may come to the whole group.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pipe.send((said, address))
        if not said:
            _Answering(pipe).answer_all()
    os._exit(0)  # Ray's own end may wait for a head that is gone; what it has of ours ends with it


def _connected(address: str) -> tuple[str, str]:
    """Connects; returns why that cannot be, or "", and where the cluster is."""
    import ray

    try:
        ray.init(address=address, logging_level="error", namespace=NAMESPACE, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        return first_line(error), address
    is_found = address == AUTO
    return "", ray.get_runtime_context().gcs_address if is_found else address


class _Answering:
    """Does what it is asked; each method is one thing that may be asked for."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._placed: dict[str, Any] = {}
        self._actors: dict[str, Any] = {}  # an actor ends that nobody has a handle of

    def answer_all(self) -> None:
        """Answers until there is nobody."""
        while (asked := self._pipe.recv()) is not None:
            number, what, given = asked
            work = partial(getattr(self, what), *given)
            threading.Thread(target=self._answer, args=(number, work)).start()

    def _answer(self, number: int, work: Callable[[], Any]) -> None:
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            self._tell(number, *_told(error))
        else:
            self._tell(number, None, value)

    def _tell(self, number: int, kind: str | None, value: Any) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._pipe.send((number, kind, value))

    def call(self, name: str, method: str, given: bytes) -> Any:
        """Calls what an actor keeps; returns its answer when it comes."""
        import ray

        return ray.get(self._actor(name).call.remote(method, given))

    def _actor(self, name: str) -> Any:
        import ray

        if (found := self._actors.get(name)) is not None:
            return found
        try:
            return ray.get_actor(name, namespace=NAMESPACE)
        except ValueError as error:
            message = f"there is no actor {name!r} any more"
            raise ActorGoneError(message) from error

    def make(self, name: str, options: Mapping[str, Any], given: tuple[Any, ...]) -> None:
        """Makes an actor; see `Greeter`.

        Raises:
            ValueError: there is one of the name.
        """
        import ray

        from modelflow.ray import greeter

        ray.cloudpickle.register_pickle_by_value(greeter)
        made = ray.remote(greeter.Greeter).options(name=name, namespace=NAMESPACE, **options)
        self._actors[name] = made.remote(*given)
        self._placed[name] = self._actors[name].__ray_ready__.remote()

    def is_placed(self, name: str) -> bool:
        """Tells whether an actor that was made here has a machine."""
        import ray

        return name not in self._placed or bool(ray.wait([self._placed[name]], timeout=0)[0])

    def end_of(self, name: str, timeout: float) -> str:
        """Returns what Ray knows of an actor's end; "": nothing yet.

        Args:
            name: The actor.
            timeout: Seconds in which Ray may hear of it.
        """
        import ray
        from ray.exceptions import RayActorError, RayError

        try:
            ray.get(self._actor(name).__ray_ready__.remote(), timeout=timeout)
        except RayActorError as error:
            return _why_it_died(error)
        except (RayError, ActorGoneError):  # it hangs, or nobody can be asked
            return ""
        return ""

    def send(self, name: str, path: str, digest: str) -> None:
        """Sends an archive to the machine of an actor, which may have it: see `SentArchives`."""
        if self.call(name, "has", pickle.dumps((digest,))):
            return
        offset, chunk = 0, b"-"
        with Path(path).open("rb") as file:
            while chunk:
                chunk = file.read(_CHUNK)
                self.call(name, "receive", pickle.dumps((digest, offset, chunk)))
                offset += len(chunk)

    def find(self, name: str) -> bool:
        """Tells whether there is an actor of a name, and keeps it."""
        import ray

        try:
            self._actors[name] = ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            return False
        return True

    def kill(self, name: str) -> None:
        """Ends an actor at once."""
        import ray

        with contextlib.suppress(ActorGoneError):
            ray.kill(self._actor(name))
        self._actors.pop(name, None)
        self._placed.pop(name, None)

    def machines(self) -> list[tuple[str, Mapping[str, float], Mapping[str, str]]]:
        """Returns address, resources and labels of the machines that are up."""
        import ray

        return [
            (node["NodeManagerAddress"], node["Resources"], node.get("Labels", {}))
            for node in ray.nodes()
            if node["Alive"]
        ]

    def free(self) -> Mapping[str, float]:
        """Returns what of all machines is not taken."""
        import ray

        found: Mapping[str, float] = ray.available_resources()
        return found

    def names(self) -> list[str]:
        """Returns the names of modelflow's actors, of whoever has made them."""
        from ray.util import list_named_actors

        found = list_named_actors(all_namespaces=True)
        return [one["name"] for one in found if one["namespace"] == NAMESPACE]


def _told(error: Exception) -> tuple[str, str]:
    """Returns an error as it is told: of what kind, and what it says."""
    from ray.exceptions import RayActorError, RaySystemError, RayTaskError

    if isinstance(error, RayTaskError):
        cause = error.cause  # Ray's own has a traceback in its text
        said = first_line(cause) if isinstance(cause, RaySystemError) else str(cause)
        return "failed", said
    if isinstance(error, RayActorError):
        return "gone", f"its actor has ended: {_why_it_died(error)}"
    if isinstance(error, ActorGoneError):
        return "gone", str(error)
    if isinstance(error, ValueError):
        return "missing", first_line(error)
    return "failed", first_line(error)


def _why_it_died(error: Exception) -> str:
    """Returns the reason in an error of Ray's, without what the actor was and what it may mean."""
    _, begin, reason = str(error).partition("The actor is dead because ")
    reason = " ".join(reason.partition("Some common causes")[0].split())
    return reason if begin else first_line(error)


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
        message = f"the cluster at {address!r} cannot be reached: {error.strerror or error}"
        raise ClusterError(message) from error


def first_line(error: BaseException) -> str:
    """Returns the first line of an error of Ray's, which says much more."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
