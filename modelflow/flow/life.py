"""From a graph to its running engine, and to its end."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from modelflow.buffer import Buffer
from modelflow.config.read import find_graph
from modelflow.error_log import ErrorLog, log_error
from modelflow.errors import GraphError, StreamClosed
from modelflow.graph.graph import Graph
from modelflow.graph.read import check_arguments, read_graph
from modelflow.graph.signature import contradictions
from modelflow.log import FlowLog
from modelflow.plan import ExecutionPlan, make_plan
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
        source: Any = None,
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
        """Reads and checks the graph, if one is given; starts nothing.

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
        self._overrides = dict(overrides or {})
        self._args = dict(args or {})
        self._units = tuple(units)
        self._errors = ErrorLog(log_error)
        self._options = SchedulerOptions(
            is_inline=threads == 0,
            results_bound=results_bound,
            stop_timeout=check_seconds("stop_timeout", stop_timeout),
            watchdog_interval=check_seconds("watchdog_interval", watchdog_interval),
            on_error=on_error or self._errors.add,
            tap=tap,
        )
        self._graph: Graph | None = None
        self._scheduler: Scheduler | None = None
        self._log: FlowLog | None = None
        self._journal: Journal | None = None
        self._process = os.getpid()
        if source is not None:
            self._read(source, None)

    # -- life -----------------------------------------------------------------------------------

    def _read(self, source: Any, form: str | None) -> None:
        if isinstance(source, Graph):
            self._graph = source
        else:
            self._graph = read_graph(
                source,
                format=form,
                overrides=self._overrides,
                args=self._args,
                units=self._units,
            )

    def _build(self) -> "Scheduler":
        """Returns the scheduler, made when it is first asked for."""
        if self._scheduler is None:
            from modelflow.runtime.scheduler import Scheduler  # half of what a flow loads

            self._scheduler = Scheduler(
                make_plan(self.graph, is_fused=self._options.tap is None), self._options
            )
        return self._running_scheduler()

    def start(self) -> Self:
        """Opens every unit and starts the threads.

        Raises:
            FlowFailed: a unit did not open; nothing is left running.
            GraphError: ``[serve]`` in the graph file contradicts a model; nothing is left running.
            PlanError: this machine or this version cannot run the graph.
            RecordingError: ``[profile]`` in the graph file asks for files that cannot be written.
        """
        scheduler = self._build()
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

    def run(self) -> None:
        """Starts the flow, waits until its sources are done, and stops it.

        Raises:
            FlowFailed: the flow itself failed.
        """
        with self:
            self.wait()

    def wait(self, timeout_ms: float = 0) -> bool:
        """Waits until every source is done (a flow without sources: until it is stopped).

        Args:
            timeout_ms: Longest wait in milliseconds; 0: as long as it takes.

        Returns:
            False if the time passed before.

        Raises:
            FlowFailed: the flow itself failed.
            TypeError, ValueError: ``timeout_ms`` is no number.
        """
        seconds = check_seconds("timeout_ms", timeout_ms, "milliseconds")
        return self._running_scheduler().wait(seconds or None)

    def stop(self, drain: bool = True, timeout: float | None = None) -> None:
        """Ends the flow: every unit is closed once, every thread joined. May be called again.

        Args:
            drain: What has been sent is still worked on, as long as something moves; else it is
                dropped.
            timeout: Seconds that threads may take to end when nothing is worked on any more; None:
                the flow's ``stop_timeout``.

        Raises:
            FlowFailed: the flow itself failed, or a unit hangs; each inner error names its node.
            TypeError, ValueError: ``timeout`` is no number; nothing has ended.
        """
        if timeout is not None:
            timeout = check_seconds("timeout", timeout)
        if self._scheduler is not None:
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

    def list_busy(self) -> list[str]:
        """Says of each thread that is in a unit now which node that is, since when, and where.

        For whoever waits for what does not come. From any thread.

        Returns:
            ``"node 'infer' has been in process for 12.3 s; it is at unit.py:7 in process"``.
        """
        return [] if self._scheduler is None else self._scheduler.list_busy()

    def list_threads(self) -> list[int]:
        """Returns the `threading.Thread.ident` of each thread that runs units of it."""
        return [] if self._scheduler is None else self._scheduler.list_threads()

    def request_stop(self, drain: bool = True, timeout: float | None = None) -> None:
        """Has the flow stopped by another thread, and returns at once; takes no lock.

        What a signal handler calls (`stop` there would wait for the thread that the signal has
        interrupted), and a flow unit that wants the flow to end. Whoever calls `stop` or `wait`, or
        leaves the ``with`` block, waits for the end and is told what went wrong. The arguments are
        those of `stop`.

        Raises:
            TypeError, ValueError: ``timeout`` is no number; nothing has ended.
        """
        if timeout is not None:
            timeout = check_seconds("timeout", timeout)
        if self._scheduler is not None:
            self._scheduler.request_stop(drain, timeout)

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
        """The checked graph.

        Raises:
            StreamClosed: none was given yet.
        """
        if self._graph is None:
            raise StreamClosed(
                "this Flow has no graph yet; give it one: Flow('graph.toml') or init(...)"
            )
        return self._graph

    @property
    def plan(self) -> ExecutionPlan:
        """What runs where, and why."""
        return self._build().plan

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

    # -- the names of ModelBox's API, for applications that were written for it --------------------

    def init(self, source: Any, format: str | None = None) -> Self:  # noqa: A002 - the API's name
        """Reads and checks a graph, as the constructor does where it is given one.

        Args:
            source: As in the constructor.
            format: ``toml``, ``yaml``, ``json`` or ``dot``; None: by suffix or content.

        Raises:
            ConfigError, GraphError: the graph is wrong; every mistake is listed.
        """
        self._read(source, format)
        return self

    def init_by_name(
        self,
        name: str,
        args: Mapping[str, Any] | None = None,
        graph_dir: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Reads the graph whose ``[flow] name`` is ``name``, among those of a folder.

        Args:
            name: The name.
            args: Values for its ``[args]``.
            graph_dir: Where to look; None: among the graphs that come with modelflow.

        Raises:
            ConfigError: there is none; the message lists those that are there.
        """
        self._args |= dict(args or {})
        return self.init(find_graph(name, graph_dir))

    def build(self) -> Self:
        """Makes the plan and the queues now, and not in `start`; starts nothing.

        Raises:
            PlanError: this machine or this version cannot run the graph.
        """
        self._build()
        return self

    start_run = start
    run_async = start
