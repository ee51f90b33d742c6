"""Small graphs for the runtime's tests, made without a file."""

import itertools

from modelflow.config.flow_config import FlowConfig
from modelflow.config.node_settings import NodeSettings
from modelflow.errors import GraphError
from modelflow.graph.check.edges import prove
from modelflow.graph.graph import Graph
from modelflow.graph.node import Edge, Endpoint, Node, Role
from modelflow.plan import make_plan
from modelflow.runtime.flow_state import SchedulerOptions
from modelflow.runtime.scheduler import Scheduler
from modelflow.stream_io import StreamIO, answer_of
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit


class Forward(FlowUnit):
    """Forwards its input."""

    def process(self, ctx):
        ctx.outputs["out"] = ctx.inputs["in"]


def spec_of(make=Forward, *, name="forward", inputs=("in",), outputs=("out",), **more):
    """Returns a spec whose ``make()`` makes the instances."""
    return FlowUnitSpec(
        name=name,
        devices={"cpu": make},
        inputs=tuple(Port(port) for port in inputs),
        outputs=tuple(Port(port) for port in outputs),
        **more,
    )


def per_item(function, **more):
    """Returns a spec that maps ``function`` over the data of its input."""

    class Map(FlowUnit):
        def process(self, ctx):
            ctx.emit([function(buffer.data) for buffer in ctx.input()])

    return spec_of(Map, name=function.__name__.replace("<lambda>", "map"), **more)


def graph_of(nodes, edges, *, max_in_flight=None, name="test", fuse="off"):
    """Returns a graph from ``nodes``: name -> "input", "output", a spec or (spec, settings)."""
    found = {}
    for node, what in nodes.items():
        if what in ("input", "output"):
            found[node] = Node(node, Role(what))
        else:
            spec, settings = what if isinstance(what, tuple) else (what, {})
            found[node] = Node(
                node,
                Role.FLOWUNIT,
                spec,
                config=spec.configure({}),
                settings=NodeSettings(**settings),
            )
    ends = []
    for edge in edges:
        source, target = (end.strip() for end in edge.split("->"))
        ends.append(Edge(_end(found, source, "outputs"), _end(found, target, "inputs")))
    proof = prove(found, ends)
    if proof.scopes.findings:
        raise GraphError(proof.scopes.findings)
    config = FlowConfig((), (), graph={"fuse": fuse})
    return Graph(name, proof.order, tuple(ends), max_in_flight, config, proof.scopes)


def chain(*specs, **more):
    """Returns the graph input -> unit 0 -> unit 1 ... -> output."""
    names = [f"n{i}" for i in range(len(specs))]
    nodes = {"input": "input", **dict(zip(names, specs, strict=True)), "output": "output"}
    order = list(nodes)
    return graph_of(nodes, [f"{a} -> {b}" for a, b in itertools.pairwise(order)], **more)


def _end(nodes, text, side):
    node, _, port = text.partition(":")
    return Endpoint(node, port or getattr(nodes[node], side)[0])


class Running:
    """A scheduler that runs during the block."""

    def __init__(self, graph, **options):
        self.scheduler = Scheduler(make_plan(graph), SchedulerOptions(**options))

    def session(self):
        return StreamIO(self.scheduler, self.scheduler.create_session())

    def infer(self, value, timeout=60.0, port="input"):
        stream = self.session()
        found = stream.exchange({port: (value,)}, timeout)
        return answer_of(found, self.scheduler.single_outputs)

    def __enter__(self):
        self.scheduler.start()
        return self

    def __exit__(self, kind, error, traceback):
        self.scheduler.stop(drain=error is None)


def unit_of(process, **more):
    """Returns a spec whose units run ``process(ctx)``; ``hooks`` maps method names to functions."""
    hooks = more.pop("hooks", {})
    methods = {"process": process, **hooks}
    made = type("Unit", (FlowUnit,), {k: _method(v) for k, v in methods.items()})
    return spec_of(made, **more)


def _method(function):
    return lambda self, *given: function(*given)


def told(buffers):
    """Returns the data of buffers; for a buffer in error, the text of the unit's exception."""
    return [b.data if b.error is None else f"error: {b.error.__cause__}" for b in buffers]


def results_of(graph, *values, port="input", **options):
    """Returns the results of a session by output, or the list of the only output."""
    with Running(graph, **options) as flow:
        found = flow.session().exchange({port: values}, 30)
    given = {name: told(buffers) for name, buffers in found.items()}
    return next(iter(given.values())) if len(given) == 1 else given


def fed_by_a_source(**more):
    """Returns an inline scheduler with one source, which feeds the output."""
    nodes = {"source": unit_of(None, inputs=()), "output": "output"}
    return Running(graph_of(nodes, ["source -> output"]), is_inline=True, **more).scheduler
