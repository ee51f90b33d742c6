"""The models of this process: looking for versions, loading and unloading by name."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from modelflow.errors import ConfigError, FlowFailed, did_you_mean
from modelflow.flow import Flow
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.activity import ActivityTable
from modelflow.serve.interfaces import GroupCounts, Told
from modelflow.serve.metrics.snapshot import ModelSnapshot
from modelflow.serve.options import ServeOptions
from modelflow.serve.repository.config import ServeConfig, as_serve_config, read_reload_request
from modelflow.serve.repository.loader import Loader
from modelflow.serve.repository.manager import VersionManager
from modelflow.serve.repository.models import Models
from modelflow.serve.repository.poller import FoundModel, RepositoryPoller, look
from modelflow.serve.repository.source import ModelConfig
from modelflow.serve.requests.served_model import ServedModel
from modelflow.wire.problem import Code, Problem, reason_of, refuse


class Repository:
    """Keeps a `VersionManager` for each model that is asked for. For the server's thread.

    It looks at the disk when it begins, when it is asked to, and every so many seconds. It is a
    `ModelSource`, and the `ReplicaGroup` of a process that is alone.

    Attributes:
        models: What requests see.
        is_open: Clients may load and unload models.
    """

    def __init__(
        self,
        sources: Mapping[str, str | Path | Flow] | ServeConfig,
        options: ServeOptions,
        loader: Loader,
        unloaded: Collection[str] = frozenset(),
        activity: ActivityTable | None = None,
        *,
        may_be_empty: bool = False,
    ) -> None:
        """Takes what to serve; loads nothing yet.

        Args:
            sources: See `modelflow.serve.server.Server`.
            options: Of the server.
            loader: What loads it; the server's to stop.
            unloaded: Models that are there, and that clients have unloaded.
            activity: Where it is noted what is done for each version; None: only here.
            may_be_empty: Others serve, too: nothing need be served here.

        Raises:
            ConfigError: there is nothing to serve.
        """
        config = as_serve_config(sources)
        config.check()
        self.models = Models()
        self.is_open = options.is_repository_open
        self._may_be_empty = may_be_empty or bool(options.poll) or self.is_open
        self._poller = RepositoryPoller(config, loader, options.poll)
        self._loader = loader
        self._options = options
        self._activity = activity or ActivityTable()
        self._loop_queue: LoopQueue | None = None
        self._managers: dict[str, VersionManager] = {}
        self._unloaded = set(unloaded)
        self._found: Mapping[str, FoundModel] = {}  # by the first look
        self._failures: Sequence[Exception] = ()  # of that
        self._is_ending = False

    # -- as the server knows it -----------------------------------------------------------------

    @property
    def replica_group(self) -> "Repository":
        """What loads and unloads models here."""
        return self

    def unready(self) -> str:
        """Returns why the server is not ready; ``""``: it is."""
        if self._is_ending:
            return str(_ending())
        found = self.models.unready().items()
        return "; ".join(f"model {name!r}: {reason}" for name, reason in found)

    def look(self) -> Sequence[str]:
        """Looks at the disk, and returns the names of the models there.

        Raises:
            ConfigError: a path holds nothing to serve.
        """
        self._found = look(self._poller.config)
        for name in self._found.keys() - self._unloaded:
            self.models.expect(name, is_due=True)
        return [*self._found]

    def begin(self, loop_queue: LoopQueue, told: Callable[[], object]) -> None:
        """Begins to load what was found; calls ``told`` when all of it was tried."""
        loop_queue.post(
            partial(self._begin, loop_queue, told)
        )  # behind: the server may not listen yet

    def _begin(self, loop_queue: LoopQueue, told: Callable[[], object]) -> None:
        def on_tried(failures: Sequence[Exception]) -> None:
            self._failures = failures
            told()

        self._loop_queue = loop_queue
        self._unloaded &= self._found.keys()
        for name in self._unloaded:
            self._manager(name).want_nothing()
        self._when_all_settled(self._found.keys() - self._unloaded, on_tried)
        self._want(self._found)
        self._poller.begin(loop_queue, self._on_found)

    def check(self) -> None:
        """Looks whether there is anything to serve, or may be.

        Raises:
            FlowFailed, GraphError, EngineError: nothing can be loaded.
        """
        if self._may_be_empty or any(self.models):
            return
        if not self._failures:
            raise ConfigError(
                "the folder holds no models; put some there, or look again with --poll"
            )
        if len(self._failures) == 1:
            raise self._failures[0]
        raise FlowFailed("no model could be loaded", self._failures)

    def refresh(self) -> None:
        """Looks for new versions and models, and loads them."""
        self._poller.refresh()

    def condemn(self, name: str, version: int, reason: str) -> None:
        """Takes a version out of service that has ended other processes."""
        self._activity.condemned[name, version] = reason
        if name in self._managers:
            self._managers[name].condemn(version, reason)

    def end(self) -> None:
        """Looks no more, and notifies all that wait for a load."""
        self._is_ending = True
        self._poller.end(_ending())
        for manager in self._managers.values():
            manager.tell(_ending())

    # -- as clients know it ---------------------------------------------------------------------

    def counts(self, told: Callable[[GroupCounts], object]) -> None:
        """Gives what the models here have counted."""
        own = [model for model in self.models if isinstance(model, ServedModel)]
        told(GroupCounts([ModelSnapshot.of(model) for model in own]))

    def load(self, name: str, told: Told) -> None:
        """Loads a model that was unloaded, has failed, or may have changed.

        ``told`` is called when its versions were tried, with what is said where they do not load.

        Raises:
            Problem: clients may not.
        """
        self._check_open()
        told = partial(_tell_of_load, name, told)

        def on_found(found: Mapping[str, FoundModel]) -> None:
            if name not in found:
                message = f"there is no such model{did_you_mean(name, found)}"
                told(Problem(message, Code.NOT_FOUND))
                return
            self._unloaded.discard(name)
            self._manager(name).when_settled(told)
            self._want({name: found[name]}, is_retry=True)

        try:
            self._check_runs()
        except Problem as problem:
            told(problem)
        else:
            self._poller.ask(told, on_found)

    def unload(self, name: str, told: Told) -> None:
        """Takes a model out; its requests under way are answered.

        Raises:
            Problem: there is no such model, or clients may not.
        """
        self._check_open()
        if name not in self._managers:
            message = f"failed to unload {name!r}: there is no such model"
            raise Problem(message + did_you_mean(name, self._managers), Code.NOT_FOUND)
        self._unloaded.add(name)
        self._managers[name].want_nothing()
        told(None)

    def configure(self, config: bytes, told: Told) -> None:
        """Serves what a ``ReloadConfigRequest`` says, in the place of the ``models.config``.

        ``told`` is called when all of it was tried, with what does not load or which label stays
        where it was: it may name only a version that is loaded.

        Raises:
            Problem: clients may not, a model is there already under that name, or nothing is at
                its path. Nothing has changed then.
        """
        sources = read_reload_request(config)
        self._check_open()
        self._check_runs()
        new = replace(self._poller.config, configured=tuple(sources))
        try:
            new.read()
            for source in sources:
                source.check()
        except ConfigError as error:
            raise Problem(str(error)) from error
        self._poller.config = new
        names = [source.name for source in sources]

        def on_tried(failures: Sequence[Exception]) -> None:
            if failures:
                first = failures[0]
                told(first if isinstance(first, Problem) else Problem(reason_of(first)))
            else:
                told(self._move_labels(sources))

        def on_found(found: Mapping[str, FoundModel]) -> None:
            self._unloaded.difference_update(names)
            if names:
                self._when_all_settled(names, on_tried)
            self._on_found(found)
            if not names:
                told(None)

        self._poller.ask(told, on_found)

    def _move_labels(self, sources: Iterable[ModelConfig]) -> Problem | None:
        """Returns why a label stays where it was."""
        for source in sources:
            for label, number in source.settings.labels.items():
                try:
                    self.models.move_label(source.name, label, number)
                except Problem as problem:
                    return problem
        return None

    def _check_open(self) -> None:
        if not self.is_open:
            refuse(
                "models may not be loaded or unloaded here; serve with --allow-repository",
                Code.PERMISSION_DENIED,
            )

    def _check_runs(self) -> None:
        if self._is_ending:
            raise _ending()
        if self._loop_queue is None:
            refuse("the server begins; come again", Code.UNAVAILABLE)

    # -- what is wanted -------------------------------------------------------------------------

    def _on_found(self, found: Mapping[str, FoundModel]) -> None:
        if self._is_ending:
            return
        for name in self._managers.keys() - found.keys():
            manager = self._managers[name]
            manager.want_nothing()
            if manager.is_empty:
                del self._managers[name]
                self.models.forget(name)
        self._unloaded &= found.keys()
        self._want(found)

    def _want(self, found: Mapping[str, FoundModel], *, is_retry: bool = False) -> None:
        for name, model in found.items():
            if name in self._unloaded:
                continue
            if model.reason:
                self._manager(name).blame(model.reason)
            else:
                self._manager(name).want(model.config, model.versions, is_retry=is_retry)

    def _when_all_settled(
        self, names: Collection[str], told: Callable[[Sequence[Exception]], None]
    ) -> None:
        """Calls ``told`` once when all of these were tried, with what did not load."""
        waiting = set(names)
        failures: list[Exception] = []

        def one(name: str, error: Exception | None) -> None:
            waiting.discard(name)
            if error is not None:
                failures.append(error)
            if not waiting:
                told(failures)

        for name in sorted(waiting):
            self._manager(name).when_settled(partial(one, name))
        if not waiting:
            told(failures)

    def _manager(self, name: str) -> VersionManager:
        if name not in self._managers:
            assert self._loop_queue is not None  # it has begun
            self._managers[name] = VersionManager(
                name, self.models, self._loader, self._loop_queue, self._options, self._activity
            )
        return self._managers[name]


def _tell_of_load(name: str, told: Told, error: Exception | None) -> None:
    if error is not None:
        code = error.code if isinstance(error, Problem) else Code.INVALID_ARGUMENT
        error = Problem(f"failed to load {name!r}: {reason_of(error)}", code)
    told(error)


def _ending() -> Problem:
    return Problem("the server is being stopped", Code.UNAVAILABLE)
