"""What a worker serves: the models of another process, as that says they are."""

from collections.abc import Callable, Sequence
from typing import Any

from modelflow.http.mailbox import Mailbox
from modelflow.serve.fleet import Census, Told
from modelflow.serve.limits import ModelLimits
from modelflow.serve.link.ends import Ends
from modelflow.serve.link.hatch import Hatch
from modelflow.serve.link.link import Link
from modelflow.serve.link.parcel import Value
from modelflow.serve.models import Models
from modelflow.serve.options import ServeOptions
from modelflow.serve.workers.messenger import Messenger
from modelflow.serve.workers.remote_model import RemoteModel

__all__ = ["Mirror", "Nobody"]


class Nobody:
    """What a worker does itself of what concerns all: nothing. A `modelflow.serve.fleet.Fleet`."""

    def census(self, told: Callable[[Census], object]) -> None:
        """Has counted nothing."""
        told(Census([]))

    def load(self, _name: str, told: Told) -> None:
        """Loads nothing."""
        told(None)

    unload = load

    def configure(self, _config: bytes, told: Told) -> None:
        """Serves what it is told to."""
        told(None)


class Mirror:
    """A `modelflow.serve.stock.Stock` of models that run elsewhere. For the server's thread.

    Attributes:
        models: What requests see.
        fleet: Nothing that could be changed here.
        is_open: Clients may load and unload models.
    """

    def __init__(self, options: ServeOptions, hatch: Hatch) -> None:
        """Takes the server's options, and where links are given to it, which becomes its own."""
        self.models = Models()
        self.fleet = Nobody()
        self.is_open = options.is_repository_open
        self._limits = ModelLimits.of(options)
        self._hatch = hatch
        self._messenger = Messenger()
        self._known: dict[int, RemoteModel] = {}
        self._link: Link | None = None
        self._is_there = self._is_ending = False

    def unready(self) -> str:
        """Returns why the server is not ready; ``""``: it is. From any thread."""
        if self._is_ending:
            return "the server is being stopped"
        if not self._is_there:
            return "the process that runs the models has not begun; come again"
        found = self.models.unready().items()
        return "; ".join(f"model {name!r}: {reason}" for name, reason in found)

    def look(self) -> Sequence[str]:
        """Looks nowhere: the other process does."""
        return ()

    def begin(self, mailbox: Mailbox, told: Callable[[], object]) -> None:
        """Takes links from now on; ``told`` is called when the other process has tried all."""
        self._mailbox, self._told = mailbox, told
        mailbox.post(self._begin)

    def _begin(self) -> None:
        self._hatch.open(self._connect)

    def check(self) -> None:
        """The other process would not have begun."""

    def refresh(self) -> None:
        """Looks nowhere: the other process does."""

    def condemn(self, _name: str, _version: int, _reason: str) -> None:
        """Takes nothing out of service: the other process does."""

    def end(self) -> None:
        """Is ready no more. What was asked is still answered."""
        self._is_ending = True

    async def close(self) -> None:
        """Ends the link, when all requests have come to their end."""
        self._hatch.close()
        if self._link is not None:
            await self._link.close()

    # -- the link ---------------------------------------------------------------------------------

    def _connect(self, ends: Ends) -> None:
        if self._link is not None:  # that it has ended is still to be heard
            self._link.abandon()
            self.lost(self._link)
        listener = _Ear(self)
        listener.link = Link(ends, self._mailbox, listener)
        self._link = listener.link
        self._link.begin()

    def hear(self, link: Link, message: list[Any], read: Callable[[Value], Any]) -> None:
        """Takes what the other process says."""
        if link is not self._link:
            return
        if message[0] != "models":
            self._messenger.hear(message, read)
            return
        _, number, document = message
        self._messenger.connect(link)
        self._is_there = True
        self._take(document)
        link.say("seen", number)
        if document["is_settled"]:
            self._told()

    def _take(self, document: Any) -> None:
        known: dict[int, RemoteModel] = {}
        for one in document["models"]:
            key = one["key"]
            model = self._known.get(key)
            known[key] = model or RemoteModel(one, self._limits, self._messenger)
        self._known = known
        self.models.take(document["entries"], known.__getitem__)

    def lost(self, link: Link) -> None:
        """Takes note that the other process has ended; another's link may be there already."""
        if link is not self._link:
            return
        self._link, self._known, self._is_there = None, {}, False
        self.models.lose()
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
