"""``modelflow check``: every mistake of a graph, before anything runs."""

import sys
from typing import TYPE_CHECKING

import click

from modelflow.cli.graph_options import GraphChoice, graph_options

if TYPE_CHECKING:
    from modelflow.flow import Flow

__all__ = ["check"]


@click.command()
@graph_options
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print the plan (what runs where, and why), and what the graph takes and gives.",
)
def check(graph: GraphChoice, verbose: bool) -> int:
    """Finds every mistake of a graph, and prints each with its line. Advises where the same may
    be had for less, which is no mistake.

    \b
    modelflow check graph.toml
    modelflow check -v graph.toml --set 'infer.device=cpu'
    """
    from modelflow.flow import Flow
    from modelflow.graph.advice import advice

    flow = Flow(graph.read())
    rows = flow.plan.rows()
    checked = flow.graph
    for note in checked.notes:
        click.echo(f"note: {note}", err=True)
    for sentence in advice(checked):
        click.echo(f"advice: {sentence}", err=True)
    if verbose:
        _print_table(rows)
        signature = flow.signature()
        for side, ports in (("input", signature.inputs), ("output", signature.outputs)):
            for port in ports:
                click.echo(f"{side} {port}")
        for line in _transfers(flow):
            click.echo(line)
    click.echo(
        f"{graph.path}: ok: {len(checked.nodes)} nodes, {len(checked.edges)} edges, "
        f"{sum(stage.threads for stage in flow.plan.stages.values())} threads"
    )
    return 0


def _print_table(rows: list[dict[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*rows[0] if rows else (), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(Text, row.values()))  # as it is: brackets are no markup
    is_terminal = sys.stdout.isatty()
    # In a pipe nothing is cut: the table is as wide as it wants to be.
    Console(width=None if is_terminal else 500).print(table)


def _transfers(flow: "Flow") -> list[str]:
    stages = flow.plan.stages
    return [
        f"transfer: {name} ({stage.devices[0]}) -> {target.node} ({stages[target.node].devices[0]})"
        for name, stage in stages.items()
        for route in stage.routes
        for target in route
        if target.node in stages and stages[target.node].devices != stage.devices
    ] or ["transfers: none"]
