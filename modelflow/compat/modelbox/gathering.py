"""What is there of several outputs of one session, without waiting for one of them alone."""

import threading
from collections import deque
from functools import partial

from modelflow.buffer import Buffer
from modelflow.errors import EndOfStream
from modelflow.stream_io import StreamIO


class Gathering:
    """Waits until one of a session's outputs has something. To be used by one thread at a time.

    Attributes:
        ended: The outputs that will give nothing more.
    """

    def __init__(self, stream: StreamIO) -> None:
        """Takes the session; it is the caller's to end."""
        self.ended: set[str] = set()
        self._stream = stream
        self._changed = threading.Event()
        # The outputs that will call: one call is asked for at a time, however often is waited.
        self._armed: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Tells whether every output has ended."""
        return self.ended.issuperset(self._stream.outputs)

    def wait(self, timeout: float | None = None) -> None:
        """Waits until an output has a buffer, or ends.

        Raises:
            TimeoutError: ``timeout`` seconds passed.
        """
        if self.is_over:
            return
        self._changed.clear()  # before: whoever has called since is asked again
        for port in self._stream.outputs:
            if port not in self.ended and port not in self._armed:
                self._armed.add(port)
                self._stream.on_ready(port, partial(self._on_ready, port))
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
            into.append(self._stream.recv_buffer(port))
        except EndOfStream:
            self.ended.add(port)

    def take_ready(self, port: str, into: list[Buffer] | deque[Buffer]) -> None:
        """Appends all that an output has now; raises as `take`."""
        while port not in self.ended and self._stream.is_ready(port):
            self.take(port, into)
