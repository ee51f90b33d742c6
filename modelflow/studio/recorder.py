"""Recordings that are begun and ended from a page: a trace to take away, requests to look at."""

import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from typing import IO, Any

from modelflow.errors import ModelflowError
from modelflow.profile.recording import Recording
from modelflow.profile.trace_events import FollowedRequest
from modelflow.studio.moments import event

MOST_SECONDS = 300.0
"""A recording that nobody ends ends by itself."""

# One of so many requests is followed, and so many of the slowest of each second.
_SAMPLE, _SLOWEST = 100, 2
_KEPT = 20
_MOST_PARTS = 60
_MOST_BYTES = 256 << 20

Record = Callable[..., Recording]
"""`Flow.record`."""


class Recorder:
    """The recordings of one flow, one at a time; `start`, `stop` and `trace` on one thread."""

    def __init__(self, record: Record) -> None:
        """Takes what makes a recording; nothing is recorded yet."""
        self._record = record
        # Without a name: nothing of it is left, however the process ends.
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._requests: deque[FollowedRequest] = deque(maxlen=_KEPT)
        self._version = 0
        self._recording: Recording | None = None
        self._problem = ""

    def start(self) -> None:
        """Begins a recording in the place of the last one."""
        if self._recording is not None and self._recording.is_writing:
            return
        self.stop()
        with self._lock:
            self._requests.clear()
            self._version += 1
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        recording = self._record(
            f"/proc/self/fd/{self._file.fileno()}",
            is_packed=True,
            requests=_SAMPLE,
            slowest=_SLOWEST,
            most_seconds=MOST_SECONDS,
            followed=self._add,
        )
        self._problem = ""
        try:
            recording.start()
        except (ModelflowError, RuntimeError) as error:  # somebody else records it
            self._problem = str(error)
        else:
            self._recording = recording

    def stop(self) -> None:
        """Ends the recording; harmless where there is none."""
        if self._recording is not None:
            try:
                self._recording.stop()
            except ModelflowError as error:
                self._problem = str(error)

    def close(self) -> None:
        """Ends the recording, and lets its file go."""
        self.stop()
        if self._file is not None:
            self._file.close()

    def trace(self) -> bytes:
        """Returns the trace, whole; what was being recorded is ended.

        Raises:
            ModelflowError: there is none, or it is larger than a page can take.
        """
        self.stop()
        if self._recording is None or self._file is None:
            raise ModelflowError("nothing has been recorded")
        size = os.fstat(self._file.fileno()).st_size
        if size > _MOST_BYTES:
            raise ModelflowError(
                f"the trace has {size} bytes; expected at most {_MOST_BYTES}: record less"
            )
        return os.pread(self._file.fileno(), size, 0)

    def describe_state(self) -> bytes:
        """Returns how it stands, as an event; from any thread."""
        recording = self._recording
        known = recording is not None
        return event(
            "recording",
            {
                "on": recording is not None and recording.is_writing,
                "has": known,
                "slices": recording.slices if recording is not None else 0,
                "version": self._version,
                "problem": self._problem,
            },
        )

    def requests(self) -> list[dict[str, Any]]:
        """Returns the requests that were followed, the slowest first, as what JSON can hold."""
        with self._lock:
            requests = list(self._requests)
        requests.sort(key=lambda one: one.began - one.ended)
        return [_document(one) for one in requests]

    def _add(self, request: FollowedRequest) -> None:
        with self._lock:
            self._requests.append(request)
            self._version += 1


def _document(request: FollowedRequest) -> dict[str, Any]:
    """Returns a request; times in seconds from its beginning."""
    began = request.began
    parts = sorted(request.parts, key=lambda part: part.start)
    return {
        "session": request.session,
        "seconds": request.ended - began,
        "over": request.is_over,
        "left_out": max(0, len(parts) - _MOST_PARTS),
        "parts": [
            {
                "node": part.node,
                "start": part.start - began,
                "end": part.end - began,
                "rows": part.rows,
                "batch": part.batch_size,
                "error": "" if part.error is None else part.error.message[:200],
            }
            for part in parts[:_MOST_PARTS]
        ],
    }
