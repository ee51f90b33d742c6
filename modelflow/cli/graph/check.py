"""The command ``modelflow check``: reports every mistake of a graph before the graph runs."""

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.options.graph_options import graph_options
from modelflow.cli.terminal.messages import say, tell
from modelflow.errors import Finding, FlowFailed, FlowUnitError, GraphError, ModelflowError
from modelflow.signals import ExitCode
from modelflow.table import text_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelflow.flow import Flow
    from modelflow.graph.graph_port import Signature


@click.command()
@graph_options
@click.option(
    "--open",
    "is_opened",
    is_flag=True,
    help="Open every unit as well. This finds mistakes that only a loaded model or library shows.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the findings as JSON, for editors and programs."
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print the plan (where each node runs, and why), and the graph's inputs and outputs.",
)
def check(graph: GraphChoice, is_opened: bool, as_json: bool, verbose: bool) -> int:
    """Finds every mistake of a graph, and prints each with its line. Also prints advice for
    settings that would do the same at a lower cost. Advice is no mistake.

    \b
    modelflow check graph.toml
    modelflow check --open graph.toml
    modelflow check -v graph.toml --set 'infer.device=cpu'
    """
    from modelflow.flow import Flow
    from modelflow.graph.signature import signature_of
    from modelflow.insight.tune.cut import cuts_of

    try:
        checked = graph.read()
        cuts_of(checked)
        flow = Flow(checked, threads=0)
        if is_opened:
            _open(flow)
        signature = signature_of(checked, flow.scheduler)
    except (ModelflowError, FlowFailed) as error:
        if not as_json:
            raise
        _print_json(list(_findings(error)))
        return ExitCode.FAILED
    if as_json:
        _print_json([], flow, signature)
        return ExitCode.OK
    _print(flow, signature, str(graph.path), verbose, is_opened)
    return ExitCode.OK


def _open(flow: "Flow") -> None:
    """Opens every unit of a flow on this thread alone, without any other work in the flow.

    Raises:
        GraphError: One unit or several units do not open.
        FlowFailed: The flow failed in another way.
    """
    try:
        try:
            flow.start()
        finally:
            flow.stop(drain=False)
    except FlowFailed as failure:
        findings = _where(failure, flow)
        if findings is None:
            raise
        raise GraphError(findings) from failure


def _where(failure: FlowFailed, flow: "Flow") -> "list[Finding] | None":
    """Returns the lines of the nodes that did not open, or None after another failure."""
    nodes = flow.graph.nodes
    found = []
    for inner in failure.exceptions:
        if not (isinstance(inner, FlowUnitError) and inner.node in nodes and inner.phase == "open"):
            return None
        where = f" ({inner.where})" if inner.where else ""
        message = f"unit {inner.unit!r} failed in open: {inner.message}{where}"
        found.append(Finding(nodes[inner.node].location, message, inner.node))
    return found


def _findings(error: "ModelflowError | FlowFailed") -> "Iterator[dict[str, Any]]":
    nowhere: dict[str, Any] = {"file": None, "line": None, "node": None, "port": None}
    if isinstance(error, FlowFailed):
        for inner in error.exceptions:
            yield {**nowhere, "node": getattr(inner, "node", ""), "message": str(inner)}
        return
    findings = getattr(error, "findings", ())
    if not findings:
        yield {**nowhere, "message": str(error)}
    for finding in findings:
        place = {"file": finding.location.file, "line": finding.location.line}
        yield {**place, "node": finding.node, "port": finding.port, "message": finding.message}


def _print_json(
    findings: "list[dict[str, Any]]",
    flow: "Flow | None" = None,
    signature: "Signature | None" = None,
) -> None:
    from modelflow.graph.advice import advice

    found: dict[str, Any] = {"ok": not findings, "findings": findings, "notes": [], "advice": []}
    if flow is not None and signature is not None:
        found["notes"] = list(map(str, flow.graph.notes))
        found["advice"] = list(map(str, advice(flow.graph)))
        found["plan"] = flow.scheduler.plan.rows()
        found["inputs"] = list(map(str, signature.inputs))
        found["outputs"] = list(map(str, signature.outputs))
    click.echo(json.dumps(found, indent=2))


def _print(flow: "Flow", signature: "Signature", path: str, verbose: bool, is_opened: bool) -> None:
    from modelflow.graph.advice import advice

    rows = flow.scheduler.plan.rows()
    checked = flow.graph
    for note in checked.notes:
        tell("note", note)
    for sentence in advice(checked):
        tell("advice", sentence)
    if verbose:
        _print_table(rows)
        _print_burst(flow)
        _print_lock(is_opened)
        inputs = (f"input {port}" for port in signature.inputs)
        outputs = (f"output {port}" for port in signature.outputs)
        for line in (*inputs, *outputs, *_transfers(flow)):
            say(line)
    say(
        f"{path}: ok: {len(checked.nodes)} nodes, {len(checked.edges)} edges, "
        f"{sum(stage.threads for stage in flow.scheduler.plan.stages.values())} threads"
    )


def _print_table(rows: list[dict[str, str]]) -> None:
    """Prints the plan as a table, or as a paragraph for each node if the terminal is narrow."""
    text = text_table(rows)
    width = shutil.get_terminal_size().columns
    if not sys.stdout.isatty() or max(map(len, text.splitlines()), default=0) <= width:
        click.echo(text)
        return
    for row in rows:
        node, *more = row.items()
        click.echo(click.style(node[1], bold=True))
        parts = (f"{name} {value}" for name, value in more if value != "-")
        say("  " + "; ".join(parts))


def _print_burst(flow: "Flow") -> None:
    """Explains a batch cell such as "8 (1 from 20 ms)" if the plan's table has such a cell."""
    plan = flow.scheduler.plan
    if any(stage.is_one_by_one for stage in plan.stages.values()):
        say(
            f"batch 8 (1 from {plan.slow_row_ms:g} ms): a row that takes that long runs in a call "
            "of its own and continues when it is done. Of quicker rows each thread takes its "
            "share of the queue"
        )


def _print_lock(is_opened: bool) -> None:
    """Explains the threads of the plan if this Python can run without the interpreter's lock."""
    from modelflow.device.interpreter import has_lock, is_free_threaded, is_lock_given

    if not is_free_threaded():
        return
    if has_lock():
        cause = "PYTHON_GIL or -X gil" if is_lock_given() else "a package that Python has warned of"
        say(f"interpreter lock: on (by {cause}), so one thread at a time runs Python code")
    else:
        unless = ", unless a unit imports a package that switches it on (--open shows that)"
        known = is_opened or is_lock_given()
        say(
            "interpreter lock: off, so threads run Python code at the same time"
            f"{'' if known else unless}"
        )


def _transfers(flow: "Flow") -> list[str]:
    stages = flow.scheduler.plan.stages
    return [
        f"transfer: {name} ({stage.devices[0]}) -> {target.node} ({stages[target.node].devices[0]})"
        for name, stage in stages.items()
        for route in stage.routes
        for target in route
        if target.node in stages and stages[target.node].devices != stage.devices
    ] or ["transfers: none"]
