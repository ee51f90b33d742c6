"""Protocols between the parts of a server: the replica group and the source of models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.metrics.snapshot import ModelSnapshot
from modelflow.serve.options import UNTUNED, Tuning

if TYPE_CHECKING:
    from modelflow.serve.repository.models import Models


Told = Callable[[Exception | None], None]
"""A callback that receives the first error, or None, when every requested change was tried."""


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """The counts of all processes.

    Attributes:
        snapshots: One snapshot for each version of a model, summed over all processes.
        up: The number of processes that have reported, or None if this process is the only one.
        count: The number of processes that should run.
        deaths: The number of processes that have ended and were replaced, by process name.
    """

    snapshots: Sequence[ModelSnapshot]
    up: int | None = None
    count: int = 1
    deaths: Mapping[str, int] = field(default_factory=dict)


class ReplicaGroup(Protocol):
    """All processes behind one port.

    Callbacks run on the server's thread, before or after the method returns.
    """

    def counts(self, told: Callable[[GroupCounts], object]) -> None:
        """Collects the counts of all processes, and passes them to the callback."""

    def load(self, name: str, told: Told, tuning: Tuning = UNTUNED) -> None:
        """Loads a model in all processes; see `Repository.load`.

        Raises:
            Problem: Clients may not load models.
        """

    def unload(self, name: str, told: Told) -> None:
        """Unloads a model in all processes; see `Repository.unload`.

        Raises:
            Problem: Clients may not unload models, or the model does not exist.
        """

    def share(self, change: Mapping[str, Any], told: Told) -> None:
        """Registers or removes shared memory in all processes; see `SharedRegions.change`.

        Raises:
            Problem: Clients may not register memory, or the change is wrong.
        """

    def configure(self, config: bytes, told: Told) -> None:
        """Applies a ``ReloadConfigRequest`` in all processes; see `Repository.configure`.

        Raises:
            Problem: Clients may not change the configuration, or the request is invalid.
        """


class ModelSource(Protocol):
    """The source of the models that a server serves.

    Call the methods on the server's thread, unless a docstring says otherwise.
    """

    @property
    def models(self) -> "Models":
        """The models that requests can reach."""

    @property
    def replica_group(self) -> "ReplicaGroup":
        """The group that loads and unloads models."""

    @property
    def is_open(self) -> bool:
        """Whether clients may load and unload models."""

    def unready(self) -> str:
        """Returns the reason why the server is not ready, or ``""``. From any thread."""

    def look(self) -> Sequence[str]:
        """Returns the names of the models. Call this method before `begin`.

        Raises:
            ConfigError: A path holds no model.
        """

    def begin(self, loop_queue: LoopQueue, told: Callable[[], object]) -> None:
        """Begins to load the models. Call this method on the thread that created the source.

        Args:
            loop_queue: The queue of calls to the server's thread.
            told: Called on the server's thread when every load was tried.
        """

    def check(self) -> None:
        """Checks, after every load was tried, that a model is served or may be served later.

        Raises:
            FlowFailed, GraphError, EngineError: No model can be loaded.
        """

    def refresh(self) -> None:
        """Looks for new models and versions."""

    def condemn(self, name: str, version: int, reason: str) -> None:
        """Takes a version out of service that has killed other processes."""

    def end(self) -> None:
        """Stops loading models, and notifies the callers that wait for a load."""
