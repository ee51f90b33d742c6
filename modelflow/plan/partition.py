"""The partitions of a graph: parts that run on other machines. All functions are pure.

``input -> decode -> mean [placement=gpu] -> infer [placement=gpu] -> output`` has one partition,
``mean -> infer``. It becomes a graph of its own, with an input for the rows of ``decode`` and an
output for the rows to ``output``. In the local graph, one remote node ``mean`` takes its place. The
remote node is a normal unit: each row that enters gives one row at each output. Order, matching,
sessions and errors therefore stay with the local graph. Rows of expanded streams cross like others.

A call of a remote node needs a row at every input before it returns any output. A placement is
valid if no call can wait for its own result. Two examples break that rule, and the third keeps it:

1. ``decode -> track -> draw`` and ``decode -> draw``, with ``decode`` and ``draw`` on ``gpu``. The
   second edge joins them to one partition. Its call needs a row of ``track``, which needs a row of
   ``decode`` from the same call. `_check_convex` finds this way out and back in.
2. ``a -> b``, ``a -> d``, ``c -> d`` and ``c -> b``, with ``a``, ``b`` on ``gpu`` and ``c``, ``d``
   on ``big``. Each partition is valid alone, but the remote nodes ``a`` and ``c`` feed each other.
   `front_of` finds this cycle.
3. The same without a placement for ``d``. The local graph has the order ``c``, ``a``, ``d``. Every
   call waits only for earlier nodes in this order, so a deadlock is impossible.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from modelflow.config.node_settings import NodeSettings
from modelflow.config.placement import PlacementConfig
from modelflow.errors import Finding
from modelflow.graph.check.edges import prove
from modelflow.graph.check.loops import (
    back_edges,
    find_between,
    find_connected_parts,
    find_cycle,
    successors_of,
)
from modelflow.graph.check.report import error_of
from modelflow.graph.graph import Graph
from modelflow.graph.node import Edge, Endpoint, Node, Role
from modelflow.plan.origins import find_origins
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec

# A call to another machine costs about a hundred times as much as a call to another thread. A call
# with a single row is therefore made only if no more rows wait.
LEAST_BATCH = 16
# How long a row waits for others of the same call: about the time of the transfer.
FILLING_MS = 5.0
_MOST_THREADS = 256


@dataclass(frozen=True, slots=True)
class Entry:
    """A place where rows enter a partition.

    Attributes:
        port: The input of the remote node and of the partition's own graph.
        sources: The outputs outside that feed it. Several if branches meet.
        targets: The inputs inside.
    """

    port: str
    sources: tuple[Endpoint, ...]
    targets: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class Exit:
    """A place where rows leave a partition.

    Attributes:
        port: The output of the remote node and of the partition's own graph.
        source: The output inside.
    """

    port: str
    source: Endpoint


@dataclass(frozen=True)
class Partition:
    """Nodes that run together on another machine.

    Attributes:
        name: The name of its first node, which is also the name of the remote node.
        placement: The kind of machine.
        nodes: The nodes in topological order.
        entries, exits: The places where rows enter and leave.
        graph: The partition as a graph of its own.
    """

    name: str
    placement: PlacementConfig
    nodes: tuple[str, ...]
    entries: tuple[Entry, ...]
    exits: tuple[Exit, ...]
    graph: Graph

    @property
    def batch_size(self) -> int:
        """The most rows of a batch that is sent."""
        asked = [node.settings.batch_size or 0 for node in self.graph.nodes.values()]
        return max(LEAST_BATCH, *asked)

    @property
    def least_rows(self) -> int:
        """The least number of rows to send together, regardless of their duration.

        If a unit processes a batch as a whole, this is the batch size, because the unit would
        otherwise get partial batches.
        """
        is_one_by_one = all(map(_is_one_by_one, self.graph.nodes.values()))
        return 1 if is_one_by_one else self.batch_size

    @property
    def takes_errors(self) -> bool:
        """Whether rows with an error are sent, because their results depend on the nodes inside."""
        return len(self.entries) > 1 or any(
            node.settings.is_exception_visible
            or (node.spec is not None and node.spec.is_exception_given)
            for node in self.graph.nodes.values()
        )

    @property
    def settings(self) -> NodeSettings:
        """The attributes of the remote node. Its threads are the calls that its replicas accept."""
        inner = [self.graph.nodes[name].settings for name in self.nodes]
        threads = min(_MOST_THREADS, self.placement.replicas[1] * self.placement.in_flight)
        return NodeSettings(
            batch_size=self.batch_size,
            queue_size=2 * self.batch_size,
            threads=threads,
            batch_timeout_ms=max((one.batch_timeout_ms for one in inner), default=0.0)
            or FILLING_MS,
            split_size=max((one.split_size for one in inner), default=0),
            is_exception_visible=self.takes_errors,
        )


def _is_one_by_one(node: Node) -> bool:
    """Tells whether a unit has no advantage from several rows in a call."""
    spec = node.spec
    if spec is None or not spec.kind.is_plain or spec.is_one_by_one:
        return True
    return (node.settings.batch_size or spec.batch_size or spec.kind.batch_size) == 1


def find_partitions(graph: Graph) -> tuple[Partition, ...]:
    """Returns the placed parts of a graph, in topological order.

    Raises:
        GraphError: a placed part cannot be cut out. The error lists every reason.
    """
    finder = _Finder(graph)
    parts = [part for members in finder.components() if (part := finder.partition(members))]
    if finder.findings:
        raise error_of(finder.findings)
    return tuple(parts)


def front_of(
    graph: Graph, partitions: Sequence[Partition], spec_of: Callable[[Partition], FlowUnitSpec]
) -> Graph:
    """Returns the graph with a remote node in the place of each partition.

    Args:
        graph: The whole graph.
        partitions: The result of `find_partitions`.
        spec_of: Returns the unit of a remote node, with the ports of `ports_of`.

    Raises:
        GraphError: a partition and another node wait for each other.
    """
    inside = {name: part for part in partitions for name in part.nodes}
    nodes = {
        name: _far_node(graph, inside[name], spec_of(inside[name])) if name in inside else node
        for name, node in graph.nodes.items()
        if name not in inside or inside[name].name == name
    }
    into = {
        (source, target): Endpoint(part.name, entry.port)
        for part in partitions
        for entry in part.entries
        for source in entry.sources
        for target in entry.targets
    }
    out = {
        leaving.source: Endpoint(part.name, leaving.port)
        for part in partitions
        for leaving in part.exits
    }
    edges: dict[tuple[Endpoint, Endpoint], Edge] = {}
    for edge in graph.edges:
        ends = inside.get(edge.source.node), inside.get(edge.target.node)
        if ends[0] is not None and ends[0] is ends[1]:
            continue
        source = out[edge.source] if ends[0] is not None else edge.source
        target = into[edge.source, edge.target] if ends[1] is not None else edge.target
        edges.setdefault((source, target), Edge(source, target, edge.location))
    back = back_edges(nodes, tuple(edges.values()))
    if cycle := find_cycle(successors_of(nodes, (e for e in edges.values() if e not in back))):
        around = [name for name, _ in cycle if name in inside]
        message = (
            f"placement={inside[around[0]].placement.name!r}: the nodes placed there and the nodes "
            f"placed around {' and '.join(map(repr, around[1:]))} wait for each other. Give a node "
            "that both need its own placement, or none"
        )
        raise error_of([Finding(nodes[around[0]].location, message, around[0])])
    return graph_of(graph, nodes, tuple(edges.values()), graph.name)


def ports_of(part: Partition) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Returns the inputs and outputs of a remote node, with the descriptions of the inner ports."""
    graph = part.graph
    return (
        tuple(Port(one.port, graph.port(one.targets[0]).description) for one in part.entries),
        tuple(Port(one.port, graph.port(one.source).description) for one in part.exits),
    )


