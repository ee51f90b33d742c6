"""``modelflow run``: feeds a graph, writes its results, counts its errors."""

import contextlib
import itertools
import sys
import threading
import traceback
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.options.graph_options import graph_options
from modelflow.cli.options.shell_completion import complete_input, complete_output
from modelflow.cli.run.watch import Turn, run_watched
from modelflow.cli.terminal.messages import tell
from modelflow.cli.terminal.progress import Progress, items, progress
from modelflow.errors import ConfigError, FlowFailed, StreamClosed
from modelflow.job.run import Run
from modelflow.signals import ExitCode, Undisturbed, termination

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from modelflow.cli.run.window import Window
    from modelflow.errors import FlowUnitError
    from modelflow.flow import Flow
    from modelflow.graph.graph import Graph
    from modelflow.job.error_report import ErrorReport
    from modelflow.job.inputs import Feed
    from modelflow.job.run import Write
    from modelflow.job.writer import ResultWriter


class _Run(click.Command):
    """Leaves a graph behind a bare ``--dashboard`` to GRAPH: it is no address."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        whole = [
            "--dashboard=0" if arg == "--dashboard" and _is_graph(then) else arg
            for arg, then in itertools.zip_longest(args, args[1:], fillvalue="")
        ]
        return super().parse_args(ctx, whole)


def _is_graph(word: str) -> bool:
    from modelflow.config.read import is_graph_file, list_named_graphs, ready_graphs

    return is_graph_file(Path(word)) or word in list_named_graphs(ready_graphs())


@click.command(cls=_Run)
@graph_options
@click.option(
    "--input",
    "inputs",
    multiple=True,
    shell_complete=complete_input,
    metavar="[PORT=]FILE|DIR|GLOB|-",
    help="What goes into an input of the graph: a buffer a file; '-': standard input.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    shell_complete=complete_output,
    metavar="[PORT=]FILE|DIR|-",
    help="Where an output's results go: JSON lines into a file or (without this) to standard "
    "output; into a folder a file a result (an image as PNG).",
)
@click.option(
    "--full", is_flag=True, help="JSON lines with large arrays, images and bytes whole, not short."
)
@click.option(
    "--errors",
    "error_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write every error into a file as well: a JSON line each, with what is known of the item.",
)
@click.option(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep a list of the inputs that are done; those in it are passed over, and results go "
    "behind those that are there. The same command goes on after whatever ended it.",
)
@click.option("--keep-going", is_flag=True, help="Exit with 0 even if there were errors.")
@click.option("--quiet", "-q", is_flag=True, help="Say nothing on stderr but errors.")
@click.option("--sync", is_flag=True, help="Run everything on one thread, for debugging.")
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Record what every worker does, for ui.perfetto.dev: t.json, or t.json.gz.",
)
@click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    help="Answer http://HOST:PORT/metrics for Prometheus and /stats for 'modelflow top' while it "
    "runs; 127.0.0.1 unless a host is given.",
)
@click.option(
    "--dashboard",
    is_flag=False,
    flag_value="0",
    metavar="[[HOST:]PORT]",
    help="Show it in the browser while it runs: graph, rates, queues, errors, what limits it. The "
    "page's address is printed; 127.0.0.1 and any free port unless given.",
)
@click.option(
    "--watch",
    "is_watched",
    is_flag=True,
    help="Run it anew whenever its graph, units or models change; models that have not stay "
    "loaded. Ctrl-C ends it.",
)
@click.pass_context
def run(context: click.Context, /, graph: GraphChoice, **options: Any) -> int:
    """Runs a graph: a file, or the name of one that comes with modelflow.

    A graph with inputs is fed by --input; one with sources runs until they are done, or Ctrl-C,
    which ends it at once; SIGTERM lets it finish what it has taken on. An
    item that fails becomes an error line in its place; the others go on, and the exit code is 1.

    \b
    modelflow run graphs/digits.toml
    modelflow run graph.toml --input 'input=photos/*.jpg' --output output=out/
    modelflow run graph.toml --input photos --output scores.jsonl --resume scores.done
    cat a.jpg | modelflow run graph.toml --input - --set 'infer.device=cpu'
    """
    return run_graph(context, graph, **options)


def run_graph(  # noqa: PLR0913 - each is an option
    context: click.Context,
    graph: GraphChoice,
    *,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    full: bool,
    error_file: Path | None,
    resume: Path | None,
    keep_going: bool,
    quiet: bool,
    sync: bool,
    trace: str | None,
    metrics: str | None,
    dashboard: str | None,
    is_watched: bool,
) -> int:
    """Does what ``modelflow run`` was asked for, with the options of `run`.

    Returns:
        The exit code.
    """
    wishes = _RunOptions(
        graph,
        inputs,
        outputs,
        error_file,
        resume,
        trace,
        metrics,
        dashboard,
        is_whole=full,
        is_quiet=quiet,
        is_inline=sync,
        is_debug=bool((context.obj or {}).get("debug")),
    )
    if not is_watched:
        code = wishes.run(graph.read(), Turn())
    elif resume is not None or sync:
        message = f"--watch: cannot be used with {'--resume' if resume else '--sync'}"
        raise click.UsageError(message)
    else:
        code = run_watched(graph, wishes.run, wishes.note)
    return ExitCode.OK if code == ExitCode.FAILED and keep_going else code


@dataclass(frozen=True)
class _RunOptions:
    """What the command line asks for."""

    graph: GraphChoice
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    error_file: Path | None
    resume: Path | None
    trace: str | None
    metrics: str | None
    dashboard: str | None
    is_whole: bool
    is_quiet: bool
    is_inline: bool
    is_debug: bool

    def note(self, text: str) -> None:
        """Says something that is no error."""
        if not self.is_quiet:
            tell("note", text)

    def report(self, text: str, error: "FlowUnitError | None") -> None:
        """Writes the error of an item on stderr."""
        tell("error", text)
        if self.is_debug and error is not None and error.__cause__ is not None:
            click.echo("".join(traceback.format_exception(error.__cause__)).rstrip(), err=True)

    def run(self, graph: "Graph", turn: Turn) -> int:
        """Runs a graph to its end, and returns the exit code."""
        from modelflow.flow import Flow
        from modelflow.job.error_report import ErrorReport
        from modelflow.job.inputs import feeds_of
        from modelflow.job.resume import ResumedJob, check_resumable
        from modelflow.job.writer import ResultWriter

        for text in graph.notes:
            self.note(str(text))
        feeds = feeds_of(self.inputs, graph.inputs)
        resume = self.resume
        self._check_apart(graph, feeds)
        with contextlib.ExitStack() as files:
            errors = files.enter_context(
                ErrorReport(self.error_file, self.report, is_resumed=resume is not None)
            )
            writer = files.enter_context(
                ResultWriter(self.outputs, graph.outputs, errors, self.note, is_whole=self.is_whole)
            )
            writer.protect(path for feed in feeds for path in feed.paths)
            # Built before a signal may come: only what is there can be stopped.
            flow = Flow(graph, threads=0 if self.is_inline else None, on_error=errors.add).build()
            write = writer.write
            if resume is None:
                paths = list(map(str, feeds[0].paths)) if feeds else []
                writer.open(_is_paired(flow), paths=paths)
            else:
                check_resumable(flow, feeds, writer)
                resuming = ResumedJob(
                    resume, self.graph, feeds, writer, errors, is_inline=self.is_inline
                )
                files.callback(resuming.close)
                feeds, write = resuming.feeds, resuming.write
                if done := resuming.done_before:
                    self.note(f"{items(done)} done before, {items(feeds[0].count)} left")
                if done and resuming.is_changed:
                    self.note(
                        f"{self.graph.source}: has changed since --resume {resume} was begun; what "
                        "is done stays as it is: to do it again remove the list and the results"
                    )
                if alone := resuming.alone:
                    self.note(f"{items(alone)} first, one by one: a process died with them")
            job = _Job(flow, feeds, writer, errors, write, turn, self.is_quiet, self.is_inline)
            return job.run(self.trace, self.metrics, self.dashboard)

    def _check_apart(self, graph: "Graph", feeds: "Sequence[Feed]") -> None:
        """Checks that no option names a file that another one reads or writes."""
        from modelflow.cli.options.output_files import check_apart
        from modelflow.graph.files import files_behind
        from modelflow.job.resume import journal_of
        from modelflow.job.writer import targets_of

        read = {f"--input {feed.port}": feed.paths for feed in feeds}
        targets = targets_of(self.outputs, graph.outputs)
        written: dict[str, str | Path | None] = {
            **{f"--output {port}={where}": where for port, (_, where) in targets.items()},
            "--errors": self.error_file,
            "--resume": self.resume,
            "the journal of --resume": self.resume and journal_of(self.resume),
            "--trace": self.trace,
        }
        check_apart(
            {"GRAPH": [self.graph.path, *files_behind(graph)], **read},
            {option: Path(where) for option, where in written.items() if where and where != "-"},
        )


@dataclass
class _Job:
    """A flow that is about to run, with what it is fed and where its results go."""

    flow: "Flow"
    feeds: "Sequence[Feed]"
    writer: "ResultWriter"
    errors: "ErrorReport"
    write: "Write"
    turn: Turn
    is_quiet: bool
    is_inline: bool
    progress: Progress | None = None
    runner: Run = field(init=False)

    def run(self, trace: str | None, metrics: str | None, dashboard: str | None) -> int:
        """Runs it to its end, and returns the exit code."""
        flow, asked = self.flow, threading.Event()
        finish = None if self.is_inline else partial(_finish, flow)
        self.turn.begin(partial(_finish, flow))
        try:
            # Around the start as well: a server is sent signals from the moment in which it
            # listens.
            with (
                termination(asked, finish),
                Undisturbed(
                    contextlib.nullcontext() if metrics is None else _window(metrics, flow)
                ),
                Undisturbed(
                    contextlib.nullcontext() if dashboard is None else _page(dashboard, flow)
                ),
                Undisturbed(contextlib.nullcontext() if trace is None else flow.record(trace)),
                flow,
            ):
                self.turn.run()
                self._use()
        except KeyboardInterrupt as interrupt:
            self._summary("stopped: ")
            raise click.exceptions.Abort from interrupt
        except (FlowFailed, ConfigError):  # ConfigError: results cannot be written
            self._summary("failed: ")
            raise
        except StreamClosed:
            if asked.is_set():
                return ExitCode.TERMINATED  # before there was anything to finish
            if self.turn.is_over:
                return ExitCode.OK
            raise
        # Only now that the flow has been left: leaving it finishes what is still under way.
        self._summary()
        sys.stdout.flush()
        self.runner.check_complete()
        if asked.is_set():
            return ExitCode.TERMINATED
        return ExitCode.FAILED if self.errors.count + self.errors.before else ExitCode.OK

    def _use(self) -> None:
        total = self.feeds[0].count if self.feeds else None
        self.progress = Progress(self.flow, self.writer, self.errors, total)
        self.runner = Run(self.flow, self.feeds, self.write)
        with Undisturbed(
            contextlib.nullcontext() if self.is_quiet else progress(self.progress.line)
        ):
            if self.is_inline:
                self.runner.run_inline()
            else:
                self.runner.run_threaded()

    def _summary(self, how: str = "") -> None:
        if self.is_quiet or self.progress is None:
            return
        before = self.errors.before
        told = f"; {before} error{'s' * (before > 1)} in what was done before" if before else ""
        click.echo(f"{how}{self.progress.summary()}{told}", err=True)
        for line in self.errors.summary():
            click.echo(line, err=True)


def _is_paired(flow: "Flow") -> bool:
    """Tells whether every output gets one result for each input."""
    origin = flow.plan.origins.get("")
    return origin is not None and origin.single_outputs.issuperset(origin.outputs)


def _window(address: str, flow: "Flow") -> "Window":
    from modelflow.cli.run.window import Window

    window = Window(address, flow.stats, flow.snapshot)
    click.echo(f"metrics: {window.url}/metrics, figures: {window.url}/stats", err=True)
    return window


@contextlib.contextmanager
def _page(address: str, flow: "Flow") -> "Iterator[None]":
    from modelflow.cli.insight.live import show_in_browser

    with show_in_browser("--dashboard", address, flow.moment, flow.record) as page:
        click.echo(f"dashboard: {page}", err=True)
        yield


def _finish(flow: "Flow") -> None:
    """Has the flow take on nothing more and finish what is under way; from any thread."""
    with contextlib.suppress(FlowFailed):  # it is raised again where the flow is left
        flow.stop()
