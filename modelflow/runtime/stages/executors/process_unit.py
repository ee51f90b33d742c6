"""The flow's side of a unit that runs in a process of its own."""

import pickle
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from modelflow.buffer import Buffer
from modelflow.device import CPU
from modelflow.errors import PlanError, WorkerProcessError
from modelflow.ipc import process as processes
from modelflow.ipc.channel import MessageError, sendable
from modelflow.plan import UnitPlan
from modelflow.runtime.stages.executors.child import Answer, Item, Job
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import Context, FlowUnit

_ENTRY = "modelflow.runtime.stages.executors.child:main"


class ProcessUnit(FlowUnit):
    """A unit that runs in another process: sends batches, and receives results.

    If the process ends during a batch, the batch fails. Its rows are then tried one by one, and
    only the rows that end the process fail. If the process ends between two batches, no batch
    fails, because the next batch starts a new process.
    """

    def __init__(self, spec: FlowUnitSpec, node: str, search_path: Sequence[str]) -> None:
        """Stores the unit to run.

        Args:
            spec: The unit.
            node: The node's name, for messages.
            search_path: The ``sys.path`` of the process.
        """
        self._spec = spec
        self._search_path = search_path
        self._node = node
        self._config: Any = None
        self._process: processes.ChildProcess | None = None
        # Guards the process against `interrupt`, which another thread calls.
        self._lock = threading.Lock()
        self._is_busy = self._is_interrupted = False
        self._calls, self._seconds = 0, 0.0

    def open(self, config: Any) -> None:
        """Starts the process, and opens the unit in the process.

        Raises:
            PlanError: the unit cannot be created in another process.
            Exception: an error of the unit's ``open``.
        """
        self._config = config
        self._start()

    def process(self, ctx: Context) -> None:
        """Sends the batch to the process, and emits the results.

        Raises:
            WorkerProcessError: the process has ended.
            Exception: an error of the unit.
        """
        if self._is_interrupted:
            raise WorkerProcessError(
                f"node {self._node!r}: the flow ends; nothing is sent to its process any more"
            )
        if self._process is not None and not self._process.is_alive:
            self._end()  # the process was killed between two batches
        if self._process is None:
            self._start()
        inputs = {
            port: [Item(sendable(buffer.data), buffer.meta) for buffer in buffers]
            for port, buffers in ctx.inputs.items()
        }
        answer = self._request(inputs)
        self._calls += 1
        self._seconds += answer.seconds
        for port, values in answer.values.items():
            ctx.emit([_value(value) for value in values], port)

    def figures(self) -> dict[str, dict[str, int]]:
        """Returns ``process``: the ``calls``, and their ``unit_us`` in the unit itself."""
        return {"process": {"calls": self._calls, "unit_us": round(self._seconds * 1e6)}}

    def close(self) -> None:
        """Closes the unit, and waits for the end of the process.

        Raises:
            Exception: an error of the unit's ``close``.
        """
        if self._process is None:
            return
        try:
            self._request(None, processes.END_TIMEOUT)
        except WorkerProcessError:
            return  # the process has ended, and `_on_death` has removed it
        except TimeoutError as error:
            self._process.kill()
            raise WorkerProcessError(
                f"the unit's close() did not return within {processes.END_TIMEOUT:g} s; its "
                f"process {self._process.pid} was killed"
            ) from error
        finally:
            if self._process is not None:
                self._end()

    def interrupt(self) -> None:
        """Kills the process if a call is running, because the flow drops its results."""
        with self._lock:
            self._is_interrupted = True
            if self._is_busy and self._process is not None:
                self._process.kill()

    # -- the process ----------------------------------------------------------------------------

    def _start(self) -> None:
        job, who = self._job(), f"node {self._node!r}: workers='process'"
        name = f"modelflow/{self._node}"
        preparation = processes.preparation_of(name, self._search_path, job, who)
        if b"__main__" in job and not processes.is_main_importable(preparation):
            raise PlanError(
                f"{who}: unit {self._spec.name!r} is defined in a notebook, a console or a text, "
                "which its process cannot import; move it to units.py, and: import units"
            )
        self._process = processes.ChildProcess(_ENTRY, self._search_path)
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
            spec.output_names,
        )
        try:
            return pickle.dumps(job)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise PlanError(
                f"node {self._node!r}: workers='process': unit {spec.name!r} cannot be made in "
                f"another process ({error}); define it in a module, not inside a function"
            ) from error

    def _request(self, message: Any, timeout: float | None = None) -> Answer:
        """Sends a message and returns the answer.

        Raises:
            TimeoutError: no answer came within ``timeout`` seconds.
            WorkerProcessError: the process has ended, and is removed.
            Exception: an error in the process.
        """
        process = self._process
        assert process is not None  # `_start` has set it
        with self._lock:
            self._is_busy = message is not None  # `interrupt` does not kill a unit that closes
            if self._is_interrupted and self._is_busy:
                process.kill()
        try:
            process.channels[0].send(message)
            is_good, answer = process.channels[0].receive(timeout)
        except TimeoutError:
            raise
        except MessageError as error:  # the batch cannot be sent, or the answer not read
            raise error.reason from None
        except (EOFError, OSError) as error:
            raise self._on_death() from error
        finally:
            with self._lock:
                self._is_busy = False
        if is_good:
            found: Answer = answer
            return found
        raise answer

    def _on_death(self) -> WorkerProcessError:
        process = self._process
        assert process is not None
        how = self._end()
        message = (
            f"the process {process.pid} of node {self._node!r} has ended ({how}) while it worked "
            "on this batch; the next one gets a new process"
        )
        return WorkerProcessError(message)

    def _end(self) -> str:
        """Ends the process; returns the way of its end, for messages."""
        process = self._process
        assert process is not None
        how = process.end()
        with self._lock:
            self._process = None
        return how


def explain_immobility(unit: UnitPlan) -> str:
    """Returns the reason why a unit cannot run with ``workers=process``, or an empty text."""
    try:
        job = pickle.dumps((unit.spec.devices[CPU.kind], unit.config))
    except KeyError:
        return f"unit {unit.spec.name!r} does not run on the CPU"
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        return f"unit {unit.spec.name!r} cannot be made in another process ({error})"
    main = sys.modules["__main__"]
    if b"__main__" in job and getattr(main, "__file__", None) is None:
        return f"unit {unit.spec.name!r} is defined in a console, not in a module"
    return ""


def _value(value: Any) -> Any:
    data = value.data if isinstance(value, Item) else value
    if isinstance(data, np.ndarray):
        data.flags.writeable = False  # rows of one message may share a pickled array
    return Buffer(data, value.meta) if isinstance(value, Item) else value
