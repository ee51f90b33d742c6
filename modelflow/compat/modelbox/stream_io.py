"""`FlowStreamIO`: one session, a buffer at a time."""

import weakref
from typing import Any

from modelflow.compat.modelbox.buffer import Buffer, outgoing
from modelflow.compat.modelbox.status import Status, StatusCode, status_of
from modelflow.errors import EndOfStream, StreamError
from modelflow.stream_io import StreamIO

__all__ = ["FlowStreamIO"]


class FlowStreamIO:
    """A session of a running flow; its input is closed when the object is dropped."""

    def __init__(self, stream: StreamIO) -> None:
        """Made by `Flow.create_stream_io`."""
        self._stream = stream
        weakref.finalize(self, stream.close_input).atexit = False

    def create_buffer(self, data: Any = None) -> Buffer:
        """Returns a buffer of an array, bytes or a text; an empty one without data."""
        return Buffer(None, data)

    def send(self, port: str, data: Any) -> Status:
        """Sends a buffer, an array or a text to an input of the graph."""
        buffer = data if isinstance(data, Buffer) else Buffer(None, data)
        try:
            self._stream.send(port, outgoing(buffer))
        except KeyError as error:
            return status_of(error, StatusCode.STATUS_INVALID)
        except StreamError as error:
            return status_of(error, StatusCode.STATUS_STOP)
        return Status()

    def recv(self, port: str, *given: Any) -> Any:
        """Receives from an output of the graph.

        ``recv(port)`` waits; ``recv(port, timeout)`` waits so many milliseconds (0: for ever). Both
        return a `Buffer`, or None where the stream has ended or the time has passed.
        ``recv(port, buffer, timeout=0)`` fills the buffer, and returns a `Status`.

        Raises:
            KeyError: the graph has no such output (where no `Status` could tell it).
        """
        into = given[0] if given and isinstance(given[0], Buffer) else None
        rest = given[1:] if into is not None else given
        milliseconds = rest[0] if rest else 0
        timeout = milliseconds / 1e3 if milliseconds else None
        status = Status()
        found = None
        try:
            found = Buffer(self._stream.recv_buffer(port, timeout))
        except EndOfStream:
            status = Status(StatusCode.STATUS_EOF)
        except TimeoutError as error:
            status = status_of(error, StatusCode.STATUS_TIMEDOUT)
        except KeyError as error:
            if into is None:
                raise
            status = status_of(error, StatusCode.STATUS_INVALID)
        except StreamError as error:
            status = status_of(error, StatusCode.STATUS_INVALID)
        if into is None:
            return found
        if found is not None:
            into.adopt(found)
        return status

    def close_input(self) -> None:
        """Says that nothing more is sent; what was sent still comes out."""
        self._stream.close_input()
