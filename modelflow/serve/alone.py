"""A process that serves by itself, or has all the models: who asks all, asks it."""

from collections.abc import Callable

from modelflow.serve.fleet import Census, Told
from modelflow.serve.models import Models
from modelflow.serve.picture import Picture
from modelflow.serve.reload_request import sources_of_reload
from modelflow.serve.repository import Repository
from modelflow.serve.served_model import ServedModel

__all__ = ["Alone"]


class Alone:
    """A process that serves by itself."""

    def __init__(self, models: Models, repository: Repository) -> None:
        """Takes what is served, and what loads and unloads it."""
        self._models = models
        self._repository = repository

    def census(self, told: Callable[[Census], object]) -> None:
        """Tells what it has counted."""
        own = [model for model in self._models if isinstance(model, ServedModel)]
        told(Census([Picture.of(model) for model in own]))

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
