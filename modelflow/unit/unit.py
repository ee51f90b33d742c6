"""The base class of flow units; with `context.py` all that an author of units needs.

The constructor of a unit stores values, and `FlowUnit.open` loads. `FlowUnit.process` runs once for
each batch. `FlowUnit.close` is called exactly once if ``open`` returned, also after errors. Each
worker thread has an instance of its own, so unit code needs no locks. A unit whose spec has
``is_shared`` has one instance for each node, and several threads call it at once.
"""

import difflib
import inspect
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from modelflow.device import CPU, Device
from modelflow.errors import ConfigError, below_here
from modelflow.unit.context import Context
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.stream_context import Opening, StreamContext
from modelflow.wire.tensor import TensorSpec

__all__ = ["Context", "FlowUnit", "Opening", "StreamContext"]


class FlowUnit:
    """The base class of flow units: override the methods that you need.

    ``SPEC`` describes the unit. Give it in the class, or register the class with a spec of its own.
    A unit starts no thread, reads no environment variable, and logs nothing above debug for each
    item.

    Attributes:
        spec: The description of this instance; set before `open`.
        device: The device of this instance; set before `open`.
        batch_size: The maximum number of buffers in a call; set before `open`.
        allowed_batch_sizes: The sizes that the node pads batches to, or empty for any size; set
            before `open`.
    """

    SPEC: ClassVar[FlowUnitSpec | None] = None
    spec: FlowUnitSpec | None = None
    device: Device = CPU
    batch_size: int = 1
    allowed_batch_sizes: tuple[int, ...] = ()

    is_any_thread: ClassVar[bool] = True
    """Whether `process` may run on another thread than `open`.

    Calls never overlap. If True, the thread that brings the data makes short calls itself, and the
    caller of a lone `Flow.infer` makes its calls. The default is False for a class with an `open`
    or ``__init__`` of its own. Objects made there, such as a database connection, may belong to
    their thread. A unit whose spec has `is_compute_bound` may always run on any thread."""

    is_telling: ClassVar[bool] = False
    """Whether `process` reports work that was done elsewhere to a row's `Context.watchers`."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Refuses methods that would have to be awaited.

        Raises:
            ConfigError: A method that modelflow calls is declared ``async def``.
        """
        super().__init_subclass__(**more)
        for name in vars(FlowUnit).keys() & vars(cls).keys():
            method = vars(cls)[name]
            if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
                code = method.__code__
                raise ConfigError(
                    f"{below_here(code.co_filename)}:{code.co_firstlineno}: flow unit class "
                    f"{cls.__name__}: {name}() is asynchronous; a flow unit runs on a thread of "
                    "its own: use 'def'"
                )

    def open(self, config: Any) -> None:
        """Loads the resources of the unit; called once for each instance, on its worker's thread.

        Args:
            config: The options: an instance of the spec's options dataclass, or a `Config`.

        Raises:
            Exception: Any exception stops the flow. ``Flow.start`` raises it with the node's name.
        """

    def begin(self) -> None:
        """Starts to accept data from outside; for sources.

        Called on the thread that opened this unit, after every unit of the flow is open. The call
        comes before the first `process`, and before ``Flow.start`` returns.

        Raises:
            Exception: Any exception stops the flow. ``Flow.start`` raises it with the node's name.
        """

    def process(self, ctx: Context) -> None:  # noqa: ARG002
        """Processes ``ctx.inputs`` into ``ctx.outputs``; called once for each batch.

        Raises:
            Exception: Any exception becomes the error of the buffers of the batch. A batch with
                several buffers is first tried again in halves (`Normal`).
        """
        own = [name for name in dir(type(self)) if not hasattr(FlowUnit, name)]
        near = difflib.get_close_matches("process", own, n=1)
        file = getattr(sys.modules.get(type(self).__module__), "__file__", None)
        raise NotImplementedError(
            f"{type(self).__name__}{f' ({below_here(file)})' if file else ''} does not define "
            f"process(ctx){f'; it defines {near[0]!r}, which nothing calls' if near else ''}"
        )

    def close(self) -> None:
        """Releases the resources of ``open``; called exactly once if ``open`` returned."""

    def interrupt(self) -> None:
        """Cancels a call that waits for data from elsewhere, because the flow ends.

        Called from any thread, during `process` or while no call runs.
        """

    def reload(self) -> None:
        """Loads changes from outside (a new version of a model), while `process` may run.

        For shared units; called on the thread of ``Flow.reload``.

        Raises:
            NotImplementedError: The unit has nothing to reload.
        """
        raise NotImplementedError(f"{type(self).__name__} has nothing to reload")

    def figures(self) -> Mapping[str, Mapping[Any, int]]:
        """Returns the unit's own counters for the node's statistics.

        Called from any thread after `open`, also during `process`. The counters of all instances
        are summed.
        """
        return {}

    def elsewhere(self) -> Mapping[str, Mapping[str, Any]]:
        """Returns the statistics of nodes that run elsewhere for this unit; for shared units.

        Returns:
            Replica -> node -> its `NodeStats`. The call may wait a moment for them.
        """
        return {}

    def most_rows(self) -> int:
        """Returns the maximum number of buffers for the next call; for shared units.

        Called for each batch, with the lock of its queue held, so the method must not wait.
        """
        return self.batch_size

    def tensors(self) -> Mapping[str, TensorSpec]:
        """Returns the tensor of one item by port, as known after `open`.

        For shared units that load a model.
        """
        return {}

    def stream_start(self, ctx: Context) -> None:
        """Prepares for a stream, before its first ``process``; for units of the stream kind.

        Raises:
            Exception: Any exception becomes the error of every buffer of the stream.
        """

    def stream_end(self, ctx: Context) -> None:
        """Ends a stream, after its last ``process``; may emit. For units of the stream kind.

        Called for every stream whose ``stream_start`` returned, also for an empty stream. Also
        called if the session is cancelled or the flow stops (``ctx.is_cancelled``).
        """
