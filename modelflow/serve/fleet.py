"""All processes that serve together, as each of them asks them; one that is alone asks itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from modelflow.serve.models import Models
from modelflow.serve.picture import Picture
from modelflow.serve.reload_request import sources_of_reload
from modelflow.serve.repository import Repository
from modelflow.serve.shelf import Told

__all__ = ["Alone", "Census", "Fleet"]


@dataclass(frozen=True, slots=True)
class Census:
    """What all processes have counted.

    Attributes:
        pictures: One for every version of a model, over all.
        up: How many processes have told; None: there is only this one.
        count: How many there are meant to be.
    """

    pictures: Sequence[Picture]
    up: int | None = None
    count: int = 1


class Fleet(Protocol):
    """All of them. For the server's thread, on which everybody is told, now or later."""

    def census(self, told: Callable[[Census], object]) -> None:
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


class Alone:
    """A process that serves by itself."""

    def __init__(self, models: Models, repository: Repository) -> None:
        """Takes what is served, and what loads and unloads it."""
        self._models = models
        self._repository = repository

    def census(self, told: Callable[[Census], object]) -> None:
        """Tells what it has counted."""
        told(Census([Picture.of(model) for model in self._models]))

    def load(self, name: str, told: Told) -> None:
        """Loads a model."""
        self._repository.load(name, told)

    def unload(self, name: str, told: Told) -> None:
        """Unloads a model."""
        self._repository.unload(name)
        told(None)

    def configure(self, config: bytes, told: Told) -> None:
        """Serves what a ``ReloadConfigRequest`` says."""
        self._repository.configure(sources_of_reload(config), told)
