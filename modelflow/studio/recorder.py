"""Recordings that a page starts and stops: a trace to download, and requests to look at."""

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
"""The longest recording, in seconds. It then ends by itself."""

# Every 100th request is recorded, and in each second the two slowest.
_SAMPLE, _SLOWEST = 100, 2
_KEPT = 20
_MOST_PARTS = 60
_MOST_BYTES = 256 << 20

Record = Callable[..., Recording]
"""`Flow.record`."""


class Recorder:
    """The recordings of a flow, at most one recording at a time.

    Call `start`, `stop` and `trace` on one thread.
    """

    def __init__(self, record: Record) -> None:
        """Takes the factory of recordings, and records nothing yet."""
        self._record = record
        # A file without a name leaves nothing behind, even if the process crashes.
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._requests: deque[FollowedRequest] = deque(maxlen=_KEPT)
        self._version = 0
        self._recording: Recording | None = None
        self._problem = ""

    def start(self) -> None:
        """Starts a recording, which replaces the last recording."""
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
        except (ModelflowError, RuntimeError) as error:  # the flow is already being recorded
            self._problem = str(error)
        else:
            self._recording = recording

    def stop(self) -> None:
        """Stops the recording; does nothing without a recording."""
        if self._recording is not None:
            try:
                self._recording.stop()
            except ModelflowError as error:
                self._problem = str(error)

    def close(self) -> None:
        """Stops the recording, and closes its file."""
        self.stop()
        if self._file is not None:
            self._file.close()

    def trace(self) -> bytes:
        """Stops a running recording and returns the whole trace.

        Raises:
            ModelflowError: Nothing was recorded, or the trace is too large for a page.
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
        """Returns the state of the recording as an event; safe from any thread."""
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
        """Returns the recorded requests as JSON values, the slowest first."""
        with self._lock:
            requests = list(self._requests)
        requests.sort(key=lambda one: one.began - one.ended)
        return [_document(one) for one in requests]

    def _add(self, request: FollowedRequest) -> None:
        with self._lock:
            self._requests.append(request)
            self._version += 1


def _document(request: FollowedRequest) -> dict[str, Any]:
    """Returns a request as JSON values, with times in seconds from its beginning."""
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
