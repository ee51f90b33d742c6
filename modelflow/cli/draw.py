"""``modelflow draw``: a picture of a graph."""

from pathlib import Path

import click

from modelflow.cli.choice import Choice
from modelflow.cli.graph_choice import GraphChoice
from modelflow.cli.graph_options import graph_options
from modelflow.cli.written import write_output
from modelflow.errors import did_you_mean
from modelflow.exit_code import ExitCode

__all__ = ["draw"]

_BY_SUFFIX = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid"}


@click.command()
@graph_options
@click.option(
    "-o", "--output", metavar="FILE", help="Where to; '-': stdout. Without it: GRAPH.svg, here."
)
@click.option(
    "--format",
    "form",
    type=Choice(["svg", "dot", "mermaid"]),
    help="The form; without it by the suffix of FILE, else svg.",
)
def draw(graph: GraphChoice, output: str | None, form: str | None) -> int:
    """Draws a graph, coloured by device.

    \b
    modelflow draw graph.toml -o graph.svg
    modelflow draw graph.toml --format mermaid -o -
    modelflow draw graph.toml --format dot -o - | dot -Tpng -o graph.png   with Graphviz
    """
    from modelflow.draw.svg import draw as picture

    target = output or f"{graph.path.stem}.{'mmd' if form == 'mermaid' else form or 'svg'}"
    form = form or _form_of(target)
    data = picture(graph.read(check_devices=False), form).encode()
    write_output("-o", target, data)
    if target != "-":
        click.echo(f"{target}: {len(data)} bytes", err=True)
    return ExitCode.OK


def _form_of(target: str) -> str:
    suffix = Path(target).suffix
    if suffix and suffix not in _BY_SUFFIX:
        known = ", ".join(_BY_SUFFIX)
        near = did_you_mean(suffix, _BY_SUFFIX)
        message = f"-o {target}: got the suffix {suffix!r}; expected one of {known}{near}"
        raise click.UsageError(message)
    return _BY_SUFFIX.get(suffix, "svg")
