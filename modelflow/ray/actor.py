"""The actor of a replica: it runs its parts and answers batches."""

import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from modelflow.archive.unpacked import unpacked
from modelflow.remote.message import Answers, Rows, portable
from modelflow.remote.part import Part, PartFlow

__all__ = ["Origin", "PartActor", "Versions", "take_up"]


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


class PartActor:
    """Runs the parts of one placement; Ray calls its methods from several threads at once."""

    def __init__(self, origin: Origin) -> None:
        """Takes up where modules are found.

        Raises:
            RuntimeError: other versions run here than at the caller.
        """
        take_up(origin)
        self._label = origin.label
        self._parts: dict[str, PartFlow] = {}
        self._lock = threading.Lock()

    def open(self, parts: Sequence[Part], archive: bytes | None = None) -> int:
        """Opens every unit of the parts, once; returns the number of the process.

        Args:
            parts: What is to run.
            archive: The archive that their graph is from, which is unpacked here; None: it is in
                none, and its files lie at the same places as at the caller.

        Raises:
            ModelflowError: a part cannot run here.
            FlowFailed: a unit did not open.
        """
        with self._lock:  # several callers may share it
            if not self._parts:
                if archive is not None:
                    parts = _unpacked(parts, archive)
                self._parts = {part.name: PartFlow.of(part).start() for part in parts}
        return os.getpid()

    def answer(self, rows: Rows, key: str) -> Answers:
        """Has a batch worked on; see `PartFlow.answer`."""
        from ray import cloudpickle

        return portable(self._parts[rows.part].answer(rows, key), cloudpickle.dumps)

    def ahead(self, part: str, key: str) -> int:
        """Returns how many rows are not done of a batch, and of those before it."""
        return self._parts[part].ahead(key)

    def figures(self) -> dict[str, Any]:
        """Returns what runs here, and how many rows each of its nodes has worked on."""
        return {
            "label": self._label,
            "process": os.getpid(),
            "rows": {node: n for part in self._parts.values() for node, n in part.rows().items()},
        }

    def stop(self) -> None:
        """Closes every unit."""
        for part in self._parts.values():
            part.stop()


def _unpacked(parts: Sequence[Part], archive: bytes) -> list[Part]:
    with tempfile.TemporaryDirectory(prefix="modelflow-") as folder:
        path = Path(folder, "graph.mfz")
        path.write_bytes(archive)
        place, manifest = unpacked(path)
    return [part.moved(place, manifest) for part in parts]
