"""The place of one process, which is kept filled."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from modelflow.log import LEVELS
from modelflow.serve.replicas.backoff import Backoff
from modelflow.serve.replicas.process import ReplicaProcess, ended_how

__all__ = ["Post"]

logger = logging.getLogger(__name__)


class Post:
    """Starts a process, and another when it ends. For the supervisor's thread.

    Attributes:
        name: Whose place it is, for messages.
        replica: Who is there; None: nobody.
    """

    def __init__(self, name: str, make: Callable[[], ReplicaProcess], backoff: Backoff) -> None:
        """Takes the name, what makes a process that has not started, and when it is replaced."""
        self.name = name
        self.replica: ReplicaProcess | None = None
        self._make = make
        self._backoff = backoff
        self._is_over = asyncio.Event()

    async def keep(
        self,
        start: Callable[[ReplicaProcess], Awaitable[None]],
        lost: Callable[[ReplicaProcess, int | None], bool],
    ) -> None:
        """Keeps it filled until `give_up`.

        Args:
            start: Starts a process, and has told it everything when it returns.
            lost: Told of one that has ended, with its exit code (None: it never began); False: it
                is not replaced.
        """
        loop = asyncio.get_running_loop()
        while not self._is_over.is_set():
            replica, began = self._make(), loop.time()
            try:
                await start(replica)
            except OSError as error:  # of processes, memory or descriptors there are too many
                code: int | None = None
                replica.failure = {"text": f"it cannot be started: {error}", "code": 1}
            else:
                self.replica = replica  # not before: nothing can be said to it
                if self._is_over.is_set():
                    replica.end()
                code = await replica.ended()
                self.replica = None
            if self._is_over.is_set():
                if replica.failure is not None:  # what did not end in order
                    logger.error("%s: %s", self.name, replica.failure["text"])
                return
            if not lost(replica, code):
                return
            pause = self._backoff.after(loop.time() - began)
            self._tell(replica, code, pause)
            await self._wait(pause)

    def give_up(self) -> None:
        """Replaces it no more."""
        self._is_over.set()

    def _tell(self, replica: ReplicaProcess, code: int | None, pause: float) -> None:
        when = f"in {pause:g} s" if pause else "at once"
        failure: Mapping[str, Any] = replica.failure or {}
        reason = f" ({failure['text']})" if failure else ""
        message = "%s %s%s; another takes its place %s"
        how = "has not begun" if code is None else ended_how(code)
        logger.error(message, self.name, how, reason, when)

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._is_over.wait(), seconds)
        except TimeoutError:
            logger.log(LEVELS["NOTICE"], "%s is started again", self.name)
