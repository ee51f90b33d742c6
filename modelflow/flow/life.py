"""From a graph to its running engine, and to its end."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from modelflow.buffer import Buffer
from modelflow.error_log import ErrorLog, log_error
from modelflow.errors import GraphError, StreamClosed
from modelflow.graph.graph import Graph
from modelflow.graph.read import check_arguments, read_graph
from modelflow.graph.signature import contradictions
from modelflow.log import FlowLog
from modelflow.plan import make_plan
from modelflow.quantities import check_seconds
from modelflow.runtime.flow_state import SchedulerOptions
from modelflow.runtime.lifecycle import stop_at_exit

if TYPE_CHECKING:
    from modelflow.profile.profile_section import Journal
    from modelflow.runtime.scheduler import Scheduler


class FlowLife:
    """The life of a `Flow`: its graph is read, it starts, it is stopped."""

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
        on_error: Callable[[Buffer], None] | None = None,
        tap: Callable[[str, str, Sequence[Buffer]], None] | None = None,
    ) -> None:
        """Reads and checks the graph; starts nothing.

        Args:
            source: A path, the text of a graph file, a mapping, a `FlowGraphDesc` or a `Graph`.
            overrides: ``{"node.key": value}``, as ``--set`` on the command line.
            args: Values for the graph's ``[args]``.
            units: Flow units that only this flow knows: decorated functions, classes, specs.
            threads: 0: everything runs on the calling thread, for debugging; None: as planned.
            results_bound: Buffers of a session between its submitter and its reader at which `send`
                waits.
            stop_timeout: Seconds that `stop` lets streams go on by their own events and rows go
                round in loops, and seconds without any progress after which it no longer waits.
            watchdog_interval: Seconds in one call of a unit after which a warning names its node.
            on_error: Called with each buffer in error that reaches a node without outputs, where no
                `recv` sees it, on the thread that brought it there: it must not wait for the flow.
                None: they are logged, of each kind 20 at once and then one in 10 seconds.
            tap: Is shown what passes the edges, for debugging: called with a node, its output (a
                graph input: its name, twice) and the buffers that come from there, errors among
                them. On the thread that brings them: it must not wait, use the flow, raise, or
                change a buffer; it may keep a `Buffer.twin`. Every node is then a stage of its own.

        Raises:
            ConfigError, GraphError, PlanError: the graph cannot run; every mistake is listed.
            TypeError, ValueError: a number is none, or out of its range.
        """
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
        self._log: FlowLog | None = None
        self._journal: Journal | None = None
        self._process = os.getpid()

    # -- life -----------------------------------------------------------------------------------

    def start(self) -> Self:
        """Opens every unit and starts the threads.

        Raises:
            FlowFailed: a unit did not open; nothing is left running.
            GraphError: ``[serve]`` in the graph file contradicts a model; nothing is left running.
            PlanError: this machine or this version cannot run the graph.
            RecordingError: ``[profile]`` in the graph file asks for files that cannot be written.
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
        """Compares what the graph file says of its ends with what the loaded models say."""
        findings = list(contradictions(self.graph, scheduler.tensor))
        if findings:
            raise GraphError(findings)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until every source is done (a flow without sources: until it is stopped).

        Args:
            timeout: Longest wait in seconds; None: as long as it takes; 0: do not wait.

        Returns:
            False if the time passed before.

        Raises:
            FlowFailed: the flow itself failed.
            TypeError, ValueError: ``timeout`` is no number.
        """
        if timeout is not None:
            timeout = check_seconds("timeout", timeout)
        return self._running_scheduler().wait(timeout)

    def stop(self, drain: bool = True, timeout: float | None = None, *, wait: bool = True) -> None:
        """Ends the flow: every unit is closed once, every thread joined. May be called again.

        Args:
            drain: What has been sent is still worked on, as long as something moves; else it is
                dropped.
            timeout: Seconds that threads may take to end when nothing is worked on any more; None:
                the flow's ``stop_timeout``.
            wait: False: another thread stops it, and this returns at once. It takes no lock: signal
                handlers call it so, and flow units that want the flow to end. Whoever calls `stop`
                or `wait`, or leaves the ``with`` block, waits for the end and is told what failed.

        Raises:
            FlowFailed: the flow itself failed, or a unit hangs; each inner error names its node.
            TypeError, ValueError: ``timeout`` is no number; nothing has ended.
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
        """Stops the flow: drains it, unless the block was left by an error."""
        self.stop(drain=error is None)

    async def __aenter__(self) -> Self:
        import asyncio  # a third of the time of importing Flow: only for those who use it

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
    def graph(self) -> Graph:
        """The checked graph."""
        return self._graph

    @property
    def scheduler(self) -> "Scheduler":
        """What runs the graph; made when it is first asked for. Its ``plan`` says what runs where.

        For servers and tools, not for applications: it may change with every version.

        Raises:
            PlanError: this machine or this version cannot run the graph.
            StreamClosed: the flow was made before the process forked.
        """
        if self._scheduler is None:
            from modelflow.runtime.scheduler import Scheduler  # half of what a flow loads

            self._scheduler = Scheduler(
                make_plan(self.graph, is_fused=self._options.tap is None), self._options
            )
        return self._running_scheduler()

    @property
    def is_running(self) -> bool:
        """Tells whether sessions can be opened."""
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


FlowLife.__init__.__qualname__ = "Flow.__init__"  # what Python says of arguments that are wrong
