"""`ExternalDataMap`, `FlowStreamIO` and related classes: a session of a flow."""

import threading
import weakref
from typing import Any

from modelflow.buffer import Buffer as NativeBuffer
from modelflow.compat.modelbox.buffer import Buffer, BufferList, Device, outgoing
from modelflow.compat.modelbox.flowunit import DataMeta, FlowUnitError
from modelflow.compat.modelbox.gathering import Gathering
from modelflow.compat.modelbox.status import Status, StatusCode, status_of
from modelflow.errors import EndOfStream, ModelflowError, StreamError
from modelflow.flow import Flow as NativeFlow
from modelflow.runtime.clock import SYSTEM_CLOCK
from modelflow.stream_io import StreamIO


def _status_without(error: Exception) -> Status:
    """Returns the status of a receive call without result."""
    if isinstance(error, EndOfStream):
        return Status(StatusCode.STATUS_EOF)
    is_late = isinstance(error, TimeoutError)
    return status_of(error, StatusCode.STATUS_TIMEDOUT if is_late else StatusCode.STATUS_INVALID)


class ExtOutputBufferList:
    """The results of `ExternalDataMap.recv`: a list for each output with results."""

    def __init__(self) -> None:
        self._lists: dict[str, BufferList] = {}

    def get_buffer_list(self, port: str) -> BufferList | None:
        """Returns the buffers of an output, or None if the output has no results."""
        return self._lists.get(port)

    def fill(self, found: dict[str, list[NativeBuffer]]) -> None:
        """Replaces the lists."""
        self._lists = {port: BufferList.of(v, Device()) for port, v in found.items() if v}


class ExternalDataMap:
    """A session of a running flow. Safe from any thread."""

    def __init__(self, flow: NativeFlow) -> None:
        """Takes the flow; called by `Flow.create_external_data_map`."""
        self._single_outputs = flow.scheduler.single_outputs
        self._gathering = Gathering(flow)
        self._stream = self._gathering.stream
        self._unsent: dict[str, list[NativeBuffer]] = {port: [] for port in flow.graph.inputs}
        self._lock = threading.Lock()
        self._is_closed = self._is_shut = False
        self._failure: str = ""
        weakref.finalize(self, self._stream.close_input).atexit = False

    def create_buffer_list(self) -> BufferList:
        """Returns an empty list."""
        return BufferList()

    def send(self, port: str, buffers: BufferList) -> Status:
        """Queues a list for an input; buffers enter the graph once every input has as many.

        Returns:
            ``STATUS_INVALID`` for an unknown input, ``STATUS_STOP`` after `close`.
        """
        with self._lock:
            if port not in self._unsent:
                known = ", ".join(self._unsent)
                message = f"the graph has no input {port!r} (inputs: {known})"
                return Status(StatusCode.STATUS_INVALID, message)
            if self._is_closed:
                return Status(StatusCode.STATUS_STOP, "the input is closed")
            self._unsent[port] += buffers.natives()
            count = min(map(len, self._unsent.values()))
            try:
                for name, waiting in self._unsent.items():
                    for buffer in waiting[:count]:
                        self._stream.send(name, buffer)
                    del waiting[:count]
            except StreamError as error:
                return status_of(error, StatusCode.STATUS_STOP)
        return Status()

    def recv(self, outputs: ExtOutputBufferList, timeout: float = 0) -> Status:
        """Waits for results and takes all that are ready.

        Args:
            outputs: The object to fill with the results.
            timeout: The longest wait in milliseconds. 0 for no limit.

        Returns:
            A success, ``STATUS_TIMEDOUT``, or ``STATUS_EOF`` if the session has ended.
            ``STATUS_INVALID`` if the session has ended with an error (see `get_last_error`).
        """
        try:
            found = self._taken(timeout / 1e3 if timeout else None)
        except (TimeoutError, StreamError) as error:
            if not isinstance(error, TimeoutError):
                self._failure = str(error)
            return _status_without(error)
        outputs.fill(found)
        if any(found.values()):
            return Status()
        errors = self._stream.errors
        if self._is_shut or errors:
            self._failure = str(errors[0]) if errors else "EOF"
            return Status(StatusCode.STATUS_INVALID, self._failure)
        return Status(StatusCode.STATUS_EOF)

    def _taken(self, timeout: float | None) -> dict[str, list[NativeBuffer]]:
        """Waits until an output has results, and returns the results of each output."""
        results = self._gathering.results
        found: dict[str, list[NativeBuffer]] = {port: [] for port in results}
        # Outputs with exactly one buffer for each sent item return their buffers together.
        together = [port for port in results if port in self._single_outputs]
        self._gathering.wait(timeout)
        if together and not self._gathering.ended:
            for port in together:
                results[port].wait_ready(SYSTEM_CLOCK, timeout)
            count = min(len(results[port]) for port in together)
            for port in together:
                for _ in range(max(1, count)):  # 0: take the end of the output
                    self._gathering.take(port, found[port])
        for port in results:
            if port not in together or self._gathering.ended:
                self._gathering.take_ready(port, found[port])
        return found

    def set_output_meta(self, port: str, meta: DataMeta) -> Status:  # noqa: ARG002 - one stream
        """Adds values to the values of the session's stream, before anything is sent."""
        for key, value in meta._values.items():
            self._stream.meta.setdefault(key, value)
        return Status()

    def close(self) -> Status:
        """Closes the input; results of the sent data still arrive."""
        with self._lock:
            self._is_closed = True
        self._stream.close_input()
        return Status()

    def shutdown(self) -> Status:
        """Closes the input, and makes the last `recv` return ``STATUS_INVALID``."""
        self._is_shut = True
        return self.close()

    def get_last_error(self) -> FlowUnitError:
        """Returns the error that ended the session."""
        return FlowUnitError(self._failure)

    def is_ready(self) -> bool:
        """Returns True if `recv` would not wait."""
        return any(results.is_ready for results in self._gathering.results.values())

    def on_ready(self, callback: Any) -> None:
        """Calls ``callback`` when `recv` would not wait, perhaps at once, perhaps repeatedly."""
        for port, results in self._gathering.results.items():
            if port not in self._gathering.ended:
                results.on_ready(callback)


