"""Builds a checked graph from a graph file: resolves every name, converts every value."""

from collections.abc import Sequence

from modelflow.config.flow_config import EdgeConfig, FlowConfig, PortRef
from modelflow.config.variables import mask
from modelflow.errors import (
    DisabledGraphError,
    Location,
    ModelflowError,
    PortError,
    did_you_mean,
)
from modelflow.graph.build_node import NodeBuilder
from modelflow.graph.check.edges import check_edges, dropping_outputs
from modelflow.graph.check.report import Report, error_of
from modelflow.graph.files import check_beside
from modelflow.graph.graph import Graph
from modelflow.graph.node import Edge, Endpoint, Node, Role
from modelflow.graph.signature import contradictions
from modelflow.registry.registry import Registry


def build_graph(config: FlowConfig, registry: Registry, *, check_devices: bool = True) -> Graph:
    """Resolves every name of ``config``, and checks the whole graph.

    Args:
        config: The graph file, with overrides applied.
        registry: The units.
        check_devices: Whether devices, and the files of units, must exist on this machine.

    Raises:
        GraphError: The graph has mistakes. The error has every finding, or the first hundred. Its
            class is the common subclass of the findings, if they have one.
        ConfigError: A module next to the graph differs from the imported module of that name.
    """
    graph = _Builder(config, registry, check_devices).graph()
    check_beside(config, graph.nodes)
    return graph


class _Builder:
    def __init__(self, config: FlowConfig, registry: Registry, check_devices: bool) -> None:
        self._config = config
        self._registry = registry
        self._file = "" if config.path is None else f"{config.path}: "
        self._report = Report([*config.notes, *(f"{self._file}{note}" for note in registry.absent)])
        self._builder = NodeBuilder(config, registry, check_devices, self._report)
        self._nodes: dict[str, Node] = {}
        self._unclear: set[str] = set()

    def graph(self) -> Graph:
        config = self._config
        if config.flow.get("enable", True) is False:
            message = "the graph says [flow] enable=false"
            self._report.wrong(self._top(), message, error=DisabledGraphError)
        self._add_nodes()
        if not config.nodes:
            self._report.wrong(self._top(), "the graph has no node; expected one at least")
        edges = self._edges()
        findings, proof = check_edges(
            self._nodes, edges, self._builder.unknown | self._unclear, self._is_strict
        )
        self._report.findings += findings
        if self._report.findings or proof is None:
            raise self._error()
        if not self._is_strict:
            connected = {end.node for edge in edges for end in (edge.source, edge.target)}
            for name in [name for name in self._nodes if name not in connected]:
                self._report.notes.append(f"node {name!r}: nothing connects it; left out")
                del self._nodes[name], proof.order[name]
        self._report.notes += dropping_outputs(self._nodes.values(), edges)
        if skipped := ", ".join(sorted(self._registry.not_skipped)):
            note = f"[driver] skip-default = true: no folder has {skipped}; the installed one runs"
            self._report.notes.append(f"{self._file}{note}")
        graph = Graph(
            name=config.flow.get("name") or (config.path.stem if config.path else "flow"),
            nodes=proof.order,
            edges=tuple(edges),
            max_in_flight=config.flow.get("max_in_flight"),
            config=config,
            scopes=proof.scopes,
            notes=tuple(self._report.notes),
        )
        wrong = list(contradictions(graph))
        if wrong:
            raise error_of(wrong)
        return graph

    def _add_nodes(self) -> None:
        nodes = self._config.nodes
        for place, node in enumerate(nodes):
            self._end_if_full(f"{len(nodes) - place} nodes")
            if node.name in self._nodes:
                at = self._nodes[node.name].location
                self._report.wrong(
                    node.location, f"is given twice; the first is at {at}", node.name
                )
                continue
            self._nodes[node.name] = self._builder.node(node)

    @property
    def _is_strict(self) -> bool:
        return bool(self._config.graph.get("strict", True))

    def _end_if_full(self, unseen: str) -> None:
        """Raises the findings if the error has no room for more; ``unseen`` was not checked."""
        if self._report.is_full:
            raise self._error(unseen)

    def _error(self, unseen: str = "") -> ModelflowError:
        """Returns the error to raise; see `error_of`."""
        variables = self._config.variables
        findings = self._report.findings
        return error_of([f.hiding(lambda text: mask(text, variables)) for f in findings], unseen)

    def _top(self) -> Location:
        return Location(str(self._config.path) if self._config.path else "<text>")

    # -- edges ----------------------------------------------------------------------------------

    def _edges(self) -> list[Edge]:
        found: dict[tuple[Endpoint, Endpoint], Edge] = {}
        self._in_chains = _in_chains(self._config.edges)
        for place, edge in enumerate(self._config.edges):
            self._end_if_full(f"{len(self._config.edges) - place} edges")
            source = self._endpoint(edge, edge.source, "outputs")
            target = self._endpoint(edge, edge.target, "inputs")
            if source is None or target is None:
                # This edge has a mistake, so findings about the nodes at its ends would be
                # misleading.
                self._unclear |= {edge.source.node, edge.target.node}
            else:
                found.setdefault((source, target), Edge(source, target, edge.location))
        return list(found.values())

    def _endpoint(self, edge: EdgeConfig, end: PortRef, side: str) -> Endpoint | None:
        node = self._nodes.get(end.node)
        if node is None:
            near = "" if self._report.has_many else did_you_mean(end.node, self._nodes)
            self._report.wrong(edge.location, f"edge to or from {end.node!r}: no such node{near}")
            return None
        if node.name in self._builder.unknown:
            return None
        ports: tuple[str, ...] = getattr(node, side)
        what = side[:-1]
        if node.role is not Role.FLOWUNIT and ports:
            return Endpoint(node.name, ports[0])  # the only port, regardless of the written name
        port = end.port or node.main_port(side)
        if not ports:
            message = f"edge uses an {what}, but the node has no {side}"
        elif port is None and len(ports) > 1:
            message = f"edge names no {what}, and there are several: {', '.join(ports)}"
        elif port is None or port in ports:
            return Endpoint(node.name, port or ports[0])
        else:
            near = did_you_mean(port, ports)
            message = f"no {what} {port!r}{near} ({side}: {', '.join(ports)})"
            if (edge.location, end) in self._in_chains:
                if what == "output" and end.port not in node.inputs:
                    return None  # reported for the edge before
                message += (
                    "; in the middle of a chain a port applies to both edges: write "
                    f"{end.node} without a port, or write the edges one by one"
                )
        self._report.wrong(edge.location, message, node.name, PortError, port)
        return None


def _in_chains(edges: Sequence[EdgeConfig]) -> frozenset[tuple[Location, PortRef]]:
    """Returns the ends with a port that are between two arrows of a chain."""
    into = {(edge.location, edge.target) for edge in edges if edge.target.port is not None}
    return frozenset(into & {(edge.location, edge.source) for edge in edges})
