"""The process of Ray's client, which is connected to a cluster and answers requests.

See `modelflow.remote.ray.client`. The arguments of actor calls are pickled by the caller and read
by the actor. This process only passes them on.
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

_CHUNK = 4 << 20  # bytes of an archive in one message


def main(arguments: list[str]) -> None:
    """Connects to a cluster, and answers requests until the channel ends."""
    (channel,) = channels_of(arguments)
    os.dup2(2, 1)  # standard output is for results of modelflow, and not for messages of Ray
    with contextlib.suppress(EOFError, OSError):
        said, address = _connect(channel.receive())
        # Only the flow's process handles signals, which may be sent to the whole group.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        channel.send((said, address))
        # From now on the replicas report the ends of actors, and Ray's messages are discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        if not said:
            ClientServer(channel).answer_all()
    os._exit(0)  # Ray's shutdown may wait for a lost head; the actors end with this process anyway


def _connect(address: str) -> tuple[str, str]:
    """Connects to a cluster; returns an error message or "", and the address of the cluster."""
    try:
        ray.init(address=address, logging_level="error", namespace=NAMESPACE, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        return _first_line(error), address
    is_found = address == AUTO
    return "", ray.get_runtime_context().gcs_address if is_found else address


class ClientServer:
    """The requests that the client process answers; each public method is a request."""

    def __init__(self, channel: Channel) -> None:
        """Stores the channel of the requests."""
        self._channel = channel
        self._lock = threading.Lock()
        self._placed: dict[str, Any] = {}
        self._actors: dict[str, Any] = {}  # Ray ends an actor without handles

    def answer_all(self) -> None:
        """Answers requests until the channel ends.

        Raises:
            EOFError, OSError: The channel has ended.
        """
        while True:
            number, what, given = self._channel.receive()
            work = partial(getattr(self, what), *given)
            threading.Thread(target=self._answer, args=(number, work)).start()

    def _answer(self, number: int, work: Callable[[], Any]) -> None:
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - sent to the caller
            self._tell(number, *_describe(error))
        else:
            self._tell(number, None, value)

    def _tell(self, number: int, kind: str | None, value: Any) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._channel.send((number, kind, value))

    def call(self, name: str, method: str, given: bytes) -> Any:
        """Calls a method of a real actor, and waits for the answer; see `ActorLoader.call`."""
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
            ValueError: The name is in use.
        """
        ray.cloudpickle.register_pickle_by_value(actor_loader)
        made = ray.remote(actor_loader.ActorLoader).options(
            name=name, namespace=NAMESPACE, **options
        )
        self._actors[name] = made.remote(*given)
        self._placed[name] = self._actors[name].__ray_ready__.remote()

    def process(self) -> int:
        """Returns the process number of this process."""
        return os.getpid()

    def is_placed(self, name: str) -> bool:
        """Returns whether an actor that this process made has a machine."""
        return name not in self._placed or bool(ray.wait([self._placed[name]], timeout=0)[0])

    def end_of(self, name: str, timeout: float) -> str:
        """Returns Ray's reason of an actor's end, or "" if the actor has not ended.

        Args:
            name: The actor.
            timeout: Seconds to wait for Ray to notice the end.
        """
        try:
            ray.get(self._actor(name).__ray_ready__.remote(), timeout=timeout)
        except RayActorError as error:
            return _describe_death(error)
        except (RayError, ActorGoneError):  # the actor hangs, or Ray does not know it
            return ""
        return ""

    def send(self, name: str, path: str, digest: str) -> None:
        """Sends an archive to the machine of an actor, unless present; see `SentArchives`."""
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
        """Returns whether an actor with this name exists, and keeps a handle of the actor."""
        try:
            self._actors[name] = ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            return False
        return True

    def kill(self, name: str) -> None:
        """Kills an actor."""
        with contextlib.suppress(ActorGoneError):
            ray.kill(self._actor(name))
        self._actors.pop(name, None)
        self._placed.pop(name, None)

    def machines(self) -> list[tuple[str, Mapping[str, float], Mapping[str, str]]]:
        """Returns address, resources and labels of the running machines."""
        return [
            (node["NodeManagerAddress"], node["Resources"], node.get("Labels", {}))
            for node in ray.nodes()
            if node["Alive"]
        ]

    def free(self) -> Mapping[str, float]:
        """Returns the free resources of all machines together."""
        found: Mapping[str, float] = ray.available_resources()
        return found

    def names(self) -> list[str]:
        """Returns the names of all actors of modelflow, made by any process."""
        found = list_named_actors(all_namespaces=True)
        return [one["name"] for one in found if one["namespace"] == NAMESPACE]


def _describe(error: Exception) -> tuple[str, str]:
    """Returns the kind and the message of an error for the caller."""
    if isinstance(error, RayTaskError):
        cause = error.cause  # a cause of Ray's own class contains a traceback in its text
        said = _first_line(cause) if isinstance(cause, RaySystemError) else str(cause)
        return "failed", said
    if isinstance(error, RayActorError):
        return "gone", f"its actor has ended: {_describe_death(error)}"
    if isinstance(error, ActorGoneError):
        return "gone", str(error)
    return "missing" if isinstance(error, ValueError) else "failed", _first_line(error)


def _describe_death(error: Exception) -> str:
    """Returns the reason in an error of Ray, without the text around the reason."""
    _, begin, reason = str(error).partition("The actor is dead because ")
    reason = " ".join(reason.partition("Some common causes")[0].split())
    return reason if begin else _first_line(error)


def _first_line(error: BaseException) -> str:
    """Returns the first line of an error of Ray, which has many more."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
