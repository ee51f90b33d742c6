"""The commands ``convert`` and ``draw``: a graph in another format, or as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.options.graph_options import graph_options
from modelflow.cli.options.output_files import write_output
from modelflow.cli.options.parameters import Choice
from modelflow.config.read import read_config
from modelflow.config.write import FORMATS, write_config
from modelflow.errors import did_you_mean
from modelflow.signals import ExitCode

if TYPE_CHECKING:
    from modelflow.draw.shapes import Direction


@click.command()
@click.argument("graph", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", default="-", show_default=False, metavar="FILE", help="File; '-': stdout."
)
@click.option(
    "--format",
    "form",
    type=Choice(FORMATS),
    help="The format. Default: by the suffix of FILE. graphviz: TOML with embedded DOT.",
)
def convert(graph: Path, output: str, form: str | None) -> int:
    """Writes a graph in another format: native TOML, TOML with DOT, YAML, JSON or DOT.

    \b
    modelflow convert graph.dot -o graph.toml
    modelflow convert graph.toml --format graphviz
    """
    suffix = Path(output).suffix.lstrip(".")
    form = form or {"yml": "yaml", "gv": "dot", "": "toml"}.get(suffix, suffix)
    write_output("-o", output, write_config(read_config(graph), form).encode())
    return ExitCode.OK


_BY_SUFFIX = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid"}


@click.command()
@graph_options
@click.option(
    "-o", "--output", metavar="FILE", help="File; '-': stdout. Default: GRAPH.svg in this folder."
)
@click.option(
    "--format",
    "form",
    type=Choice(["svg", "dot", "mermaid"]),
    help="The format. Default: by the suffix of FILE, or svg.",
)
@click.option(
    "--direction",
    type=Choice(["auto", "right", "down"]),
    default="auto",
    help="The direction of the data. auto: right; down if that makes a very wide picture narrower.",
)
def draw(graph: GraphChoice, output: str | None, form: str | None, direction: "Direction") -> int:
    """Draws a graph, with a colour for each device and a mark for each kind of unit.

    \b
    modelflow draw graph.toml -o graph.svg
    modelflow draw graph.toml -o graph.svg --direction down
    modelflow draw graph.toml --format mermaid -o -
    modelflow draw graph.toml --format dot -o - | dot -Tpng -o graph.png   with Graphviz
    """
    from modelflow.draw.svg import draw as picture

    target = output or f"{graph.path.stem}.{'mmd' if form == 'mermaid' else form or 'svg'}"
    form = form or _form_of(target)
    data = picture(graph.read(check_devices=False), form, direction).encode()
    write_output("-o", target, data)
    if target != "-":
        click.echo(f"{target}: {len(data)} bytes", err=True)
    return ExitCode.OK


def _form_of(target: str) -> str:
    suffix = Path(target).suffix
    if suffix and suffix not in _BY_SUFFIX:
        known = ", ".join(_BY_SUFFIX)
        near = did_you_mean(suffix, _BY_SUFFIX)
        raise click.UsageError(
            f"-o {target}: got the suffix {suffix!r}; expected one of {known}{near}"
        )
    return _BY_SUFFIX.get(suffix, "svg")
