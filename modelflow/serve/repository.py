"""What is served, and what comes and goes: looking for versions, loading and unloading by name."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from modelflow.errors import did_you_mean
from modelflow.http.mailbox import Mailbox
from modelflow.serve.catalogue import Catalogue
from modelflow.serve.finding import Finding, look
from modelflow.serve.limits import ModelLimits
from modelflow.serve.loader import Loader
from modelflow.serve.models import Models
from modelflow.serve.shelf import Shelf, Told
from modelflow.wire.problem import Code, Problem

__all__ = ["Repository"]

logger = logging.getLogger(__name__)

Found = Callable[[Mapping[str, Finding]], None]
"""Is told what there is."""


class Repository:
    """Keeps a shelf for every model that is asked for. For the server's thread.

    It looks at the disk when it begins, when it is asked to, and every so many seconds.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        models: Models,
        loader: Loader,
        limits: ModelLimits,
        poll: float,
    ) -> None:
        """Takes what to serve, and where to put it; `begin` begins.

        Args:
            catalogue: What to serve.
            models: Where it is found.
            loader: What loads it.
            limits: What each model takes.
            poll: Seconds between two looks for new versions; 0: it looks only when asked.
        """
        self._catalogue = catalogue
        self._models = models
        self._loader = loader
        self._mailbox: Mailbox | None = None
        self._limits = limits
        self._poll = poll
        self._timer: asyncio.TimerHandle | None = None
        self._shelves: dict[str, Shelf] = {}
        self._unloaded: set[str] = set()
        self._asking: list[Told] = []
        self._blamed = ""
        self.is_ending = False
        """Nothing is loaded any more: the server is being stopped."""

    def begin(
        self,
        mailbox: Mailbox,
        found: Mapping[str, Finding],
        told: Callable[[Sequence[Exception]], None],
    ) -> None:
        """Loads what was found, and looks for more from then on.

        Args:
            mailbox: How the loader's threads reach the server's.
            found: What `look` has found.
            told: Called when all of it was tried, with what did not load.
        """
        self._mailbox = mailbox
        waiting = set(found)
        failures: list[Exception] = []

        def one(name: str, error: Exception | None) -> None:
            waiting.discard(name)
            if error is not None:
                failures.append(error)
            if not waiting:
                told(failures)

        for name in found:
            self._shelf(name).when_settled(partial(one, name))
        self._settle(found)
        if not found:
            told(failures)
        self._wait_for_poll()

    def refresh(self) -> None:
        """Looks for new versions, and new models, and loads them."""
        self._look(self._refreshed, self._blame)

    def load(self, name: str, told: Told) -> None:
        """Loads a model that was unloaded, has failed, or may have changed.

        Args:
            name: Its name.
            told: Called when its versions were tried.
        """
        if self.is_ending or self._mailbox is None:
            told(_ending() if self.is_ending else Problem("it begins", Code.UNAVAILABLE))
            return
        self._asking.append(told)  # `end` tells those whose look at the disk comes to nothing

        def found(findings: Mapping[str, Finding]) -> None:
            if self._answered(told):
                self._load(name, findings, told)

        def failed(error: Exception) -> None:
            if self._answered(told):
                told(error)

        self._look(found, failed)

    def unload(self, name: str) -> None:
        """Takes a model out; its requests under way are answered.

        Raises:
            Problem: there is no such model.
        """
        if name not in self._shelves:
            message = f"failed to unload {name!r}: there is no such model"
            near = did_you_mean(name, self._shelves)
            raise Problem(message + near, Code.NOT_FOUND)
        self._unloaded.add(name)
        self._shelves[name].want_nothing()

    def end(self) -> None:
        """Looks no more, and tells whoever waits for something to be loaded."""
        self.is_ending = True
        if self._timer is not None:
            self._timer.cancel()
        for told in self._asking:
            told(_ending())
        self._asking.clear()
        for shelf in self._shelves.values():
            shelf.give_up(_ending())

    # -- looking --------------------------------------------------------------------------------

    def _look(self, found: Found, failed: Callable[[Exception], None]) -> None:
        """Looks at the disk on a thread that may wait for it."""
        mailbox = self._mailbox
        assert mailbox is not None  # it has begun

        def done(outcome: dict[str, Finding] | Exception) -> None:
            if isinstance(outcome, Exception):
                mailbox.post(partial(failed, outcome))
            else:
                mailbox.post(partial(found, outcome))

        self._loader.look(partial(look, self._catalogue), done)

    def _wait_for_poll(self) -> None:
        if self._poll and not self.is_ending:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._poll, self._look, self._polled, self._poll_failed)

    def _polled(self, found: Mapping[str, Finding]) -> None:
        self._refreshed(found)
        self._wait_for_poll()

    def _poll_failed(self, error: Exception) -> None:
        self._blame(error)
        self._wait_for_poll()

    def _refreshed(self, found: Mapping[str, Finding]) -> None:
        self._blamed = ""
        if self.is_ending:
            return
        for name in self._shelves.keys() - found.keys():
            shelf = self._shelves[name]
            shelf.want_nothing()
            if shelf.is_empty:
                del self._shelves[name]
                self._models.forget(name)
        self._unloaded &= found.keys()
        self._settle(found)

    def _blame(self, error: Exception) -> None:
        if str(error) != self._blamed:  # a poll comes by here again and again
            logger.error("looking for new versions: %s; what is served goes on", error)
        self._blamed = str(error)

    def _answered(self, told: Told) -> bool:
        """Notes that somebody's look has come back; False: he was told otherwise before."""
        if told not in self._asking:
            return False
        self._asking.remove(told)
        return True

    def _load(self, name: str, findings: Mapping[str, Finding], told: Told) -> None:
        if name not in findings:
            near = did_you_mean(name, findings)
            message = f"there is no such model{near}"
            told(Problem(message, Code.NOT_FOUND))
            return
        self._unloaded.discard(name)
        self._shelf(name).when_settled(told)
        self._settle({name: findings[name]}, is_anew=True)

    def _settle(self, found: Mapping[str, Finding], *, is_anew: bool = False) -> None:
        for name, finding in found.items():
            if name in self._unloaded:
                continue
            shelf = self._shelf(name)
            if finding.reason:
                shelf.blame(finding.reason)
            else:
                shelf.want(finding.source, finding.editions, is_anew=is_anew)

    def _shelf(self, name: str) -> Shelf:
        if name not in self._shelves:
            assert self._mailbox is not None  # it has begun
            self._shelves[name] = Shelf(
                name, self._models, self._loader, self._mailbox, self._limits
            )
        return self._shelves[name]


def _ending() -> Problem:
    return Problem("the server is being stopped", Code.UNAVAILABLE)
