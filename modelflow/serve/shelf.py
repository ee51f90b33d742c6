"""The versions of one model, and what becomes of them."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from modelflow.errors import ConfigError, EngineError, FlowFailed, StreamClosed, described
from modelflow.http.mailbox import Mailbox
from modelflow.log import LEVELS
from modelflow.serve.activity import Activity, Doing
from modelflow.serve.fleet import Told
from modelflow.serve.limits import ModelLimits
from modelflow.serve.loader import Loader, Work
from modelflow.serve.models import Models
from modelflow.serve.opening import load_edition, unload_edition
from modelflow.serve.served_model import ServedModel
from modelflow.serve.source import Edition, Source
from modelflow.serve.turns import ALONE
from modelflow.wire.problem import Code, Problem, sendable
from modelflow.wire.tf_serving.documents import State, VersionStatus

__all__ = ["Shelf", "reason_of"]

logger = logging.getLogger(__name__)

# Each load that does not come back keeps its threads and what it has of memory, for ever.
_MOST_HANGING = 3


@dataclass(frozen=True, slots=True)
class Running:
    """A version that answers, or is about to."""

    edition: Edition
    model: ServedModel
    doing: Doing


class Shelf:
    """Loads versions beside those that answer, lets them take over, and ends the others.

    For the server's thread. What runs goes on until all that is wanted was tried and something of
    it runs: a version that does not load costs nobody the one before it.
    """

    def __init__(
        self,
        name: str,
        models: Models,
        loader: Loader,
        mailbox: Mailbox,
        limits: ModelLimits,
        activity: Activity,
    ) -> None:
        """Takes the model's name, where its versions are found, and what loads them."""
        self._activity = activity
        self.name = name
        self._models = models
        self._loader = loader
        self._mailbox = mailbox
        self._limits = limits
        self._wanted: dict[int, Edition] = {}
        self._labels: dict[str, int] = {}
        self._coming: dict[int, Edition] = {}
        self._works: dict[int, Work] = {}  # what loads them
        self._timers: dict[int, asyncio.TimerHandle] = {}  # when they are given up
        self._running: dict[int, Running] = {}
        self._failed: dict[int, tuple[Edition, Exception]] = {}
        self._ending = 0
        self._told: list[Told] = []
        self._reason = ""
        self._blamed: set[tuple[str, int]] = set()  # labels of versions that are not there
        models.expect(name)

    @property
    def is_empty(self) -> bool:
        """Tells whether nothing is wanted and nothing is left."""
        return not (self._wanted or self._coming or self._running or self._ending)

    def want(self, source: Source, editions: Sequence[Edition], *, is_anew: bool = False) -> None:
        """Takes what is to be served from now on.

        Args:
            source: Where it comes from.
            editions: The versions.
            is_anew: What failed is tried again, and what may have changed unseen is loaded again.
        """
        self._reason = ""
        self._wanted = {edition.number: edition for edition in editions}
        self._labels = dict(source.terms.labels)
        for number in self._coming.keys() - self._wanted.keys():
            self._drop(number)
        for edition in editions:
            if self._is_due(edition, is_anew):
                if is_anew or edition.number in self._failed:  # its files are others now
                    self._activity.acquit(self.name, edition.number)
                self._load(edition)
        self._settle()

    def want_nothing(self) -> None:
        """Ends all versions, each when its last request is answered."""
        self._wanted, self._labels = {}, {}
        for number in [*self._coming]:
            self._drop(number)
        self._models.dismiss(self.name)
        self._settle()

    def blame(self, reason: str) -> None:
        """Notes that nothing could be found out of what is wanted: what runs goes on."""
        reason = sendable(reason)
        if reason != self._reason:  # a poll comes by here again and again
            logger.error("model %r: %s", self.name, reason)
        self._reason = reason
        self._models.settle(self.name, is_complete=False, reason=reason)
        self._tell(ConfigError(reason))

    def condemn(self, number: int, reason: str) -> None:
        """Takes a version out of service that has ended other processes."""
        edition = self._wanted.get(number)
        if edition is None:
            return
        if number in self._coming:
            self._drop(number)
        self._note_failure(edition, EngineError(reason))
        if number in self._running:
            self._retire(number)
        self._settle()

    def when_settled(self, told: Told) -> None:
        """Has somebody told when all that is wanted was tried."""
        self._told.append(told)

    def give_up(self, problem: Problem) -> None:
        """Tells whoever waits: nothing is loaded any more."""
        self._tell(problem)

    # -- loading --------------------------------------------------------------------------------

    def _is_due(self, edition: Edition, is_anew: bool) -> bool:
        number = edition.number
        if number in self._coming:
            return self._coming[number].stamp != edition.stamp
        if number in self._failed:
            return is_anew or self._failed[number][0].stamp != edition.stamp
        if number not in self._running:
            return True
        is_seen = edition.is_whole or not is_anew
        return self._running[number].edition.stamp != edition.stamp or not is_seen

    def _load(self, edition: Edition) -> None:
        number = edition.number
        if number in self._coming:
            self._drop(number)
        reason = self._activity.condemned.get((self.name, number))
        if reason is not None:
            self._fail(edition, EngineError(reason))
            return
        hanging = self._loader.list_hanging((self.name, number))
        if len(hanging) >= _MOST_HANGING:
            self._fail(edition, EngineError(self._too_many(number, hanging)))
            return
        self._coming[number] = edition
        self._note(number, State.START)

        def load() -> Running:
            self._mailbox.post(partial(self._begun, edition))
            doing = self._activity.begin(self.name, number)
            try:
                with doing.loading():
                    model = load_edition(
                        self.name, edition, self._loader, self._mailbox, self._limits
                    )
            except BaseException:
                self._activity.end(doing)
                raise
            threads = [one for each in model.all_signatures() for one in each.flow.list_threads()]
            self._activity.know_threads(doing, threads)
            model.admission.doing = doing
            return Running(edition, model, doing)

        def loaded(outcome: Running | Exception) -> None:
            self._mailbox.post(partial(self._loaded, edition, outcome))

        is_suspect = (self.name, number) in self._activity.suspects
        work = self._loader.run(load, loaded, weight=ALONE if is_suspect else 1)
        if work is not None:
            self._works[edition.number] = work

    def _begun(self, edition: Edition) -> None:
        if self._coming.get(edition.number) is edition:
            self._note(edition.number, State.LOADING)
            seconds, loop = self._limits.load_seconds, asyncio.get_running_loop()
            work = self._works[edition.number]
            self._timers[edition.number] = loop.call_later(seconds, self._give_up, edition, work)

    def _give_up(self, edition: Edition, work: Work) -> None:
        """Waits no longer for a version that is being loaded; what comes of it is ended.

        Also for one that was dropped meanwhile, which may hang as well.
        """
        number = edition.number
        is_wanted = self._coming.get(number) is edition
        if not is_wanted and not work.thread.is_alive():
            return
        where = self._loader.give_up(work, (self.name, number))
        if not is_wanted:
            told = "model %r, version %d: a load that nobody wants any more is given up: %s"
            logger.warning(told, self.name, number, where)
            return
        self._drop(number)
        message = (
            f"it was not loaded within {self._limits.load_seconds:g} s (--load-timeout), and is "
            f"given up: {where}"
        )
        self._fail(edition, EngineError(message))
        self._settle()

    def _drop(self, number: int) -> None:
        """Does without a version that is being loaded: what comes of it is ended."""
        work = self._works.get(number)
        if work is not None:
            self._loader.cancel(work)
        self._forget_load(number)
        self._ending += 1
        self._note(number, State.END)

    def _too_many(self, number: int, hanging: Sequence[str]) -> str:
        return (
            f"{len(hanging)} loads of model {self.name!r}, version {number} were given up "
            f"(--load-timeout) and have not come back, the last one: {hanging[-1]}; it is not "
            "loaded again before one of them does: mend the model, then restart the server, or "
            f"give it a process of its own (--isolate {self.name})"
        )

    def _forget_load(self, number: int) -> "asyncio.TimerHandle | None":
        """Forgets it, and returns what gives it up."""
        del self._coming[number]
        self._works.pop(number, None)
        return self._timers.pop(number, None)

    def _loaded(self, edition: Edition, outcome: Running | Exception) -> None:
        number = edition.number
        if self._coming.get(number) is not edition:  # it was dropped
            if isinstance(outcome, Running):
                self._unload(outcome, is_served=False)
            else:
                self._ending -= 1
            return
        timer = self._forget_load(number)
        if timer is not None:
            timer.cancel()
        if isinstance(outcome, Running):
            self._take_over(outcome)
        else:
            self._fail(edition, outcome)
        self._settle()

    def _fail(self, edition: Edition, error: Exception) -> None:
        text = reason_of(error)
        logger.error("model %r, version %d does not load: %s", self.name, edition.number, text)
        logger.debug("the error in full", exc_info=error)
        self._note_failure(edition, error)

    def _note_failure(self, edition: Edition, error: Exception) -> None:
        self._failed[edition.number] = (edition, error)
        self._note(edition.number, State.END, reason_of(error))

    def _take_over(self, running: Running) -> None:
        number = running.edition.number
        before = self._running.pop(number, None)
        self._failed.pop(number, None)
        self._running[number] = running
        self._models.add(running.model)
        for one in running.model.all_signatures():
            one.on_closed = partial(self._break, running)
        logger.log(LEVELS["NOTICE"], "model %r, version %d is served", self.name, number)
        if before is not None:
            self._end(before)

    def _break(self, running: Running) -> None:
        """Takes out a version whose flow has ended by itself; `_note_unloaded` is told why."""
        number = running.edition.number
        if self._running.get(number) is running:
            self._failed[number] = (running.edition, StreamClosed("the flow has ended by itself"))
            self._retire(number)

    # -- unloading ------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Ends what is not wanted, unless it is all that answers; tells whoever waits."""
        if self._coming:
            return
        there = self._running.keys() & self._wanted.keys()
        if there or not self._wanted:
            for number in self._running.keys() - self._wanted.keys():
                self._retire(number)
        self._set_labels()
        is_complete = 0 < len(self._wanted) == len(there)
        self._models.settle(self.name, is_complete=is_complete)
        failed = [error for n, (_, error) in self._failed.items() if n in self._wanted]
        if len(failed) > 1:
            self._tell(FlowFailed(f"versions of {self.name!r} do not load", failed))
        else:
            self._tell(failed[0] if failed else None)

    def _retire(self, number: int) -> None:
        running = self._running.pop(number)
        self._models.remove(running.model)
        self._note(number, State.UNLOADING)
        self._end(running)

    def _end(self, running: Running) -> None:
        """Unloads what no request finds any more, when the last that has found it is answered."""
        self._ending += 1
        retire = partial(running.model.retire, partial(self._unload, running))
        self._models.when_seen(retire)

    def _unload(self, running: Running, *, is_served: bool = True) -> None:
        number = running.edition.number

        def unloaded(outcome: Exception | None) -> None:
            self._mailbox.post(partial(self._note_unloaded, number, outcome, is_served=is_served))

        def unload() -> None:
            try:
                with running.doing.loading():
                    unload_edition(running.model, self._loader)
            finally:
                self._activity.end(running.doing)

        self._loader.run(unload, unloaded)

    def _note_unloaded(self, number: int, outcome: Exception | None, *, is_served: bool) -> None:
        text = "" if outcome is None else reason_of(outcome)
        self._ending -= 1
        if not is_served:  # another load of the version may be what serves, or what has failed
            if text:
                told = "model %r, version %d: what nobody wanted any more did not end well: %s"
                logger.warning(told, self.name, number, text)
            return
        if text:
            logger.error("model %r, version %d: %s", self.name, number, text)
        logger.info("model %r, version %d is unloaded", self.name, number)
        if number not in self._coming:
            _, failure = self._failed.get(number, (None, None))
            self._note(number, State.END, text or ("" if failure is None else reason_of(failure)))

    # -- telling --------------------------------------------------------------------------------

    def _set_labels(self) -> None:
        self._models.keep_labels(self.name, self._labels)
        for label, number in self._labels.items():
            try:
                self._models.move_label(self.name, label, number)
            except Problem as problem:
                if (label, number) not in self._blamed:  # a poll comes by here again and again
                    logger.warning("%s", problem)
                self._blamed.add((label, number))

    def _note(self, number: int, state: State, error: str = "") -> None:
        """Says how a version fares; while it answers, what becomes of another of it is not it."""
        if number not in self._running:
            code = str(Code.UNKNOWN) if error else "OK"
            self._models.note(self.name, VersionStatus(number, state, code, error))

    def _tell(self, error: Exception | None) -> None:
        told, self._told = self._told, []
        for one in told:
            one(error)


def reason_of(error: Exception) -> str:
    """Returns what an exception says, with those that it is a group of."""
    if isinstance(error, ExceptionGroup):
        return "; ".join(map(reason_of, error.exceptions))
    return sendable(str(error) or described(error))
