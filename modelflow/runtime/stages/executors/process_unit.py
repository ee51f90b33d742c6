"""The flow's side of a unit that runs in a process of its own."""

import os
import pickle
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from modelflow.buffer import Buffer
from modelflow.errors import PlanError, WorkerProcessError
from modelflow.ipc import process as processes
from modelflow.ipc.channel import MessageError, sendable
from modelflow.ipc.memory_channel import open_channel
from modelflow.runtime.stages.executors.child import Item, Job
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import Context, FlowUnit

if TYPE_CHECKING:
    import subprocess

    from modelflow.ipc.channel import Channel


_ENTRY = "modelflow.runtime.stages.executors.child:main"


class ProcessUnit(FlowUnit):
    """Has a unit called in a process: batches there, results back.

    A process that ends while it works on a batch costs that batch an error (the rows of a batch are
    then tried one by one, so that only the guilty fail); one that has ended in the meantime costs
    nothing: the next batch gets a new one.
    """

    def __init__(self, spec: FlowUnitSpec, node: str, search_path: Sequence[str]) -> None:
        """Stores what to run.

        Args:
            spec: The unit.
            node: The node's name, for messages.
            search_path: Where the process looks for modules, as ``sys.path``.
        """
        self._spec = spec
        self._search_path = search_path
        self._node = node
        self._config: Any = None
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        # Guards the two against `interrupt`, which comes from another thread.
        self._lock = threading.Lock()
        self._is_busy = self._is_interrupted = False

    def open(self, config: Any) -> None:
        """Starts the process and opens the unit there.

        Raises:
            PlanError: the unit cannot be made in another process.
            Exception: whatever the unit's ``open`` raised.
        """
        self._config = config
        self._start()

    def process(self, ctx: Context) -> None:
        """Has the batch worked on.

        Raises:
            WorkerProcessError: the process has ended.
            Exception: whatever the unit raised.
        """
        if self._is_interrupted:
            message = f"node {self._node!r}: the flow ends; nothing is sent to its process any more"
            raise WorkerProcessError(message)
        if self._process is not None and self._process.poll() is not None:
            self._end()  # killed while it had nothing to do
        if self._process is None:
            self._start()
        inputs = {
            port: [Item(sendable(buffer.data), buffer.meta) for buffer in buffers]
            for port, buffers in ctx.inputs.items()
        }
        for port, values in self._request(inputs).items():
            ctx.emit([_value(value) for value in values], port)

    def close(self) -> None:
        """Has the unit closed, and waits for the end of the process.

        Raises:
            Exception: whatever the unit's ``close`` raised.
        """
        if self._process is None:
            return
        try:
            self._request(None, processes.END_TIMEOUT)
        except WorkerProcessError:
            return  # it has ended, and is cleared away
        except TimeoutError as error:
            self._process.kill()
            message = (
                f"the unit's close() did not return within {processes.END_TIMEOUT:g} s; its "
                f"process {self._process.pid} was killed"
            )
            raise WorkerProcessError(message) from error
        finally:
            if self._process is not None:
                self._end()

    def interrupt(self) -> None:
        """Ends the process if a call is under way: nobody waits for it any more."""
        with self._lock:
            self._is_interrupted = True
            if self._is_busy and self._process is not None:
                self._process.kill()

    # -- the process ----------------------------------------------------------------------------

    def _start(self) -> None:
        if processes.Preparation.is_so:
            raise PlanError(_MAIN.format(self._node))
        job = self._job()
        preparation = processes.preparation_of(f"modelflow/{self._node}", self._search_path, job)
        if b"__main__" in job and not processes.is_main_importable(preparation):
            raise PlanError(_NO_FILE.format(self._node, self._spec.name))
        channel, theirs = open_channel()
        try:
            self._process = processes.start_process(_ENTRY, theirs, self._search_path)
        except BaseException:
            channel.close()
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        self._channel = channel
        try:
            self._request((preparation, job))
        except BaseException:
            if self._process is not None:
                self._end()
            raise

    def _job(self) -> bytes:
        spec = self._spec
        job = Job(
            spec.devices[self.device.kind],
            self._config,
            self.device,
            self.batch_size,
            frozenset(port.name for port in spec.inputs if port.is_in_place),
            tuple(port.name for port in spec.outputs),
        )
        try:
            return pickle.dumps(job)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            message = (
                f"node {self._node!r}: workers='process': unit {spec.name!r} cannot be made in "
                f"another process ({error}); define it in a module, not inside a function"
            )
            raise PlanError(message) from error

    def _request(self, message: Any, timeout: float | None = None) -> dict[str, list[Any]]:
        """Sends a message and returns the answer.

        Raises:
            TimeoutError: no answer came within ``timeout`` seconds.
            WorkerProcessError: the process has ended; it is cleared away.
            Exception: what was raised there.
        """
        channel = self._channel
        assert channel is not None  # made with the process
        with self._lock:
            self._is_busy = message is not None  # a unit that is being closed is let
            if self._is_interrupted and self._is_busy and self._process is not None:
                self._process.kill()
        try:
            channel.send(message)
            is_good, answer = channel.receive(timeout)
        except TimeoutError:
            raise
        except MessageError as error:  # a batch that cannot be sent, or an answer not read
            raise error.reason from None
        except (EOFError, OSError) as error:
            raise self._on_death() from error
        finally:
            with self._lock:
                self._is_busy = False
        if is_good:
            found: dict[str, list[Any]] = answer
            return found
        raise answer

    def _on_death(self) -> WorkerProcessError:
        process = self._process
        assert process is not None
        self._end()
        message = (
            f"the process {process.pid} of node {self._node!r} has ended "
            f"({processes.end_of(process)}) while it worked on this batch; the next one gets a new "
            "process"
        )
        return WorkerProcessError(message)

    def _end(self) -> None:
        process, channel = self._process, self._channel
        assert process is not None
        assert channel is not None
        channel.close()
        processes.see_end_of(process)
        with self._lock:
            self._process = self._channel = None


_MAIN = (
    "node {!r}: workers='process': the main module starts the flow where it is imported, and the "
    "unit's process must import it; put what starts the flow under: if __name__ == '__main__':"
)
_NO_FILE = (
    "node {!r}: workers='process': unit {!r} is defined in a notebook, a console or a text, which "
    "the unit's process cannot import; put it into a file, units.py, and: import units"
)


def _value(value: Any) -> Any:
    return Buffer(value.data, value.meta) if isinstance(value, Item) else value
