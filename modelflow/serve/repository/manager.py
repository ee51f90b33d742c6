"""The version manager of a model: executes the actions of `reconcile`."""

import asyncio
import logging
from collections.abc import Iterable
from functools import partial

from modelflow.errors import ConfigError, EngineError, FlowFailed, StreamClosed
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.log import LEVELS
from modelflow.serve.activity import ActivityTable, VersionActivity
from modelflow.serve.interfaces import Told
from modelflow.serve.options import ServeOptions
from modelflow.serve.repository.load_version import load_version, unload_version
from modelflow.serve.repository.loader import Loader
from modelflow.serve.repository.models import Models
from modelflow.serve.repository.source import ModelConfig, ModelVersion
from modelflow.serve.repository.states import ON_THE_WAY, Event, Failure, Instance, reconcile
from modelflow.serve.repository.work import ALONE
from modelflow.serve.requests.served_model import ServedModel
from modelflow.serve.traffic.split import Split
from modelflow.wire.problem import Code, Problem, reason_of, sendable
from modelflow.wire.tf_serving.documents import State, VersionStatus

logger = logging.getLogger(__name__)

# A load that never returns keeps its threads and memory forever.
_MOST_HANGING = 3


class VersionManager:
    """The manager of a model's versions. For the server's thread.

    It loads new versions while the old ones answer requests. Then it switches requests to the new
    versions and unloads the old ones.
    """

    def __init__(
        self,
        name: str,
        models: Models,
        loader: Loader,
        loop_queue: LoopQueue,
        options: ServeOptions,
        activity: ActivityTable,
    ) -> None:
        """Stores the model's name, the table of available models, and the loader."""
        self.name = name
        self._models = models
        self._loader = loader
        self._loop_queue = loop_queue
        self._options = options
        self._activity = activity
        self._wanted: dict[int, ModelVersion] = {}
        self._labels: dict[str, Split] = {}
        self._instances: list[Instance] = []  # until their flows have ended
        self._failed: dict[int, Failure] = {}
        self._told: list[Told] = []
        self._reason = ""
        self._blamed: dict[str, str] = {}  # the warnings about labels
        models.expect(name)

    @property
    def is_empty(self) -> bool:
        """Tells whether no version is wanted and none is left."""
        return not (self._wanted or self._instances)

    def want(
        self, config: ModelConfig, versions: Iterable[ModelVersion], *, is_retry: bool = False
    ) -> None:
        """Sets the versions to serve from now on.

        Args:
            config: The configuration of the model.
            versions: The versions.
            is_retry: See `reconcile`.
        """
        self._reason = ""
        self._wanted = {version.number: version for version in versions}
        for one in self._instances:  # a failed change has been taken back
            number = one.version.number
            wanted = self._wanted.get(number)
            if one.state is State.AVAILABLE and wanted and one.version.stamp == wanted.stamp:
                self._failed.pop(number, None)
        labels = config.settings.labels.items()
        self._labels = {label: Split.of(target) for label, target in labels}
        self._reconcile(is_retry=is_retry)

    def want_nothing(self) -> None:
        """Unloads all versions, each after its last request is answered."""
        self._wanted, self._labels = {}, {}
        self._models.dismiss(self.name)
        self._reconcile()

    def blame(self, reason: str) -> None:
        """Records why the wanted versions are unknown. Running versions continue."""
        reason = sendable(reason)
        if reason != self._reason:  # log once, not at every poll
            logger.error("model %r: %s", self.name, reason)
        self._reason = reason
        self._models.settle(self.name, is_complete=False, reason=reason)
        self.tell(ConfigError(reason))

    def condemn(self, number: int, reason: str) -> None:
        """Takes a version out of service that has crashed other processes."""
        version = self._wanted.get(number)
        if version is None:
            return
        for one in self._list(number, *ON_THE_WAY):
            self._drop(one)
        self._note_failure(version, EngineError(reason))
        for one in self._list(number, State.AVAILABLE):
            self._retire(one)
        self._reconcile()

    def when_settled(self, told: Told) -> None:
        """Calls ``told`` when every wanted version has loaded or failed."""
        self._told.append(told)

    def tell(self, error: Exception | None) -> None:
        """Calls all callbacks of `when_settled`.

        Also used when no version will be loaded any more.
        """
        told, self._told = self._told, []
        for one in told:
            one(error)

    # -- actions --------------------------------------------------------------------------------

    def _reconcile(self, *, is_retry: bool = False) -> None:
        find = partial(reconcile, self._wanted, self._instances, self._failed)
        actions = find(is_retry=is_retry)
        while any(actions):
            for instance in actions.drop:
                self._drop(instance)
            for version in actions.load:
                self._load(version, is_retry=is_retry)
            for instance in actions.retire:
                self._retire(instance)
            actions = find()  # A load may have failed at once. `reconcile` does not load it twice.
        if not any(one.state in ON_THE_WAY for one in self._instances):
            self._settle()

    def _load(self, version: ModelVersion, *, is_retry: bool) -> None:
        name, number = self.name, version.number
        if is_retry or number in self._failed:  # its files have changed
            self._activity.acquit(name, number)
        reason = self._activity.condemned.get((name, number)) or self._find_too_many(number)
        if reason:
            self._fail(version, EngineError(reason))
            return
        instance = Instance(version)
        self._instances.append(instance)
        self._note(number, State.START)

        def load() -> tuple[ServedModel, VersionActivity]:
            if version.copy is not None:  # before the time limit of the load begins
                version.copy.fetch(self._loader.check_wanted)
                instance.is_copied = True
            self._loop_queue.post(partial(self._on_begin, instance))
            doing = self._activity.begin(name, number)
            try:
                with doing.loading():
                    model = load_version(
                        name, version, self._loader, self._loop_queue, self._options
                    )
            except BaseException:
                self._activity.end(doing)
                raise
            threads = [
                one for each in model.all_signatures() for one in each.flow.scheduler.list_threads()
            ]
            self._activity.know_threads(doing, threads)
            model.admission.doing = doing
            return model, doing

        def on_loaded(outcome: tuple[ServedModel, VersionActivity] | Exception) -> None:
            self._loop_queue.post(partial(self._on_load, instance, outcome))

        is_suspect = (name, number) in self._activity.suspects
        instance.work = self._loader.run(load, on_loaded, weight=ALONE if is_suspect else 1)

    def _drop(self, instance: Instance) -> None:
        """Drops a load. The version is unloaded if the load still succeeds."""
        if instance.work is not None:
            self._loader.cancel(instance.work)
        instance.step(Event.DROP)
        self._note(instance.version.number, State.END)

    def _retire(self, instance: Instance) -> None:
        assert instance.model is not None  # the version is available
        instance.step(Event.RETIRE)
        self._models.remove(instance.model)
        self._note(instance.version.number, State.UNLOADING)
        # Unload only after the last request that has found the model is answered.
        self._models.call_when_seen(partial(instance.model.retire, partial(self._unload, instance)))

    def _unload(self, instance: Instance) -> None:
        model, doing = instance.model, instance.doing
        assert model is not None
        assert doing is not None

        def on_unloaded(outcome: Exception | None) -> None:
            self._loop_queue.post(partial(self._on_unload, instance, outcome))

        def unload() -> None:
            try:
                with doing.loading():
                    unload_version(model, self._loader)
            finally:
                self._activity.end(doing)

        self._loader.run(unload, on_unloaded)

    # -- events ---------------------------------------------------------------------------------

    def _on_begin(self, instance: Instance) -> None:
        if instance.step(Event.BEGIN):
            self._note(instance.version.number, State.LOADING)
            loop = asyncio.get_running_loop()
            seconds = self._options.load_timeout
            instance.timer = loop.call_later(seconds, self._on_timeout, instance)

    def _on_timeout(self, instance: Instance) -> None:
        """Gives up a load, also a dropped load, which may hang as well."""
        work, number = instance.work, instance.version.number
        assert work is not None  # the load has begun
        is_wanted = instance.state in ON_THE_WAY
        if not is_wanted and not work.thread.is_alive():
            return
        where = self._loader.give_up(work, (self.name, number))
        if not is_wanted:
            told = "model %r, version %d: a load that is no longer wanted is given up: %s"
            logger.warning(told, self.name, number, where)
            return
        self._drop(instance)
        message = (
            f"it was not loaded within {self._options.load_timeout:g} s (--load-timeout), and is "
            f"given up: {where}"
        )
        self._fail(instance.version, EngineError(message))
        self._reconcile()

    def _on_load(
        self, instance: Instance, outcome: tuple[ServedModel, VersionActivity] | Exception
    ) -> None:
        if instance.timer is not None:
            instance.timer.cancel()
        if isinstance(outcome, Exception):
            self._forget(instance)
            if instance.step(Event.FAIL):
                self._fail(instance.version, outcome)
                self._reconcile()
            return
        number = instance.version.number
        model, _ = instance.model, instance.doing = outcome
        before = self._list(number, State.AVAILABLE)
        if not instance.step(Event.LOAD):  # the load was dropped
            self._unload(instance)
            return
        self._failed.pop(number, None)
        self._models.add(model)
        for one in model.all_signatures():
            one.on_closed = partial(self._on_close, instance)
        logger.log(LEVELS["NOTICE"], "model %r, version %d is served", self.name, number)
        for older in before:
            self._retire(older)
        self._reconcile()

    def _forget(self, instance: Instance) -> None:
        self._instances.remove(instance)
        if instance.version.copy is not None and instance.is_copied:
            instance.version.copy.release()

    def _on_close(self, instance: Instance) -> None:
        """Retires a version whose flow has ended by itself. `_on_unload` gets the reason."""
        if instance.state is State.AVAILABLE:
            error = StreamClosed("the flow has ended by itself")
            self._failed[instance.version.number] = Failure(instance.version, error)
            self._retire(instance)

    def _on_unload(self, instance: Instance, outcome: Exception | None) -> None:
        number, text = instance.version.number, "" if outcome is None else reason_of(outcome)
        self._forget(instance)
        if not instance.step(Event.UNLOAD):  # a dropped load, whose end changes no status
            if text:
                told = "model %r, version %d: a dropped load did not end well: %s"
                logger.warning(told, self.name, number, text)
            return
        if text:
            logger.error("model %r, version %d: %s", self.name, number, text)
        logger.info("model %r, version %d is unloaded", self.name, number)
        if not self._list(number, *ON_THE_WAY):
            failure = self._failed.get(number)
            text = text or ("" if failure is None else reason_of(failure.error))
            self._note(number, State.END, text)

    # -- notes ----------------------------------------------------------------------------------

    def _list(self, number: int, *states: State) -> list[Instance]:
        found = self._instances
        return [one for one in found if one.version.number == number and one.state in states]

    def _find_too_many(self, number: int) -> str:
        hanging = self._loader.list_hanging((self.name, number))
        if len(hanging) < _MOST_HANGING:
            return ""
        return (
            f"{len(hanging)} loads of model {self.name!r}, version {number} were given up "
            f"(--load-timeout) and still hang, the last one: {hanging[-1]}. The version is not "
            "loaded again before one of them ends. Mend the model, then restart the server, or "
            f"give the model its own process (--isolate {self.name})"
        )

    def _fail(self, version: ModelVersion, error: Exception) -> None:
        text = reason_of(error)
        logger.error("model %r, version %d does not load: %s", self.name, version.number, text)
        logger.debug("the error in full", exc_info=error)
        self._note_failure(version, error)

    def _note_failure(self, version: ModelVersion, error: Exception) -> None:
        self._failed[version.number] = Failure(version, error)
        self._note(version.number, State.END, reason_of(error))

    def _note(self, number: int, state: State, error: str = "") -> None:
        """Sets the status of a version, unless another instance of the version is available."""
        if not self._list(number, State.AVAILABLE):
            code = str(Code.UNKNOWN) if error else "OK"
            self._models.note(self.name, VersionStatus(number, state, code, error))

    def _settle(self) -> None:
        """Sets labels, records whether all versions are available, and calls the callbacks."""
        self._models.keep_labels(self.name, self._labels)
        for label, split in self._labels.items():
            missing = [
                number
                for number in (*split.shares, *split.shadows)
                if not self._list(number, State.AVAILABLE)
            ]
            text = (
                f"label {label!r} of model {self.name!r}: versions not loaded: "
                f"{', '.join(map(str, missing))}; the others take their share"
            )
            try:
                self._models.move_label(self.name, label, split)
            except Problem as problem:
                text = str(problem)
            if missing and self._blamed.get(label) != text:  # log once, not at every poll
                logger.warning("%s", text)
            self._blamed[label] = text if missing else ""
        is_complete = all(self._list(number, State.AVAILABLE) for number in self._wanted)
        self._models.settle(self.name, is_complete=bool(self._wanted) and is_complete)
        failed = [one.error for number, one in self._failed.items() if number in self._wanted]
        if len(failed) > 1:
            self.tell(FlowFailed(f"versions of {self.name!r} do not load", failed))
        else:
            self.tell(failed[0] if failed else None)
