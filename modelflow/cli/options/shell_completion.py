"""Shell completion of ``modelflow``: graphs, their nodes, ports and options, and units.

A graph under edit may have mistakes. Completion then offers nothing, and reports no error.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from modelflow.errors import ModelflowError

if TYPE_CHECKING:
    from modelflow.graph.graph import Graph


_GRAPHS = (".toml", ".yaml", ".yml", ".json", ".dot", ".gv")
_MOST = 1000


def complete_graph(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offers graph files, folders, and the graphs that come with modelflow."""
    from modelflow.config.read import list_named_graphs
    from modelflow.starters.ready import ready_graphs

    names = [] if "/" in begun else list(list_named_graphs(ready_graphs()))
    return [*_files(begun, _GRAPHS), *_items(names, begun)]


def complete_unit(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offers the units that a graph can use."""
    from modelflow.registry.registry import Registry

    try:
        specs = list(Registry(context.params.get("folders") or ()).specs())
    except ModelflowError:  # reported when the command runs
        return []
    return [
        CompletionItem(spec.name, help=spec.description.partition("\n")[0])
        for spec in specs
        if spec.name.startswith(begun)
    ]


def complete_set(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offers ``NODE.``, then ``NODE.KEY=``, then the values of a key that has few values."""
    graph = _graph(context)
    if graph is None:
        return []
    node, dot, rest = begun.partition(".")
    if not dot:
        units = [name for name, found in graph.nodes.items() if found.spec is not None]
        return _items([f"{name}." for name in ("*", *units)], begun)
    key, equals, _value = rest.partition("=")
    options = _options(graph, node)
    if not equals:
        return _items([f"{node}.{name}=" for name in options], begun)
    return _items([f"{node}.{key}={value}" for value in options.get(key, ())], begun)


def complete_argument(
    context: click.Context, _: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Offers the arguments that the graph declares: ``NAME=``."""
    graph = _graph(context)
    return [] if graph is None else _items([f"{name}=" for name in graph.config.args], begun)


def complete_input(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offers the inputs of the graph, ``PORT=``, and files."""
    graph = _graph(context)
    return _ports([] if graph is None else graph.inputs, begun)


def complete_output(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offers the outputs of the graph, ``PORT=``, and files."""
    graph = _graph(context)
    return _ports([] if graph is None else graph.outputs, begun)


def _ports(names: Iterable[str], begun: str) -> list[CompletionItem]:
    return [*_files(begun, ""), *_items([f"{name}=" for name in names], begun)]


def _files(begun: str, suffix: str | tuple[str, ...]) -> list[CompletionItem]:
    """Offers files with these suffixes, and folders, except hidden files and folders."""
    folder, _, name = begun.rpartition("/")
    place = Path(f"{folder}/" if "/" in begun else ".")
    try:
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    except OSError:  # the folder does not exist or cannot be read
        return []
    begins = f"{folder}/" if "/" in begun else ""
    found = [
        f"{begins}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in entries
        if (entry.is_dir() or entry.name.endswith(suffix))
        and not entry.name.startswith(".")
        and entry.name.startswith(name)
    ]
    return list(map(CompletionItem, found[:_MOST]))


def _items(values: Iterable[str], begun: str) -> list[CompletionItem]:
    return [CompletionItem(value) for value in values if value.startswith(begun)]


def _graph(context: click.Context) -> "Graph | None":
    # Here, because only completion needs it, and every command imports this module.
    from modelflow.cli.options.graph_choice import GraphChoice

    # While click completes the value of an option, it has not parsed the arguments yet.
    source: Any = context.params.get("graph") or next(iter(context.args), None)
    if not isinstance(source, str):
        return None
    try:
        return GraphChoice(source, (), ()).read(check_devices=False)
    except (ModelflowError, click.ClickException):  # reported when the command runs
        return None


def _options(graph: "Graph", node: str) -> dict[str, list[str]]:
    """Returns the attributes of a node (``*``: of every node), each with its values if few."""
    from modelflow.config.schema import NODE_ATTRIBUTES
    from modelflow.unit.option import choices_of

    options = [option for option in NODE_ATTRIBUTES if option.name != "type"]
    found = graph.nodes.get(node)
    if found is not None and found.spec is not None:
        options += found.spec.option_list
    return {option.name: choices_of(option.type) for option in options}