def _far_node(graph: Graph, part: Partition, spec: FlowUnitSpec) -> Node:
    config, at = spec.configure({}), graph.nodes[part.name].location
    settings = part.settings
    return Node(part.name, Role.FLOWUNIT, spec, config=config, settings=settings, location=at)


def graph_of(whole: Graph, nodes: dict[str, Node], edges: tuple[Edge, ...], name: str) -> Graph:
    """Returns a graph of other nodes that replaces all or a part of a graph.

    Raises:
        GraphError: streams meet that cannot be matched. The error lists every place.
    """
    proof = prove(nodes, edges)
    if proof.scopes.findings:
        raise error_of(proof.scopes.findings)
    return Graph(
        name, proof.order, edges, whole.max_in_flight, whole.config, proof.scopes, whole.notes
    )


class _Finder:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.findings: list[Finding] = []
        self._edges = [edge for edge in graph.edges if edge not in graph.scopes.back]
        self._placed = {
            node.name: node.settings.placement
            for node in graph.nodes.values()
            if node.settings.placement
        }

    def components(self) -> Iterator[tuple[str, ...]]:
        """Yields the nodes of one placement that edges connect, in topological order."""
        together = [
            edge
            for edge in self._graph.edges
            if self._placed.get(edge.source.node, "") == self._placed.get(edge.target.node, None)
        ]
        for found in find_connected_parts(successors_of(self._placed, together)):
            yield tuple(node for node in self._graph.nodes if node in found)

    def partition(self, members: tuple[str, ...]) -> Partition | None:
        """Returns the partition of these nodes, or None after adding a finding."""
        before = len(self.findings)
        for name in members:
            if reason := _obstacle(self._graph.nodes[name]):
                message = f"placement={self._placed[name]!r}: {reason}; leave placement out"
                self._wrong(name, message)
        if len(self.findings) > before:
            return None
        self._check_convex(members)
        self._check_loops(members)
        entries, exits = self._entries(members), self._exits(members)
        self._check_scopes(entries)
        if len(self.findings) > before:
            return None
        inner = self._inner(members, entries, exits)
        single = find_origins(inner)[""].single_outputs
        for leaving in exits:
            if leaving.port not in single:
                message = (
                    f"the part placed on {self._placed[members[0]]!r} has the output "
                    f"{str(leaving.source)!r} without exactly one row for each row that enters. "
                    "Place an expand with its collapse, and a condition with the node where its "
                    "branches meet"
                )
                self._wrong(leaving.source.node, message)
        if len(self.findings) > before:
            return None
        where = self._placed[members[0]]
        placement = self._graph.config.placements.get(where, PlacementConfig(where))
        return Partition(members[0], placement, members, tuple(entries), tuple(exits), inner)

    # -- conditions of a placement --------------------------------------------------------------

    def _check_convex(self, members: tuple[str, ...]) -> None:
        between = find_between(successors_of(self._graph.nodes, self._edges), members, members)
        if between:
            names = ", ".join(name for name in self._graph.nodes if name in between)
            message = (
                f"placement={self._placed[members[0]]!r}: a way leaves the nodes placed there and "
                f"leads back to them, over {names}. Place these there as well, or place the nodes "
                "after them elsewhere"
            )
            self._wrong(members[0], message)

    def _check_loops(self, members: Collection[str]) -> None:
        for edge in self._graph.scopes.back:
            if edge.target.node in members and edge.source.node not in members:
                message = (
                    f"placement={self._placed[edge.target.node]!r}: the node is a loop, but "
                    f"{edge.source.node!r} on its way back is not placed there. Place all nodes of "
                    "the loop there, or leave placement out"
                )
                self._wrong(edge.target.node, message)

    def _check_scopes(self, entries: Sequence[Entry]) -> None:
        scopes = self._graph.scopes.inputs
        first: Endpoint | None = None
        for entry in entries:
            for target in entry.targets:
                first = first or target
                if scopes[target.node] != scopes[first.node]:
                    message = (
                        f"placement={self._placed[target.node]!r}: the rows at {str(target)!r} "
                        f"belong to other streams than the rows at {str(first)!r}. Rows that enter "
                        "together must be of one stream: place the nodes separately"
                    )
                    self._wrong(target.node, message)

    def _wrong(self, node: str, message: str) -> None:
        self.findings.append(Finding(self._graph.nodes[node].location, message, node))

    # -- cutting out ----------------------------------------------------------------------------

    def _entries(self, members: Collection[str]) -> list[Entry]:
        fed: dict[Endpoint, list[Edge]] = {}
        for edge in self._graph.edges:
            if edge.target.node in members:
                fed.setdefault(edge.target, []).append(edge)
        targets: dict[tuple[Endpoint, ...], list[Endpoint]] = {}
        for target, edges in fed.items():
            outside = tuple(edge.source for edge in edges if edge.source.node not in members)
            if outside and len(outside) < len(edges):
                message = (
                    f"placement={self._placed[target.node]!r}: at the input {target.port!r} a "
                    f"branch from {outside[0].node!r}, which is elsewhere, meets a branch from "
                    "inside. Place all branches there, or the node where they meet elsewhere"
                )
                self._wrong(target.node, message)
            elif outside:
                targets.setdefault(outside, []).append(target)
        taken = set(members)
        return [
            Entry(_name_port(sources[0], taken), sources, tuple(ends))
            for sources, ends in targets.items()
        ]

    def _exits(self, members: Collection[str]) -> list[Exit]:
        leaving = dict.fromkeys(
            edge.source
            for edge in self._graph.edges
            if edge.source.node in members and edge.target.node not in members
        )
        taken = set(members)
        return [Exit(_name_port(source, taken), source) for source in leaving]

    def _inner(
        self, members: Collection[str], entries: Sequence[Entry], exits: Sequence[Exit]
    ) -> Graph:
        ends = {entry.port: Node(entry.port, Role.INPUT) for entry in entries}
        ends |= {leaving.port: Node(leaving.port, Role.OUTPUT) for leaving in exits}
        nodes = {name: self._graph.nodes[name] for name in members}
        edges = [
            *(
                Edge(Endpoint(entry.port, entry.port), target)
                for entry in entries
                for target in entry.targets
            ),
            *(
                edge
                for edge in self._graph.edges
                if edge.source.node in members and edge.target.node in members
            ),
            *(Edge(leaving.source, Endpoint(leaving.port, leaving.port)) for leaving in exits),
        ]
        name = f"{self._graph.name}/{next(iter(members))}"
        return graph_of(self._graph, ends | nodes, tuple(edges), name)


def _name_port(end: Endpoint, taken: set[str]) -> str:
    """Returns an unused port name made from the outer port, and adds the name to ``taken``."""
    name = wanted = f"{end.node}.{end.port}"
    count = 1
    while name in taken:
        count += 1
        name = f"{wanted}.{count}"
    taken.add(name)
    return name


def _obstacle(node: Node) -> str:
    """Returns why a node cannot be placed, or "" if nothing prevents this."""
    spec = node.spec
    if spec is None:
        return f"it is an {node.role} of the graph, which stays where the flow is used"
    if spec.is_source or spec.is_sink:
        return (
            f"it is a {'source' if spec.is_source else 'sink'}, which runs where the flow is used"
        )
    if spec.kind.may_keep:
        return "it is a stream unit, whose state belongs to a session of this process"
    if spec.kind.is_per_stream:
        return "its unit is called once per stream, with the session's data of this process"
    return ""