class ExternalDataSimple:
    """An `ExternalDataMap` with access to one port at a time."""

    def __init__(self, external: ExternalDataMap) -> None:
        self._external = external
        self._waiting: dict[str, list[Any]] = {}

    def push_data(self, port: str, buffers: BufferList) -> Status:
        """Sends a list to an input."""
        return self._external.send(port, buffers)

    def get_result(self, port: str, timeout: float = 0) -> BufferList | None:
        """Returns the next results of an output, or None at the end or after ``timeout`` ms."""
        while not self._waiting.get(port):
            found = ExtOutputBufferList()
            if not self._external.recv(found, timeout):
                return None
            for name in self._external._stream.outputs:
                buffers = found.get_buffer_list(name)
                if buffers is not None:
                    self._waiting.setdefault(name, []).append(buffers)
        first: BufferList = self._waiting[port].pop(0)
        return first

    def close(self) -> Status:
        """Closes the input."""
        return self._external.close()

    def shutdown(self) -> Status:
        """Ends the session."""
        return self._external.shutdown()


class SelectMap:
    """Waits for results of several sessions at once."""

    def __init__(self) -> None:
        self._maps: list[ExternalDataMap] = []
        self._changed = threading.Event()

    def register(self, external: ExternalDataMap) -> None:
        """Adds a session."""
        self._maps.append(external)
        self._changed.set()

    def remove(self, external: ExternalDataMap) -> None:
        """Removes a session."""
        self._maps.remove(external)

    def select(self, timeout: float = 0) -> list[ExternalDataMap]:
        """Returns the sessions whose `ExternalDataMap.recv` would not wait.

        Args:
            timeout: The longest wait in milliseconds for the first session. 0 for no limit.

        Returns:
            The sessions. Empty after the timeout.

        Raises:
            ModelflowError: No session is registered.
        """
        if not self._maps:
            raise ModelflowError("no session is registered; nothing would ever be ready")
        self._changed.clear()
        for external in self._maps:
            external.on_ready(self._changed.set)
        self._changed.wait(timeout / 1e3 if timeout else None)
        return [external for external in self._maps if external.is_ready()]


class FlowStreamIO:
    """A session of a running flow, whose input is closed when the object is dropped."""

    def __init__(self, stream: StreamIO) -> None:
        """Takes the session; called by `Flow.create_stream_io`."""
        self._stream = stream
        weakref.finalize(self, stream.close_input).atexit = False

    def create_buffer(self, data: Any = None) -> Buffer:
        """Returns a buffer of an array, bytes or a text, or an empty buffer without data."""
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

        ``recv(port)`` waits without limit. ``recv(port, timeout)`` waits that many milliseconds,
        with 0 for no limit. Both return a `Buffer`, or None after the timeout or the end of the
        stream. ``recv(port, buffer, timeout=0)`` fills the buffer and returns a `Status`.

        Raises:
            KeyError: The graph has no such output (only for the forms without `Status`).
        """
        into = given[0] if given and isinstance(given[0], Buffer) else None
        rest = given[1:] if into is not None else given
        milliseconds = rest[0] if rest else 0
        timeout = milliseconds / 1e3 if milliseconds else None
        try:
            found = Buffer(self._stream.recv(port, timeout, errors="return"))
        except (TimeoutError, KeyError, StreamError) as error:
            if into is not None:
                return _status_without(error)
            if isinstance(error, KeyError):
                raise
            return None
        if into is None:
            return found
        into.native = found.native
        return Status()

    def close_input(self) -> None:
        """Closes the input; results of the sent data still arrive."""
        self._stream.close_input()
