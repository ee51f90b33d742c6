"""The scopes of streams: proves that the rows of streams that meet at a node can be matched.

A scope is the list of numberings that enclose a buffer. Streams may meet only in the same scope.
Example: ``boxes`` expands an image, ``large`` is a condition, and ``list`` is a collapse::

    image -> boxes -> large      large:yes -> scale -> list      large:no -> list -> result

The scope at each port, with the outermost level first::

    image:image, list:out      graph's input
    boxes:out                  graph's input, boxes
    large:yes, scale:out       graph's input, boxes by the branch yes
    large:no                   graph's input, boxes by the branch no

The two branches may meet at ``list``, because they are disjoint branches of ``large``. The result
is a `Merge`. A node that joins ``boxes`` and ``image`` is refused. The buffers of ``boxes`` are
numbered inside each image, but the buffers of ``image`` are the images.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from modelflow.errors import Finding, PortError, StreamMismatchError
from modelflow.graph.check.loops import looping_ports, loops_of, nodes_before
from modelflow.graph.node import Edge, Endpoint, Node, Role
from modelflow.unit.kind import Count, Stream
from modelflow.unit.kind import Scope as ScopeOf


@dataclass(frozen=True)
class Level:
    """A numbering of buffers, and the part of the numbers that conditions have let through.

    Attributes:
        origin: The node that started the numbering, or "" for the graph's own inputs.
        branches: Condition -> the outputs by which the buffers may have left.
        is_loop: Whether a loop started the numbering; a buffer then gets a new number in each
            round.
    """

    origin: str
    branches: tuple[tuple[str, frozenset[str]], ...] = ()
    is_loop: bool = False

    def through(self, node: str, ports: frozenset[str] | None) -> "Level":
        """Returns the level behind some outputs of a condition; with None behind all outputs."""
        others = tuple(branch for branch in self.branches if branch[0] != node)
        new = () if ports is None else ((node, ports),)
        return replace(self, branches=tuple(sorted((*others, *new), key=lambda b: b[0])))


# The levels that enclose a buffer, the innermost last. An expand or a loop adds a level.
Scope = tuple[Level, ...]


@dataclass(frozen=True)
class Merge:
    """An input where branches of a condition meet again.

    Attributes:
        target: The input.
        edges: The edges that meet at the input.
        condition: The outermost condition that separated the branches; its order is restored.
        ports: The outputs of the condition that lead to the edges.
    """

    target: Endpoint
    edges: tuple[Edge, ...]
    condition: str
    ports: frozenset[str]


@dataclass
class Scopes:
    """The result of `find_scopes`.

    Attributes:
        inputs: Node -> the scope of its input buffers.
        outputs: Output port -> the scope of its buffers.
        merges: The inputs where branches meet.
        back: The edges by which a loop is entered from its own body.
        findings: The mistakes.
    """

    inputs: dict[str, Scope] = field(default_factory=dict)
    outputs: dict[Endpoint, Scope] = field(default_factory=dict)
    merges: list[Merge] = field(default_factory=list)
    back: frozenset[Edge] = frozenset()
    findings: list[Finding] = field(default_factory=list)

    def depth(self, node: str) -> int:
        """Returns the number of expands around the node's buffers, inside the innermost loop."""
        scope = self.inputs[node]
        base = max((place for place, level in enumerate(scope) if level.is_loop), default=0)
        return len(scope) - 1 - base


def find_scopes(nodes: Mapping[str, Node], edges: Sequence[Edge], back: frozenset[Edge]) -> Scopes:
    """Follows every stream from its start, and finds inputs where streams do not match.

    Args:
        nodes: The nodes by name, in topological order.
        edges: The resolved edges.
        back: The result of `back_edges`.
    """
    return _Finder(nodes, edges, back).scopes


