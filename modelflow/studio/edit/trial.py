"""A run of a graph from the editor: samples go in, what passes is kept, figures are told."""

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from modelflow.errors import (
    Cancelled,
    EndOfStream,
    FlowFailed,
    FlowUnitError,
    ModelflowError,
    StreamClosed,
    described,
)
from modelflow.flow import Flow
from modelflow.graph.graph import Graph
from modelflow.stream_io import StreamIO
from modelflow.studio.board import Board
from modelflow.studio.edit.passed import Passed
from modelflow.studio.edit.samples import Row
from modelflow.studio.moments import event

__all__ = ["State", "Trial"]

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
        self.passed = Passed()
        self._rows = rows
        self._is_repeated = is_repeated
        self._flow = Flow(graph, tap=self.passed.add)
        self._flow.build()
        self._lock = threading.Lock()
        self._state: State = "opening"
        self._problem = ""
        self._began = self._ended = 0.0
        self._stream: StreamIO | None = None
        # A daemon: a unit that never returns when it is imported must not keep the program.
        self._thread = threading.Thread(
            target=self._main, name="modelflow-studio/trial", daemon=True
        )

    def start(self) -> None:
        """Begins."""
        self.board = Board(self._flow.moment, _EVERY, self._told)
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
            stream = self._stream
        self._flow.request_stop(drain=False)
        if stream is not None:
            stream.cancel()

    def join(self, timeout: float | None = None) -> None:
        """Waits until nothing of it is left, at most so many seconds."""
        self._thread.join(timeout)

    def _told(self) -> bytes:
        return event("trial", self.document())

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
            self._fail(described(error))
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
        flow = self._flow
        sources = list(flow.source_streams.values())
        stream = flow.create_stream_io() if self._rows else None
        with self._lock:
            self._stream = stream
            is_wanted = self._state == "running"
        if not is_wanted and stream is not None:
            stream.cancel()
        streams = [*sources, *([] if stream is None else [stream])]
        places = [(one, output) for one in streams for output in one.outputs]
        with ThreadPoolExecutor(max(1, len(places)), "modelflow-studio/read") as pool:
            readers = [pool.submit(_read, one, output) for one, output in places]
            if stream is not None:
                with contextlib.suppress(Cancelled, StreamClosed):  # it was stopped
                    self._send(stream)
            for reader in readers:
                reader.result()
        for one in streams:
            one.wait()
        if sources:  # and the sessions that they have opened
            flow.wait()

    def _send(self, stream: StreamIO) -> None:
        for row in self._all_rows():
            for name, buffer in row.items():
                stream.send(name, buffer.twin())
        stream.close_input()

    def _all_rows(self) -> Iterable[Row]:
        if not self._is_repeated:
            return self._rows
        endless = itertools.cycle(self._rows)
        return itertools.takewhile(lambda _: self._state == "running", endless)


def _read(stream: StreamIO, output: str) -> None:
    """Takes all results: what they are has been seen on the way."""
    while True:
        try:
            stream.recv(output)
        except FlowUnitError:
            continue
        except (EndOfStream, Cancelled, StreamClosed):
            return
