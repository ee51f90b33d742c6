"""The actor of a replica: it runs its parts and answers batches."""

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
    """Where an actor is reached by those who are to reach it.

    Attributes:
        process: The number of its process.
        address: Host and port.
        key: What they must know.
    """

    process: int
    address: tuple[str, int]
    key: bytes


class PartActor:
    """Runs the parts of one placement; Ray calls its methods from several threads at once.

    Batches do not pass Ray: who uses it connects to its `Listener`.
    """

    def __init__(self, label: str, alone: float | None = None) -> None:
        """Listens, and runs nothing yet.

        Args:
            label: What it is to run, for people.
            alone: Seconds without anybody connected after which it ends itself; None: it is ended.
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
        if alone is not None:  # from now on: its maker may never call
            this = ray.get_runtime_context().current_actor
            self._watching = threading.Thread(
                target=self._end_when_alone, args=(alone, this), name="modelflow/actor"
            )
            self._watching.start()

    def open(self, parts: Sequence[Part], digest: str = "") -> ActorEndpoint | None:
        """Opens every unit of the parts, once; returns where it listens.

        Args:
            parts: What is to run.
            digest: Of the archive that their graph is from, which was sent here; "": it is in
                none, and its files lie at the same places as at the caller.

        Returns:
            None: nobody used it, and it is about to end.

        Raises:
            ModelflowError: a part cannot run here.
            FlowFailed: a unit did not open.
        """
        with self._listener.hold() as is_kept, self._lock:  # several callers may share it
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
        """Returns what runs here, and how many rows each of its nodes has worked on."""
        parts = list(self._parts.values())
        return {
            "label": self._label,
            "machine": self._listener.address[0],
            "process": os.getpid(),
            "rows": {name: node.buffers for part in parts for name, node in part.figures().items()},
        }

    def stop(self) -> None:
        """Closes every unit, and whatever is connected."""
        stop_all(self._parts)
        self._listener.stop()
        if self._watching is not None:
            self._watching.join()
