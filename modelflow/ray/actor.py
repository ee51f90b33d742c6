"""The actor of a replica: it runs its parts and answers batches."""

import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from modelflow.archive.unpacked import unpacked
from modelflow.remote.listener import Listener
from modelflow.remote.part import Part, PartFlow, started, stop_all

__all__ = ["Door", "Origin", "PartActor", "Versions", "take_up"]


class Versions(NamedTuple):
    """What must be the same on both sides.

    Attributes:
        python: Major and minor version.
        modelflow: The version.
    """

    python: str
    modelflow: str

    @classmethod
    def here(cls) -> "Versions":
        """Returns those of this process."""
        from modelflow import __version__

        return cls(".".join(map(str, sys.version_info[:2])), __version__)


class Origin(NamedTuple):
    """Where a replica comes from.

    Attributes:
        search_path: Where the caller looks for modules; what is there on the machine is used.
        versions: The caller's.
        label: What it runs, for people.
    """

    search_path: Sequence[str]
    versions: Versions
    label: str

    @classmethod
    def here(cls, label: str) -> "Origin":
        """Returns that of what this process sends."""
        return cls(tuple(map(os.path.abspath, sys.path)), Versions.here(), label)


def take_up(origin: Origin) -> None:
    """Has modules be found in this process as they are at the caller.

    Raises:
        RuntimeError: other versions run here than at the caller.
    """
    here = Versions.here()
    if here != origin.versions:
        message = (
            f"machine {os.uname().nodename} runs Python {here.python} and modelflow "
            f"{here.modelflow}; expected Python {origin.versions.python} and modelflow "
            f"{origin.versions.modelflow}, as the caller has them"
        )
        raise RuntimeError(message)
    sys.path.extend(path for path in origin.search_path if path not in sys.path)


class Door(NamedTuple):
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

    def __init__(self, origin: Origin, alone: float | None = None) -> None:
        """Takes up where modules are found.

        Args:
            origin: Where it comes from.
            alone: Seconds without anybody connected after which it ends itself; None: it is ended.

        Raises:
            RuntimeError: other versions run here than at the caller.
        """
        import ray
        from ray import cloudpickle

        take_up(origin)
        self._label = origin.label
        self._lock = threading.Lock()
        self._parts: dict[str, PartFlow] = {}
        host = ray.util.get_node_ip_address()
        self._listener = Listener(host, self._parts, cloudpickle.dumps)
        self._watching: threading.Thread | None = None
        if alone is not None:  # from now on: its maker may never call
            this = ray.get_runtime_context().current_actor
            self._watching = threading.Thread(
                target=self._end_when_alone, args=(alone, this), name="modelflow/actor"
            )
            self._watching.start()

    def open(self, parts: Sequence[Part], archive: bytes | None = None) -> Door | None:
        """Opens every unit of the parts, once; returns where it listens.

        Args:
            parts: What is to run.
            archive: The archive that their graph is from, which is unpacked here; None: it is in
                none, and its files lie at the same places as at the caller.

        Returns:
            None: nobody used it, and it is about to end.

        Raises:
            ModelflowError: a part cannot run here.
            FlowFailed: a unit did not open.
        """
        with self._listener.kept() as is_kept, self._lock:  # several callers may share it
            if not is_kept:
                return None
            if not self._parts:
                if archive is not None:
                    parts = _unpacked(parts, archive)
                self._parts.update(started(parts))
            return Door(os.getpid(), self._listener.address, self._listener.key)

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
            "process": os.getpid(),
            "rows": {name: node.buffers for part in parts for name, node in part.figures().items()},
        }

    def stop(self) -> None:
        """Closes every unit, and whatever is connected."""
        stop_all(self._parts)
        self._listener.stop()
        if self._watching is not None:
            self._watching.join()


def _unpacked(parts: Sequence[Part], archive: bytes) -> list[Part]:
    with tempfile.TemporaryDirectory(prefix="modelflow-") as folder:
        path = Path(folder, "graph.mfz")
        path.write_bytes(archive)
        place, manifest = unpacked(path)
    return [part.moved(place, manifest) for part in parts]
