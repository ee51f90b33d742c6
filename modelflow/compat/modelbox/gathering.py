"""Collects the results of several outputs of a session, whichever output has some first."""

import threading
from collections import deque
from functools import partial

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream
from modelflow.flow import Flow
from modelflow.stream_io import StreamIO


class Gathering:
    """Waits until any output of a session has results. Use from one thread at a time.

    Attributes:
        ended: The outputs that have ended.
        stream: The session.
        results: The results of each output that were not taken yet.
    """

    def __init__(self, flow: Flow, source: str | None = None) -> None:
        """Opens a session of a flow, or takes the session of a source."""
        self.ended: set[str] = set()
        scheduler = flow.scheduler
        session = scheduler.create_session() if source is None else scheduler.sources[source]
        self.stream = StreamIO(scheduler, session, is_owner=source is None)
        self.results = session.results
        self._changed = threading.Event()
        # Outputs with a pending callback. Each output gets one callback at a time, even for many
        # waits.
        self._armed: set[str] = set()

    @property
    def is_over(self) -> bool:
        """True once every output has ended."""
        return self.ended.issuperset(self.results)

    def wait(self, timeout: float | None = None) -> None:
        """Waits until an output has a buffer, or ends.

        Raises:
            TimeoutError: ``timeout`` seconds have passed.
        """
        if self.is_over:
            return
        # Cleared before the loop. A callback that ran earlier has disarmed its output, and the loop
        # registers it again. No wake-up is lost.
        self._changed.clear()
        for port in self.results:
            if port not in self.ended and port not in self._armed:
                self._armed.add(port)
                self.results[port].on_ready(partial(self._on_ready, port))
        if not self._changed.wait(timeout):
            raise TimeoutError(f"nothing came within {timeout:g} s")

    def _on_ready(self, port: str) -> None:
        self._armed.discard(port)
        self._changed.set()

    def take(self, port: str, into: list[Buffer] | deque[Buffer]) -> None:
        """Appends the next buffer of an output after waiting, or records the output's end.

        Raises:
            StreamError: The session was ended, or the flow has failed.
        """
        try:
            into.append(self.stream.recv(port, errors="return"))
        except EndOfStream:
            self.ended.add(port)

    def take_ready(self, port: str, into: list[Buffer] | deque[Buffer]) -> None:
        """Appends all ready buffers of an output; raises as `take`."""
        while port not in self.ended and self.results[port].is_ready:
            self.take(port, into)
