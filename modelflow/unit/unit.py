"""What the author of a flow unit must know: this file, and `context.py`.

A unit's life: the constructor stores, `FlowUnit.open` loads, `FlowUnit.process` runs as often as
there are batches, `FlowUnit.close` is called exactly once if ``open`` returned, also after errors.
Each worker thread has an instance of its own, so unit code needs no locks; a unit whose spec says
``is_shared`` has one instance a node and is called by several threads at once.
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
    """The base class of flow units: override what you need.

    ``SPEC`` describes the unit: give it in the class, or register the class by a spec of its own.
    A unit starts no thread, reads no environment variable, and logs nothing above debug for each
    item.

    Attributes:
        spec: The description that this instance was made for; set before `open`.
        device: Where this instance runs; set before `open`.
        batch_size: The most buffers that a call gets; set before `open`.
        allowed_batch_sizes: The sizes that the node says batches are filled up to; set before
            `open`, empty for any.
    """

    SPEC: ClassVar[FlowUnitSpec | None] = None
    spec: FlowUnitSpec | None = None
    device: Device = CPU
    batch_size: int = 1
    allowed_batch_sizes: tuple[int, ...] = ()

    is_any_thread: ClassVar[bool] = True
    """Whether `process` may be called on another thread than the one that has opened the unit, if
    never on two at once: short calls are then made by the thread that brings the data, and those
    for a lone `Flow.infer` by its caller. False, unless the class says True, where it has an `open`
    or ``__init__`` of its own: what that makes (a database's connection, say) may belong to its
    thread. A unit whose spec says that it `is_compute_bound` may always."""

    is_telling: ClassVar[bool] = False
    """`process` tells those who watch a row (`Context.watchers`) what was done for it elsewhere."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Refuses methods that would have to be awaited.

        Raises:
            ConfigError: a method that modelflow calls is declared ``async def``.
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
        """Loads what the unit needs; called once, on the worker's thread (a shared unit's: once).

        Args:
            config: The options: an instance of the spec's options dataclass, or a `Config`.

        Raises:
            Exception: any one stops the flow and is raised from ``Flow.start``, naming the node.
        """

    def begin(self) -> None:
        """Begins to take what comes from outside; for sources.

        Called once every unit of the flow is open, on the thread that has opened this one, before
        the first `process` and before ``Flow.start`` returns.

        Raises:
            Exception: any one stops the flow and is raised from ``Flow.start``, naming the node.
        """

    def process(self, ctx: Context) -> None:  # noqa: ARG002
        """Turns ``ctx.inputs`` into ``ctx.outputs``; called as often as there are batches.

        Raises:
            Exception: any one becomes the error of the buffers of the batch. Where the batch has
                more than one, its halves are tried first (`Normal`).
        """
        own = [name for name in dir(type(self)) if not hasattr(FlowUnit, name)]
        near = difflib.get_close_matches("process", own, n=1)
        file = getattr(sys.modules.get(type(self).__module__), "__file__", None)
        raise NotImplementedError(
            f"{type(self).__name__}{f' ({below_here(file)})' if file else ''} does not define "
            f"process(ctx){f'; it defines {near[0]!r}, which nothing calls' if near else ''}"
        )

    def close(self) -> None:
        """Gives back what ``open`` took; called exactly once if ``open`` returned."""

    def interrupt(self) -> None:
        """Gives up a call that waits for somebody else: the flow ends and wants no answer.

        Called from any thread, beside `process`, perhaps when no call is under way.
        """

    def reload(self) -> None:
        """Takes up what has changed outside (a new version of a model), beside `process`.

        For shared units; called on the thread of ``Flow.reload``.

        Raises:
            NotImplementedError: the unit has nothing to take up.
        """
        raise NotImplementedError(f"{type(self).__name__} has nothing to reload")

    def figures(self) -> Mapping[str, Mapping[Any, int]]:
        """Returns counters of the unit's own, for the node's statistics; for shared units."""
        return {}

    def elsewhere(self) -> Mapping[str, Mapping[str, Any]]:
        """Returns what nodes have done that run elsewhere for it; for shared units.

        Returns:
            Replica -> node -> its `NodeStats`. It may wait a moment for them.
        """
        return {}

    def most_rows(self) -> int:
        """Returns the most buffers that the next call should have; for shared units.

        Asked for each batch, with the lock of its queue held, so it waits for nothing.
        """
        return self.batch_size

    def tensors(self) -> Mapping[str, TensorSpec]:
        """Returns, by port, what the opened unit knows of one item there beyond its description.

        For shared units that load a model.
        """
        return {}

    def stream_start(self, ctx: Context) -> None:
        """Called before the first ``process`` of a stream; for units of the stream kind.

        Raises:
            Exception: any one becomes the error of every buffer of the stream.
        """

    def stream_end(self, ctx: Context) -> None:
        """Called once behind the last ``process`` of a stream; may emit. For the stream kind.

        Called for every stream whose ``stream_start`` returned, also an empty one, and also where
        the session was cancelled or the flow is stopped (``ctx.is_cancelled``).
        """
