"""All processes that serve together, as each of them asks them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from modelflow.serve.metrics.snapshot import ModelSnapshot

Told = Callable[[Exception | None], None]
"""Is told when everything that is wanted was tried; what went wrong, or None."""


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """What all processes have counted.

    Attributes:
        pictures: One for every version of a model, over all.
        up: How many processes have told; None: there is only this one.
        count: How many there are meant to be.
        deaths: How many processes have ended and were replaced, by what they are called.
    """

    pictures: Sequence[ModelSnapshot]
    up: int | None = None
    count: int = 1
    deaths: Mapping[str, int] = field(default_factory=dict)


class ReplicaGroup(Protocol):
    """All of them. For the server's thread, on which everybody is told, now or later."""

    def census(self, told: Callable[[GroupCounts], object]) -> None:
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
