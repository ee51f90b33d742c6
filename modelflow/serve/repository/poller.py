"""Scans of the disk for models and versions, on request and at intervals."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from modelflow.errors import ModelflowError
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.interfaces import Told
from modelflow.serve.repository.config import ServeConfig
from modelflow.serve.repository.loader import Loader
from modelflow.serve.repository.source import ModelConfig, ModelVersion

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model as found on the disk.

    Attributes:
        config: The configuration of the model.
        versions: The versions to serve.
        reason: The reason for a lack of versions, or ``""``.
    """

    config: ModelConfig
    versions: Sequence[ModelVersion] = ()
    reason: str = ""


OnFound = Callable[[Mapping[str, FoundModel]], None]


def look(config: ServeConfig) -> dict[str, FoundModel]:
    """Returns the models to serve by name. Reads folders, and lists the files at URLs.

    Raises:
        ConfigError: the configuration cannot be read.
    """
    config.sources.look_again()
    return {name: _look_at(model) for name, model in config.read().items()}


def _look_at(model: ModelConfig) -> FoundModel:
    try:
        return FoundModel(model, model.list_versions())
    except (ModelflowError, OSError) as error:
        return FoundModel(model, reason=str(error))


class RepositoryPoller:
    """The poller, which scans the disk on threads of the loader. For the server's thread.

    Attributes:
        config: The configuration of the models.
    """

    def __init__(self, config: ServeConfig, loader: Loader, poll: float) -> None:
        """Stores the configuration. `begin` starts the scans.

        Args:
            config: The configuration of the models.
            loader: Runs the scans on its threads.
            poll: Seconds between two scans. 0 for scans only on request.
        """
        self.config = config
        self._loader = loader
        self._poll = poll
        self._loop_queue: LoopQueue | None = None
        self._on_found: OnFound | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asking: list[Told] = []
        self._last_error = ""

    def begin(self, loop_queue: LoopQueue, on_found: OnFound) -> None:
        """Starts the periodic scans.

        Args:
            loop_queue: Passes calls from other threads to the server's thread.
            on_found: Called with the models after each scan that `ask` has not requested.
        """
        self._loop_queue, self._on_found = loop_queue, on_found
        self._wait_for_poll()

    def refresh(self) -> None:
        """Scans the disk now."""
        self._look(self._on_look)

    def ask(self, told: Told, on_found: OnFound) -> None:
        """Scans the disk now for a waiting caller.

        Args:
            told: Called with the error if the scan fails.
            on_found: Called with the models, unless ``told`` was called before.
        """
        self._asking.append(told)

        def on_look(outcome: Mapping[str, FoundModel] | Exception) -> None:
            if told not in self._asking:
                return
            self._asking.remove(told)
            if isinstance(outcome, Exception):
                told(outcome)
            else:
                on_found(outcome)

        self._look(on_look)

    def end(self, reason: Exception) -> None:
        """Stops the scans, and passes the reason to all waiting callers."""
        self._poll = 0
        if self._timer is not None:
            self._timer.cancel()
        asking, self._asking = self._asking, []
        for told in asking:
            told(reason)

    def _look(self, on_look: Callable[[Mapping[str, FoundModel] | Exception], None]) -> None:
        loop_queue = self._loop_queue
        assert loop_queue is not None  # `begin` was called
        done = partial(look, self.config)
        self._loader.look(done, lambda outcome: loop_queue.post(partial(on_look, outcome)))

    def _wait_for_poll(self) -> None:
        if self._poll:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._poll, self._look, self._on_poll)

    def _on_poll(self, outcome: Mapping[str, FoundModel] | Exception) -> None:
        self._on_look(outcome)
        self._wait_for_poll()

    def _on_look(self, outcome: Mapping[str, FoundModel] | Exception) -> None:
        assert self._on_found is not None  # `begin` was called
        if not isinstance(outcome, Exception):
            self._last_error = ""
            self._on_found(outcome)
            return
        if str(outcome) != self._last_error:  # log once, not at every poll
            logger.error("looking for new versions: %s; the served models continue", outcome)
        self._last_error = str(outcome)
