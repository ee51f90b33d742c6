"""What this process serves itself: its models, and what loads and unloads them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from modelflow.flow import Flow
from modelflow.http.mailbox import Mailbox
from modelflow.serve.activity import Activity
from modelflow.serve.alone import Alone
from modelflow.serve.catalogue import Catalogue, catalogue_of
from modelflow.serve.finding import Finding, failure_of, look
from modelflow.serve.limits import ModelLimits
from modelflow.serve.loader import Loader
from modelflow.serve.models import Models
from modelflow.serve.options import ServeOptions
from modelflow.serve.repository import Repository

__all__ = ["OwnStock"]


class OwnStock:
    """A `modelflow.serve.stock.Stock` of flows that run here.

    Attributes:
        models: What requests see.
        fleet: What changes it.
    """

    def __init__(
        self,
        sources: Mapping[str, str | Path | Flow] | Catalogue,
        options: ServeOptions,
        loader: Loader,
        unloaded: Collection[str] = frozenset(),
        activity: Activity | None = None,
        *,
        may_be_empty: bool = False,
    ) -> None:
        """Takes what to serve; loads nothing yet.

        Args:
            sources: See `modelflow.serve.server.Server`.
            options: Of the server.
            loader: What loads it; the server's to stop.
            activity: Where it is noted what is done for each version; None: only here.
            unloaded: Models that are there, and that clients have unloaded.

            may_be_empty: Others serve, too: nothing need be served here.

        Raises:
            ConfigError: there is nothing to serve.
        """
        self._may_be_empty = may_be_empty
        catalogue = catalogue_of(sources)
        catalogue.check()
        self._catalogue = catalogue
        self._options = options
        self._loader = loader
        self._unloaded = frozenset(unloaded)
        self._failures: Sequence[Exception] = ()
        self._found: Mapping[str, Finding] = {}
        self.models = Models()
        limits = ModelLimits.of(options)
        self._repository = Repository(
            catalogue,
            self.models,
            loader,
            limits,
            options.poll,
            activity or Activity(),
            is_open=options.is_repository_open,
        )
        self.fleet = Alone(self.models, self._repository)

    @property
    def is_open(self) -> bool:
        """Clients may load and unload models."""
        return self._repository.is_open

    def unready(self) -> str:
        """Returns what was asked for and is not loaded, and why; ``""``: all is."""
        return self._repository.unready()

    def look(self) -> Sequence[str]:
        """Looks on the disk, and returns the names of what there is.

        Raises:
            ConfigError: a path holds nothing to serve.
        """
        self._found = look(self._catalogue)
        for name in self._found.keys() - self._unloaded:
            self.models.expect(name, is_due=True)
        return [*self._found]

    def begin(self, mailbox: Mailbox, told: Callable[[], object]) -> None:
        """Begins to load what was found; ``told`` is called when all of it was tried."""
        gone = [name for name in self._found if name in self._unloaded]
        found = {name: one for name, one in self._found.items() if name not in gone}

        def tried(failures: Sequence[Exception]) -> None:
            self._failures = failures
            told()

        # Behind: nothing is loaded where the server cannot listen.
        mailbox.post(partial(self._repository.begin, mailbox, found, tried, gone))

    def check(self) -> None:
        """Looks whether there is anything to serve, or may be.

        Raises:
            FlowFailed, GraphError, EngineError: nothing can be loaded.
        """
        is_served = any(self.models) or self._may_be_empty
        if not (is_served or self._options.poll or self.is_open):
            raise failure_of(self._failures)

    def refresh(self) -> None:
        """Looks for new versions and models."""
        self._repository.refresh()

    def condemn(self, name: str, version: int, reason: str) -> None:
        """Takes a version out of service that has ended other processes."""
        self._repository.condemn(name, version, reason)

    def end(self) -> None:
        """Loads nothing more, and tells whoever waits for that."""
        self._repository.end()
