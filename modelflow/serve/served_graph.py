"""A graph file that is served: its flow, here or with what it places where an engine runs that."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from modelflow.config.flow_config import FlowConfig
from modelflow.config.override import apply_overrides, substitute_args
from modelflow.config.read import read_config
from modelflow.errors import ConfigError
from modelflow.flow import Flow
from modelflow.graph.beside import look_beside

if TYPE_CHECKING:
    from modelflow.serve.source import Terms

__all__ = ["graph_flow", "placed_nodes"]


def graph_flow(path: Path, terms: "Terms") -> Flow:
    """Makes the flow of a graph file, or an archive.

    Raises:
        ConfigError, GraphError: it is wrong, or has no input.
    """
    config = read_config(path)
    if config.archive is None:
        look_beside(path)
    nodes = [node.name for node in config.nodes]
    environment = terms.environment.fitting(nodes, config.args)
    with environment.named(nodes):
        flow = _flow(environment.apply(config), terms)
    if not flow.graph.inputs:
        message = (
            f"{path}: the graph has no input, so that there is nothing that a client could send; "
            "expected a node with type=input; what reads its own sources is run: "
            f"modelflow run {path}"
        )
        raise ConfigError(message)
    return flow


def placed_nodes(path: Path, terms: "Terms") -> tuple[list[str], list[str]]:
    """Returns the nodes that a graph file places, and the placements that it declares.

    Raises:
        ConfigError: it cannot be read.
    """
    config = read_config(path)
    nodes = [node.name for node in config.nodes]
    config = terms.environment.fitting(nodes, config.args).apply(config)
    return list(_placed_in(config, terms)), list(config.placements)


def _flow(config: FlowConfig, terms: "Terms") -> Flow:
    overrides, args = terms.overrides, terms.args
    if terms.engine is None or not any(_placed_in(config, terms)):
        return Flow(config, overrides=overrides, args=args)
    from modelflow.remote import placed

    return Flow(placed(config, terms.engine(), overrides=overrides, args=args))


def _placed_in(config: FlowConfig, terms: "Terms") -> Iterator[str]:
    config = substitute_args(apply_overrides(config, terms.overrides), terms.args)
    for node in config.nodes:
        is_unit = node.attributes.get("type") in (None, "flowunit")
        if is_unit and node.attributes.get("placement"):
            yield node.name
