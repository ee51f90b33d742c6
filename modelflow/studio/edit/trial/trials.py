"""Runs a graph on samples from the editor, and reports buffers and values to the page."""

import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from modelflow.buffer import Buffer
from modelflow.errors import (
    ConfigError,
    FlowFailed,
    GraphError,
    ModelflowError,
    describe_error,
)
from modelflow.flow import Flow
from modelflow.graph.graph import Graph
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.job.inputs import Samples
from modelflow.job.run import Run
from modelflow.profile.snapshot import Snapshot
from modelflow.registry.forget import forget_modules
from modelflow.studio.edit.draft import Draft
from modelflow.studio.edit.trial.passed import EdgeSamples, ImagePreview
from modelflow.studio.edit.trial.samples import Row, rows_of
from modelflow.studio.moments import event
from modelflow.studio.snapshot_feed import SnapshotFeed, Viewer

_log = logging.getLogger(__name__)

# Seconds between two snapshots of the flow, while a page watches.
_EVERY = 0.5

State = Literal["opening", "running", "stopping", "done", "stopped", "failed"]


class Trial:
    """A run from `start` until all data are processed or `stop`, on its own threads.

    Attributes:
        board: Sends the state of the run to pages, until the run ends.
        passed: The last buffers of all outputs.
    """

    def __init__(self, graph: Graph, rows: Sequence[Row], *, is_repeated: bool) -> None:
        """Prepares a run, which `start` then starts.

        Args:
            graph: A valid graph.
            rows: The rows to send. Empty if the graph has no input.
            is_repeated: Whether to send the rows again and again until `stop`.

        Raises:
            PlanError: This machine cannot run the graph.
        """
        self.passed = EdgeSamples()
        self._rows = rows
        self._is_repeated = is_repeated
        self._flow = Flow(graph, tap=self.passed.add)
        self._look = partial(Snapshot.of_flow, self._flow)
        self._look()  # raises an error if the graph cannot run
        self._lock = threading.Lock()
        self._state: State = "opening"
        self._problem = ""
        self._began = self._ended = 0.0
        self._results = self._failed = 0
        self._job: Run | None = None
        # A daemon, because a unit that never returns from its import must not keep the program
        # running.
        self._thread = threading.Thread(
            target=self._main, name="modelflow-studio/trial", daemon=True
        )

    def start(self) -> None:
        """Starts the run."""
        self.board = SnapshotFeed(self._look, _EVERY, lambda: event("trial", self.document()))
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """True once nothing of the run is active."""
        return self._state in ("done", "stopped", "failed")

    def document(self) -> dict[str, Any]:
        """Returns the state of the run.

        It contains the ``state``, the ``problem`` that ended the run, the ``seconds`` of use of the
        flow, and whether the rows are ``repeated``. ``results`` and ``failed`` are the numbers of
        buffers at the graph's outputs, good ones and errors.
        """
        now = self._ended or time.monotonic()
        seconds = now - self._began if self._began else 0.0
        return {
            "state": self._state,
            "problem": self._problem,
            "seconds": seconds,
            "repeated": self._is_repeated,
            "results": self._results,
            "failed": self._failed,
        }

    def stop(self) -> None:
        """Stops the run at once and drops data under way; harmless after the end."""
        with self._lock:
            if self._state in ("opening", "running"):
                self._state = "stopping"
            run = self._job
        self._flow.stop(drain=False, wait=False)
        if run is not None:
            run.cancel()

    def join(self, timeout: float | None = None) -> None:
        """Waits for the end of the run, at most that many seconds."""
        self._thread.join(timeout)

    def _main(self) -> None:
        try:
            with self._flow:
                if self._enter("running"):
                    self._began = time.monotonic()
                    self._use()
                    self._ended = time.monotonic()
            self._enter("done")
        except (ModelflowError, FlowFailed) as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001 - reported to the page and to the log
            _log.exception("a run of the editor failed")
            self._fail(describe_error(error))
        finally:
            self.board.close()

    def _enter(self, state: State) -> bool:
        """Enters a state, unless the run was stopped."""
        with self._lock:
            if self._state == "stopping":
                self._state = "stopped" if state != "running" else "stopping"
                return False
            self._state = state
            return True

    def _fail(self, problem: str) -> None:
        with self._lock:
            is_wanted = self._state != "stopping"
            self._state = "failed" if is_wanted else "stopped"
            self._problem = problem if is_wanted else ""

    def _use(self) -> None:
        feeds = [
            Samples(port, [row[port] for row in self._rows], is_repeated=self._is_repeated)
            for port in (self._rows[0] if self._rows else ())
        ]
        run = Run(self._flow, feeds, self._count)
        with self._lock:
            self._job = run
            is_wanted = self._state == "running"
        if not is_wanted:
            run.cancel()
        run.run_threaded()

    def _count(self, _output: str, buffer: Buffer) -> None:
        """Counts a result and drops the buffer, which `passed` has already stored."""
        if buffer.error is None:
            self._results += 1
        else:
            self._failed += 1


