"""The repository of this process: finds versions, and loads and unloads models by name."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from modelflow.errors import ConfigError, FlowFailed, did_you_mean
from modelflow.flow import Flow
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.activity import ActivityTable
from modelflow.serve.interfaces import GroupCounts, Told
from modelflow.serve.metrics.snapshot import ModelSnapshot
from modelflow.serve.options import UNTUNED, ServeOptions, Tuning
from modelflow.serve.repository.config import ServeConfig, as_serve_config, read_reload_request
from modelflow.serve.repository.loader import Loader
from modelflow.serve.repository.manager import VersionManager
from modelflow.serve.repository.models import Models
from modelflow.serve.repository.poller import FoundModel, RepositoryPoller, look
from modelflow.serve.repository.source import ModelConfig
from modelflow.serve.requests.served_model import ServedModel
from modelflow.serve.requests.state.shared_memory import regions_of
from modelflow.wire.problem import Code, Problem, reason_of, refuse


class Repository:
    """The repository with a `VersionManager` for each configured model. For the server's thread.

    It scans the disk at the start, on request, and at intervals (``--poll``). It is a
    `ModelSource`, and also the `ReplicaGroup` of a single process.

    Attributes:
        models: The models that requests find.
        is_open: Clients may load and unload models.
    """

    def __init__(  # noqa: PLR0913 - its configuration, and the changes of clients
        self,
        sources: Mapping[str, str | Path | Flow] | ServeConfig,
        options: ServeOptions,
        loader: Loader,
        unloaded: Collection[str] = frozenset(),
        activity: ActivityTable | None = None,
        tunings: Mapping[str, Tuning] = MappingProxyType({}),
        *,
        may_be_empty: bool = False,
    ) -> None:
        """Stores the configuration, and loads no model yet.

        Args:
            sources: See `modelflow.serve.server.Server`.
            options: The options of the server.
            loader: Loads the models. The server stops it.
            unloaded: The configured models that clients have unloaded.
            activity: The activity records of versions. None if no supervisor reads them.
            tunings: The settings of clients, by model.
            may_be_empty: This process may serve no model, because other processes serve some.

        Raises:
            ConfigError: the configuration names no model.
        """
        config = as_serve_config(sources)
        config.check()
        self.models = Models(regions_of(options))
        self.is_open = options.is_repository_open
        self._may_be_empty = may_be_empty or bool(options.poll) or self.is_open
        self._poller = RepositoryPoller(config, loader, options.poll)
        self._loader = loader
        self._options = options
        self._activity = activity or ActivityTable()
        self._loop_queue: LoopQueue | None = None
        self._managers: dict[str, VersionManager] = {}
        self._unloaded = set(unloaded)
        self._tunings = dict(tunings)
        self._found: Mapping[str, FoundModel] = {}  # by the first scan
        self._failures: Sequence[Exception] = ()  # of the first loads
        self._is_ending = False

    # -- for the server -------------------------------------------------------------------------

    @property
    def replica_group(self) -> "Repository":
        """The repository itself, which loads and unloads models."""
        return self

    def unready(self) -> str:
        """Returns the reason why the server is not ready, or ``""``."""
        if self._is_ending:
            return str(_ending())
        found = self.models.unready().items()
        return "; ".join(f"model {name!r}: {reason}" for name, reason in found)

    def look(self) -> Sequence[str]:
        """Scans the disk, and returns the names of the models.

        Raises:
            ConfigError: a path holds no graph or model.
        """
        self._found = look(self._poller.config)
        for name in self._found.keys() - self._unloaded:
            self.models.expect(name, is_due=True)
        return [*self._found]

    def begin(self, loop_queue: LoopQueue, told: Callable[[], object]) -> None:
        """Starts to load the found models.

        Calls ``told`` when every load has succeeded or failed.
        """
        loop_queue.post(
            partial(self._begin, loop_queue, told)
        )  # posted, because the server may not listen yet

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
        """Checks that a model is loaded, or may be loaded later.

        Raises:
            FlowFailed, GraphError, EngineError: no model can be loaded.
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
        """Scans the disk for new versions and models, and loads them."""
        self._poller.refresh()

    def condemn(self, name: str, version: int, reason: str) -> None:
        """Takes a version out of service that has crashed other processes."""
        self._activity.condemned[name, version] = reason
        if name in self._managers:
            self._managers[name].condemn(version, reason)

    def end(self) -> None:
        """Stops the scans, and notifies all callers that wait for a load."""
        self._is_ending = True
        self.models.shadows.end()
        self._poller.end(_ending())
        for manager in self._managers.values():
            manager.tell(_ending())

    # -- for clients ----------------------------------------------------------------------------

    def counts(self, told: Callable[[GroupCounts], object]) -> None:
        """Passes the counts of the models in this process to ``told``."""
        own = [model for model in self.models if isinstance(model, ServedModel)]
        told(GroupCounts([ModelSnapshot.of(model) for model in own]))

    def load(self, name: str, told: Told, tuning: Tuning = UNTUNED) -> None:
        """Loads a model that was unloaded, has failed, or may have changed.

        Args:
            name: The model's name.
            told: Called with the error, or None, when every version has loaded or failed.
            tuning: Settings until the next load. If a version fails with them, the settings before
                count again.

        Raises:
            Problem: clients may not load models.
        """
        self._check_open()
        told = partial(_tell_of_load, name, told)

        def on_found(found: Mapping[str, FoundModel]) -> None:
            if name not in found:
                message = f"there is no such model{did_you_mean(name, found)}"
                told(Problem(message, Code.NOT_FOUND))
                return
            if tuning and isinstance(found[name].config.origin, Flow):
                told(Problem("config: the model is a flow of a program, which is loaded once"))
                return
            self._unloaded.discard(name)
            before = self._tunings.get(name, UNTUNED)
            self._tunings[name] = tuning
            self._manager(name).when_settled(partial(on_tried, found[name], before))
            self._want({name: found[name]}, is_retry=True)

        def on_tried(model: FoundModel, before: Tuning, error: Exception | None) -> None:
            if error is not None and tuning and self._tunings.get(name) is tuning:
                self._tunings[name] = before
                if not self._is_ending:
                    self._want({name: model})
            told(error)

        try:
            self._check_runs()
        except Problem as problem:
            told(problem)
        else:
            self._poller.ask(told, on_found)

    def unload(self, name: str, told: Told) -> None:
        """Unloads a model. Its requests under way are still answered.

        Raises:
            Problem: the model does not exist, or clients may not unload models.
        """
        self._check_open()
        if name not in self._managers:
            message = f"failed to unload {name!r}: there is no such model"
            raise Problem(message + did_you_mean(name, self._managers), Code.NOT_FOUND)
        self._unloaded.add(name)
        self._tunings.pop(name, None)
        self._managers[name].want_nothing()
        told(None)

    def share(self, change: Mapping[str, Any], told: Told) -> None:
        """Registers or removes shared memory; see `SharedRegions.change`."""
        self.models.regions.change(change)
        told(None)

    def configure(self, config: bytes, told: Told) -> None:
        """Serves the models of a ``ReloadConfigRequest`` in place of the ``models.config``.

        ``told`` is called when every model has loaded or failed. It gets the first error, also that
        of a label that cannot move. A label may name only a loaded version.

        Raises:
            Problem: clients may not load models, a name is taken, or a path holds no model.
                Nothing has changed then.
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
            for name in names:
                self._tunings.pop(name, None)
            if names:
                self._when_all_settled(names, on_tried)
            self._on_found(found)
            if not names:
                told(None)

        self._poller.ask(told, on_found)

    def _move_labels(self, sources: Iterable[ModelConfig]) -> Problem | None:
        """Moves labels to their versions, and returns the error of the first that cannot move."""
        for source in sources:
            for label, target in source.settings.labels.items():
                try:
                    self.models.move_label(source.name, label, target)
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
            refuse("the server starts; try again", Code.UNAVAILABLE)

    # -- wanted versions ------------------------------------------------------------------------

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
                tuning = self._tunings.get(name, UNTUNED)
                versions = [version.tune(tuning) for version in model.versions]
                self._manager(name).want(model.config, versions, is_retry=is_retry)

    def _when_all_settled(
        self, names: Collection[str], told: Callable[[Sequence[Exception]], None]
    ) -> None:
        """Calls ``told`` once with the errors, when all these models have loaded or failed."""
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
            assert self._loop_queue is not None  # `begin` was called
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
