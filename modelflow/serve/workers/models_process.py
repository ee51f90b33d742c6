"""The process that has the models, seen from inside: what workers ask of it."""

from collections.abc import Callable
from functools import partial

from modelflow.http.mailbox import Mailbox
from modelflow.serve.fleet import Census, Fleet, Told
from modelflow.serve.link.ends import Ends
from modelflow.serve.replicas.replica import Replica
from modelflow.serve.stock import Stock
from modelflow.serve.workers.counter import Counter
from modelflow.serve.workers.roster import Roster

__all__ = ["ModelsProcess", "Published"]


class Published:
    """Changes what is served, and says so when all workers have seen it. A `Fleet`."""

    def __init__(self, own: Fleet, roster: Roster) -> None:
        """Takes what changes it, and who tells workers."""
        self._own = own
        self._roster = roster

    def census(self, told: Callable[[Census], object]) -> None:
        """Tells what this process has counted."""
        self._own.census(told)

    def load(self, name: str, told: Told) -> None:
        """Loads a model."""
        self._own.load(name, self._seen(told))

    def unload(self, name: str, told: Told) -> None:
        """Unloads a model."""
        self._own.unload(name, self._seen(told))

    def configure(self, config: bytes, told: Told) -> None:
        """Serves what a ``ReloadConfigRequest`` says."""
        self._own.configure(config, self._seen(told))

    def _seen(self, told: Told) -> Told:
        return lambda error: self._roster.when_seen(partial(told, error))


class ModelsProcess(Replica):
    """The place of the process that has all models, and no connections but to workers."""

    _roster: Roster
    _mailbox: Mailbox

    def join(self, own: Stock) -> Fleet:
        """Returns what changes what is served here."""
        self._roster = Roster(own.models)
        self.counters: set[Counter] = set()
        return self._joined(Published(own.fleet, self._roster))

    def begin(self, mailbox: Mailbox) -> None:
        """Begins to be asked, by the supervisor and by workers."""
        self._mailbox = mailbox
        self._roster.begin(mailbox)
        mailbox.post(partial(self.hatch.open, self._welcome))
        super().begin(mailbox)

    async def end(self) -> None:
        """Ends the links to workers."""
        await super().end()
        for counter in tuple(self.counters):
            await counter.close()

    def settled(self) -> None:
        """Has workers told that everything that was asked for was tried."""
        self._mailbox.post(self._roster.settle)

    def _welcome(self, ends: Ends, _: int) -> None:
        self.counters.add(Counter(ends, self._mailbox, self._roster, self.counters.discard))
