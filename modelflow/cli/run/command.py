"""The command ``modelflow run``: feeds a graph, writes its results, counts its errors."""

import itertools
import sys
import threading
import traceback
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.options.graph_options import graph_options
from modelflow.cli.options.parameters import (
    declare_file,
    declare_input,
    declare_repeated,
    declare_written_file,
)
from modelflow.cli.options.shell_completion import complete_output
from modelflow.cli.run.watch import Turn, run_watched
from modelflow.cli.terminal.messages import tell, wrap
from modelflow.cli.terminal.progress import describe_progress, describe_result, progress
from modelflow.errors import FlowFailed, ModelflowError, StreamClosed
from modelflow.flow.life import watch_starts
from modelflow.signals import ExitCode, Undisturbed, termination

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from modelflow.errors import FlowUnitError
    from modelflow.flow import Flow
    from modelflow.graph.graph import Graph
    from modelflow.job.job import Job


class _Run(click.Command):
    """The command; a graph after a bare ``--dashboard`` is the argument GRAPH, not an address."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        whole = [
            "--dashboard=0" if arg == "--dashboard" and _is_graph(then) else arg
            for arg, then in itertools.zip_longest(args, args[1:], fillvalue="")
        ]
        return super().parse_args(ctx, whole)


def _is_graph(word: str) -> bool:
    from modelflow.config.read import is_graph_file, list_named_graphs
    from modelflow.starters.ready import ready_graphs

    return is_graph_file(Path(word)) or word in list_named_graphs(ready_graphs())


@click.command(cls=_Run)
@graph_options
@declare_input(
    "[PORT=]FILE|DIR|GLOB|-",
    "Input for the graph: a buffer for each file; '-': standard input.",
)
@declare_repeated(
    "--output",
    "outputs",
    "[PORT=]FILE|DIR|-",
    "Where to write the results of an output. A file gets JSON lines, a folder a file for each "
    "result (an image as PNG). Default: JSON lines to standard output.",
    shell_complete=complete_output,
)
@click.option(
    "--full", is_flag=True, help="Write large arrays, images and bytes in full in JSON lines."
)
@declare_file(
    "--errors",
    "error_file",
    "Also write every error to a file: a JSON line for each, with information about the item.",
)
@declare_file(
    "--resume",
    "resume",
    "Keep a list of the finished inputs in this file. The same command then skips them and "
    "appends its results. Use it to continue after any interruption.",
)
@click.option("--keep-going", is_flag=True, help="Exit with 0 even if there were errors.")
@click.option("--quiet", "-q", is_flag=True, help="Print only errors on stderr.")
@click.option("--sync", is_flag=True, help="Run everything on one thread, for debugging.")
@declare_written_file(
    "--trace", "trace", "Record the work of every worker for ui.perfetto.dev: t.json or t.json.gz."
)
@click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    help="Serve http://HOST:PORT/metrics for Prometheus and /stats for 'modelflow top' during "
    "the run. Default host: 127.0.0.1.",
)
@click.option(
    "--dashboard",
    is_flag=False,
    flag_value="0",
    metavar="[[HOST:]PORT]",
    help="Show the run in the browser: graph, rates, queues, errors and bottleneck. The page's "
    "address is printed. Default: 127.0.0.1 and any free port.",
)
@click.option(
    "--watch",
    "is_watched",
    is_flag=True,
    help="Run the graph again after each change of its graph file, units or models. Unchanged "
    "models stay loaded. Ctrl-C ends the command.",
)
@click.pass_context
def run(context: click.Context, /, graph: GraphChoice, **options: Any) -> int:
    """Runs a graph: a graph file, or the name of a graph that comes with modelflow.

    A graph with inputs needs --input. A graph with sources runs until they are done. Ctrl-C ends
    the run at once. SIGTERM ends it after the accepted items. A failed item becomes an error line
    in its place, and the other items go on. The exit code is then 1.

    \b
    modelflow run graphs/digits.toml
    modelflow run graph.toml --input 'input=photos/*.jpg' --output output=out/
    modelflow run graph.toml --input photos --output scores.jsonl --resume scores.done
    cat a.jpg | modelflow run graph.toml --input - --set 'infer.device=cpu'
    """
    return run_graph(context, graph, **options)


def run_graph(context: click.Context, graph: GraphChoice, **options: Any) -> int:
    """Runs ``modelflow run`` with the options of `run`.

    Returns:
        The exit code.
    """
    from modelflow.job.job import Job

    given = {name: options[name] for name in ("inputs", "outputs", "resume", "trace", "full")}
    threads = 0 if options["sync"] else None
    make_job = partial(Job, errors=options["error_file"], threads=threads, **given)
    if options["quiet"]:
        context.with_resource(watch_starts(nullcontext))
    one = _RunOptions(make_job, options, is_debug=bool((context.obj or {}).get("debug")))
    if not options["is_watched"]:
        code = one.run(graph.read(), Turn())
    elif options["resume"] is not None or options["sync"]:
        raise click.UsageError(
            f"--watch: cannot be used with {'--resume' if options['resume'] else '--sync'}"
        )
    else:
        code = run_watched(graph, one.run, one.note)
    return ExitCode.OK if code == ExitCode.FAILED and options["keep_going"] else code


@dataclass(frozen=True)
class _RunOptions:
    """The options of one call: a factory for the job, and the output settings."""

    make_job: "Callable[..., Job]"
    given: "Mapping[str, Any]"
    is_debug: bool

    def note(self, text: str) -> None:
        """Prints a note unless ``--quiet`` is set."""
        if not self.given["quiet"]:
            tell("note", text)

    def report(self, text: str, error: "FlowUnitError | None") -> None:
        """Prints the error of an item on stderr."""
        tell("error", text)
        if self.is_debug and error is not None and error.__cause__ is not None:
            click.echo("".join(traceback.format_exception(error.__cause__)).rstrip(), err=True)

    def run(self, graph: "Graph", turn: Turn) -> int:
        """Runs a graph to its end, and returns the exit code."""
        metrics, dashboard = self.given["metrics"], self.given["dashboard"]
        with self.make_job(graph, on_error=self.report, on_note=self.note) as job:
            # The job exists before the signal handler: the handler stops the job.
            asked = threading.Event()
            turn.begin(job.stop)
            try:
                # The handler also covers the start, because a server receives signals as soon as it
                # listens.
                with (
                    termination(asked, None if self.given["sync"] else job.stop),
                    Undisturbed(nullcontext() if metrics is None else _figures(metrics, job.flow)),
                    Undisturbed(nullcontext() if dashboard is None else _page(dashboard, job.flow)),
                ):
                    result = job.run(self._show(job, turn))
            except KeyboardInterrupt as interrupt:
                self._summary(job, "stopped: ")
                raise click.exceptions.Abort from interrupt
            except StreamClosed:
                if asked.is_set():
                    return ExitCode.TERMINATED  # the signal came before the first item
                if turn.is_over:
                    return ExitCode.OK
                raise
            except (FlowFailed, ModelflowError):
                self._summary(job, "failed: ")
                raise
            self._summary(job)
            sys.stdout.flush()
            if asked.is_set():
                return ExitCode.TERMINATED
            return ExitCode.FAILED if result.errors + result.errors_before else ExitCode.OK

    @contextmanager
    def _show(self, job: "Job", turn: Turn) -> "Iterator[None]":
        """Shows the progress of a running job."""
        turn.run()
        line = partial(describe_progress, job)
        has_line = not self.given["quiet"] and not self._is_terminal_full(job)
        with progress(line) if has_line else nullcontext():
            yield

    def _is_terminal_full(self, job: "Job") -> bool:
        """Returns whether the terminal shows results, which leave no place for a progress line."""
        targets = self.given["outputs"]
        is_written = any(target.endswith("-") for target in targets) or not targets
        return bool(job.flow.graph.outputs) and is_written and sys.stdout.isatty()

    def _summary(self, job: "Job", how: str = "") -> None:
        if self.given["quiet"] or not job.has_begun:
            return
        for line in (f"{how}{describe_result(job.result)}", *job.describe_errors()):
            click.echo(wrap(line, sys.stderr, indent="  "), err=True)


@contextmanager
def _figures(address: str, flow: "Flow") -> "Iterator[None]":
    from modelflow.cli.run.metrics_server import MetricsServer
    from modelflow.profile.snapshot import Snapshot

    with MetricsServer(address, flow.stats, lambda: Snapshot.of_flow(flow).document()) as server:
        click.echo(f"metrics: {server.url}/metrics, figures: {server.url}/stats", err=True)
        yield


@contextmanager
def _page(address: str, flow: "Flow") -> "Iterator[None]":
    from modelflow.cli.insight.live import show_in_browser
    from modelflow.profile.snapshot import Snapshot

    look = partial(Snapshot.of_flow, flow)
    with show_in_browser("--dashboard", address, look, flow.record) as page:
        click.echo(f"dashboard: {page}", err=True)
        yield
