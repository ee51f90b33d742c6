"""The commands ``graphs``, ``units`` and ``schema``: the parts of a graph, and JSON Schemas."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelflow.cli.options.parameters import declare_repeated
from modelflow.cli.options.shell_completion import complete_unit
from modelflow.cli.terminal.messages import tell_error
from modelflow.signals import ExitCode

if TYPE_CHECKING:
    from modelflow.unit.port import Port
    from modelflow.unit.spec import FlowUnitSpec


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def graphs(as_json: bool) -> int:
    """Lists the graphs that come with modelflow. Use a name in place of a file in any command.

    \b
    modelflow graphs
    modelflow run digits
    modelflow draw video_boxes
    """
    from modelflow.config.read import list_named_graphs
    from modelflow.starters.ready import ready_graphs

    rows = [
        {"name": name, "path": str(path), "description": _description(path)}
        for name, path in list_named_graphs(ready_graphs()).items()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return ExitCode.OK
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        name = click.style(row["name"].ljust(width), bold=True)
        click.echo(f"{name}  {row['description']}".rstrip())
    return ExitCode.OK


def _description(path: Path) -> str:
    """Returns the description of a graph file: ``[flow] desc``, or the first comment."""
    from modelflow.config.read import read_config

    said = read_config(path).flow.get("desc")
    if said:
        return str(said)
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = []
    for line in lines:
        if not line.startswith("#") or not line.strip("# "):
            break
        comment.append(line.strip("# "))
    return " ".join(comment)


@click.command()
@click.argument("name", required=False, shell_complete=complete_unit)
@declare_repeated("--dir", "folders", "DIR", "A folder of flow units; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def units(name: str | None, folders: tuple[str, ...], as_json: bool) -> int:
    """Lists every flow unit that a graph can use, or describes the unit NAME.

    \b
    modelflow units
    modelflow units resize
    modelflow units --dir my_units
    """
    from modelflow.registry.registry import Registry

    registry = Registry(folders)
    specs = list(registry.specs()) if name is None else [registry.find(name)]
    for problem in registry.problems() if name is None else ():
        tell_error(problem)
    if as_json:
        click.echo(json.dumps([_as_json(spec) for spec in specs], indent=2))
    elif name is None:
        _print_list(specs)
    else:
        _print_unit(specs[0])
    return ExitCode.OK


def _print_list(specs: "list[FlowUnitSpec]") -> None:
    width = max((len(spec.name) for spec in specs), default=0)
    group = ""
    for spec in sorted(specs, key=lambda spec: (spec.group, spec.name)):
        if spec.group != group:
            group = spec.group
            click.echo(click.style(group, bold=True))
        devices = ",".join(spec.devices)
        line = spec.description.split("\n")[0]
        click.echo(f"  {spec.name:{width}}  {_kind(spec):9}  {devices:8}  {line}")


def _print_unit(spec: "FlowUnitSpec") -> None:
    from modelflow.unit.option import type_name

    click.echo(f"{spec.name} {spec.version} ({_kind(spec)}, on {', '.join(spec.devices)})")
    if spec.aliases:
        click.echo(f"also called: {', '.join(spec.aliases)}")
    click.echo(f"\n{spec.description}")
    for title, ports in (("inputs", spec.inputs), ("outputs", spec.outputs)):
        if ports:
            click.echo(f"\n{title}")
        for port in ports:
            click.echo(f"  {port.name}  {_port(port)}".rstrip())
    if spec.option_list:
        click.echo("\noptions")
    for option in spec.option_list:
        default = "required" if option.is_required else f"default {_show(option.default)}"
        also = f"; also {', '.join(option.aliases)}" if option.aliases else ""
        click.echo(f"  {option.name}  ({type_name(option.type)}; {default}{also})")
        if option.help:
            click.echo(f"      {option.help}")
    required = "".join(f", {o.name}=..." for o in spec.option_list if o.is_required)
    click.echo(f"\nin a graph\n  my_node [flowunit={spec.name}{required}]")


def _kind(spec: "FlowUnitSpec") -> str:
    return "source" if spec.is_source else "sink" if spec.is_sink else str(spec.kind)


def _port(port: "Port") -> str:
    shape = " ".join(part for part in (port.dtype, port.shape) if part)
    optional = "(may be left unconnected)" if port.is_optional else ""
    return " ".join(part for part in (shape, port.description, optional) if part)


def _show(value: Any) -> str:
    if isinstance(value, tuple | list):
        return '"' + ",".join(map(str, value)) + '"'
    return "none" if value is None else f"{value!r}" if isinstance(value, str) else str(value)


def _as_json(spec: "FlowUnitSpec") -> dict[str, Any]:
    from modelflow.unit.option import type_name

    return {
        "name": spec.name,
        "kind": _kind(spec),
        "version": spec.version,
        "group": spec.group,
        "aliases": list(spec.aliases),
        "description": spec.description,
        "devices": list(spec.devices),
        "inputs": [_port_json(port) for port in spec.inputs],
        "outputs": [_port_json(port) for port in spec.outputs],
        "options": [
            {
                "name": option.name,
                "type": type_name(option.type),
                "default": None if option.is_required else _plain(option.default),
                "required": option.is_required,
                "help": option.help,
                "aliases": list(option.aliases),
            }
            for option in spec.option_list
        ],
    }


def _port_json(port: "Port") -> dict[str, Any]:
    return {
        "name": port.name,
        "dtype": port.dtype,
        "shape": port.shape,
        "description": port.description,
        "optional": port.is_optional,
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | list) else str(value)


@click.command()
@declare_repeated("--dir", "folders", "DIR", "A folder of flow units; repeatable.")
@click.option(
    "--unit", "is_unit", is_flag=True, help="Print the schema of unit files, not of graph files."
)
def schema(folders: tuple[str, ...], is_unit: bool) -> int:
    """Prints the JSON Schema of graph files. With it an editor completes keys, explains them, and
    underlines mistakes as you type.

    The schema contains the installed units and the units of each --dir. Name the schema in the
    first line of a TOML or YAML file:

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
