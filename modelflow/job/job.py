"""`Job`: many inputs through a graph, as ``modelflow run`` does it."""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from modelflow.error_log import log_error, logger
from modelflow.errors import ArgumentError, FlowFailed
from modelflow.flow import Flow
from modelflow.graph.files import files_behind
from modelflow.graph.graph import Graph
from modelflow.graph.read import read_graph
from modelflow.job.error_report import ErrorReport, Report
from modelflow.job.inputs import feeds_of
from modelflow.job.resume import ResumedJob, check_resumable, journal_of
from modelflow.job.run import Run
from modelflow.job.writer import ResultWriter, targets_of
from modelflow.quantities import count_of
from modelflow.signals import Undisturbed

Places = str | os.PathLike[str] | Sequence[str] | Mapping[str, str | os.PathLike[str]]
"""One place; several, each ``PORT=PLACE``; or the place of each port."""


@dataclass(frozen=True)
class JobResult:
    """What a job has done.

    Attributes:
        items: Inputs that are through; where one may become several results or none, results.
        total: Inputs that there are; None: the graph's sources know.
        results: By output, the results that are written, errors and earlier runs among them.
        errors: Items of this run that failed.
        errors_before: Items that failed in the runs that this one goes on with.
        seconds: How long it took.
    """

    items: int
    total: int | None
    results: Mapping[str, int]
    errors: int
    errors_before: int
    seconds: float


