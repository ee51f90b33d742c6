"""The command ``modelflow doctor``: names the bottleneck of a flow, the evidence and a change."""

import contextlib
import json
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.insight.drive import Drive, check_repeatable, stop_flow
from modelflow.cli.insight.fetch import address_of, ask, is_address, read_profile
from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.options.graph_options import graph_options
from modelflow.cli.options.parameters import FiniteRange, declare_input
from modelflow.cli.terminal.messages import say, tell
from modelflow.cli.terminal.progress import progress
from modelflow.config.override import IN_FLIGHT
from modelflow.errors import ConfigError
from modelflow.job.inputs import feeds_of
from modelflow.signals import ExitCode, termination

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from modelflow.insight.doctor import Case, Diagnosis, Finding
    from modelflow.job.inputs import Feed


# Seconds before the observation starts: the flow reaches a steady state.
_SETTLING = 1.0
# Exceptions that rules raise for figures that no flow can have, as from a damaged file.
_DAMAGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@click.command()
@graph_options
@declare_input(
    "[PORT=]FILE|DIR|GLOB",
    "Input for the graph, sent repeatedly. See 'modelflow profile'.",
)
@click.option(
    "--seconds",
    type=FiniteRange(min=0.1, max=86_400),
    default=5.0,
    help="How long to observe the flow.",
)
@click.option(
    "--experiments/--no-experiments",
    default=True,
    help="Change the running graph for a moment to tell causes apart: threads, batches, bounds.",
)
@click.option(
    "--confirm",
    is_flag=True,
    help="Try the first change: run the graph without and with it, twice each, and show the gain.",
)
@click.option("--json", "is_json", is_flag=True, help="Print the findings as JSON.")
def doctor(
    graph: GraphChoice,
    inputs: tuple[str, ...],
    seconds: float,
    experiments: bool,
    confirm: bool,
    is_json: bool,
) -> int:
    """Names the bottleneck of a flow, the evidence, the change to make, and its gain.

    A graph file runs under load. Where several causes show the same figures, the doctor tries
    changes of the running graph, 2 seconds each, and takes them back. A server is only observed.

    GRAPH is a graph file, which runs with --input, or a profile from 'modelflow profile --json'.
    GRAPH can also be the address of a running flow ('modelflow run --metrics', 'modelflow serve').
    An address is a port, HOST:PORT or URL, as for 'modelflow top'.

    The exit code is 0 if nothing is wrong, and 3 if there are findings.

    \b
    modelflow doctor graph.toml --input 'photos/*.jpg'
    modelflow doctor profile.json
    modelflow doctor 9100
    """
    from modelflow.insight.doctor import diagnose

    is_graph = not is_address(graph.source) and Path(graph.source).suffix != ".json"
    if not is_graph and (inputs or confirm or graph.overrides or graph.args):
        raise click.UsageError(
            f"{graph.source} is no graph: --input, --set, --arg and --confirm are for graphs"
        )
    if is_graph:
        asked = threading.Event()
        checked = graph.read()
        feeds = feeds_of(inputs, checked.inputs)
        check_repeatable(feeds)
        examine = partial(_examine, graph, feeds, seconds, asked)
        found, case = examine({}, has_experiments=experiments)
        if not is_json:
            _show(found, case)
            for finding in found.findings[:1]:
                _show_patch(finding, graph)
        if confirm and found.findings and found.findings[0].change and not asked.is_set():
            told = f"trying the change: runs without and with it, twice each, {seconds:g} s a run"
            click.echo(told, err=True)
            _confirm(
                lambda changes: examine(changes, has_experiments=False)[1],
                found.findings[0],
                asked,
                is_json=is_json,
            )
        if asked.is_set():
            return ExitCode.TERMINATED
    else:
        try:
            case = _observe(graph.source, seconds)
            found = diagnose(case)
            if not is_json:
                _show(found, case)
        except _DAMAGED as error:  # figures from a file or another process may be anything
            raise ConfigError(
                f"{graph.source}: the figures are damaged: {type(error).__name__}: {error}"
            ) from error
    if is_json:
        click.echo(json.dumps(found.document(), indent=1))
    return ExitCode.FOUND if found.findings else ExitCode.OK


