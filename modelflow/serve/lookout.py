"""Who looks at the disk for models and versions: when asked to, and every so many seconds."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

from modelflow.http.mailbox import Mailbox
from modelflow.serve.catalogue import Catalogue
from modelflow.serve.finding import Finding, look
from modelflow.serve.fleet import Told
from modelflow.serve.loader import Loader

__all__ = ["Found", "Lookout"]

logger = logging.getLogger(__name__)

Found = Callable[[Mapping[str, Finding]], None]
"""Is told what there is."""


class Lookout:
    """Looks at the disk, on threads of the loader's that may wait for it. For the server's thread.

    Attributes:
        catalogue: What it looks for.
    """

    def __init__(self, catalogue: Catalogue, loader: Loader, poll: float) -> None:
        """Takes what to look for; `begin` begins.

        Args:
            catalogue: What to look for.
            loader: Whose threads look.
            poll: Seconds between two looks; 0: it looks only when asked.
        """
        self.catalogue = catalogue
        self._loader = loader
        self._poll = poll
        self._mailbox: Mailbox | None = None
        self._found: Found | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asking: list[Told] = []
        self._blamed = ""
        self._is_ended = False

    def begin(self, mailbox: Mailbox, found: Found) -> None:
        """Looks every so many seconds from now on.

        Args:
            mailbox: How the loader's threads reach the server's.
            found: Called with what there is, whenever nobody else has asked.
        """
        self._mailbox = mailbox
        self._found = found
        self._wait_for_poll()

    def refresh(self) -> None:
        """Looks now."""
        self._look(self._tell, self._blame)

    def ask(self, told: Told, found: Found) -> None:
        """Looks for somebody who waits.

        Args:
            told: Called where it comes to nothing, with the reason.
            found: Called with what there is, unless ``told`` was called before.
        """
        self._asking.append(told)

        def come(findings: Mapping[str, Finding]) -> None:
            if self._is_asking(told):
                found(findings)

        def failed(error: Exception) -> None:
            if self._is_asking(told):
                told(error)

        self._look(come, failed)

    def end(self, reason: Exception) -> None:
        """Looks no more, and tells those who wait why."""
        self._is_ended = True
        if self._timer is not None:
            self._timer.cancel()
        asking, self._asking = self._asking, []
        for told in asking:
            told(reason)

    def _is_asking(self, told: Told) -> bool:
        """Notes that somebody's look has come back; False: he was told otherwise before."""
        if told not in self._asking:
            return False
        self._asking.remove(told)
        return True

    def _look(self, found: Found, failed: Callable[[Exception], None]) -> None:
        mailbox = self._mailbox
        assert mailbox is not None  # it has begun

        def done(outcome: dict[str, Finding] | Exception) -> None:
            if isinstance(outcome, Exception):
                mailbox.post(partial(failed, outcome))
            else:
                mailbox.post(partial(found, outcome))

        self._loader.look(partial(look, self.catalogue), done)

    def _wait_for_poll(self) -> None:
        if self._poll and not self._is_ended:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._poll, self._look, self._polled, self._poll_failed)

    def _polled(self, findings: Mapping[str, Finding]) -> None:
        self._tell(findings)
        self._wait_for_poll()

    def _poll_failed(self, error: Exception) -> None:
        self._blame(error)
        self._wait_for_poll()

    def _tell(self, findings: Mapping[str, Finding]) -> None:
        self._blamed = ""
        assert self._found is not None  # it has begun
        self._found(findings)

    def _blame(self, error: Exception) -> None:
        if str(error) != self._blamed:  # a poll comes by here again and again
            logger.error("looking for new versions: %s; what is served goes on", error)
        self._blamed = str(error)