class Job:
    """Many inputs through a graph: files in, results and errors out, resumable.

    ::

        job = modelflow.Job("graph.toml", "photos/*.jpg", "scores.jsonl", resume="scores.done")
        result = job.run()
        print(result.items, "photos,", result.errors, "errors")

    An item that fails becomes an error line in its place; the others go on. A job runs once. In a
    ``with`` block its files are open and its flow is built before it runs.

    Attributes:
        flow: The flow that runs, from when the job is entered.
    """

    flow: Flow

    def __init__(  # noqa: PLR0913 - each is the user's to set
        self,
        graph: Any,
        inputs: Places = (),
        outputs: Places = (),
        *,
        errors: str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | None = None,
        trace: str | os.PathLike[str] | None = None,
        full: bool = False,
        threads: int | None = None,
        on_error: Report = log_error,
        on_note: Callable[[str], None] = logger.info,
    ) -> None:
        """Reads and checks the graph; opens nothing.

        Args:
            graph: What `Flow` takes; for other settings what `read_graph` returns.
            inputs: What goes into each input: a file, a folder, a pattern, or ``-``.
            outputs: Where the results of each output go: a file of JSON lines, a ``.parquet``
                folder, a folder with a file a result, or ``-``, as those go that are not named.
            errors: A file for a JSON line with what is known of each item that failed.
            resume: A file that lists the inputs that are done: they are passed over.
            trace: A file for what every worker does; see `Flow.record`.
            full: JSON lines have large arrays, images and bytes whole.
            threads: 0: everything runs on the calling thread; None: as planned.
            on_error: Called with the message of an item's error, and the error; from any thread.
            on_note: Called with what the user should know.

        Raises:
            ConfigError, GraphError: the graph is wrong; every mistake is listed.
        """
        self._graph = graph if isinstance(graph, Graph) else read_graph(graph)
        self._inputs, self._outputs = _texts(inputs), _texts(outputs)
        self._error_file, self._list, self._trace = _path(errors), _path(resume), _path(trace)
        self._is_whole, self._threads = full, threads
        self._on_error, self._on_note = on_error, on_note
        self._files = ExitStack()
        self._is_open = False
        self._since: float | None = None

    def __enter__(self) -> Self:
        """Opens the files and builds the flow.

        Raises:
            ArgumentError: what the inputs or outputs say does not fit the graph.
            ConfigError: a file is not there, or cannot be written.
            PlanError: this machine or this version cannot run the graph.
        """
        with ExitStack() as files:
            self._open(files)
            self._files = files.pop_all()
        self._is_open = True
        return self

    def __exit__(self, *error: Any) -> None:
        self._files.__exit__(*error)

    def run(self, around: AbstractContextManager[Any] | None = None) -> JobResult:
        """Runs the job to its end.

        Args:
            around: Entered when every unit is open, and left before the flow is.

        Raises:
            FlowFailed: a unit did not open, or the flow cannot go on.
            StreamClosed: it was stopped before it had begun.
            ModelflowError: results cannot be written, or are missing.
            ArgumentError, ConfigError, PlanError: as where the job is entered.
        """
        if not self._is_open:
            with self:
                return self.run(around)
        tracing = nullcontext() if self._trace is None else self.flow.record(self._trace)
        with Undisturbed(tracing), self.flow:
            self._since = time.perf_counter()
            with Undisturbed(around or nullcontext()):
                running = Run(self.flow, self._feeds, self._write)
                if self._threads == 0:
                    running.run_inline()
                else:
                    running.run_threaded()
        running.check_complete()  # only now: leaving the flow finishes what is under way
        return self.result

    def stop(self) -> None:
        """Has the flow take on nothing more and finish what is under way; from any thread."""
        with suppress(FlowFailed):  # it is raised again where the flow is left
            self.flow.stop()

    @property
    def has_begun(self) -> bool:
        """Tells whether the flow has started."""
        return self._since is not None

    @property
    def result(self) -> JobResult:
        """What the job has done so far; from when it is entered."""
        writer, stats, origins = self._writer, self.flow.stats(), self.flow.scheduler.plan.origins
        main = origins.get("")
        counted = main if main is not None and main.is_counted else None
        sinks = {
            node
            for origin in (origins.values() if counted is None else [counted])
            for node in origin.terminals
            if node not in origin.outputs
        }
        through = [stats[node].buffers for node in sinks]
        # Where nothing comes out, what the last nodes were given: a frame, not a packet.
        items = writer.items or sum(through)
        if counted is not None:
            written = [writer.counts[port] - self._done_before for port in counted.outputs]
            items = min(written + through)
        return JobResult(
            items,
            self._feeds[0].count if self._feeds and counted is not None else None,
            dict(writer.counts),
            self._errors.count,
            self._errors.before,
            0.0 if self._since is None else time.perf_counter() - self._since,
        )

    def describe_errors(self) -> Iterator[str]:
        """Gives lines: how many errors of each kind, in which node, and the first of them."""
        return self._errors.summary()

    def _open(self, files: ExitStack) -> None:
        graph, path = self._graph, self._list
        for text in graph.notes:
            self._on_note(str(text))
        self._feeds = feeds_of(self._inputs, graph.inputs)
        self._check_apart()
        errors = ErrorReport(self._error_file, self._on_error, is_resumed=path is not None)
        self._errors = files.enter_context(errors)
        writer = ResultWriter(
            self._outputs, graph.outputs, errors, self._on_note, is_whole=self._is_whole
        )
        self._writer = files.enter_context(writer)
        writer.protect(path for feed in self._feeds for path in feed.paths)
        self.flow = Flow(graph, threads=self._threads, on_error=self._errors.add)
        self._write, self._done_before = writer.write, 0
        if path is not None:
            self._resume(path, files)
            return
        main = self.flow.scheduler.plan.origins.get("")
        is_paired = main is not None and main.single_outputs.issuperset(main.outputs)
        paths = [str(path) for feed in self._feeds[:1] for path in feed.paths]
        writer.open(is_paired, paths=paths)

    def _resume(self, path: Path, files: ExitStack) -> None:
        check_resumable(self.flow, self._feeds, self._writer)
        name, version = _identity(self._graph)
        is_inline = self._threads == 0
        resuming = ResumedJob(
            path, name, version, self._feeds, self._writer, self._errors, is_inline=is_inline
        )
        files.callback(resuming.close)
        self._feeds, self._write = resuming.feeds, resuming.write
        if done := resuming.done_before:
            self._done_before = done
            left = count_of(self._feeds[0].count, "item")
            self._on_note(f"{count_of(done, 'item')} done before, {left} left")
        if done and resuming.is_changed:
            self._on_note(
                f"{name}: has changed since --resume {path} was begun; what is done stays as it "
                "is: to do it again remove the list and the results"
            )
        if alone := resuming.alone:
            items = count_of(alone, "item")
            self._on_note(f"{items} first, one by one: a process died with them")

    def _check_apart(self) -> None:
        """Checks that no file is written that is read, and none is written twice."""
        graph, path = self._graph, self._list
        read = {f"--input {feed.port}": feed.paths for feed in self._feeds}
        read["GRAPH"] = [*filter(None, [_graph_file(graph)]), *files_behind(graph)]
        targets = targets_of(self._outputs, graph.outputs)
        written: dict[str, str | Path | None] = {
            **{f"--output {port}={where}": where for port, (_, where) in targets.items()},
            "--errors": self._error_file,
            "--resume": path,
            "the journal of --resume": path and journal_of(path),
            "--trace": self._trace,
        }
        seen = {_file_of(path): option for option, paths in read.items() for path in paths}
        readers = set(seen.values())
        for option, where in written.items():
            if not where or where == "-" or _is_device(where):
                continue
            other = seen.setdefault(_file_of(where), option)
            if other in readers:
                raise ArgumentError(
                    f"{option}: {where} is read by {other}, and would be overwritten; give another "
                    "file"
                )
            if other != option:
                raise ArgumentError(
                    f"{option}: is the file of {other}; give each a file of its own"
                )


def _texts(places: Places) -> Sequence[str]:
    """Returns places as the command line has them."""
    if isinstance(places, Mapping):
        return [f"{port}={os.fspath(where)}" for port, where in places.items()]
    return [os.fspath(places)] if isinstance(places, str | os.PathLike) else places


def _path(given: str | os.PathLike[str] | None) -> Path | None:
    return None if given is None else Path(given)


def _graph_file(graph: Graph) -> Path | None:
    return graph.config.archive or graph.config.path


def _identity(graph: Graph) -> tuple[str, str]:
    """Returns what a list calls a graph, and a hash that tells two versions of it apart."""
    path, config = _graph_file(graph), graph.config
    found = hashlib.sha256(b"" if path is None else path.read_bytes())
    found.update(repr((config.nodes, config.edges)).encode(errors="surrogateescape"))
    return graph.name if path is None else str(path), found.hexdigest()


def _is_device(path: str | Path) -> bool:
    """Tells whether a path is of a device or a pipe."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _file_of(path: str | Path) -> object:
    """Returns what is the same for two names of a file, links too."""
    try:
        found = os.stat(path)
    except OSError:  # it is not there yet
        return os.path.realpath(path)
    return found.st_dev, found.st_ino