def _observe(source: str, seconds: float) -> "Case":
    """Observes a flow that runs elsewhere, or reads the profile of a flow."""
    from modelflow.insight.doctor import Case

    if not is_address(source):
        return Case.between(*read_profile(Path(source)))
    address = address_of(source)
    first = ask(address)
    with progress(lambda: f"observing for {seconds:g} s"):
        time.sleep(seconds)
    return Case.between(first, ask(address))


def _examine(
    graph: GraphChoice,
    feeds: "Sequence[Feed]",
    seconds: float,
    asked: threading.Event,
    changes: "Mapping[str, Any]",
    *,
    has_experiments: bool,
) -> "tuple[Diagnosis, Case]":
    """Runs the graph with some changes under load, and examines the flow."""
    from modelflow.flow import Flow
    from modelflow.insight.doctor.examination import Examination
    from modelflow.profile.snapshot import Snapshot

    step = [f"observing for {seconds:g} s"]

    flow = Flow(graph.read(changes))
    before = Snapshot.of_flow(flow)  # also creates the runtime, which a signal must be able to stop
    with (
        contextlib.redirect_stdout(sys.stderr),  # units may print; stdout is for the findings
        termination(asked, partial(stop_flow, flow)),
        flow,
        Drive(flow, feeds) as drive,
    ):
        before = Snapshot.of_flow(flow)
        if not drive.wait(min(_SETTLING, seconds)):  # True: the sources are done, keep `before`
            before = Snapshot.of_flow(flow)
        examination = Examination(
            flow,
            drive.wait,
            seconds,
            is_driven=bool(feeds),
            has_experiments=has_experiments,
            told=lambda change: step.__setitem__(0, f"trying {change}"),
        )
        with progress(lambda: step[0]):
            return examination.run(before)


def _confirm(
    look: "Callable[[Mapping[str, Any]], Case]",
    finding: "Finding",
    asked: threading.Event,
    *,
    is_json: bool,
) -> None:
    """Runs the graph without and with the change, two times each, and prints the rates."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    for is_changed in (False, True, False, True):
        if asked.is_set():
            return
        rates[is_changed].append(look(finding.change if is_changed else {}).rate)
    before, after = (sum(found) / len(found) for found in (rates[False], rates[True]))
    click.echo(
        f"  tried    {', '.join(f'{rate:.1f}' for rate in rates[False])} rows/s as it is, "
        f"{', '.join(f'{rate:.1f}' for rate in rates[True])} with the change: "
        f"{after / before - 1:+.0%}"
        if before
        else "  tried    nothing passed",
        err=is_json,
    )


def _show(found: "Diagnosis", case: "Case") -> None:
    for place, finding in enumerate(found.findings):
        _show_finding(finding, is_first=place == 0)
    if not found.findings:
        say(found.sentence)
    whole = case.interval.request_seconds
    request = "" if whole is None else f"; a request takes {whole * 1e3:.3g} ms"
    seen = f"seen for {case.interval.seconds:.1f} s at {case.rate:.1f} rows/s{request}"
    click.echo(seen, err=True)
    for tried in found.experiments:
        tell("note", f"tried {tried}")
    for note in found.notes:
        tell("note", note)


def _show_finding(finding: "Finding", *, is_first: bool) -> None:
    from modelflow.insight.doctor import format_changes

    head = "" if is_first else "also "
    say(f"{head}{finding.headline}")
    for one in finding.evidence:
        _say("because", one)
    if finding.change:
        how = "measured" if finding.is_measured else "predicted"
        least = "at least " if finding.is_least else ""
        gain = "" if finding.gain is None else f"   {least}{finding.gain:+.0%} {how}"
        _say("change", f"{format_changes(finding.change)}{gain}")
    if finding.advice:
        _say("or" if finding.change else "advice", finding.advice)
    if finding.then:
        _say("then", finding.then)
    _say("sure", f"{finding.confidence} confidence")
    if finding.second:
        _say("perhaps", finding.second)


def _say(name: str, text: str) -> None:
    say(f"  {name:<8} {text}")


def _show_patch(finding: "Finding", graph: GraphChoice) -> None:
    """Shows the change of a finding as a patch of the graph file, if that is possible."""
    from modelflow.config.edit.patch import patch_of

    path = graph.path
    if finding.change and IN_FLIGHT not in finding.change and path.is_file():
        click.echo(patch_of(path, path.read_bytes().decode(), finding.change)[1], nl=False)
