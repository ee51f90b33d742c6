"""The class `Job`, which sends many inputs through a graph, like ``modelflow run``."""

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
"""A place, several places as ``PORT=PLACE``, or a mapping from ports to places."""


@dataclass(frozen=True)
class JobResult:
    """The result of a job.

    Attributes:
        items: Number of finished inputs. If an input may have several results or none, the number
            of results.
        total: Number of inputs. None if only the graph's sources know it.
        results: Output -> number of written results, including errors and earlier runs.
        errors: Number of items that failed in this run.
        errors_before: Number of items that failed in the earlier runs that this run continues.
        seconds: Duration of the run.
    """

    items: int
    total: int | None
    results: Mapping[str, int]
    errors: int
    errors_before: int
    seconds: float


class Job:
    """A resumable run of many inputs through a graph: files in, results and errors out.

    ::

        job = modelflow.Job("graph.toml", "photos/*.jpg", "scores.jsonl", resume="scores.done")
        result = job.run()
        print(result.items, "photos,", result.errors, "errors")

    A failed item becomes an error line in its place; the others go on. A job runs once. A ``with``
    block opens its files and builds its flow before it runs.

    Attributes:
        flow: The flow of the job, available inside the ``with`` block.
    """

    flow: Flow

    def __init__(  # noqa: PLR0913 - each is an option for the user
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
        """Reads and checks the graph; opens no files.

        Args:
            graph: A graph as for `Flow`. For other settings, the result of `read_graph`.
            inputs: The source of each input: a file, a folder, a pattern, or ``-``.
            outputs: The place of each output: a file of JSON lines, a ``.parquet`` folder, a folder
                with a file a result, or ``-``. Outputs without a place go to ``-``.
            errors: A file with a JSON line for each failed item.
            resume: A file with the list of finished inputs, which are skipped.
            trace: A file with a trace of every worker; see `Flow.record`.
            full: Whether JSON lines have large arrays, images and bytes in full.
            threads: 0 to run everything on the calling thread. None for the planned threads.
            on_error: Called with the message of an item's error, and the error; from any thread.
            on_note: Called with messages for the user.

        Raises:
            ConfigError, GraphError: The graph is wrong. The message lists every mistake.
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
            ArgumentError: The inputs or outputs do not match the graph.
            ConfigError: A file does not exist, or cannot be written.
            PlanError: This machine or this version cannot run the graph.
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
            around: A context manager, entered after every unit is open and left before the flow.

        Raises:
            FlowFailed: A unit did not open, or the flow has failed.
            StreamClosed: `stop` was called before the start.
            ModelflowError: Results cannot be written, or are missing.
            ArgumentError, ConfigError, PlanError: As for `__enter__`.
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
        running.check_complete()  # only now, because leaving the flow finishes the open items
        return self.result

    def stop(self) -> None:
        """Stops sending, and lets the flow finish its open items; from any thread."""
        with suppress(FlowFailed):  # raised again at the end of the flow's ``with`` block
            self.flow.stop()

    @property
    def has_begun(self) -> bool:
        """Whether the flow has started."""
        return self._since is not None

    @property
    def result(self) -> JobResult:
        """The result so far; available inside the ``with`` block."""
        writer, stats, origins = self._writer, self.flow.stats(), self.flow.scheduler.plan.origins
        main = origins.get("")
        counted = main if main is not None and main.is_counted else None
        sinks = {
            node
            for origin in (origins.values() if counted is None else [counted])
            for node in origin.terminals
            if node not in origin.outputs
        }
        through = [stats[node].rows_taken for node in sinks]
        # Without outputs, the rows that the last nodes received: frames, for example, not packets.
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
        """Yields lines: the number of errors of each kind and node, and the first error."""
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
                f"{name}: has changed since --resume {path} was begun. Finished inputs stay as "
                "they are. To process them again, remove the list and the results"
            )
        if alone := resuming.alone:
            items = count_of(alone, "item")
            self._on_note(f"{items} first, one by one: a process died while they were in flight")

    def _check_apart(self) -> None:
        """Checks that no input file is overwritten, and that no file is written twice."""
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
    """Returns places in the form of the command line."""
    if isinstance(places, Mapping):
        return [f"{port}={os.fspath(where)}" for port, where in places.items()]
    return [os.fspath(places)] if isinstance(places, str | os.PathLike) else places


def _path(given: str | os.PathLike[str] | None) -> Path | None:
    return None if given is None else Path(given)


def _graph_file(graph: Graph) -> Path | None:
    return graph.config.archive or graph.config.path


def _identity(graph: Graph) -> tuple[str, str]:
    """Returns the name of a graph in the list, and a hash of its version."""
    path, config = _graph_file(graph), graph.config
    found = hashlib.sha256(b"" if path is None else path.read_bytes())
    found.update(repr((config.nodes, config.edges)).encode(errors="surrogateescape"))
    return graph.name if path is None else str(path), found.hexdigest()


def _is_device(path: str | Path) -> bool:
    """Returns whether a path leads to a device or a pipe."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _file_of(path: str | Path) -> object:
    """Returns a value that is equal for all names of a file, including links."""
    try:
        found = os.stat(path)
    except OSError:  # the file does not exist yet
        return os.path.realpath(path)
    return found.st_dev, found.st_ino
