"""``modelflow schema``: JSON Schemas, for editors."""

import json

import click

from modelflow.exit_code import ExitCode

__all__ = ["schema"]


@click.command()
@click.option(
    "--dir", "folders", multiple=True, metavar="DIR", help="A folder of flow units; repeatable."
)
@click.option("--unit", "is_unit", is_flag=True, help="That of unit files, not of graph files.")
def schema(folders: tuple[str, ...], is_unit: bool) -> int:
    """Prints the JSON Schema of graph files: editors then complete keys, explain them, and
    underline mistakes as they are typed.

    With the units of the folders given, and of what is installed. A TOML file names its schema in
    its first line, a YAML file likewise:

    \b
    modelflow schema > graph.schema.json
    #:schema ./graph.schema.json
    # yaml-language-server: $schema=./graph.schema.json
    """
    from modelflow.registry.json_schema import graph_schema, unit_schema
    from modelflow.registry.registry import Registry

    found = unit_schema() if is_unit else graph_schema(Registry(folders).specs())
    click.echo(json.dumps(found, indent=1))
    return ExitCode.OK
