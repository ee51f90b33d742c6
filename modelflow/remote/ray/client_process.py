"""The process of Ray's client: it is connected to a cluster, and does what it is asked.

See `modelflow.remote.ray.client`. What an actor is called with is pickled by who asks and read by
the actor; this process passes it on.
"""

import contextlib
import os
import pickle
import signal
import threading
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RaySystemError, RayTaskError
from ray.util import list_named_actors

from modelflow.ipc.channel import Channel
from modelflow.ipc.process import channels_of
from modelflow.remote.ray import actor_loader
from modelflow.remote.ray.client import AUTO, NAMESPACE, ActorGoneError

_CHUNK = 4 << 20  # bytes of an archive that are sent at once


def main(arguments: list[str]) -> None:
    """Connects to a cluster, and does what it is asked until nobody can ask any more."""
    (channel,) = channels_of(arguments)
    os.dup2(2, 1)  # results of ours may go to the standard output; Ray has nothing to say there
    with contextlib.suppress(EOFError, OSError):
        said, address = _connect(channel.receive())
        # The flow's own process decides what a signal means, which may come to the whole group.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        channel.send((said, address))
        # What Ray says from now on of actors' ends is told by those who have lost them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        if not said:
            ClientServer(channel).answer_all()
    os._exit(0)  # Ray's own end may wait for a head that is gone; what it has of ours ends with it


def _connect(address: str) -> tuple[str, str]:
    """Connects; returns why that cannot be, or "", and where the cluster is."""
    try:
        ray.init(address=address, logging_level="error", namespace=NAMESPACE, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        return _first_line(error), address
    is_found = address == AUTO
    return "", ray.get_runtime_context().gcs_address if is_found else address


class ClientServer:
    """Does what it is asked; each method is one thing that may be asked for."""

    def __init__(self, channel: Channel) -> None:
        """Answers by a channel."""
        self._channel = channel
        self._lock = threading.Lock()
        self._placed: dict[str, Any] = {}
        self._actors: dict[str, Any] = {}  # an actor ends that nobody has a handle of

    def answer_all(self) -> None:
        """Answers until there is nobody.

        Raises:
            EOFError, OSError: there is nobody any more.
        """
        while True:
            number, what, given = self._channel.receive()
            work = partial(getattr(self, what), *given)
            threading.Thread(target=self._answer, args=(number, work)).start()

    def _answer(self, number: int, work: Callable[[], Any]) -> None:
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            self._tell(number, *_describe(error))
        else:
            self._tell(number, None, value)

    def _tell(self, number: int, kind: str | None, value: Any) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._channel.send((number, kind, value))

    def call(self, name: str, method: str, given: bytes) -> Any:
        """Calls what an actor keeps; returns its answer when it comes."""
        return ray.get(self._actor(name).call.remote(method, given))

    def _actor(self, name: str) -> Any:
        if (found := self._actors.get(name)) is not None:
            return found
        try:
            return ray.get_actor(name, namespace=NAMESPACE)
        except ValueError as error:
            raise ActorGoneError(f"there is no actor {name!r} any more") from error

    def make(self, name: str, options: Mapping[str, Any], given: tuple[Any, ...]) -> None:
        """Makes an actor; see `ActorLoader`.

        Raises:
            ValueError: there is one of the name.
        """
        ray.cloudpickle.register_pickle_by_value(actor_loader)
        made = ray.remote(actor_loader.ActorLoader).options(
            name=name, namespace=NAMESPACE, **options
        )
        self._actors[name] = made.remote(*given)
        self._placed[name] = self._actors[name].__ray_ready__.remote()

    def process(self) -> int:
        """Returns the number of this process."""
        return os.getpid()

    def is_placed(self, name: str) -> bool:
        """Tells whether an actor that was made here has a machine."""
        return name not in self._placed or bool(ray.wait([self._placed[name]], timeout=0)[0])

    def end_of(self, name: str, timeout: float) -> str:
        """Returns what Ray knows of an actor's end; "": nothing yet.

        Args:
            name: The actor.
            timeout: Seconds in which Ray may hear of it.
        """
        try:
            ray.get(self._actor(name).__ray_ready__.remote(), timeout=timeout)
        except RayActorError as error:
            return _describe_death(error)
        except (RayError, ActorGoneError):  # it hangs, or nobody can be asked
            return ""
        return ""

    def send(self, name: str, path: str, digest: str) -> None:
        """Sends an archive to the machine of an actor, which may have it: see `SentArchives`."""
        sender = uuid.uuid4().hex
        if self.call(name, "has", pickle.dumps((digest, sender))):
            return
        offset, chunk = 0, b"-"
        with Path(path).open("rb") as file:
            while chunk:
                chunk = file.read(_CHUNK)
                self.call(name, "receive", pickle.dumps((digest, sender, offset, chunk)))
                offset += len(chunk)

    def find(self, name: str) -> bool:
        """Tells whether there is an actor of a name, and keeps it."""
        try:
            self._actors[name] = ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            return False
        return True

    def kill(self, name: str) -> None:
        """Ends an actor at once."""
        with contextlib.suppress(ActorGoneError):
            ray.kill(self._actor(name))
        self._actors.pop(name, None)
        self._placed.pop(name, None)

    def machines(self) -> list[tuple[str, Mapping[str, float], Mapping[str, str]]]:
        """Returns address, resources and labels of the machines that are up."""
        return [
            (node["NodeManagerAddress"], node["Resources"], node.get("Labels", {}))
            for node in ray.nodes()
            if node["Alive"]
        ]

    def free(self) -> Mapping[str, float]:
        """Returns what of all machines is not taken."""
        found: Mapping[str, float] = ray.available_resources()
        return found

    def names(self) -> list[str]:
        """Returns the names of modelflow's actors, of whoever has made them."""
        found = list_named_actors(all_namespaces=True)
        return [one["name"] for one in found if one["namespace"] == NAMESPACE]


def _describe(error: Exception) -> tuple[str, str]:
    """Returns an error as it is told: of what kind, and what it says."""
    if isinstance(error, RayTaskError):
        cause = error.cause  # Ray's own has a traceback in its text
        said = _first_line(cause) if isinstance(cause, RaySystemError) else str(cause)
        return "failed", said
    if isinstance(error, RayActorError):
        return "gone", f"its actor has ended: {_describe_death(error)}"
    if isinstance(error, ActorGoneError):
        return "gone", str(error)
    return "missing" if isinstance(error, ValueError) else "failed", _first_line(error)


def _describe_death(error: Exception) -> str:
    """Returns the reason in an error of Ray's, without what the actor was and what it may mean."""
    _, begin, reason = str(error).partition("The actor is dead because ")
    reason = " ".join(reason.partition("Some common causes")[0].split())
    return reason if begin else _first_line(error)


def _first_line(error: BaseException) -> str:
    """Returns the first line of an error of Ray's, which says much more."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
