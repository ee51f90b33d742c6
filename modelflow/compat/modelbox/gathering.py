"""What is there of several outputs of one session, without waiting for one of them alone."""

import threading
from collections import deque
from functools import partial

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream
from modelflow.flow import Flow
from modelflow.stream_io import StreamIO


class Gathering:
    """Waits until one of a session's outputs has something. To be used by one thread at a time.

    Attributes:
        ended: The outputs that will give nothing more.
        stream: The session.
        results: What has come out of each output, and was not taken.
    """

    def __init__(self, flow: Flow, source: str | None = None) -> None:
        """Opens a session of a flow, or takes that of a source; see `Flow.create_stream_io`."""
        self.ended: set[str] = set()
        scheduler = flow.scheduler
        session = scheduler.create_session() if source is None else scheduler.sources[source]
        self.stream = StreamIO(scheduler, session, is_owner=source is None)
        self.results = session.results
        self._changed = threading.Event()
        # The outputs that will call: one call is asked for at a time, however often is waited.
        self._armed: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Tells whether every output has ended."""
        return self.ended.issuperset(self.results)

    def wait(self, timeout: float | None = None) -> None:
        """Waits until an output has a buffer, or ends.

        Raises:
            TimeoutError: ``timeout`` seconds passed.
        """
        if self.is_over:
            return
        self._changed.clear()  # before: whoever has called since is asked again
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
        """Appends the next buffer of an output, waiting for it; or notes that it has ended.

        Raises:
            StreamError: the session was ended, or the flow has failed.
        """
        try:
            into.append(self.stream.recv(port, errors="return"))
        except EndOfStream:
            self.ended.add(port)

    def take_ready(self, port: str, into: list[Buffer] | deque[Buffer]) -> None:
        """Appends all that an output has now; raises as `take`."""
        while port not in self.ended and self.results[port].is_ready:
            self.take(port, into)
