"""The actor of a replica, which runs the parts and answers batches."""

import os
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from modelflow.archive.received import SentArchives
from modelflow.archive.unpack import unpack
from modelflow.ipc.listener import Listener
from modelflow.remote.part import Part, PartFlow, start_parts, stop_all
from modelflow.remote.replica_process import answer_all


class ActorEndpoint(NamedTuple):
    """The process and the address of an actor, with the key for connections.

    Attributes:
        process: The process number.
        address: Host and port.
        key: The secret that a client must send.
    """

    process: int
    address: tuple[str, int]
    key: bytes


class PartActor:
    """The actor that runs the parts of one placement.

    Ray calls its methods from several threads at once. Batches do not pass through Ray: clients
    connect to the actor's `Listener`.
    """

    def __init__(self, label: str, alone: float | None = None) -> None:
        """Starts the listener; runs no part yet.

        Args:
            label: The nodes of the parts, for messages.
            alone: Seconds without a connection after which the actor ends. None if the caller ends
                the actor.
        """
        import ray
        from ray import cloudpickle

        self._label = label
        self._archives = SentArchives()
        self.has, self.receive = self._archives.has, self._archives.receive
        self._lock = threading.Lock()
        self._parts: dict[str, PartFlow] = {}
        host = ray.util.get_node_ip_address()
        answer = partial(answer_all, parts=self._parts, asking=[])
        self._listener = Listener(host, answer, cloudpickle.dumps)
        self._watching: threading.Thread | None = None
        if alone is not None:  # counted from now, because the maker may never call `open`
            this = ray.get_runtime_context().current_actor
            self._watching = threading.Thread(
                target=self._end_when_alone, args=(alone, this), name="modelflow/actor"
            )
            self._watching.start()

    def open(self, parts: Sequence[Part], digest: str = "") -> ActorEndpoint | None:
        """Opens every unit of the parts, once; returns the address of the listener.

        Args:
            parts: The parts to run.
            digest: The digest of the graph's archive, which was sent to this machine. With "", the
                graph is in no archive, and its files have the same paths as at the caller.

        Returns:
            None if the actor is about to end, because it had no connection.

        Raises:
            ModelflowError: A part cannot run on this machine.
            FlowFailed: A unit did not open.
        """
        with self._listener.hold() as is_kept, self._lock:  # several callers may share the actor
            if not is_kept:
                return None
            if not self._parts:
                if digest:
                    place, manifest = unpack(self._archives.path_of(digest))
                    parts = [part.move(place, manifest) for part in parts]
                self._parts.update(start_parts(parts))
            return ActorEndpoint(os.getpid(), self._listener.address, self._listener.key)

    def _end_when_alone(self, seconds: float, this: Any) -> None:
        import ray

        if self._listener.end_when_alone(seconds):
            stop_all(self._parts)
            ray.kill(this)

    def figures(self) -> dict[str, Any]:
        """Returns a description of the actor, and the number of rows of each node."""
        parts = list(self._parts.values())
        return {
            "label": self._label,
            "machine": self._listener.address[0],
            "process": os.getpid(),
            "rows": {name: node.buffers for part in parts for name, node in part.figures().items()},
        }

    def stop(self) -> None:
        """Closes every unit and every connection."""
        stop_all(self._parts)
        self._listener.stop()
        if self._watching is not None:
            self._watching.join()
