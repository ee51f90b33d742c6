"""What is served, and what comes and goes: looking for versions, loading and unloading by name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from modelflow.errors import ConfigError, did_you_mean
from modelflow.http.mailbox import Mailbox
from modelflow.serve.activity import Activity
from modelflow.serve.catalogue import Catalogue
from modelflow.serve.finding import Finding
from modelflow.serve.fleet import Told
from modelflow.serve.limits import ModelLimits
from modelflow.serve.loader import Loader
from modelflow.serve.lookout import Lookout
from modelflow.serve.models import Models
from modelflow.serve.shelf import Shelf, reason_of
from modelflow.serve.source import Source
from modelflow.wire.problem import Code, Problem

__all__ = ["Repository"]


class Repository:
    """Keeps a shelf for every model that is asked for. For the server's thread.

    It looks at the disk when it begins, when it is asked to, and every so many seconds.

    Attributes:
        is_open: Clients may load and unload models.
    """

    def __init__(  # noqa: PLR0913 - what a shelf needs, and where to look
        self,
        catalogue: Catalogue,
        models: Models,
        loader: Loader,
        limits: ModelLimits,
        poll: float,
        activity: Activity,
        *,
        is_open: bool = False,
    ) -> None:
        """Takes what to serve, and where to put it; `begin` begins.

        Args:
            catalogue: What to serve.
            models: Where it is found.
            loader: What loads it.
            limits: What each model takes.
            poll: Seconds between two looks for new versions; 0: it looks only when asked.
            activity: Where it is noted what is done for each version.
            is_open: Clients may load and unload models.
        """
        self._lookout = Lookout(catalogue, loader, poll)
        self._models = models
        self._loader = loader
        self._mailbox: Mailbox | None = None
        self._limits = limits
        self._activity = activity
        self.is_open = is_open
        self._shelves: dict[str, Shelf] = {}
        self._unloaded: set[str] = set()
        self.is_ending = False
        """Nothing is loaded any more: the server is being stopped."""

    def begin(
        self,
        mailbox: Mailbox,
        found: Mapping[str, Finding],
        told: Callable[[Sequence[Exception]], None],
        unloaded: Iterable[str] = (),
    ) -> None:
        """Loads what was found, and looks for more from then on.

        Args:
            mailbox: How the loader's threads reach the server's.
            found: What `look` has found.
            told: Called when all of it was tried, with what did not load.
            unloaded: Models that are there, and that clients have unloaded.
        """
        self._mailbox = mailbox
        for name in unloaded:
            self._unloaded.add(name)
            self._shelf(name).want_nothing()
        self._when_all_settled(found, told)
        self._settle(found)
        if not found:
            told(())
        self._lookout.begin(mailbox, self._refreshed)

    def unready(self) -> str:
        """Returns why the server is not ready; ``""``: it is."""
        if self.is_ending:
            return str(_ending())
        found = self._models.unready().items()
        return "; ".join(f"model {name!r}: {reason}" for name, reason in found)

    def refresh(self) -> None:
        """Looks for new versions, and new models, and loads them."""
        self._lookout.refresh()

    def load(self, name: str, told: Told) -> None:
        """Loads a model that was unloaded, has failed, or may have changed.

        Args:
            name: Its name.
            told: Called when its versions were tried, with what is said where they do not load.

        Raises:
            Problem: clients may not.
        """
        self._check_open()
        told = partial(_told_of_load, name, told)
        if self.is_ending or self._mailbox is None:
            told(_ending() if self.is_ending else _beginning())
            return
        self._lookout.ask(told, lambda findings: self._load(name, findings, told))

    def configure(self, sources: Sequence[Source], told: Told) -> None:
        """Serves other models in the place of those of the ``models.config``.

        Args:
            sources: What there is to be instead.
            told: Called when all of it was tried, with what does not load or which label stays
                where it was: it may name only a version that is loaded.

        Raises:
            Problem: clients may not, a model is there already under that name, or nothing is at
                its path. Nothing has changed then.
        """
        self._check_open()
        if self.is_ending or self._mailbox is None:
            raise _ending() if self.is_ending else _beginning()
        self._lookout.catalogue = self._configured(sources)
        names = [source.name for source in sources]

        def tried(failures: Sequence[Exception]) -> None:
            told(_first(failures) or self._label_astray(sources))

        def found(findings: Mapping[str, Finding]) -> None:
            self._unloaded -= set(names)
            self._when_all_settled(names, tried)
            self._refreshed(findings)
            if not names:
                told(None)

        self._lookout.ask(told, found)

    def _configured(self, sources: Sequence[Source]) -> Catalogue:
        catalogue = replace(self._lookout.catalogue, configured=tuple(sources))
        try:
            catalogue.read()
            for source in sources:
                source.check()
        except ConfigError as error:
            raise Problem(str(error)) from error
        return catalogue

    def _when_all_settled(
        self, names: Iterable[str], told: Callable[[Sequence[Exception]], None]
    ) -> None:
        """Has somebody told once when all of these were tried, with what did not load."""
        waiting = set(names)
        failures: list[Exception] = []

        def one(name: str, error: Exception | None) -> None:
            waiting.discard(name)
            if error is not None:
                failures.append(error)
            if not waiting:
                told(failures)

        for name in sorted(waiting):
            self._shelf(name).when_settled(partial(one, name))

    def _label_astray(self, sources: Sequence[Source]) -> Problem | None:
        for source in sources:
            for label, number in source.terms.labels.items():
                try:
                    self._models.move_label(source.name, label, number)
                except Problem as problem:
                    return problem
        return None

    def unload(self, name: str) -> None:
        """Takes a model out; its requests under way are answered.

        Raises:
            Problem: there is no such model, or clients may not.
        """
        self._check_open()
        if name not in self._shelves:
            message = f"failed to unload {name!r}: there is no such model"
            near = did_you_mean(name, self._shelves)
            raise Problem(message + near, Code.NOT_FOUND)
        self._unloaded.add(name)
        self._shelves[name].want_nothing()

    def condemn(self, name: str, version: int, reason: str) -> None:
        """Takes a version out of service that has ended other processes."""
        self._activity.condemned[name, version] = reason
        if name in self._shelves:
            self._shelves[name].condemn(version, reason)

    def _check_open(self) -> None:
        if not self.is_open:
            message = "models may not be loaded or unloaded here; serve with --allow-repository"
            raise Problem(message, Code.PERMISSION_DENIED)

    def end(self) -> None:
        """Looks no more, and tells whoever waits for something to be loaded."""
        self.is_ending = True
        self._lookout.end(_ending())
        for shelf in self._shelves.values():
            shelf.give_up(_ending())

    def _refreshed(self, found: Mapping[str, Finding]) -> None:
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
                name, self._models, self._loader, self._mailbox, self._limits, self._activity
            )
        return self._shelves[name]


def _first(failures: Sequence[Exception]) -> Problem | None:
    if not failures:
        return None
    error = failures[0]
    return error if isinstance(error, Problem) else Problem(reason_of(error))


def _told_of_load(name: str, told: Told, error: Exception | None) -> None:
    if error is not None:
        code = error.code if isinstance(error, Problem) else Code.INVALID_ARGUMENT
        error = Problem(f"failed to load {name!r}: {reason_of(error)}", code)
    told(error)


def _beginning() -> Problem:
    return Problem("the server begins; come again", Code.UNAVAILABLE)


def _ending() -> Problem:
    return Problem("the server is being stopped", Code.UNAVAILABLE)
