"""The models of another process, among those that this one serves."""

from collections.abc import Callable
from typing import Any

from modelflow.http.mailbox import Mailbox
from modelflow.serve.limits import ModelLimits
from modelflow.serve.link.ends import Ends
from modelflow.serve.link.link import Link
from modelflow.serve.link.parcel import Value
from modelflow.serve.repository.models import Models
from modelflow.serve.workers.messenger import Messenger
from modelflow.serve.workers.remote_model import RemoteModel

__all__ = ["Mirror"]


class Mirror:
    """Shows what another process says that it has. For the server's thread.

    Attributes:
        is_there: That process has said what it has.
    """

    def __init__(
        self, models: Models, limits: ModelLimits, peer: int, settled: Callable[[], object]
    ) -> None:
        """Has no link yet; see `connect`.

        Args:
            models: Where the models are shown.
            limits: What each takes.
            peer: Which process it is; what is shown is known by it.
            settled: Called when the process has tried everything that was asked for.
        """
        self._models = models
        self._limits = limits
        self._peer = peer
        self._settled = settled
        self._messenger = Messenger()
        self._known: dict[int, RemoteModel] = {}
        self._link: Link | None = None
        self.is_there = False

    def connect(self, ends: Ends, mailbox: Mailbox) -> None:
        """Takes up a link to the process, or to the one that has taken its place."""
        if self._link is not None:  # that it has ended is still to be heard
            self._link.abandon()
            self.lost(self._link)
        listener = _Ear(self)
        listener.link = Link(ends, mailbox, listener)
        self._link = listener.link
        self._link.begin()

    async def close(self) -> None:
        """Ends the link, when all requests have come to their end."""
        if self._link is not None:
            await self._link.close()

    def hear(self, link: Link, message: list[Any], read: Callable[[Value], Any]) -> None:
        """Takes what the other process says."""
        if link is not self._link:
            return
        if message[0] != "models":
            self._messenger.hear(message, read)
            return
        _, number, document = message
        self._messenger.connect(link)
        self.is_there = True
        self._take(document)
        link.say("seen", number)
        if document["is_settled"]:
            self._settled()

    def _take(self, document: Any) -> None:
        known: dict[int, RemoteModel] = {}
        for one in document["models"]:
            key = one["key"]
            model = self._known.get(key)
            known[key] = model or RemoteModel(one, self._limits, self._messenger)
        self._known = known
        self._models.take(document["entries"], known.__getitem__, self._peer)

    def lost(self, link: Link) -> None:
        """Takes note that the other process has ended; another's link may be there already."""
        if link is not self._link:
            return
        self._link, self._known, self.is_there = None, {}, False
        self._models.lose(self._peer)
        self._messenger.lose()


class _Ear:
    """Hears one link, and says which it was."""

    link: Link

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def hear(self, message: list[Any], read: Callable[[Value], Any]) -> None:
        self._mirror.hear(self.link, message, read)

    def lost(self) -> None:
        self._mirror.lost(self.link)