class _Finder:
    def __init__(
        self, nodes: Mapping[str, Node], edges: Sequence[Edge], back: frozenset[Edge]
    ) -> None:
        self.scopes = Scopes(back=back)
        self._nodes = nodes
        self._into: dict[str, list[Edge]] = {name: [] for name in nodes}
        self._used = {edge.source for edge in edges}
        for edge in edges:
            if edge not in back:
                self._into[edge.target.node].append(edge)
        for node in nodes.values():
            scope = self._join(node)
            if scope is not None:
                self.scopes.inputs[node.name] = scope
                self._leave(node, scope)
        for loop in loops_of(nodes):
            self._check_return(nodes[loop])

    # -- entering streams -----------------------------------------------------------------------

    def _join(self, node: Node) -> Scope | None:
        """Returns the common scope of a node's inputs, or None after a finding."""
        if not node.inputs:
            return (Level("" if node.role is Role.INPUT else node.name),)
        found: dict[Scope, Edge] = {}
        for feeding in _by_port(node, self._into[node.name]):
            scope = self._entering(node, feeding)
            if scope is not None:
                found.setdefault(scope, feeding[0])
        if len(found) > 1:
            (one, first), (two, second) = list(found.items())[:2]
            message = (
                f"joins streams that do not match: {first.target.port!r} comes from {first.source} "
                f"({self._describe(one)}), {second.target.port!r} from {second.source} "
                f"({self._describe(two)})"
            )
            self._wrong(node, message)
        return next(iter(found), None)

    def _entering(self, node: Node, feeding: Sequence[Edge]) -> Scope | None:
        known = [self.scopes.outputs.get(edge.source) for edge in feeding]
        scopes = [scope for scope in known if scope is not None]
        if len(feeding) == 1 or len(scopes) < len(feeding):
            return scopes[0] if scopes else None
        merged = self._merge(scopes)
        if merged is None:
            ways = " and ".join(
                f"{edge.source} ({self._describe(scope)})"
                for edge, scope in zip(feeding, scopes, strict=True)
            )
            message = (
                f"input {feeding[0].target.port!r} is fed by {ways}; only branches of one "
                "condition unit, or the way back of a loop, may meet in one input"
            )
            finding = Finding(feeding[1].location, message, node.name, PortError)
            self.scopes.findings.append(finding)
            return None
        scope, condition, ports = merged
        self.scopes.merges.append(Merge(feeding[0].target, tuple(feeding), condition, ports))
        return scope

    def _merge(self, scopes: Sequence[Scope]) -> tuple[Scope, str, frozenset[str]] | None:
        """Merges branches pair by pair; returns None if two scopes are no branches of a condition.

        The condition and the ports are those of the last pair, which is the outermost.
        """
        waiting = list(scopes)
        last = ("", frozenset[str]())
        while len(waiting) > 1:
            for place, one in enumerate(waiting):
                pairs = ((other, self._union(one, other)) for other in waiting[place + 1 :])
                other, union = next(((o, u) for o, u in pairs if u is not None), (None, None))
                if other is not None and union is not None:
                    waiting.remove(one)
                    waiting.remove(other)
                    waiting.append(union[0])
                    last = union[1:]
                    break
            else:
                return None
        return waiting[0], *last

    def _union(self, one: Scope, other: Scope) -> tuple[Scope, str, frozenset[str]] | None:
        """Joins two branches that differ only in the outputs of one condition."""
        if one[:-1] != other[:-1] or one[-1].origin != other[-1].origin:
            return None
        left, right = dict(one[-1].branches), dict(other[-1].branches)
        differing = [name for name in left | right if left.get(name) != right.get(name)]
        if len(differing) != 1 or not (differing[0] in left and differing[0] in right):
            return None
        name = differing[0]
        if left[name] & right[name]:
            return None
        ports = left[name] | right[name]
        is_all = ports == set(self._nodes[name].outputs)
        return (*one[:-1], one[-1].through(name, None if is_all else ports)), name, ports

    # -- leaving streams ------------------------------------------------------------------------

    def _leave(self, node: Node, scope: Scope) -> None:
        kind = node.kind.scope
        looping = (
            looping_ports(node, self._into, self.scopes.back) if kind is ScopeOf.LOOPED else ()
        )
        for port in node.outputs:
            left: Scope | None = scope
            if kind is ScopeOf.OPENED:
                left = (*scope, Level(node.name))
            elif kind is ScopeOf.CLOSED:
                left = self._collapse(node, scope, port)
            elif kind is ScopeOf.RENUMBERED and not _keeps_numbers(node):
                left = (*scope[:-1], Level(node.name, is_loop=scope[-1].is_loop))
            elif kind is ScopeOf.BRANCHED:
                left = (*scope[:-1], scope[-1].through(node.name, frozenset({port})))
            elif port in looping:
                left = (*scope, Level(node.name, is_loop=True))
            if left is not None:
                self.scopes.outputs[Endpoint(node.name, port)] = left

    def _collapse(self, node: Node, scope: Scope, port: str) -> Scope | None:
        if len(scope) > 1 and not scope[-1].is_loop:
            return scope[:-1]
        if port == node.outputs[0]:
            where = " inside its loop" if scope[-1].is_loop else ""
            self._wrong(node, f"collapses a stream that nothing before it{where} has expanded")
        return None

    # -- loops ----------------------------------------------------------------------------------

    def _check_return(self, loop: Node) -> None:
        """Checks that all buffers of one output of a loop, and no others, come back to the loop."""
        if (len(loop.inputs), len(loop.outputs)) != (1, 2):
            message = (
                f"a loop unit has one input and two outputs; {len(loop.inputs)} and "
                f"{len(loop.outputs)} are declared"
            )
            self._wrong(loop, message)
            return
        if not self._into[loop.name]:
            self._wrong(loop, "is a loop without an edge into it; connect its input")
            return
        looping = looping_ports(loop, self._into, self.scopes.back)
        if len(looping) != 1:
            what = "neither" if not looping else "each"
            ports = " and ".join(map(repr, loop.outputs))
            message = f"is a loop, and {what} of its outputs {ports} leads back to it; one must"
            self._wrong(loop, message)
            return
        if {port for port in loop.outputs if Endpoint(loop.name, port) in self._used} != set(
            loop.outputs
        ):
            (left,) = set(loop.outputs) - looping
            self._wrong(loop, f"is a loop whose exit {left!r} is not connected; connect it")
        expected = self.scopes.outputs.get(Endpoint(loop.name, next(iter(looping))))
        returning = [edge for edge in self.scopes.back if edge.target.node == loop.name]
        returning.sort(key=lambda edge: edge.source)
        self._check_way_round(loop, returning)
        scope = self._entering(loop, returning)
        if scope is not None and expected is not None and scope != expected:
            sources = " and ".join(str(edge.source) for edge in returning)
            message = (
                f"the buffers that come back from {sources} ({self._describe(scope)}) do not match "
                f"those that left by {next(iter(looping))!r} ({self._describe(expected)})"
            )
            self._wrong(loop, message)

    def _check_way_round(self, loop: Node, returning: Sequence[Edge]) -> None:
        """Refuses stream units in a loop, because they may keep a row that no other row follows."""
        for name in sorted(nodes_before(loop.name, self._into, returning)):
            node, scope = self._nodes[name], self.scopes.inputs.get(name, ())
            is_here = bool(scope) and scope[-1].is_loop and scope[-1].origin == loop.name
            if node.kind.may_keep and is_here:
                message = (
                    f"is a stream unit in the body of loop {loop.name!r}, where it may wait for "
                    "buffers that come only after it. Use a normal unit, or a stream unit inside "
                    "an expand"
                )
                self._wrong(node, message)

    def _wrong(self, node: Node, message: str) -> None:
        finding = Finding(node.location, message, node.name, StreamMismatchError)
        self.scopes.findings.append(finding)

    def _describe(self, scope: Scope) -> str:
        parts = []
        for level in scope:
            parts.append(self._began(level))
            for name, ports in level.branches:
                parts.append(f"by {' or '.join(map(repr, sorted(ports)))} of {name!r}")
        return ", ".join(parts)

    def _began(self, level: Level) -> str:
        if not level.origin:
            return "from the graph's input"
        node = self._nodes[level.origin]
        if not node.inputs:
            return f"from the source {level.origin!r}"
        how = {ScopeOf.OPENED: "expanded by", ScopeOf.LOOPED: "inside the loop"}
        if node.kind.scope in how:
            return f"{how[node.kind.scope]} {level.origin!r}"
        return f"renumbered by {level.origin!r}, a stream unit without Count.SAME"


def _keeps_numbers(node: Node) -> bool:
    return isinstance(node.kind, Stream) and node.kind.count is not Count.ANY


def _by_port(node: Node, edges: Sequence[Edge]) -> Iterator[list[Edge]]:
    for port in node.inputs:
        feeding = [edge for edge in edges if edge.target.port == port]
        if feeding:
            yield feeding
