"""``modelflow convert``: the same graph in another format."""

from pathlib import Path

import click

from modelflow.cli.choice import Choice
from modelflow.cli.written import write_output
from modelflow.config.read import read_config
from modelflow.config.write import FORMATS, write_config
from modelflow.exit_code import ExitCode

__all__ = ["convert"]


@click.command()
@click.argument("graph", type=click.Path(path_type=Path))
@click.option("-o", "--output", default="-", metavar="FILE", help="Where to; '-': stdout.")
@click.option(
    "--format",
    "form",
    type=Choice(FORMATS),
    help="The format; without it by the suffix of FILE. graphviz: TOML with embedded DOT.",
)
def convert(graph: Path, output: str, form: str | None) -> int:
    """Writes a graph in another format: native TOML, TOML with DOT, YAML, JSON, DOT.

    \b
    modelflow convert graph.dot -o graph.toml
    modelflow convert graph.toml --format graphviz
    """
    suffix = Path(output).suffix.lstrip(".")
    form = form or {"yml": "yaml", "gv": "dot", "": "toml"}.get(suffix, suffix)
    write_output("-o", output, write_config(read_config(graph), form).encode())
    return ExitCode.OK
