"""Runs of a graph from the editor: samples in, buffers kept, figures told; one at a time."""

import base64
import binascii
import json
import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from modelflow.buffer import Buffer
from modelflow.errors import (
    ConfigError,
    FlowFailed,
    GraphError,
    ModelflowError,
    describe_error,
    did_you_mean,
)
from modelflow.flow import Flow
from modelflow.graph.graph import Graph
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.job.inputs import Samples
from modelflow.job.run import Run
from modelflow.profile.snapshot import Snapshot
from modelflow.registry.forget import forget_modules
from modelflow.studio.edit.draft import Draft
from modelflow.studio.edit.passed import EdgeSamples, ImagePreview
from modelflow.studio.moments import event
from modelflow.studio.snapshot_feed import SnapshotFeed, Viewer

MOST_SAMPLES = 1000
"""Most samples of an input."""

Row = Mapping[str, Buffer]


def rows_of(given: Mapping[str, Any], inputs: Sequence[str]) -> list[Row]:
    """Returns the rows that are sent, each with a buffer for every input.

    Args:
        given: For each input a list of samples: ``{"text": ...}``, ``{"json": TEXT}``, or
            ``{"base64": ..., "name": FILE}``, a file's bytes.
        inputs: Those of the graph.

    Raises:
        ConfigError: an input has no sample, or another number of them; a sample is none.
    """
    for name in given:
        if name not in inputs:
            near = did_you_mean(name, inputs)
            raise ConfigError(
                f"the graph has no input {name!r}{near} (inputs: {', '.join(inputs)})"
            )
    columns = {name: _column(name, given.get(name)) for name in inputs}
    counts = {name: len(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise ConfigError(f"the inputs have different numbers of samples ({found})")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _column(name: str, given: Any) -> list[Buffer]:
    if not isinstance(given, list) or not given:
        raise ConfigError(f"input {name!r} has no sample: choose a file, or type a text")
    if len(given) > MOST_SAMPLES:
        raise ConfigError(
            f"input {name!r}: got {len(given)} samples; expected at most {MOST_SAMPLES}"
        )
    return [_buffer(name, sample) for sample in given]


def _buffer(name: str, sample: Any) -> Buffer:
    match sample:
        case {"base64": str(text), "name": str(file)}:
            try:
                return Buffer(base64.b64decode(text, validate=True), {"path": file})
            except binascii.Error as error:
                raise ConfigError(
                    f"input {name!r}: {file} did not arrive whole: {error}"
                ) from error
        case {"text": str(text)}:
            return Buffer(text)
        case {"json": str(text)}:
            try:
                return Buffer(json.loads(text))
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"input {name!r}: {text[:60]!r} is no JSON: {error}") from error
    raise ConfigError(
        f"input {name!r}: got {str(sample)[:60]}; expected text, json, or base64 and name"
    )


_log = logging.getLogger(__name__)

# Seconds between two looks at the flow, while a page watches.
_EVERY = 0.5

State = Literal["opening", "running", "stopping", "done", "stopped", "failed"]


class Trial:
    """One run, from `start` until its data is through or `stop`; on threads of its own.

    Attributes:
        board: Tells pages how it is doing, and when it is over.
        passed: What has passed the edges.
    """

    def __init__(self, graph: Graph, rows: Sequence[Row], *, is_repeated: bool) -> None:
        """Makes one that has not begun.

        Args:
            graph: It is right.
            rows: What is sent; none where the graph has no input.
            is_repeated: They are sent again and again until `stop`.

        Raises:
            PlanError: this machine cannot run the graph.
        """
        self.passed = EdgeSamples()
        self._rows = rows
        self._is_repeated = is_repeated
        self._flow = Flow(graph, tap=self.passed.add)
        self._look = partial(Snapshot.of_flow, self._flow)
        self._look()  # raises what keeps the graph from running
        self._lock = threading.Lock()
        self._state: State = "opening"
        self._problem = ""
        self._began = self._ended = 0.0
        self._job: Run | None = None
        # A daemon: a unit that never returns when it is imported must not keep the program.
        self._thread = threading.Thread(
            target=self._main, name="modelflow-studio/trial", daemon=True
        )

    def start(self) -> None:
        """Begins."""
        self.board = SnapshotFeed(self._look, _EVERY, lambda: event("trial", self.document()))
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Tells whether nothing of it runs any more."""
        return self._state in ("done", "stopped", "failed")

    def document(self) -> dict[str, Any]:
        """Returns how it stands.

        Its ``state``; the ``problem`` that ended it; for how many ``seconds`` it has used the flow;
        whether it is ``repeated``.
        """
        now = self._ended or time.monotonic()
        seconds = now - self._began if self._began else 0.0
        return {
            "state": self._state,
            "problem": self._problem,
            "seconds": seconds,
            "repeated": self._is_repeated,
        }

    def stop(self) -> None:
        """Has it ended at once; what is under way is given up. Harmless where it is over."""
        with self._lock:
            if self._state in ("opening", "running"):
                self._state = "stopping"
            run = self._job
        self._flow.stop(drain=False, wait=False)
        if run is not None:
            run.cancel()

    def join(self, timeout: float | None = None) -> None:
        """Waits until nothing of it is left, at most so many seconds."""
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
        except Exception as error:  # noqa: BLE001 - it is told, to the page and to the log
            _log.exception("a run of the editor failed")
            self._fail(describe_error(error))
        finally:
            self.board.close()

    def _enter(self, state: State) -> bool:
        """Goes on to a state, unless somebody has stopped it."""
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
        run = Run(self._flow, feeds, _drop)
        with self._lock:
            self._job = run
            is_wanted = self._state == "running"
        if not is_wanted:
            run.cancel()
        run.run_threaded()


def _drop(output: str, buffer: Buffer) -> None:
    """Does nothing with a result: what it is has been seen on the way."""


# A flow that is stopped waits 10 s for its units itself.
_LAST_SECONDS = 15.0


class Trials:
    """Begins runs, and knows the last one; `begin` and `forget` one at a time, the rest any time.

    A `begin` that hangs in a unit's import, and was given up, is none of them: it begins nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given_up = 0
        self._before = frozenset(sys.modules)
        self._last: Trial | None = None
        self._count = 0

    def forget(self) -> None:
        """Has the user's units imported anew, as their files are by now, unless they are in use."""
        if self._last is None or self._last.is_over:
            forget_modules(self._before)

    def begin(self, draft: Draft, samples: Mapping[str, Any], *, is_repeated: bool) -> None:
        """Begins a run of a draft.

        Args:
            draft: Its units are not imported yet.
            samples: What goes into its inputs; see `rows_of`.
            is_repeated: Again and again, until it is stopped.

        Raises:
            ModelflowError: a run is under way; the draft is wrong, or cannot run on this machine; a
                sample is none.
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
        """Has a `begin` that is under way begin nothing: whoever asked for it waits no longer."""
        with self._lock:
            self._given_up += 1

    def stop(self) -> None:
        """Has the run end at once; harmless where none is under way."""
        if self._last is not None:
            self._last.stop()

    def close(self) -> None:
        """Has the run end, and waits a little until nothing is left of it; nothing is begun then.

        A run that is left is one in a unit that does not return: nobody can end that.
        """
        self.stop()
        if self._last is not None:
            self._last.join(_LAST_SECONDS)

    def document(self) -> dict[str, Any]:
        """Returns how the last run stands; ``state``: ``none`` where there was none."""
        if self._last is None:
            return {"state": "none", "problem": "", "seconds": 0.0, "repeated": False}
        return self._last.document()

    def describe_passed(self, node: str, output: str) -> dict[str, Any]:
        """Returns what an output gave in the last run; see `EdgeSamples.document`."""
        if self._last is None:
            return {"run": 0, "count": 0, "values": []}
        return {"run": self._count, **self._last.passed.document(node, output)}

    def picture(self, number: int) -> ImagePreview | None:
        """Returns an image that `describe_passed` has named; None: it is too old."""
        return None if self._last is None else self._last.passed.picture(number)

    def viewer(self, loop_queue: LoopQueue) -> Viewer | None:
        """Returns who sends the figures of the run to a page; None: nothing has been run."""
        return None if self._last is None else Viewer(self._last.board, loop_queue)
