"""What the parts of a server know of each other: who counts, who has models, who brings
connections.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.metrics.snapshot import ModelSnapshot

if TYPE_CHECKING:
    from modelflow.serve.repository.models import Models


Told = Callable[[Exception | None], None]
"""Is told when everything that is wanted was tried; what went wrong, or None."""


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """What all processes have counted.

    Attributes:
        snapshots: One for every version of a model, over all.
        up: How many processes have told; None: there is only this one.
        count: How many there are meant to be.
        deaths: How many processes have ended and were replaced, by what they are called.
    """

    snapshots: Sequence[ModelSnapshot]
    up: int | None = None
    count: int = 1
    deaths: Mapping[str, int] = field(default_factory=dict)


class ReplicaGroup(Protocol):
    """All processes that serve together. Callbacks run on the server's thread, now or later."""

    def counts(self, told: Callable[[GroupCounts], object]) -> None:
        """Has somebody told what all have counted."""

    def load(self, name: str, told: Told) -> None:
        """Loads a model everywhere; see `Repository.load`.

        Raises:
            Problem: clients may not.
        """

    def unload(self, name: str, told: Told) -> None:
        """Unloads a model everywhere; see `Repository.unload`.

        Raises:
            Problem: clients may not, or there is no such model.
        """

    def configure(self, config: bytes, told: Told) -> None:
        """Serves everywhere what a ``ReloadConfigRequest`` says; see `Repository.configure`.

        Raises:
            Problem: clients may not, or it is not right.
        """


class ModelSource(Protocol):
    """What there is to serve. For the server's thread, but where it says otherwise."""

    @property
    def models(self) -> "Models":
        """What requests see."""

    @property
    def replica_group(self) -> "ReplicaGroup":
        """What changes it."""

    @property
    def is_open(self) -> bool:
        """Clients may load and unload models."""

    def unready(self) -> str:
        """Returns why the server is not ready; ``""``: it is. From any thread."""

    def look(self) -> Sequence[str]:
        """Returns the names of what there is; before it begins.

        Raises:
            ConfigError: a path holds nothing to serve.
        """

    def begin(self, loop_queue: LoopQueue, told: Callable[[], object]) -> None:
        """Begins; on the thread that made it.

        Args:
            loop_queue: What reaches the server's thread.
            told: Called there when everything was tried.
        """

    def check(self) -> None:
        """Looks whether there is anything to serve, or may be; when all was tried.

        Raises:
            FlowFailed, GraphError, EngineError: nothing can be loaded.
        """

    def refresh(self) -> None:
        """Looks for what is new."""

    def condemn(self, name: str, version: int, reason: str) -> None:
        """Takes a version out of service that has ended other processes."""

    def end(self) -> None:
        """Loads nothing more, and tells whoever waits for that."""
