"""The start and the end of a flow: from a graph to its running engine.

The engine and NumPy are imported by ``Flow(...)``. They are not imported with the class, because
programs import `Flow` that make no flow. They are not imported later, because no request may wait
for an import.
"""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from modelflow.errors import GraphError, StreamClosed
from modelflow.log import FlowLog
from modelflow.quantities import check_seconds
from modelflow.runtime.lifecycle import stop_at_exit, watch_starts

if TYPE_CHECKING:
    from modelflow.buffer import Buffer
    from modelflow.graph.graph import Graph
    from modelflow.profile.profile_section import Journal
    from modelflow.runtime.scheduler import Scheduler

__all__ = ["FlowLife", "watch_starts"]


class FlowLife:
    """The base class of `Flow` that reads the graph, and starts and stops the engine."""

    def __init__(  # noqa: PLR0913 - each is the user's to set
        self,
        source: Any,
        *,
        overrides: Mapping[str, Any] | None = None,
        args: Mapping[str, Any] | None = None,
        units: Iterable[Any] = (),
        threads: int | None = None,
        results_bound: int = 1024,
        stop_timeout: float = 10.0,
        watchdog_interval: float = 30.0,
        on_error: "Callable[[Buffer], None] | None" = None,
        tap: "Callable[[str, str, Sequence[Buffer]], None] | None" = None,
    ) -> None:
        """Reads and checks the graph, and starts no thread.

        Args:
            source: A path, the text of a graph file, a mapping, a `FlowGraphDesc` or a `Graph`.
            overrides: ``{"node.key": value}``, like ``--set`` on the command line.
            args: Values for the graph's ``[args]``.
            units: Flow units for this flow alone: decorated functions, classes, specs.
            threads: 0 to run all units on the calling thread, for debugging. None for the threads
                of the plan.
            results_bound: The number of buffers of a session between its submitter and its reader
                at which `send` waits.
            stop_timeout: A limit in seconds for two waits of `stop`. Streams with events of their
                own, and rows in loops, may continue for this time. `stop` also gives up its wait
                after this time without any progress.
            watchdog_interval: Seconds in one call of a unit after which a warning names the node.
            on_error: Called with each buffer in error that reaches a node without outputs, where
                `recv` cannot return it. The call is on the thread of that node, and must not wait
                for the flow. None to log the errors, of each kind 20 immediately and then one in 10
                seconds.
            tap: Called with the buffers that pass each edge, for debugging. The arguments are a
                node, its output, and the buffers, including those in error. For a graph input, the
                first two arguments are its name. The call is on the thread that sends the buffers.
                It must not wait, use the flow, raise, or change a buffer, but may keep a
                `Buffer.twin`. With a tap, every node is a stage of its own.

        Raises:
            ConfigError, GraphError, PlanError: The graph cannot run. The error lists every mistake.
            TypeError, ValueError: A number has the wrong type, or is out of its range.
        """
        import modelflow.flow.map  # noqa: F401 - for `Flow.map`
        from modelflow.error_log import ErrorLog, log_error
        from modelflow.graph.graph import Graph
        from modelflow.graph.read import check_arguments, read_graph
        from modelflow.runtime.flow_state import SchedulerOptions
        from modelflow.stream_io import StreamIO, answer_of

        if threads not in (None, 0):
            raise ValueError(
                f"threads: got {threads!r}; expected None, or 0 to run on the calling thread"
            )
        check_arguments(overrides, args, units)
        self._errors = ErrorLog(log_error)
        self._options = SchedulerOptions(
            is_inline=threads == 0,
            results_bound=results_bound,
            stop_timeout=check_seconds("stop_timeout", stop_timeout),
            watchdog_interval=check_seconds("watchdog_interval", watchdog_interval),
            on_error=on_error or self._errors.add,
            tap=tap,
        )
        self._graph = (
            source
            if isinstance(source, Graph)
            else read_graph(source, overrides=overrides, args=args, units=units)
        )
        self._scheduler: Scheduler | None = None
        self._making = threading.Lock()  # held while a thread makes the scheduler
        self._log: FlowLog | None = None
        self._journal: Journal | None = None
        self._process = os.getpid()
        # An import for each request would be slower.
        self._stream_class, self._answer_of = StreamIO, answer_of

    # -- life -----------------------------------------------------------------------------------

    def start(self) -> Self:
        """Opens every unit and starts the threads.

        Raises:
            FlowFailed: A unit did not open. No thread is left.
            GraphError: ``[serve]`` in the graph file contradicts a model. No thread is left.
            PlanError: This machine or this version cannot run the graph.
            RecordingError: A file of ``[profile]`` in the graph file cannot be written.
        """
        scheduler = self.scheduler
        config = self.graph.config
        folder = config.output_folder
        log = FlowLog(config.log, folder)
        journal = None
        try:
            if config.profile:
                from modelflow.profile.profile_section import Journal

                journal = Journal.begin_if_wanted(scheduler, config.profile, folder)
            scheduler.start(lambda: self._check_models(scheduler))
        except BaseException:
            if journal is not None:
                journal.stop()
            log.close()
            raise
        self._log, self._journal = log, journal
        stop_at_exit(scheduler)
        return self

    def _check_models(self, scheduler: "Scheduler") -> None:
        """Checks that the inputs and outputs in the graph file agree with the loaded models."""
        from modelflow.graph.signature import contradictions

        findings = list(contradictions(self.graph, scheduler.tensor))
        if findings:
            raise GraphError(findings)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until every source has ended.

        A flow without sources ends when it is stopped.

        Args:
            timeout: The longest wait in seconds. None for no limit, 0 for no wait.

        Returns:
            False if the time passed before the end.

        Raises:
            FlowFailed: The flow itself failed.
            TypeError, ValueError: ``timeout`` is no number.
        """
        if timeout is not None:
            timeout = check_seconds("timeout", timeout)
        return self._running_scheduler().wait(timeout)

    def stop(self, drain: bool = True, timeout: float | None = None, *, wait: bool = True) -> None:
        """Ends the flow, closes every unit once and joins every thread. May be called again.

        Args:
            drain: True to finish the data that was sent, while any of it makes progress. False to
                drop that data.
            timeout: Seconds that threads may take to end after the last work. None for the flow's
                ``stop_timeout``.
            wait: False to return immediately and stop on another thread. This takes no lock, so you
                can use it in signal handlers, and in flow units that end the flow. Later calls of
                `stop` or `wait`, or the end of the ``with`` block, wait for the end and raise the
                errors.

        Raises:
            FlowFailed: The flow itself failed, or a unit hangs. Each inner error names its node.
            TypeError, ValueError: ``timeout`` is no number. The flow continues.
        """
        if timeout is not None:
            timeout = check_seconds("timeout", timeout)
        if self._scheduler is None:
            return
        if not wait:
            self._scheduler.request_stop(drain, timeout)
            return
        try:
            self._scheduler.stop(drain, timeout)
        finally:
            self._errors.close()
            journal, self._journal = self._journal, None
            try:
                if journal is not None:
                    journal.stop()
            finally:
                if self._log is not None:
                    self._log.close()

    def __enter__(self) -> Self:
        if not self.is_running:
            self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stops the flow, and drains the queues unless an exception ended the block."""
        self.stop(drain=error is None)

    async def __aenter__(self) -> Self:
        import asyncio  # not at the top: it takes a third of the import time of Flow

        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.stop, error is None)

    @property
    def graph(self) -> "Graph":
        """The checked graph of this flow."""
        return self._graph

    @property
    def scheduler(self) -> "Scheduler":
        """The scheduler that runs the graph, made on first use.

        Its ``plan`` assigns nodes to threads, processes and machines. For servers and tools, not
        for applications, because the class may change with every version.

        Raises:
            PlanError: This machine or this version cannot run the graph.
            StreamClosed: The flow was made before the process forked.
        """
        if self._scheduler is None:
            from modelflow.plan import make_plan
            from modelflow.runtime.scheduler import Scheduler

            with self._making:
                if self._scheduler is None:
                    plan = make_plan(self.graph, is_fused=self._options.tap is None)
                    self._scheduler = Scheduler(plan, self._options)
        return self._running_scheduler()

    @property
    def is_running(self) -> bool:
        """Returns whether sessions can be opened."""
        return self._scheduler is not None and self._scheduler.is_running

    def _running_scheduler(self) -> "Scheduler":
        if self._scheduler is None:
            raise StreamClosed("the flow is not running; call start(), or use it in a with block")
        if self._process != os.getpid():
            raise StreamClosed(
                "this Flow was made before the process forked, and its threads are not in this "
                "process; make the Flow after the fork"
            )
        return self._scheduler


FlowLife.__init__.__qualname__ = "Flow.__init__"  # the name in Python's message for wrong arguments