_NO_RUN: Mapping[str, Any] = MappingProxyType(
    {"state": "none", "problem": "", "seconds": 0.0, "repeated": False, "results": 0, "failed": 0}
)
# A stopped flow itself waits 10 s for its units.
_LAST_SECONDS = 15.0


class Trials:
    """Starts runs, at most one run at a time, and stores the last run.

    Call `begin` and `forget` one at a time, and the other methods at any time. A `begin` that hangs
    in a unit's import and was abandoned starts no run afterwards.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given_up = 0
        self._before = frozenset(sys.modules)
        self._last: Trial | None = None
        self._count = 0

    def forget(self) -> None:
        """Drops the user's units to import them again from their files, unless a run uses them."""
        if self._last is None or self._last.is_over:
            forget_modules(self._before)

    def begin(self, draft: Draft, samples: Mapping[str, Any], *, is_repeated: bool) -> None:
        """Starts a run of a draft.

        Args:
            draft: A draft whose units are not imported yet.
            samples: The samples for its inputs; see `rows_of`.
            is_repeated: Whether to send the samples again and again until `stop`.

        Raises:
            ModelflowError: Another run is under way, the draft is invalid or cannot run on this
                machine, or a sample is malformed.
        """
        given_up = self._given_up
        if self._last is not None and not self._last.is_over:
            raise ModelflowError("a run is under way; stop it first")
        self.forget()
        graph, findings = draft.check
        if graph is None:
            raise GraphError(findings)
        rows = rows_of(samples, graph.inputs) if graph.inputs else []
        if is_repeated and not rows:
            raise ConfigError("the graph has no input into which anything could be sent again")
        trial = Trial(graph, rows, is_repeated=is_repeated)
        if self._last is not None:
            self._last.join()
        with self._lock:
            if self._given_up != given_up:
                raise ModelflowError("the run was given up before it began")
            trial.start()
            self._last = trial
            self._count += 1

    def give_up(self) -> None:
        """Prevents an active `begin` from starting a run, because its client has got an error."""
        with self._lock:
            self._given_up += 1

    def stop(self) -> None:
        """Stops the run at once; harmless if no run is active."""
        if self._last is not None:
            self._last.stop()

    def close(self) -> None:
        """Stops the run and waits a little for its end. Do not start a run afterwards.

        If the run has not ended by then, a unit does not return, and nothing can end that unit.
        """
        self.stop()
        if self._last is not None:
            self._last.join(_LAST_SECONDS)

    def document(self) -> dict[str, Any]:
        """Returns the state of the last run; the ``state`` is ``none`` before the first run."""
        if self._last is None:
            return dict(_NO_RUN)
        return self._last.document()

    def describe_passed(self, node: str, output: str) -> dict[str, Any]:
        """Returns the last buffers of an output in the last run; see `EdgeSamples.document`."""
        if self._last is None:
            return {"run": 0, "count": 0, "values": []}
        return {"run": self._count, **self._last.passed.document(node, output)}

    def picture(self, number: int) -> ImagePreview | None:
        """Returns an image that `describe_passed` has named, or None for an old number."""
        return None if self._last is None else self._last.passed.picture(number)

    def viewer(self, loop_queue: LoopQueue) -> Viewer | None:
        """Returns a sender of the run's state to a page, or None before the first run."""
        return None if self._last is None else Viewer(self._last.board, loop_queue)
