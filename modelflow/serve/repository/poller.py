"""Looks at the disk for models and versions: when asked to, and every so many seconds."""

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
    """A model as it is on the disk now.

    Attributes:
        config: Where it comes from.
        versions: Its versions.
        reason: Why there are none; ``""``: there are.
    """

    config: ModelConfig
    versions: Sequence[ModelVersion] = ()
    reason: str = ""


OnFound = Callable[[Mapping[str, FoundModel]], None]


def look(config: ServeConfig) -> dict[str, FoundModel]:
    """Returns what there is to serve, by name; this reads folders.

    Raises:
        ConfigError: the configuration cannot be read.
    """
    return {name: _look_at(model) for name, model in config.read().items()}


def _look_at(model: ModelConfig) -> FoundModel:
    try:
        return FoundModel(model, model.list_versions())
    except (ModelflowError, OSError) as error:
        return FoundModel(model, reason=str(error))


class RepositoryPoller:
    """Looks at the disk, on threads of the loader's that may wait for it. For the server's thread.

    Attributes:
        config: What it looks for.
    """

    def __init__(self, config: ServeConfig, loader: Loader, poll: float) -> None:
        """Takes what to look for; `begin` begins.

        Args:
            config: What to look for.
            loader: Whose threads look.
            poll: Seconds between two looks; 0: it looks only when asked.
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
        """Looks every so many seconds from now on.

        Args:
            loop_queue: How the loader's threads reach the server's.
            on_found: Called with what there is after each look that was not for one caller.
        """
        self._loop_queue, self._on_found = loop_queue, on_found
        self._wait_for_poll()

    def refresh(self) -> None:
        """Looks now."""
        self._look(self._on_look)

    def ask(self, told: Told, on_found: OnFound) -> None:
        """Looks for one caller, who waits.

        Args:
            told: Called where it comes to nothing, with the reason.
            on_found: Called with what there is, unless ``told`` was called before.
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
        """Looks no more, and gives the reason to all that wait."""
        self._poll = 0
        if self._timer is not None:
            self._timer.cancel()
        asking, self._asking = self._asking, []
        for told in asking:
            told(reason)

    def _look(self, on_look: Callable[[Mapping[str, FoundModel] | Exception], None]) -> None:
        loop_queue = self._loop_queue
        assert loop_queue is not None  # it has begun
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
        assert self._on_found is not None  # it has begun
        if not isinstance(outcome, Exception):
            self._last_error = ""
            self._on_found(outcome)
            return
        if str(outcome) != self._last_error:  # a poll comes by here again and again
            logger.error("looking for new versions: %s; what is served goes on", outcome)
        self._last_error = str(outcome)
